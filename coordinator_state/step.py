"""One call of the stateful function, without Spark: state and records in, state and outputs out.

The query runs it for each group of a batch, a replay for a whole log, and the tests for a scripted log.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.coordinator import GroupCoordinator
from group_coordinator.coordinator_state.layout import UNMEASURED, Layout
from group_coordinator.coordinator_state.log import in_log_order
from group_coordinator.coordinator_state.offsets.committed import offset_key
from group_coordinator.coordinator_state.outages import NO_OUTAGES
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from group_coordinator.coordinator_state.turn import Reply, Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request, rejected_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.kinds import AnyGroup
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.outages import Outages
    from group_coordinator.coordinator_state.requests import AnyRequest

__all__ = [
    "Channel",
    "Output",
    "StepResult",
    "step",
]


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
    """The result of one call.

    `state`: the group to be stored, None if there is none (any more). `deadline_ms`: when to call again if
    nothing comes; later than everything the call has seen. `requests`: the requests that were read.
    `replies`, `events`, `rejections`: the decisions, which are in `outputs` as bytes.
    """

    state: bytes | None
    deadline_ms: int | None
    outputs: list[Output]
    requests: list[AnyRequest]
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
    layout: Layout = UNMEASURED,
) -> StepResult:
    """Apply `records` (all with the record key `key`) to the stored group, then let time pass.

    `watermark_ms`: log time up to which no more records will come; what is due by then fires. `secret`
    makes member ids unguessable. `outages`: when there was no coordinator. The same arguments give the
    same result, to the byte. An outage that begins after all records changes no output. So a batch that runs
    again after such an outage, which its first run could not know, gives the same.
    """
    group = decode_group(state) if state is not None else None
    turn = Turn(_group_id(key), group, config, outages, layout)
    coordinator = GroupCoordinator(turn, secret)
    requests: list[AnyRequest] = []
    rejections: list[tuple[Record, Rejection]] = []

    for record in in_log_order(records):
        coordinator.advance(record.timestamp_ms)
        request = read_request(record, config, layout)
        if isinstance(request, Rejection):
            rejections.append((record, request))
            if request.response is not None:
                turn.replies.append(Reply(request.response, request.reply_partition))
        else:
            requests.append(request)
            coordinator.handle(request, record)
    coordinator.advance(watermark_ms)

    outputs = [_response(reply) for reply in turn.replies]
    outputs += [_event(event) for event in turn.events]
    outputs += [_rejected(record, rejection.reason, config) for record, rejection in rejections]
    if turn.is_changed:
        value = _json(turn.group.picture()) if turn.exists else None
        outputs.append(Output(Channel.GROUPS, key, value))
    outputs += _offset_pictures(turn)
    return StepResult(
        state=encode_group(turn.stored_group()) if turn.exists else None,
        deadline_ms=turn.deadlines.next_ms() if turn.exists else None,
        outputs=outputs,
        requests=requests,
        replies=turn.replies,
        events=turn.events,
        rejections=rejections,
    )


_json = msgspec.json.Encoder().encode


def _group_id(key: bytes | None) -> str:
    # Requests under a key that is not UTF-8 are all rejected, so what stands here is never seen.
    return (key or b"").decode(errors="replace")


def _response(reply: Reply) -> Output:
    response = reply.response
    return Output(Channel.RESPONSES, response.client_id.encode(), _json(response), reply.partition)


def _event(event: Event) -> Output:
    return Output(Channel.EVENTS, event.group_id.encode(), _json(event))


def _rejected(record: Record, reason: str, config: GroupConfig) -> Output:
    rejected = rejected_record(record, reason, config)
    return Output(Channel.REJECTED, rejected.key, _json(rejected))


def _offset_pictures(turn: Turn[AnyGroup]) -> Iterator[Output]:
    for (topic, partition), offset in turn.offsets.changes.items():
        key = offset_key(turn.group_id, topic, partition)
        if offset is None:
            yield Output(Channel.OFFSETS, key, None)
        else:
            yield Output(Channel.OFFSETS, key, _json(offset.picture(turn.group_id, topic, partition)))
