"""The part of a model that is the same for groups of every kind: which answers and events belong to what.

It goes through the log as the coordinator does. Each request has its time, at which it counts, and its own
answers and events. What happens without a request comes between them, when its time has passed. What else
a model knows of its group, and foretells, it says in the methods that are empty here.

Its clock stands still while there is no coordinator, so by it an outage puts nothing off. Log time goes on:
offsets expire by that, and durations are told in it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from group_coordinator.coordinator_state import events as told
from group_coordinator.coordinator_state.wire import Rejection
from tests.coordinator_state.model_clocks import ClocksModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.events import AnyEvent
    from group_coordinator.coordinator_state.layout import Layout
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.outages import Outage
    from group_coordinator.coordinator_state.requests import AnyRequest

NONE = "NONE"


class Asked(NamedTuple):
    """A record of the log, and what it says."""

    record: Record
    request: AnyRequest | Rejection


class Answer(NamedTuple):
    """A response, and the partition that it is written to."""

    partition: int | None
    response: Any


class TimedModel:
    """A group as far as its time goes. `outages`: when there was no coordinator; more may be added."""

    _HANDLERS: ClassVar[dict[type[Any], Callable[[Any, Any], None]]]
    """What to do about each kind of event."""

    def __init__(self, config: GroupConfig, outages: list[Outage], group_id: str, layout: Layout) -> None:
        self.config = config
        self.outages = outages
        """When there was no coordinator, in log time; whoever knows of more may add them."""
        self.clocks = ClocksModel()
        self._group_id = group_id
        self.layout = layout
        self.now = self.log_ms = 0
        self._waited_until_ms = 0
        """Until when the newest call has let time pass."""
        self._is_ahead = False
        """Whether something has happened by itself since the newest request."""
        self._forgotten_ms: int | None = None
        """When nothing is known any more of a group that is deleted."""
        self._event_ids: set[str] = set()
        # What is true within one call only.
        self._answers: defaultdict[str, deque[Answer]] = defaultdict(deque)

    # -- what a kind of group says ---------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is a group."""
        raise NotImplementedError

    def _handle(self, ask: AnyRequest, own: list[AnyEvent]) -> None:
        """Hold a request against the events that it has caused, and take its answer."""
        raise NotImplementedError

    def _begin_until(self, to_ms: int) -> None:
        """Take in what begins by itself until then, and is not told."""

    def _nothing_was_due_before(self, at_ms: int) -> None:
        """Nothing had to happen by itself before, and has not."""

    def _has_happened(self, at_ms: int) -> None:
        """An event was taken in."""

    def _all_is_told(self) -> None:
        """No event is missing, now that those of one cause were taken in."""

    def _ends_well(self) -> None:
        """The group may be as it is at the end of a call."""

    # -- one call ------------------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether its time is known: that it exists, or was deleted lately."""
        return self.exists or self._forgotten_ms is not None

    def see(
        self, asked: list[Asked], watermark_ms: int, answers: list[Answer], events: list[AnyEvent]
    ) -> None:
        """Learn from one call: what it was asked, in log order, and what it answered and told."""
        self._answers.clear()
        for answer in answers:
            self._answers[answer.response.request_id].append(answer)
        assert all(event.group_id == self._group_id for event in events)
        left = deque(events)
        self.clocks.learn(events, told.ClockCorrected)
        for record, request in asked:
            correction, counts_ms = self._counts(record)
            late_ms = self._late_ms(record, counts_ms)
            at_log_ms = self._read_at(counts_ms if late_ms is None else late_ms)
            at_ms = self.up(at_log_ms)
            while left and "@" in left[0].event_id and self.up(left[0].at_ms) <= at_ms:
                self._happen(left.popleft())
            self._all_is_told()
            self._let_pass(at_log_ms)
            own = []
            while left and left[0].event_id.startswith(f"{record}-"):
                own.append(left.popleft())
            for _ in (it for it in (correction, late_ms) if it is not None):
                self._happen(own.pop(0))
            if late_ms is not None:
                assert (record.partition, record.offset, record.timestamp_ms) == self.clocks.told_late
            assert not any(isinstance(it, told.RequestLate) for it in own), "nothing had passed"
            if isinstance(request, Rejection):
                assert [] == own, "what cannot be read changes nothing"
                self._take_refusal(request)
            else:
                assert all(event.request_id == request.request_id for event in own)
                self._handle(request, own)
        requests_until_ms = self.log_ms
        for event in left:
            assert event.event_id.startswith(f"{self._group_id}@"), f"nothing caused this: {event}"
            self._happen(event)
        self._all_is_told()
        if self.is_known:
            self._wait(watermark_ms, requests_until_ms)
        assert {} == {name: it for name, it in self._answers.items() if it}, "answers that nobody waited for"
        self._ends_well()

    def _counts(self, record: Record) -> tuple[told.ClockCorrected | None, int]:
        """What was told of a record's clock, and when it came by that."""
        if not self.is_known:
            self.clocks.forget()
        correction = self.clocks.correction(record)
        shift_ms = self.clocks.shifts.get(record.partition, 0) if correction is None else correction.shift_ms
        return correction, record.timestamp_ms + shift_ms

    def _late_ms(self, record: Record, counts_ms: int) -> int | None:
        """When a record counts that is earlier than what has happened by itself; None if it is not."""
        is_ahead, self._is_ahead = self._is_ahead, False
        if counts_ms > self.clocks.until_ms:
            counts_ms = self.clocks.until_ms
            record = record._replace(late_ms=counts_ms)
        counts_ms = max([counts_ms, *self._ends_before(counts_ms)])
        is_late = self.is_known and is_ahead and counts_ms < self.log_ms
        return self.log_ms if is_late else record.late_ms

    def down(self) -> Iterator[Outage]:
        """The log time that does not count, without overlaps."""
        return self.clocks.down(self.outages)

    def up(self, log_ms: int) -> int:
        """What the clock says at that log time: how long there has been a coordinator."""
        down = [min(log_ms, it.end_ms) - it.start_ms for it in self.down() if it.start_ms < log_ms]
        return log_ms - sum(down)

    @property
    def _is_closed(self) -> bool:
        """Whether no group is created: so it is from the end of some outages to the next one."""
        over = [outage for outage in self.outages if outage.end_ms <= self.log_ms]
        return bool(over) and max(over).closed

    def _read_at(self, log_ms: int) -> int:
        """When what is in the log at that time counts: not before the group, nor in an outage."""
        log_ms = max(log_ms, self.log_ms) if self.is_known else log_ms
        return max([log_ms, *self._ends_before(log_ms)])

    def _ends_before(self, log_ms: int) -> list[int]:
        """When the outages were over that began before."""
        entered = self.clocks.entered
        return [it.end_ms for it in self.outages if it.start_ms < log_ms + (it[:2] in entered)]

    def _happen(self, event: AnyEvent) -> None:
        at_ms = self.up(event.at_ms)
        assert event.event_id not in self._event_ids, "an event came twice"
        self._event_ids.add(event.event_id)
        assert event.at_ms >= self.log_ms, "time went back"
        assert "@" not in event.event_id or event.event_id.startswith(f"{self._group_id}@{event.at_ms}-")
        of_time = told.RequestLate, told.ClockCorrected
        is_of_time = "@" in event.event_id or isinstance(event, of_time)
        assert is_of_time is (event.request_id is None)
        self._begin_until(at_ms)
        self._nothing_was_due_before(at_ms)
        self.now, self.log_ms = at_ms, event.at_ms
        self._HANDLERS[type(event)](self, event)
        self._has_happened(at_ms)

    def _let_pass(self, to_log_ms: int) -> None:
        """Nothing has happened until then."""
        to_ms = self.up(to_log_ms)
        self._nothing_happens(to_ms)
        self.now, self.log_ms = to_ms, to_log_ms

    def _wait(self, watermark_ms: int, requests_until_ms: int) -> None:
        """The same, but no request is of that time: the group is where it was last heard of, or was away."""
        self._waited_until_ms = self._read_at(watermark_ms)
        self._nothing_happens(self.up(self._waited_until_ms))
        self.log_ms = max([self.log_ms, *self._ends_before(watermark_ms)])
        self.now = self.up(self.log_ms)
        self._is_ahead |= self.log_ms > requests_until_ms

    def _nothing_happens(self, to_ms: int) -> None:
        """Nothing was due until then, that millisecond included."""
        self._begin_until(to_ms)
        self._nothing_was_due_before(to_ms + 1)
        if self._forgotten_ms is not None and self._forgotten_ms <= to_ms:
            self._forgotten_ms = None

    def _take(self, ask: AnyRequest, error: str = NONE) -> Any:
        """Take out the answer to `ask`: it is due now, and this is what it must say."""
        assert self._answers[ask.request_id], f"no answer to {ask}"
        partition, answer = self._answers[ask.request_id].popleft()
        assert (ask.__struct_config__.tag, ask.client_id, self._group_id, ask.reply_partition) == (
            answer.__struct_config__.tag,
            answer.client_id,
            answer.group_id,
            partition,
        ), "somebody else was answered"
        assert error == answer.error, ask
        return answer

    def _take_refusal(self, rejection: Rejection) -> None:
        """What cannot be read is answered if its sender can be."""
        if rejection.response is not None:
            assert self._answers[rejection.response.request_id], f"no answer to {rejection}"
            _, answer = self._answers[rejection.response.request_id].popleft()
            assert ("INVALID_REQUEST", rejection.reason) == (answer.error, answer.error_message)

    # -- events of time --------------------------------------------------------------------------------

    def _request_late(self, event: told.RequestLate) -> None:
        self.clocks.told_late = (event.partition, event.offset, event.appended_ms)

    def _clock_corrected(self, event: told.ClockCorrected) -> None:
        self.clocks.shifts[event.partition] = event.shift_ms

    # -- what others say of it -------------------------------------------------------------------------

    def _agrees_on_time(self, group: Any) -> int:
        """The stored group has the model's time; by how much its deadlines are later than the model's."""
        if group.is_ahead:
            # What happens by itself is told only if it changes something.
            assert self.log_ms <= group.now_ms <= self._waited_until_ms
            self.log_ms, self._is_ahead = group.now_ms, True
            self.now = self.up(self.log_ms)
        assert group.is_ahead == self._is_ahead
        assert {it: shift_ms for it, shift_ms in self.clocks.shifts.items() if shift_ms} == group.clocks
        # Stored is log time, into which an outage that is still to be read has not been counted.
        return int(group.now_ms - self.now)
