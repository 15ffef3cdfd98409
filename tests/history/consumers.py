"""Groups of the consumer protocol whose story tests tell: the real core writes events and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse, GroupPicture
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.history.rows import read_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.coordinator_state.events import AnyEvent

TOPIC_ID = "id-of-"


class Consumers:
    """One group, its log and a clock that is set by hand. Members are named by their ids.

    `topics`: topic -> number of partitions, as each heartbeat that joins says it. The work is divided
    at once.
    """

    def __init__(self, topics: Mapping[str, int], group_id: str = "orders", **config: int) -> None:
        self.config = GroupConfig(**({"group_consumer_assignment_interval_ms": 0} | config))
        self.topics = dict(topics)
        self.group_id = group_id
        self.now = 0
        self.state: bytes | None = None
        self.bodies: list[bytes] = []
        self.results: list[StepResult] = []
        self.pictures: list[GroupPicture | None] = []
        self.epochs: dict[str, int] = {}
        self.told: dict[str, dict[str, list[int]]] = {}
        """What each member was told to have."""
        self.instances: dict[str, str] = {}
        self._requests = 0

    def at(self, now: int) -> None:
        """Nothing comes until `now`, but deadlines."""
        self.now = now
        self._step([])

    def join(self, member_id: str, *topics: str, instance: str | None = None) -> None:
        """Join, with all topics unless some are named."""
        names = list(topics or self.topics)
        if instance is not None:
            self.instances[member_id] = instance
        self._beat(
            member_id,
            0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=names,
            topic_partitions=[],
            topics=[
                {"name": it, "topic_id": f"{TOPIC_ID}{it}", "partitions": self.topics[it]} for it in names
            ],
        )

    def beat(self, *member_ids: str) -> None:
        """Say that members are alive."""
        for member_id in member_ids:
            self._beat(member_id, self.epochs[member_id])

    def give_up(self, member_id: str) -> None:
        """Say that a member has what it was told, and nothing else."""
        owned = [
            {"topic_id": f"{TOPIC_ID}{it}", "partitions": numbers}
            for it, numbers in self.told[member_id].items()
        ]
        self._beat(member_id, self.epochs[member_id], topic_partitions=owned)

    def grow(self, member_id: str, topic: str, partitions: int) -> None:
        """A member has seen that a topic has more partitions."""
        facts = [{"name": topic, "topic_id": f"{TOPIC_ID}{topic}", "partitions": partitions}]
        self._beat(member_id, self.epochs[member_id], topics=facts)

    def subscribe(self, member_id: str, *topics: str) -> None:
        """Name other topics."""
        self._beat(member_id, self.epochs[member_id], subscribed_topic_names=list(topics))

    def settle(self) -> None:
        """Let all members go on until they have what they are to have."""
        for _ in range(len(self.epochs) + 2):
            for member_id in self.epochs:
                self.beat(member_id)
                self.give_up(member_id)
        assert self.picture.state == "Stable"

    def leave(self, member_id: str, *, for_good: bool = True) -> None:
        """Leave; a static member may leave for a while."""
        self._beat(member_id, -1 if for_good else -2)
        del self.epochs[member_id]

    @property
    def picture(self) -> GroupPicture:
        """The newest picture."""
        newest = self.pictures[-1]
        assert newest is not None
        return newest

    # -- the machine -----------------------------------------------------------------------------

    def _beat(self, member_id: str, epoch: int, **fields: Any) -> None:
        self._requests += 1
        request = {
            "api": "consumer_group_heartbeat",
            "request_id": f"{member_id}-{self._requests}",
            "client_id": f"c-{member_id}",
            "client_host": "/10.0.0.7",
            "group_id": self.group_id,
            "member_id": member_id,
            "member_epoch": epoch,
            "group_instance_id": self.instances.get(member_id),
        } | fields
        value = msgspec.json.encode(request)
        self._step([Record("requests", 0, self._requests, self.now, self.group_id.encode(), value)])

    def _step(self, records: list[Record]) -> None:
        result = step(self.group_id.encode(), self.state, records, self.now, self.config, b"secret")
        self.state = result.state
        self.results.append(result)
        for output in result.outputs:
            match output.channel:
                case Channel.EVENTS:
                    self.bodies.append(output.value or b"")
                case Channel.GROUPS:
                    value = output.value
                    self.pictures.append(
                        None if value is None else msgspec.json.decode(value, type=GroupPicture)
                    )
                case Channel.RESPONSES:
                    self._hear(msgspec.json.decode(output.value or b"", type=ConsumerGroupHeartbeatResponse))

    def _hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error == "NONE", answer
        member_id = answer.member_id or ""
        self.epochs[member_id] = max(answer.member_epoch, 0)
        if answer.assignment is not None:
            self.told[member_id] = {each.name: each.partitions for each in answer.assignment}


def a_handover() -> Consumers:
    """m1 has orders 0 to 3 from 1 s on. m2 joins at 5 s, and waits for 2 and 3 until m1 gives them up at 8 s.

    At 20 s m1 leaves, so that m2 has all of them from 21 s on.
    """
    group = Consumers({"orders": 4})
    group.at(1_000)
    group.join("m1")
    group.at(5_000)
    group.join("m2")
    group.at(6_000)
    group.beat("m1")
    group.at(8_000)
    group.give_up("m1")
    group.at(9_000)
    group.beat("m2")
    group.at(20_000)
    group.leave("m1")
    group.at(21_000)
    group.beat("m2")
    return group


def a_day_of_troubles() -> Consumers:
    """The static m1 and m2 share two topics. m3 joins, and waits for m2, which is removed at last.

    m1 goes away and comes back, m3 reads other topics, a topic grows, m2 is back, and all leave.
    """
    group = Consumers({"orders": 4, "refunds": 2}, group_consumer_session_timeout_ms=60_000)
    group.at(1_000)
    group.join("m1", instance="worker-1")
    group.join("m2")
    group.settle()
    group.at(10_000)
    group.join("m3")
    group.beat("m1", "m2")
    group.give_up("m1")
    group.at(25_000)
    group.beat("m2")
    # Its rebalance timeout of 30 s is over.
    group.at(41_000)
    del group.epochs["m2"]
    group.settle()
    group.at(50_000)
    group.leave("m1", for_good=False)
    group.at(52_000)
    group.join("m1", instance="worker-1")
    group.settle()
    group.at(60_000)
    group.subscribe("m3", "refunds")
    group.settle()
    group.at(65_000)
    group.grow("m1", "orders", 6)
    group.settle()
    group.at(70_000)
    group.join("m2")
    group.settle()
    group.at(80_000)
    for member_id in ("m1", "m2", "m3"):
        group.leave(member_id)
    return group


def events(group: Consumers) -> list[AnyEvent]:
    """The events of a group."""
    return [event for body in group.bodies if (event := read_event(body)) is not None]
