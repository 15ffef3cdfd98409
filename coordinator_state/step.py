"""One call of the stateful function, without Spark: state and records in, state and outputs out.

This is what the query runs for each group of a batch, what a replay of the log runs for a whole log, and
what the tests run with a scripted log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.classic.group import Group
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.coordinator import GroupCoordinator
from group_coordinator.coordinator_state.events import (
    Event,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    StateChanged,
)
from group_coordinator.coordinator_state.log import in_log_order
from group_coordinator.coordinator_state.offsets.committed import offset_key
from group_coordinator.coordinator_state.outages import NO_OUTAGES
from group_coordinator.coordinator_state.turn import Reply, Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request, rejected_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.outages import Outages

__all__ = [
    "REBALANCE_BOUNDS_MS",
    "SCHEMA_VERSION",
    "Channel",
    "Output",
    "StepResult",
    "decode_group",
    "encode_group",
    "step",
]

SCHEMA_VERSION = 2
"""Version of the stored state. Fields that are added at the end, with defaults, need no new one, unless a
program that does not know them would lose something: version 2 is for the offsets."""

REBALANCE_BOUNDS_MS = (200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000)
"""Upper bounds, inclusive, of the buckets that completed rebalances are counted in; one more has the rest."""


class Channel(Enum):
    """The kinds of output; the query maps each to a topic."""

    RESPONSES = "responses"
    GROUPS = "groups"
    OFFSETS = "offsets"
    EVENTS = "events"
    REJECTED = "rejected"


class Output(NamedTuple):
    """A record to write. A value of None is a tombstone; a partition of None leaves it to the key."""

    channel: Channel
    key: bytes | None
    value: bytes | None
    partition: int | None = None


class StepResult(NamedTuple):
    """What is to be done after one call.

    `state`: the group to be stored, None if there is none (any more). `deadline_ms`: when to call again if
    nothing comes; later than everything the call has seen. `counts`: what happened, for the metrics, by
    (what, label, label); of completed rebalances the second label is the number of a bucket of
    `REBALANCE_BOUNDS_MS`. `replies`, `events`, `rejections`: what was decided, and is in `outputs` as bytes.
    """

    state: bytes | None
    deadline_ms: int | None
    outputs: list[Output]
    counts: Counter[tuple[str, str, str]]
    replies: list[Reply]
    events: list[Event]
    rejections: list[tuple[Record, Rejection]]


def step(
    key: bytes | None,
    state: bytes | None,
    records: Iterable[Record],
    watermark_ms: int,
    config: GroupConfig,
    secret: bytes,
    outages: Outages = NO_OUTAGES,
) -> StepResult:
    """Apply `records` (all with the record key `key`) to the stored group, then let time pass.

    `watermark_ms`: log time up to which no more records will come; what is due by then fires. `secret`
    makes member ids unguessable. `outages`: when there was no coordinator. Same arguments, same result, to
    the byte. An outage that begins after all of it changes no output, so a batch that runs again, after one
    that its first run could not know of, gives the same.
    """
    group = decode_group(state) if state is not None else None
    turn = Turn(_group_id(key), group, config, outages)
    coordinator = GroupCoordinator(turn, secret)
    rejections: list[tuple[Record, Rejection]] = []
    counts: Counter[tuple[str, str, str]] = Counter()

    for record in in_log_order(records):
        coordinator.advance(record.timestamp_ms)
        request = read_request(record, config)
        if isinstance(request, Rejection):
            counts["rejected", "", ""] += 1
            rejections.append((record, request))
            if request.response is not None:
                turn.replies.append(Reply(request.response, request.reply_partition))
        else:
            counts["requests", str(request.__struct_config__.tag), ""] += 1
            coordinator.handle(request, record)
    coordinator.advance(watermark_ms)

    outputs = [_response(reply, counts) for reply in turn.replies]
    outputs += [_event(event, counts) for event in turn.events]
    outputs += [_rejected(record, rejection.reason, config) for record, rejection in rejections]
    if turn.is_changed:
        value = _json(turn.group.picture()) if turn.exists else None
        outputs.append(Output(Channel.GROUPS, key, value))
    outputs += _offset_pictures(turn)
    return StepResult(
        state=encode_group(turn.stored_group()) if turn.exists else None,
        deadline_ms=turn.deadlines.next_ms() if turn.exists else None,
        outputs=outputs,
        counts=counts,
        replies=turn.replies,
        events=turn.events,
        rejections=rejections,
    )


_json = msgspec.json.Encoder().encode
_encoder = msgspec.msgpack.Encoder()
_versions = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_groups = msgspec.msgpack.Decoder(Group)


def encode_group(group: Group) -> bytes:
    """The group as it is stored."""
    return _encoder.encode((SCHEMA_VERSION, group))


def decode_group(state: bytes) -> Group:
    """The stored group; `ValueError` if it was written by a newer version of this program."""
    version, raw = _versions.decode(state)
    if not 1 <= version <= SCHEMA_VERSION:
        message = f"stored state has schema version {version}, this program reads 1 to {SCHEMA_VERSION}"
        raise ValueError(message)
    return _groups.decode(raw)


def _group_id(key: bytes | None) -> str:
    # Requests under a key that is not UTF-8 are all rejected, so what stands here is never seen.
    return (key or b"").decode(errors="replace")


def _response(reply: Reply, counts: Counter[tuple[str, str, str]]) -> Output:
    response, partition, _ = reply
    value = _json(response)
    api = response.__struct_config__.tag or "unreadable"
    counts["responses", str(api), response.error] += 1
    return Output(Channel.RESPONSES, response.client_id.encode(), value, partition)


def _event(event: Event, counts: Counter[tuple[str, str, str]]) -> Output:
    detail = ""
    match event:
        case MemberRemoved():
            detail = event.reason
        case StateChanged():
            detail = str(event.to)
            _count_rebalance(event, counts)
        case OffsetsCommitted():
            counts["offsets", "committed", ""] += sum(len(topic.partitions) for topic in event.topics)
        case OffsetsDeleted() | OffsetsExpired():
            what = "deleted" if isinstance(event, OffsetsDeleted) else "expired"
            counts["offsets", what, ""] += sum(len(topic.partition_indexes) for topic in event.topics)
        case _:
            pass
    counts["events", str(event.__struct_config__.tag), detail] += 1
    return Output(Channel.EVENTS, event.group_id.encode(), _json(event))


def _rejected(record: Record, reason: str, config: GroupConfig) -> Output:
    rejected = rejected_record(record, reason, config)
    return Output(Channel.REJECTED, rejected.key, _json(rejected))


def _count_rebalance(event: StateChanged, counts: Counter[tuple[str, str, str]]) -> None:
    """Count it by its cause when it begins, and with its duration when it is completed, which Stable is."""
    cause = str(event.cause)
    if event.to == GroupState.PREPARING_REBALANCE:
        counts["rebalances", cause, ""] += 1
    elif event.to == GroupState.STABLE and event.rebalance_ms is not None:
        bucket = bisect_left(REBALANCE_BOUNDS_MS, event.rebalance_ms)
        counts["rebalances_completed", cause, str(bucket)] += 1
        counts["rebalance_ms", cause, ""] += event.rebalance_ms


def _offset_pictures(turn: Turn) -> Iterator[Output]:
    for (topic, partition), offset in turn.offsets.changes.items():
        key = offset_key(turn.group_id, topic, partition)
        if offset is None:
            yield Output(Channel.OFFSETS, key, None)
        else:
            yield Output(Channel.OFFSETS, key, _json(offset.picture(turn.group_id, topic, partition)))
