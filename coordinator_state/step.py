"""One call of the stateful function, without Spark: state and records in, state and outputs out.

The query runs it for each group of a batch, a replay for a whole log, and the tests for a scripted log.
"""

from __future__ import annotations

from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.committed import offset_key
from group_coordinator.coordinator_state.coordinator import GroupCoordinator
from group_coordinator.coordinator_state.layout import UNMEASURED, Layout
from group_coordinator.coordinator_state.log import in_log_order
from group_coordinator.coordinator_state.outages import NO_OUTAGES
from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest, HeartbeatRequest
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from group_coordinator.coordinator_state.turn import Reply, Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request, rejected_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from group_coordinator.coordinator_state.clocks import Span
    from group_coordinator.coordinator_state.committed import CommittedOffsets
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.kinds import AnyGroup
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.outages import Outages
    from group_coordinator.coordinator_state.requests import AnyRequest

    Counts = Callable[[Record], int]

# A part of a result that has so many bytes, or so many records that were read, is large enough. Bytes are
# those of the records and of the outputs, because a part has what was read and what was decided.
_PART_BYTES = 4_000_000
_PART_RECORDS = 10_000
# Offsets that come and go in one batch may be many more than a group may have at a time.
_PART_OFFSETS = 25_000
_HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest)
_HEARTBEATS_PER_LOOK = 256


class Channel(Enum):
    """The kinds of output; the query maps each to a topic."""

    RESPONSES = "responses"
    GROUPS = "groups"
    OFFSETS = "offsets"
    EVENTS = "events"
    REJECTED = "rejected"


class Output(NamedTuple):
    """A record to write. A value of None is a tombstone; a partition of None leaves it to the key.

    `place`: of a record of a compacted topic, from which place of the log it is (`newest.py`). Of a response,
    the place of the group's newest picture, if that is new.
    """

    channel: Channel
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    place: int | None = None


class StepResult(NamedTuple):
    """The result of one call, or a part of it.

    `state`: the group to be stored, None if nothing is known of one. One that was deleted lately is stored as
    Dead. `deadline_ms`: when to call again if nothing comes; later than everything the call has seen.
    `requests`: the requests that were read. `replies`, `events`, `rejections`: the decisions, which are in
    `outputs` as bytes. `read_bytes`: of the answers so far that change nothing. `members_due_ms`: the
    earliest deadline but for cleanups. `members_were_due_ms`: that of the call before.
    """

    state: bytes | None
    deadline_ms: int | None
    outputs: list[Output]
    requests: list[AnyRequest]
    replies: list[Reply]
    events: list[Event]
    rejections: list[tuple[Record, Rejection]]
    read_bytes: int = 0
    members_due_ms: int | None = None
    members_were_due_ms: int | None = None


_LISTS = ("outputs", "requests", "replies", "events", "rejections")


def step(  # noqa: PLR0913, PLR0917 - all that a decision depends on
    key: bytes | None,
    state: bytes | None,
    records: Iterable[Record],
    watermark_ms: int,
    config: GroupConfig,
    secret: bytes,
    outages: Outages = NO_OUTAGES,
    layout: Layout = UNMEASURED,
    span: Span | None = None,
) -> StepResult:
    """Apply `records` (all with the record key `key`) to the stored group, then let time pass.

    `watermark_ms`: log time up to which no more records will come; what is due by then fires. `secret`
    makes member ids unguessable. `outages`: when there was no coordinator. The same arguments give the
    same result, to the byte. An outage that begins after all records changes no output. So a batch that runs
    again after such an outage, which its first run could not know, gives the same. `span`: the times that
    records can be of; None: a replay, which says what was decided about that.
    """
    parts = list(steps(key, state, records, watermark_ms, config, secret, outages, layout, span))
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Any] = {
        name: list(chain.from_iterable(getattr(part, name) for part in parts)) for name in _LISTS
    }
    return parts[-1]._replace(**whole)


def steps(  # noqa: PLR0913, PLR0917 - the same
    key: bytes | None,
    state: bytes | None,
    records: Iterable[Record],
    watermark_ms: int,
    config: GroupConfig,
    secret: bytes,
    outages: Outages = NO_OUTAGES,
    layout: Layout = UNMEASURED,
    span: Span | None = None,
    in_order: Callable[[Iterable[Record], Counts], Iterable[Record]] = in_log_order,
) -> Iterator[StepResult]:
    """Do what `step` does, and give the result in parts, so that nobody has to hold all of it.

    `in_order`: puts the records into log order. A part ends with the request that fills it. Only the last has
    the state, the deadlines and the pictures, but for those of offsets if very many have changed before.
    """
    group = decode_group(state) if state is not None else None
    turn: Turn[AnyGroup] = Turn(_group_id(key), group, config, outages, layout, span)
    were_due_ms = turn.deadlines.next_of_members_ms() if turn.is_known else None
    coordinator = GroupCoordinator(turn, secret)
    part = _Part(turn, config)

    for record in in_order(records, turn.seems_ms):
        coordinator.advance(record)
        request = read_request(record, config, layout)
        part.size += len(record.value or b"")
        if isinstance(request, Rejection):
            part.reject(record, request)
        else:
            part.requests.append(request)
            if (refused := coordinator.handle(request, record)) is not None:
                part.reject(record, Rejection(refused, None, None))
            # Heartbeats are many, and their answers small.
            is_small = part.size < _PART_BYTES and isinstance(request, _HEARTBEATS)
            if is_small and not turn.is_reading and len(part.requests) % _HEARTBEATS_PER_LOOK:
                continue
        size = part.measure()
        if not isinstance(request, Rejection) and turn.is_reading:
            turn.read_bytes += size
        is_full = part.size >= _PART_BYTES or part.records >= _PART_RECORDS
        if len(turn.offsets.changes) >= _PART_OFFSETS:
            part.outputs += offset_outputs(turn.group_id, turn.offsets)
            is_full = True
        if is_full:
            yield part.end()
            part = _Part(turn, config)
    coordinator.let_pass(watermark_ms)

    part.encode()
    outputs = part.outputs
    if turn.picture_place is not None:
        value = _json(turn.group.picture(config)) if turn.exists else None
        outputs.append(Output(Channel.GROUPS, key, value, place=turn.picture_place))
    outputs += offset_outputs(turn.group_id, turn.offsets)
    if not turn.is_known:
        yield part.end(were_due_ms=were_due_ms)
        return
    yield part.end(
        encode_group(turn.stored_group()),
        turn.deadlines.next_ms(),
        turn.deadlines.next_of_members_ms(),
        were_due_ms,
    )


class _Part:
    """The decisions since the last part."""

    def __init__(self, turn: Turn[AnyGroup], config: GroupConfig) -> None:
        self._turn, self._config = turn, config
        turn.replies, turn.events = [], []
        self._replies_encoded = self._events_encoded = 0
        self.requests: list[AnyRequest] = []
        self.rejections: list[tuple[Record, Rejection]] = []
        self.outputs: list[Output] = []
        self.size = self._measured = 0
        """Bytes of the records, and of the outputs as far as they were measured."""

    @property
    def records(self) -> int:
        """The number of records that were read."""
        return len(self.requests) + len(self.rejections)

    def reject(self, record: Record, rejection: Rejection) -> None:
        """Take a record that is no request."""
        self.rejections.append((record, rejection))
        if rejection.response is not None:
            self._turn.replies.append(Reply(rejection.response, rejection.reply_partition))
        self.encode()
        self.outputs.append(_rejected(record, rejection.reason, self._config))

    def encode(self) -> None:
        """Make outputs of what was decided since the last call."""
        replies, events = self._turn.replies, self._turn.events
        if len(replies) > self._replies_encoded:
            self.outputs += [_response(reply) for reply in replies[self._replies_encoded :]]
            self._replies_encoded = len(replies)
        if len(events) > self._events_encoded:
            self.outputs += [event_output(event) for event in events[self._events_encoded :]]
            self._events_encoded = len(events)

    def measure(self) -> int:
        """Encode, and return how many bytes of outputs there are that were not measured before."""
        self.encode()
        size = sum([len(output.value or b"") for output in self.outputs[self._measured :]])
        self._measured = len(self.outputs)
        self.size += size
        return size

    def end(
        self,
        state: bytes | None = None,
        deadline_ms: int | None = None,
        members_due_ms: int | None = None,
        were_due_ms: int | None = None,
    ) -> StepResult:
        """Give out the part."""
        return StepResult(
            state=state,
            deadline_ms=deadline_ms,
            outputs=self.outputs,
            requests=self.requests,
            replies=self._turn.replies,
            events=self._turn.events,
            rejections=self.rejections,
            read_bytes=self._turn.read_bytes,
            members_due_ms=members_due_ms,
            members_were_due_ms=were_due_ms,
        )


_json = msgspec.json.Encoder().encode


def _group_id(key: bytes | None) -> str:
    # Requests under a key that is not UTF-8 are all rejected, so what stands here is never seen.
    return (key or b"").decode(errors="replace")


def _response(reply: Reply) -> Output:
    response = reply.response
    key = response.client_id.encode()
    return Output(Channel.RESPONSES, key, _json(response), reply.partition, reply.place)


def event_output(event: Event) -> Output:
    """The record of an event."""
    return Output(Channel.EVENTS, event.group_id.encode(), _json(event))


def _rejected(record: Record, reason: str, config: GroupConfig) -> Output:
    rejected = rejected_record(record, reason, config)
    return Output(Channel.REJECTED, rejected.key, _json(rejected))


def offset_outputs(group_id: str, offsets: CommittedOffsets) -> Iterator[Output]:
    """The records of all offsets of a group that have changed. Clears the changes."""
    for (topic, partition), (offset, place) in offsets.changes.items():
        key = offset_key(group_id, topic, partition)
        value = None if offset is None else _json(offset.picture(group_id, topic, partition))
        yield Output(Channel.OFFSETS, key, value, place=place)
    offsets.changes.clear()
