"""The side that each group is on: here, or at the brokers' own coordinator.

The group's newest record in `coordinator.sides` says it, and `gateway.groups.brokers` for a group without
one. The group's id alone decides, at each request. A request that names one group is read only as far as
that. One of many groups is read whole, and `guards.py` divides it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from group_coordinator.gateway.apis import BESIDE_BROKERS, offer_of
from group_coordinator.gateway.codec import is_flexible
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.of_brokers import STREAMS_HEARTBEAT
from group_coordinator.gateway.wire import LONGEST_TEXT, Place
from group_coordinator.jobs.patterns import is_chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.coordinator_state.sides import SideRecord
    from group_coordinator.gateway.frames import Request, RequestHead

_FIRST = (0, 0)
_BEFORE = {
    **{key: _FIRST for key in GROUP_APIS if key != ListGroupsRequest.API_KEY},
    STREAMS_HEARTBEAT: _FIRST,
    # The transactional id, and the producer's id and epoch.
    AddOffsetsToTxnRequest.API_KEY: (1, 8 + 2),
    TxnOffsetCommitRequest.API_KEY: (1, 0),
}
"""By API, the texts and then the bytes that stand in a request before the id of its one group."""
_REMEMBERED = 10_000
"""Groups for which the answer of the patterns is kept, of which there may be hundreds."""
_LONGEST_REMEMBERED = 300
_remembered = lru_cache(maxsize=_REMEMBERED)(is_chosen)


class Sides:
    """`patterns`: those of the groups at the brokers, as `jobs/patterns.py` has them; "": there are none."""

    __slots__ = ("_moving", "_patterns", "offer", "records")

    def __init__(self, patterns: str = "") -> None:
        self._patterns = patterns
        self.records: dict[str, SideRecord] = {}
        """The newest record of each group that has one."""
        self._moving: dict[str, int] = {}
        """The groups that move, and the time in ms since which they do."""
        self.offer = offer_of(patterns)
        """It stays as it is: clients have been told."""

    @property
    def are_two(self) -> bool:
        """Whether groups may stay at the brokers."""
        return self.offer is BESIDE_BROKERS

    def change(self, patterns: str) -> bool:
        """Let other patterns count from the next request on; returns whether they are others than before."""
        assert self.are_two  # noqa: S101 - clients were told that they are
        is_change, self._patterns = patterns != self._patterns, patterns
        return is_change

    def take(self, changes: Mapping[str, SideRecord | None]) -> None:
        """Let other records count from the next request on; None: a group has none any more."""
        for group_id, record in changes.items():
            before = self._moving.pop(group_id, None)
            if record is None:
                self.records.pop(group_id, None)
                continue
            self.records[group_id] = record
            if record.moving_to is not None:
                self._moving[group_id] = record.at_ms if before is None else before

    def is_moving(self, group_id: str) -> bool:
        """Whether the group moves, and neither side serves it."""
        return group_id in self._moving

    def moving_s(self, now_ms: float) -> float:
        """For how long the group moves that has moved longest; 0 if none does."""
        return max(0.0, now_ms - min(self._moving.values(), default=now_ms)) / 1_000

    def at_brokers(self, group_id: str) -> bool:
        """Whether the group is at the brokers, or comes from there."""
        if (record := self.records.get(group_id)) is not None:
            return record.side == "brokers"
        chosen = _remembered if len(group_id) <= _LONGEST_REMEMBERED else is_chosen
        return chosen(group_id, self._patterns)

    def stays_here(self, group_id: str) -> bool:
        """Whether the group is here, and does not move."""
        return not (self.is_moving(group_id) or (self.are_two and self.at_brokers(group_id)))

    def group_of(self, head: RequestHead, frame: bytes) -> str | None:
        """The id of the one group that a request names, if groups may stay there. Raises `FrameError`."""
        if not self.are_two or (before := _BEFORE.get(head.api_key)) is None:
            return None
        api = GROUP_APIS.get(head.api_key)
        if api is not None and api.named is not None and head.api_version >= api.named.since:
            return None
        flexible = head.api_key == STREAMS_HEARTBEAT or is_flexible(head.api_key, head.api_version)
        place = Place(frame, is_flexible=flexible)
        place.skip_head()
        texts, size = before
        for _ in range(texts):
            place.text()
        place.skip(size)
        group_id = place.text()
        if len(group_id) > LONGEST_TEXT:
            raise FrameError(f"a group id of {len(group_id)} bytes, of at most {LONGEST_TEXT}")
        return str(group_id, "utf-8", "replace")

    def are_theirs(self, request: Request) -> bool:
        """Whether a request names many groups, and all of them are at the brokers and stay there."""
        ids = [id_of(each) for each in (groups_of(request) if self.are_two else None) or ()]
        return bool(ids) and all(self.at_brokers(each) and not self.is_moving(each) for each in ids)


def groups_of(request: Request) -> list[Any] | None:
    """The part of a request that names its groups; None if it is not for many."""
    named = GROUP_APIS[request.head.api_key].named
    if named is None or request.head.api_version < named.since:
        return None
    groups: list[Any] = getattr(request.message, named.field)
    return groups


def id_of(named: Any) -> str:
    """The group's id in what a request, or a response, says of one group of many."""
    if isinstance(named, str):
        return named
    return str(named.key if hasattr(named, "key") else named.group_id)
