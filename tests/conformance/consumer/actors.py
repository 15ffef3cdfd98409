"""The actors of the consumer protocol."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tests.conformance import actors
from tests.conformance.actors import Offset

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
        self.regex: str | None = None
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


class Cast(actors.Cast[Actor]):
    """All actors of a sequence."""

    def __init__(self, topics: Topics) -> None:
        super().__init__(Actor)
        self._topics = topics

    def request(self, step: Step, group_id: str, request_id: str) -> dict[str, Any] | None:
        if step.id is not None:
            self[step.actor].member_id = step.id
        request = super().request(step, group_id if step.group is None else step.group, request_id)
        return request and request | {"client_id": f"a{step.actor}"}

    def _asked(self, step: Step) -> dict[str, Any] | None:
        match step.api:
            case "beat":
                fields = self._beat(step)
            case "commit":
                fields = self._commit(step) | {"retention_time_ms": -1}
            case "fetch":
                said = {
                    "member_id": self._identity(step)["member_id"],
                    "member_epoch": self._generation(step),
                }
                fields = self._fetch(step, is_of_all=step.parts == "all") | said
            case "describe":
                fields = {"api": "consumer_group_describe"}
            case "list":
                fields = {"api": "list_groups", "states_filter": []}
            case "join_group":
                fields = self._join_group(step)
            case "sync_group":
                said = {"protocol_type": "consumer", "protocol_name": step.protocol, "assignments": []}
                fields = self._of_a_generation("sync_group", step) | said
            case "leave_group":
                fields = self._left([self._identity(step)])
            case _:
                return self._asked_alike(step.api, step)
        return fields

    def _beat(self, step: Step) -> dict[str, Any]:
        actor, epoch = self[step.actor], self._generation(step)
        if step.names is not None:
            actor.names = step.names
        if step.regex is not None:
            actor.regex = step.regex
        if step.rebalance is not None:
            actor.rebalance_ms = step.rebalance
        says_all = step.full or epoch == _JOIN
        owned = self._owned(actor, step.owned, epoch, says_all=says_all)
        regex = actor.regex if says_all else step.regex
        fields = {
            "api": "consumer_group_heartbeat",
            "client_host": HOST,
            **self._identity(step),
            "member_epoch": epoch,
            "rack_id": step.rack,
            "rebalance_timeout_ms": actor.rebalance_ms if says_all else (step.rebalance or -1),
            "subscribed_topic_regex": None if regex is None else self._topics.pattern(regex),
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

    def _join_group(self, step: Step) -> dict[str, Any]:
        actor = self[step.actor]
        names = self._topics.names(actor.names if step.names is None else step.names)
        subscription = ConsumerProtocolSubscription(topics=names, user_data=None, version=1)
        protocols = [] if step.protocol == "none" else [step.protocol]
        return {
            "api": "join_group",
            **self._identity(step),
            "session_timeout_ms": _SESSION_MS,
            "rebalance_timeout_ms": actor.rebalance_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": bytes(subscription.encode())} for name in protocols],
            "reason": None,
        }

    def _offsets(self, step: Step) -> list[Offset]:
        return [
            Offset(self._topics.name(letter), number, offset=100 * self._commits + number)
            for letter, numbers in partitions(step.parts).items()
            for number in numbers
        ]

    def _generation(self, step: Step) -> int:
        epochs = self[step.actor].epochs
        if step.epoch == "before":
            return epochs[-2:][0]
        if change := re.fullmatch(r"told([+-]\d+)?", step.epoch):
            return epochs[-1] + int(change[1] or 0)
        return int(step.epoch)

    def _identity(self, step: Step) -> dict[str, Any]:
        actor = self[step.actor]
        member_id = {None: actor.member_id, "null": None}.get(step.member, step.member)
        return {"member_id": member_id, "group_instance_id": self._instance(actor, step)}

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


def partitions(text: str) -> Owned:
    """Read `a0+a1+b2`."""
    found: Owned = {}
    for each in text.split("+"):
        found.setdefault(each[0], []).append(int(each[1:]))
    return found
