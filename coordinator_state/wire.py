"""The decoder, which makes a request of a record's bytes, or tells why it is none.

Nothing on the request topic may end the query. So this module turns every invalid record into a `Rejection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.foreign import UNREADABLE
from group_coordinator.coordinator_state.layout import UNMEASURED, Layout
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.coordinator_state.responses import InvalidRequestResponse

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.log import Record


class Rejection(msgspec.Struct, frozen=True):
    """The reason why a record is not a request, and the answer to its sender if that is known."""

    reason: str
    response: InvalidRequestResponse | None
    reply_partition: int | None


class RejectedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record in `coordinator.rejected`. Bytes are base64, cut off at the largest request."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    value_bytes: int
    reason: str


class _Envelope(msgspec.Struct):
    """As much of a bad request as is needed to answer it."""

    request_id: str
    client_id: str
    api: object = None
    group_id: object = None
    reply_partition: object = None


# A replay has to read a request as it was read at first. So these do not look at more of it than they did.
_requests = msgspec.json.Decoder(AnyRequest)
_envelopes = msgspec.json.Decoder(_Envelope)


def read_request(
    record: Record,
    config: GroupConfig,
    layout: Layout = UNMEASURED,
) -> AnyRequest | Rejection:
    """Read one record as the contract has it."""
    if record.value is None:
        return Rejection("the record has no value", None, None)
    if len(record.value) > config.max_request_bytes:
        return _reject(record.value, f"larger than {config.max_request_bytes} bytes", config, layout)
    try:
        request = _requests.decode(record.value)
    except UNREADABLE as error:
        return _reject(record.value, str(error), config, layout)
    reason = _check(request, record.key, len(record.value), config, layout)
    return request if reason is None else _reject(record.value, reason, config, layout)


def _check(
    request: AnyRequest, key: bytes | None, size: int, config: GroupConfig, layout: Layout
) -> str | None:
    """What the decoder cannot see in a request of `size` bytes."""
    if key is None:
        return "the record has no key; it must be the group id - at `$.group_id`"
    if key != request.group_id.encode():
        return "the record key is not the group id - at `$.group_id`"
    if request.reply_partition is not None and request.reply_partition >= layout.response_partitions:
        last = layout.response_partitions - 1
        return f"the response topic's partitions are 0 to {last} - at `$.reply_partition`"
    longest = config.max_id_length
    # No text in it is longer than all of it. Most heartbeats are short.
    if size > longest:
        texts = (
            ("group_id", request.group_id),
            ("client_id", request.client_id),
            ("request_id", request.request_id),
            ("client_host", request.client_host),
            ("principal", request.principal or ""),
            *request.names.items(),
        )
        for field, text in texts:
            if len(text) > longest:
                return f"longer than {longest} characters - at `$.{field}`"
    if request.partitions_named > config.max_request_partitions:
        return f"more than {config.max_request_partitions} partitions - at `$.topics`"
    return None


def _reject(value: bytes, reason: str, config: GroupConfig, layout: Layout) -> Rejection:
    try:
        envelope = _envelopes.decode(value)
    except UNREADABLE:
        return Rejection(reason, None, None)
    api = envelope.api if isinstance(envelope.api, str) else None
    group_id = envelope.group_id if isinstance(envelope.group_id, str) else None
    echoed = (api or "", envelope.request_id, envelope.client_id, group_id or "")
    if len(value) > config.max_request_bytes and max(map(len, echoed)) > config.max_id_length:
        # The answer would be as much too large as the request.
        return Rejection(reason, None, None)
    response = InvalidRequestResponse(
        api=api,
        request_id=envelope.request_id,
        client_id=envelope.client_id,
        group_id=group_id,
        error_message=reason,
    )
    return Rejection(reason, response, _partition(envelope, layout))


def _partition(envelope: _Envelope, layout: Layout) -> int | None:
    """The partition asked for, if it is one; otherwise the answer goes where the client id leads."""
    match envelope.reply_partition:
        case bool():
            return None
        case int(partition) if 0 <= partition < layout.response_partitions:
            return partition
        case _:
            return None


def rejected_record(record: Record, reason: str, config: GroupConfig) -> RejectedRecord:
    """Make the record for `coordinator.rejected`."""
    limit = config.max_request_bytes
    return RejectedRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key[:limit] if record.key else record.key,
        value=record.value[:limit] if record.value else record.value,
        value_bytes=len(record.value or b""),
        reason=reason,
    )
