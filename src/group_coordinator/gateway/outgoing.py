"""Requests of the gateway on their way to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from group_coordinator.coordinator_state.requests import AnyRequest


class LogRecord(NamedTuple):
    """A contract request as it goes to the log. Its key is the group id."""

    request_id: str
    key: bytes
    value: bytes


class Outgoing(NamedTuple):
    """A request on its way to the log."""

    request: AnyRequest
    record: LogRecord
    since_s: float


Place: TypeAlias = "Callable[[Sequence[Outgoing]], None]"
"""A place in a group's lane, which is given the records that go there, if any."""


def record_of(asked: AnyRequest) -> LogRecord:
    """The record of a request."""
    return LogRecord(asked.request_id, asked.group_id.encode(), msgspec.json.encode(asked))
