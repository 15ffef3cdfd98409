"""The actors of a sequence: what each was told, and so what its next request is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tests.conformance.versions import as_of, clamped

if TYPE_CHECKING:
    from tests.conformance.consumer.sequence import Step
    from tests.conformance.consumer.topics import Topics

Owned = dict[str, list[int]]
"""Partitions by topic, as `a`: 0, 1."""

REBALANCE_MS = 60_000
_JOIN, _LEAVE, _AWAY = 0, -1, -2
_OUT = (25, 69, 110)
"""Errors after which a client begins anew, under the same member id."""
_JOINED = (0, 79)
"""What a classic join is answered with that tells a member id."""
_SESSION_MS = 30_000
HOST = "/127.0.0.1"


class Actor:
    """What one actor has said and was told."""

    def __init__(self, number: int) -> None:
        self.member_id = str(number)
        self.instance: str | None = None
        self.names = "a"
        self.rebalance_ms = REBALANCE_MS
        self.epochs = [0]
        self.assigned: list[Owned] = [{}]
        self.is_news = False
        """Whether it has not yet said what it was assigned last."""

    def hear(self, request: dict[str, Any], answer: dict[str, Any], topics: Topics) -> None:
        """Take note of an answer, as a client would."""
        if request["api"] == "join_group" and answer["error_code"] in _JOINED:
            self.member_id = answer["member_id"]
            self._be_at(answer["generation_id"])
        if request["api"] != "consumer_group_heartbeat":
            return
        if answer["error_code"] in _OUT:
            self._lose()
        if answer["error_code"]:
            return
        if request["member_epoch"] < 0:
            # One that is away for a while is told all anew.
            self._lose()
            return
        self.member_id = answer["member_id"]
        self._be_at(answer["member_epoch"])
        self.is_news = False
        if answer["assignment"] is None:
            return
        assigned = topics.letters(answer["assignment"])
        if assigned != self.assigned[-1]:
            self.assigned.append(assigned)
            self.is_news = True

    def _lose(self) -> None:
        self._be_at(_JOIN)
        self.assigned.append({})
        self.is_news = False

    def _be_at(self, epoch: int) -> None:
        if epoch != self.epochs[-1]:
            self.epochs.append(epoch)


class Cast:
    """All actors of a sequence."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._actors: dict[int, Actor] = {}
        self._commits = 0

    def __getitem__(self, number: int) -> Actor:
        return self._actors.setdefault(number, Actor(number))

    def request(self, step: Step, group_id: str, request_id: str) -> dict[str, Any] | None:
        """The request that `step` stands for, in the contract's terms; None if it is none."""
        actor = self[step.actor]
        if step.id is not None:
            actor.member_id = step.id
        make = {
            "beat": self._beat,
            "commit": self._commit,
            "fetch": self._fetch,
            "describe": lambda _actor, _step: {"api": "consumer_group_describe"},
            "list": lambda _actor, _step: {"api": "list_groups", "states_filter": []},
            "delete_group": lambda _actor, _step: {"api": "delete_group"},
            "delete_offsets": self._delete_offsets,
            "join_group": self._join_group,
            "sync_group": self._sync_group,
            "heartbeat": lambda actor, step: {"api": "heartbeat"} | self._of_a_generation(actor, step),
            "leave_group": self._leave_group,
        }.get(step.api)
        if make is None:
            return None
        fields = make(actor, step)
        version = clamped(fields, step.version)
        return as_of(version, fields) | {
            "api_version": version,
            "request_id": request_id,
            "client_id": f"a{step.actor}",
            "group_id": group_id if step.group is None else step.group,
        }

    # -- the consumer protocol ---------------------------------------------------------------------

    def _beat(self, actor: Actor, step: Step) -> dict[str, Any]:
        epoch = _epoch(actor, step.epoch)
        if step.names is not None:
            actor.names = step.names
        if step.rebalance is not None:
            actor.rebalance_ms = step.rebalance
        says_all = step.full or epoch == _JOIN
        owned = self._owned(actor, step.owned, epoch, says_all=says_all)
        fields = {
            "api": "consumer_group_heartbeat",
            "client_host": HOST,
            "member_id": self._member(actor, step),
            "member_epoch": epoch,
            "group_instance_id": self._instance(actor, step),
            "rack_id": step.rack,
            "rebalance_timeout_ms": actor.rebalance_ms if says_all else (step.rebalance or -1),
            "subscribed_topic_regex": step.regex,
            "server_assignor": step.assignor,
            "topic_partitions": None if owned is None else self._topics.with_ids(owned),
        }
        if step.names is not None or says_all:
            names = self._topics.names(actor.names)
            fields |= {"subscribed_topic_names": names, "topics": self._topics.hints(names)}
        return {name: value for name, value in fields.items() if value is not None}

    def _owned(self, actor: Actor, owned: str, epoch: int, *, says_all: bool) -> Owned | None:
        if owned == "client":
            if epoch == _JOIN:
                owned = "none"
            else:
                owned = "told" if epoch > 0 and (actor.is_news or says_all) else "null"
        match owned:
            case "null":
                return None
            case "none":
                return {}
            case "told":
                return actor.assigned[-1]
            case "before":
                return actor.assigned[-2:][0]
        return partitions(owned)

    # -- offsets -----------------------------------------------------------------------------------

    def _commit(self, actor: Actor, step: Step) -> dict[str, Any]:
        self._commits += 1
        topics = [
            {
                "name": self._topics.name(name),
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": 100 * self._commits + number,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                    for number in numbers
                ],
            }
            for name, numbers in partitions(step.parts).items()
        ]
        return (
            {"api": "offset_commit"}
            | self._of_a_generation(actor, step)
            | {"retention_time_ms": -1, "topics": topics}
        )

    def _fetch(self, actor: Actor, step: Step) -> dict[str, Any]:
        topics = None
        if step.parts != "all":
            topics = [
                {"name": self._topics.name(name), "partition_indexes": numbers}
                for name, numbers in partitions(step.parts).items()
            ]
        member_id = None if step.member == "null" else self._member(actor, step)
        said = {"member_id": member_id, "member_epoch": _epoch(actor, step.epoch)}
        return {"api": "offset_fetch", "topics": topics, "require_stable": False} | said

    def _delete_offsets(self, _actor: Actor, step: Step) -> dict[str, Any]:
        topics = [
            {
                "name": self._topics.name(name),
                "partitions": [{"partition_index": number} for number in numbers],
            }
            for name, numbers in partitions(step.parts).items()
        ]
        return {"api": "offset_delete", "topics": topics}

    # -- the classic protocol ----------------------------------------------------------------------

    def _join_group(self, actor: Actor, step: Step) -> dict[str, Any]:
        names = self._topics.names(actor.names if step.names is None else step.names)
        subscription = ConsumerProtocolSubscription(topics=names, user_data=None, version=1)
        protocols = [] if step.protocol == "none" else [step.protocol]
        return {
            "api": "join_group",
            "member_id": self._member(actor, step),
            "group_instance_id": self._instance(actor, step),
            "session_timeout_ms": _SESSION_MS,
            "rebalance_timeout_ms": actor.rebalance_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": bytes(subscription.encode())} for name in protocols],
            "reason": None,
        }

    def _sync_group(self, actor: Actor, step: Step) -> dict[str, Any]:
        return (
            {"api": "sync_group"}
            | self._of_a_generation(actor, step)
            | {"protocol_type": "consumer", "protocol_name": step.protocol, "assignments": []}
        )

    def _of_a_generation(self, actor: Actor, step: Step) -> dict[str, Any]:
        return {
            "member_id": self._member(actor, step),
            "group_instance_id": self._instance(actor, step),
            "generation_id": _epoch(actor, step.epoch),
        }

    def _leave_group(self, actor: Actor, step: Step) -> dict[str, Any]:
        member = {
            "member_id": self._member(actor, step),
            "group_instance_id": self._instance(actor, step),
            "reason": None,
        }
        return {"api": "leave_group", "members": [member]}

    def _member(self, actor: Actor, step: Step) -> str:
        return actor.member_id if step.member is None else step.member

    def _instance(self, actor: Actor, step: Step) -> str | None:
        match step.instance:
            case None:
                return actor.instance
            case "none":
                return None
            case "own":
                actor.instance = f"i{step.actor}"
                return actor.instance
            case number if number.isdigit():
                return f"i{number}"
        return step.instance


def _epoch(actor: Actor, text: str) -> int:
    if text == "before":
        return actor.epochs[-2:][0]
    if change := re.fullmatch(r"told([+-]\d+)?", text):
        return actor.epochs[-1] + int(change[1] or 0)
    return int(text)


def partitions(text: str) -> Owned:
    """Read `a0+a1+b2`."""
    found: Owned = {}
    for each in text.split("+"):
        found.setdefault(each[0], []).append(int(each[1:]))
    return found
