"""Responses that are a list, whose entries are encoded already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.groups import ListGroupsResponse

from group_coordinator.gateway import wire
from group_coordinator.gateway.codec import is_flexible
from group_coordinator.gateway.group_apis.table import GROUP_APIS

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIST = ListGroupsResponse.API_KEY


class EncodedList:
    """A response of DescribeGroups, DeleteGroups, ListGroups, OffsetFetch or FindCoordinator.

    It is written as kafka-python's are. `error_code`: of the whole, which ListGroups alone has.
    """

    def __init__(
        self, api_key: int, version: int, count: int, entries: Sequence[bytes], error_code: int = 0
    ) -> None:
        self.API_KEY, self.version = api_key, version
        self.error_code = error_code
        self.throttle_time_ms = 0
        self._count, self._entries = count, entries

    def beside(self, response: Any) -> EncodedList:
        """This list, with the entries of such a response of kafka-python's before it."""
        count, entries = entries_of(response)
        error = self.error_code or getattr(response, "error_code", 0)
        return EncodedList(self.API_KEY, self.version, count + self._count, [entries, *self._entries], error)

    def encode(self) -> bytes:
        """The response without its header."""
        flexible = is_flexible(self.API_KEY, self.version)
        return b"".join(
            (
                self.throttle_time_ms.to_bytes(4) if _has_throttle_time(self) else b"",
                self.error_code.to_bytes(2, signed=True) if self.API_KEY == _LIST else b"",
                wire.count(self._count, is_flexible=flexible),
                *self._entries,
                b"\0" if flexible else b"",
            )
        )


def entries_of(response: Any) -> tuple[int, bytes]:
    """The number of entries of such a response of kafka-python's, and their bytes."""
    body = bytes(response.encode())
    flexible = is_flexible(response.API_KEY, response.version)
    start = (4 if _has_throttle_time(response) else 0) + (2 if response.API_KEY == _LIST else 0)
    place = wire.Place(body, is_flexible=flexible, at=start)
    count = place.count()
    return count, body[place.at : len(body) - flexible]


def _has_throttle_time(response: Any) -> bool:
    return bool(response.version >= GROUP_APIS[response.API_KEY].throttle_since)
