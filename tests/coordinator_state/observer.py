"""Oracles: what looks at calls of `step` and their results, and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.checkpoints.late import late_times, told_late
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.log import Record, in_log_order
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.responses import AnyResponse, GroupPicture, InvalidRequestResponse
from group_coordinator.coordinator_state.step import Channel, Output, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.coordinator_state.turn import Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request
from tests.coordinator_state import invariants
from tests.coordinator_state.model import GROUP, Model
from tests.coordinator_state.model_time import Answer, Asked

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.clocks import Span

SECRET = b"secret"

Step = Callable[..., StepResult]

_responses = msgspec.json.Decoder(AnyResponse)
_refusals = msgspec.json.Decoder(InvalidRequestResponse)
_events = msgspec.json.Decoder(AnyEvent)
_pictures = msgspec.json.Decoder(GroupPicture)


def read_response(value: bytes) -> Any:
    """Read a response as its reader does."""
    decoder = _refusals if b'"INVALID_REQUEST"' in value else _responses
    return decoder.decode(value)


class Observer:
    """Looks at each call of one group, and at what was written: by the invariants, and by the model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.group: ClassicGroup | None = None
        """The group after the last call."""
        self.picture: GroupPicture | None = None
        """The newest picture; None after a tombstone."""
        self.events: list[AnyEvent] = []
        """Those of the last call."""

    def see(
        self,
        before: bytes | None,
        records: Iterable[Record],
        watermark_ms: int,
        result: StepResult,
        span: Span | None = None,
    ) -> list[Answer]:
        """Look at a call that found the state `before`; return its answers."""
        group = None if before is None else decode_group(before)
        order = Turn("", group, self.model.config, span=span).seems_ms
        self.model.clocks.until_ms = LATEST_MS if span is None else span.until_ms
        model, answers, rejected = self.model, [], 0
        self.events = []
        for channel, _, value, partition, _ in result.outputs:
            match channel:
                case Channel.RESPONSES:
                    answers.append(Answer(partition, read_response(value or b"")))
                case Channel.EVENTS:
                    self.events.append(_events.decode(value or b""))
                case Channel.GROUPS:
                    self.picture = None if value is None else _pictures.decode(value)
                case Channel.REJECTED:
                    rejected += 1
        asked = [
            Asked(record, read_request(record, model.config, model.layout))
            for record in in_log_order(records, order)
        ]
        assert rejected == sum(isinstance(request, Rejection) for _, request in asked)
        model.see(asked, watermark_ms, answers, self.events)
        self.group = invariants.check(before, result, watermark_ms, model.config, Outages(model.down()))
        model.agrees_with_group(self.group, result.deadline_ms)
        model.agrees_with_picture(self.picture)
        return answers


# -- how a log is cut into batches ---------------------------------------------------------------------


class Batch(NamedTuple):
    """What a call is given."""

    records: list[Record]
    watermark_ms: int


class Outcome(NamedTuple):
    """All that is left of a log that was read to its end."""

    responses: list[Output]
    events: list[Output]
    rejected: list[Output]
    picture: Output | None
    offsets: dict[bytes | None, bytes]
    state: bytes | None
    deadline_ms: int | None


def play(batches: list[Batch], config: GroupConfig, outages: list[Outage], step: Step = step) -> Outcome:
    """Call `step` for each batch, and check the invariants."""
    outputs: list[Output] = []
    state, deadline_ms = None, None
    newest_ms = 0
    for records, watermark_ms in batches:
        newest_ms = max([newest_ms, watermark_ms, *(record.timestamp_ms for record in records)])
        # An outage is not known before it is over.
        known = Outages(outage for outage in outages if outage.start_ms < newest_ms)
        result = step(GROUP.encode(), state, records, watermark_ms, config, SECRET, known)
        invariants.check(state, result, watermark_ms, config, known)
        outputs += result.outputs
        state, deadline_ms = result.state, result.deadline_ms

    def of(channel: Channel) -> list[Any]:
        return [output for output in outputs if output.channel is channel]

    # A compacted topic keeps the newest of each key only, and tombstones not for ever.
    offsets = {output.key: output.value for output in of(Channel.OFFSETS)}
    return Outcome(
        of(Channel.RESPONSES),
        of(Channel.EVENTS),
        of(Channel.REJECTED),
        (of(Channel.GROUPS) or [None])[-1],
        {key: value for key, value in offsets.items() if value is not None},
        state,
        deadline_ms,
    )


def check_cuts(
    log: list[Record], config: GroupConfig, outages: list[Outage], rng: Random, step: Step = step
) -> None:
    """Check that it makes no difference how a log is cut into batches, and in which order their rows come.

    The watermark may be ahead of records that are still to come, if the events say which of them were late.
    """
    in_order = in_log_order(log)
    if not in_order:
        return
    end_ms = max(record.timestamp_ms for record in in_order)
    end_ms += rng.choice([0, 1, 7_000, 50_000, 70_000, 86_400_000])
    ahead_ms = rng.choice([0, 0, 500, 5_000])
    in_many = play(_cut(in_order, end_ms, ahead_ms, rng), config, outages, step)
    late = late_times(msgspec.json.decode(output.value or b"") for output in in_many.events)
    assert ahead_ms or not late, "the requests that are late differ"
    in_order = list(told_late(in_order, late))
    in_one = play([Batch(in_order, end_ms)], config, outages, step)
    for field, one, many in zip(Outcome._fields, in_one, in_many, strict=True):
        assert many == one, f"{field} differ"


def _cut(log: list[Record], end_ms: int, ahead_ms: int, rng: Random) -> list[Batch]:
    """Cut `log`; what comes after a watermark is earlier by no more than `ahead_ms`."""
    cuts = sorted({*(rng.randint(1, len(log)) for _ in range(rng.randint(0, 12))), len(log)})
    batches: list[Batch] = []
    begin, watermark_ms = 0, 0
    for cut in cuts:
        # None of the records that are still to come is earlier than this.
        limit_ms = min((record.timestamp_ms + ahead_ms for record in log[cut:]), default=end_ms)
        limit_ms = min(limit_ms, end_ms)
        records = log[begin:cut]
        for _ in range(rng.randint(1, 3)):
            watermark_ms = max(watermark_ms, limit_ms - rng.choice([0, 0, 1, 500, 5_000, 10**9]))
            # Spark gives a group's rows in any order.
            batches.append(Batch(rng.sample(records, len(records)), watermark_ms))
            records = []
        begin = cut
    return [*batches, Batch([], end_ms)]


def some_outages(log: list[Record], rng: Random) -> list[Outage]:
    """Draw outages at times of the log."""
    latest_ms = max((record.timestamp_ms for record in log), default=0)
    earliest_ms = min((record.timestamp_ms for record in log), default=0)
    times = sorted({rng.randint(earliest_ms, latest_ms + 60_000) for _ in range(rng.randint(0, 8))})
    pairs = zip(times[::2], times[1::2], strict=False)
    return [Outage(*pair, closed=rng.random() < 0.3) for pair in pairs]
