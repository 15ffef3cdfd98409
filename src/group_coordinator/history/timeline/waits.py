"""Waits of a group of the consumer protocol: who still had what another member was to have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from group_coordinator.history.spans import Wait


class Waited(NamedTuple):
    """All partitions that one member waited for because another one had them, from when to when."""

    since: datetime | None
    until: datetime | None
    holder_id: str
    member_id: str
    begun_by: str
    partitions: list[tuple[str | None, int | None]]


def together(waits: Iterable[Wait]) -> list[Waited]:
    """Waits of the same two members that began and ended together as one, in the order of their begin."""
    found: dict[tuple[object, ...], Waited] = {}
    for each in waits:
        key = (each.since, each.until, each.holder_id, each.member_id)
        one = found.setdefault(key, Waited(*key, each.begun_by, []))
        one.partitions.append((each.topic, each.partition))
    return list(found.values())
