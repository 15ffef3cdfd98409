"""The actors of a sequence: what each was told, and so what its next request is."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from tests.conformance.classic.sequence import OFFSETS, PROTOCOLS
from tests.conformance.versions import as_of, clamped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.classic.sequence import Offset, Step


class Actor:
    """What one actor was told. Ids are the core's."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.member_ids: list[str] = [""]
        self.generation = -1
        self.protocol: tuple[str | None, str | None] = ("consumer", "a")
        self.members: list[str] = []
        self.next = "join"

    @property
    def member_id(self) -> str:
        return self.member_ids[-1]

    def hear(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        """Take note of an answer, as a client would."""
        error = answer["error_code"]
        if answer["api"] == "offset_commit" and request["generation_id"] < 0:
            return  # a tool's commit says nothing of the member that it is not
        match answer["api"], error:
            case "join_group", 79:  # MEMBER_ID_REQUIRED
                self._be(answer["member_id"])
                self.next = "join"
            case "join_group", 0:
                self._be(answer["member_id"])
                self.generation = answer["generation_id"]
                self.protocol = (answer["protocol_type"] or request["protocol_type"], answer["protocol_name"])
                self.members = [member["member_id"] for member in answer["members"]]
                self.next = "sync"
            case "sync_group", 0:
                self.next = "heartbeat"
            case ("leave_group", _) | (_, 25 | 81 | 82):  # out
                self._be("")
                self.next = "join"
            case _, 22 | 27:  # another generation, or a rebalance
                self.next = "join"

    def _be(self, member_id: str) -> None:
        if member_id != self.member_id:
            self.member_ids.append(member_id)


class Cast:
    """All actors of a sequence."""

    def __init__(self) -> None:
        self._actors: dict[int, Actor] = {}
        self._commits = 0

    def __getitem__(self, number: int) -> Actor:
        return self._actors.setdefault(number, Actor(number))

    def request(self, step: Step, group_id: str, request_id: str) -> dict[str, Any] | None:
        """The request that `step` stands for, in the contract's terms; None if it is only to wait."""
        actor = self[step.actor]
        api = actor.next if step.api == "next" else step.api
        match api:
            case "wait":
                return None
            case "join":
                fields = self._join(step)
                # While it is parked a client's heartbeats go on, if it has an id to send them with.
                actor.next = "heartbeat" if actor.member_id else "wait"
            case "sync":
                fields = self._sync(step)
                actor.next = "heartbeat"
            case "heartbeat":
                fields = (
                    {"api": "heartbeat"} | self._identity(step) | {"generation_id": self._generation(step)}
                )
            case "leave":
                fields = self._leave(step)
            case "commit":
                fields = self._commit(step)
            case "fetch":
                fields = _fetch(step)
            case "delete_offsets":
                fields = _delete_offsets(step)
            case "list":
                fields = {"api": "list_groups", "states_filter": list(step.states)}
            case _:
                fields = {"api": f"{api.removesuffix('_group')}_group"}
        version = clamped(fields, step.version)
        return as_of(version, fields) | {
            "api_version": version,
            "request_id": request_id,
            # Its own for each request: so a member in a description shows which join has made it.
            "client_id": f"a{step.actor}-{request_id}",
            "group_id": group_id,
        }

    def _join(self, step: Step) -> dict[str, Any]:
        return {
            "api": "join_group",
            **self._identity(step),
            "session_timeout_ms": step.session,
            "rebalance_timeout_ms": step.session if step.rebalance is None else step.rebalance,
            "protocol_type": step.protocol_type,
            "protocols": [
                {"name": name, "metadata": metadata} for name, metadata in PROTOCOLS[step.protocols]
            ],
            "reason": None,
        }

    def _sync(self, step: Step) -> dict[str, Any]:
        actor = self[step.actor]
        assigned = list(actor.members)
        if step.assign == "some":
            assigned = assigned[:-1]
        elif step.assign == "stranger":
            assigned.append("stranger")
        elif step.assign == "none":
            assigned = []
        protocol_type, protocol_name = actor.protocol
        match step.names:
            case "none":
                protocol_type = protocol_name = None
            case "type":
                protocol_type = "another"
            case "name":
                protocol_name = "another"
        prefix = "changed" if step.assign == "changed" else "work"
        return {
            "api": "sync_group",
            **self._identity(step),
            "generation_id": self._generation(step),
            "protocol_type": protocol_type,
            "protocol_name": protocol_name,
            "assignments": [
                {"member_id": member_id, "assignment": f"{prefix}{place}".encode()}
                for place, member_id in enumerate(assigned)
            ],
        }

    def _leave(self, step: Step) -> dict[str, Any]:
        leaving = [(step.member, step.instance), *step.also]
        return {
            "api": "leave_group",
            "members": [
                {
                    "member_id": self._member(step.actor, member),
                    "group_instance_id": self._instance(step.actor, instance),
                    "reason": None,
                }
                for member, instance in leaving
            ],
        }

    def _commit(self, step: Step) -> dict[str, Any]:
        self._commits += 1
        return {
            "api": "offset_commit",
            **self._identity(step),
            "generation_id": self._generation(step),
            "retention_time_ms": step.retention,
            "topics": _topics(step, self._committed),
        }

    def _committed(self, place: int, partition: Offset) -> dict[str, Any]:
        # Each offset is told apart from those of all other commits.
        own = 100 * self._commits + place
        return {
            "partition_index": partition.partition,
            "committed_offset": own if partition.offset is None else partition.offset,
            "committed_leader_epoch": partition.leader_epoch,
            "committed_metadata": partition.metadata,
        }

    def _identity(self, step: Step) -> dict[str, Any]:
        return {
            "member_id": self._member(step.actor, step.member),
            "group_instance_id": self._instance(step.actor, step.instance),
        }

    def _member(self, actor: int, whose: str) -> str:
        match whose:
            case "own":
                return self[actor].member_id
            case "empty":
                return ""
            case "previous":
                # None before the own: then the own is all there is.
                return self[actor].member_ids[-2:][0]
            case "nobody":
                return "nobody"
            case _:
                return self[int(whose)].member_id

    def _instance(self, actor: int, whose: str | None) -> str | None:
        match whose:
            case None:
                return None
            case "own":
                return f"i{actor}"
            case "empty":
                return ""
            case "unknown":
                return "unknown"
            case _:
                return f"i{whose}"

    def _generation(self, step: Step) -> int:
        told = self[step.actor].generation
        return {"told": told, "previous": told - 1, "none": -1, "zero": 0, "future": 99}[step.generation]


def _topics(
    step: Step, entry: Callable[[int, Offset], Any], partitions: str = "partitions"
) -> list[dict[str, Any]]:
    """The partitions of a step, those of one topic that follow each other together."""
    by_topic = groupby(enumerate(OFFSETS[step.offsets]), key=lambda place: place[1].topic)
    return [
        {"name": topic, partitions: [entry(place, each) for place, each in those]}
        for topic, those in by_topic
    ]


def _fetch(step: Step) -> dict[str, Any]:
    topics = None
    if step.offsets != "all":
        topics = _topics(step, lambda _place, each: each.partition, "partition_indexes")
    return {"api": "offset_fetch", "topics": topics, "require_stable": step.stable}


def _delete_offsets(step: Step) -> dict[str, Any]:
    topics = _topics(step, lambda _place, each: {"partition_index": each.partition})
    return {"api": "offset_delete", "topics": topics}
