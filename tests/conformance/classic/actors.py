"""The actors of the classic protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance import actors
from tests.conformance.classic.sequence import OFFSETS, PROTOCOLS

if TYPE_CHECKING:
    from tests.conformance.actors import Offset
    from tests.conformance.classic.sequence import Step

__all__ = ["Cast"]


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


class Cast(actors.Cast[Actor]):
    """All actors of a sequence."""

    def __init__(self) -> None:
        super().__init__(Actor)

    def _asked(self, step: Step) -> dict[str, Any] | None:
        actor = self[step.actor]
        api = actor.next if step.api == "next" else step.api
        match api:
            case "join":
                fields = self._join(step)
                # While it is parked a client's heartbeats go on, if it has an id to send them with.
                actor.next = "heartbeat" if actor.member_id else "wait"
            case "sync":
                fields = self._sync(step)
                actor.next = "heartbeat"
            case "leave":
                leaving = [(step.member, step.instance), *step.also]
                fields = self._left(self._ids(step.actor, *each) for each in leaving)
            case "commit":
                fields = self._commit(step) | {"retention_time_ms": step.retention}
            case "fetch":
                is_of_all = step.offsets == "all"
                fields = self._fetch(step, is_of_all=is_of_all) | {"require_stable": step.stable}
            case "list":
                fields = {"api": "list_groups", "states_filter": list(step.states)}
            case "describe":
                fields = {"api": "describe_group"}
            case _:
                return self._asked_alike(api, step)
        return fields

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
        return self._of_a_generation("sync_group", step) | {
            "protocol_type": protocol_type,
            "protocol_name": protocol_name,
            "assignments": [
                {"member_id": member_id, "assignment": f"{prefix}{place}".encode()}
                for place, member_id in enumerate(assigned)
            ],
        }

    def _identity(self, step: Step) -> dict[str, Any]:
        return self._ids(step.actor, step.member, step.instance)

    def _ids(self, actor: int, member: str, instance: str | None) -> dict[str, Any]:
        return {
            "member_id": self._member(actor, member),
            "group_instance_id": self._instance(actor, instance),
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

    def _offsets(self, step: Step) -> list[Offset]:
        return OFFSETS[step.offsets]
