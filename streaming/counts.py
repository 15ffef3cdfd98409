"""Counting on the executors, adding up on the driver: a Spark accumulator over `Counts`."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import msgspec
from pyspark import AccumulatorParam

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.coordinator_state.events import (
    ClockCorrected,
    Event,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    StateChanged,
)
from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest, HeartbeatRequest
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse, HeartbeatResponse
from group_coordinator.coordinator_state.step import StepResult
from group_coordinator.streaming.timers import Timers

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.responses import InvalidRequestResponse, Response

REBALANCE_BOUNDS_MS = (200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000)
"""Upper bounds, inclusive, of the buckets that completed rebalances are counted in; one more has the rest."""


@dataclass(slots=True)
class Counts:
    """Counts of requests, answers, decisions and timers."""

    requests: Counter[str] = field(default_factory=Counter)
    """Requests that were applied, by API."""
    rejected: int = 0
    """Records that are no requests."""
    followed: int = 0
    """Records that others may follow soon: all but heartbeats at instants of their own that go well."""
    responses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Answers, by API ("unreadable" for a record that is no request) and the name of the error."""
    events: Counter[str] = field(default_factory=Counter)
    """Events, by their tags."""
    state_changes: Counter[str] = field(default_factory=Counter)
    """Changes of state, by the new state."""
    members_removed: Counter[str] = field(default_factory=Counter)
    """By reason."""
    rebalances: Counter[str] = field(default_factory=Counter)
    """Join phases that began, and rebalances of groups of the consumer protocol, by cause."""
    rebalance_durations: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Rebalances that were completed, by cause and number of the bucket of `REBALANCE_BOUNDS_MS`."""
    rebalance_ms: Counter[str] = field(default_factory=Counter)
    """Milliseconds that these took together, by cause."""
    offsets: Counter[str] = field(default_factory=Counter)
    """Partitions whose offset was committed, deleted or expired."""
    clocks: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Corrections of clocks, by request partition and how many tenths of a second the clock is ahead. With 0
    it is right again."""
    timers: Timers = field(default_factory=Timers, compare=False)
    """Groups, by when their next deadline is due; on an executor, how that has changed."""

    @property
    def heard(self) -> int:
        """A number that grows with each record that is no probe."""
        return self.requests.total() + self.rejected + self.responses.total()

    def add(self, other: Counts) -> None:
        """Add what another task has counted."""
        self.timers.add(other.timers)
        for name in _FIGURES:
            # New ones, because another thread may be reading these.
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def take(self, result: StepResult) -> None:
        """Count what one call of the stateful function has decided."""
        for request in result.requests:
            self.requests[_tag(request)] += 1
            self.followed += not _is_in_step(request)
        self.rejected += len(result.rejections)
        self.followed += len(result.rejections)
        for reply in result.replies:
            self._take_response(reply.response)
        for event in result.events:
            self._take_event(event)
        self.timers.move(result.members_were_due_ms, result.members_due_ms)

    def _take_response(self, response: Response | InvalidRequestResponse) -> None:
        self.responses[_tag(response) or "unreadable", response.error] += 1
        # Members join as soon as they are told that their group rebalances, and say what they have given up.
        self.followed += _tells_members_to_act(response)

    def _take_event(self, event: Event) -> None:
        self.events[_tag(event)] += 1
        match event:
            case MemberRemoved():
                self.members_removed[event.reason] += 1
            case StateChanged():
                self.state_changes[event.to] += 1
                self._take_rebalance(event)
            case ClockCorrected():
                self.clocks[event.partition, round(-event.shift_ms / 100)] += 1
            case OffsetsCommitted():
                self.offsets["committed"] += sum(len(topic.partitions) for topic in event.topics)
            case OffsetsDeleted():
                self.offsets["deleted"] += sum(len(topic.partition_indexes) for topic in event.topics)
            case OffsetsExpired():
                self.offsets["expired"] += sum(len(topic.partition_indexes) for topic in event.topics)
            case _:
                pass

    def _take_rebalance(self, event: StateChanged) -> None:
        """Count it when it begins, and with its duration when it is completed, which Stable is."""
        cause = str(event.cause)
        begins = event.to in _ON_THE_WAY and event.from_ not in _ON_THE_WAY
        if event.to == GroupState.PREPARING_REBALANCE or begins:
            self.rebalances[cause] += 1
        elif event.to == GroupState.STABLE and event.rebalance_ms is not None:
            self.rebalance_durations[cause, bisect_left(REBALANCE_BOUNDS_MS, event.rebalance_ms)] += 1
            self.rebalance_ms[cause] += event.rebalance_ms


# A group of the consumer protocol goes on from one of these states to another one in the same rebalance.
_ON_THE_WAY = (ConsumerState.ASSIGNING, ConsumerState.RECONCILING)
_FIGURES = [each.name for each in fields(Counts) if each.compare]


class CountsParam(AccumulatorParam[Counts]):
    """Adds counts. A task that is tried again counts again: people read them, and the clock takes hints.

    An executor adds what a call has decided, and the driver what a task has counted. A batch has a call for
    each group, and so none of them makes counters of its own.
    """

    def zero(self, value: Counts) -> Counts:  # noqa: ARG002 - Spark's signature
        """Nothing counted."""
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts | StepResult) -> Counts:  # noqa: N802 - Spark's name
        """Add `value2` to `value1`."""
        if isinstance(value2, StepResult):
            value1.take(value2)
        else:
            value1.add(value2)
        return value1


def _is_in_step(request: AnyRequest) -> bool:
    """Whether it is a heartbeat of several members, or of one that waits for no answer.

    Programs and gateways send those at instants of their own, whatever is answered to others.
    """
    if not isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
        return False
    return request.members is not msgspec.UNSET or request.quiet is True


def _tells_members_to_act(response: Response | InvalidRequestResponse) -> bool:
    """Whether it answers heartbeats with an error, or with other partitions."""
    if not isinstance(response, HeartbeatResponse | ConsumerGroupHeartbeatResponse):
        return False
    if response.error_code:
        return True
    if isinstance(response, ConsumerGroupHeartbeatResponse):
        # An answer to several members names those alone for which there is news.
        of_many = response.members is not msgspec.UNSET and bool(response.members)
        return of_many or response.assignment is not None
    return response.members is not msgspec.UNSET and any(each.error_code for each in response.members)


def _tag(message: object) -> str:
    """What a request, response or event is called in JSON; empty if it has no name."""
    return message.__struct_config__.tag or ""  # type: ignore[attr-defined]
