"""Groups with members, and the requests that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchmarks.load import Request, call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from benchmarks.load import Load

LONG_MS = 86_400_000
"""Longer than any benchmark takes."""
_JOIN = {
    "api": "join_group",
    "api_version": 3,  # a member at once, without a second request
    "session_timeout_ms": LONG_MS,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": "AAEAAAABAAZvcmRlcnMAAAAA"}],
}
_SYNC = {"api": "sync_group", "api_version": 3, "protocol_type": "consumer", "protocol_name": "range"}
_AT_ONCE = 5_000


class Beat(NamedTuple):
    """A heartbeat that is sent again and again, each time with a request id of its own."""

    key: bytes
    head: bytes
    tail: bytes
    members: int

    def request(self, number: int) -> Request:
        """The one with that number."""
        return Request(f"{number}", self.key, b"%b%d%b" % (self.head, number, self.tail))


class Members:
    """`groups` groups of `size` members, of a coordinator, or of a stream that does not care."""

    def __init__(self, groups: int, size: int) -> None:
        self._groups = [f"group-{number}" for number in range(groups)]
        self._size = size
        self._number = 0
        self._came = 0
        self._places = [
            [{"member_id": f"member-{number:030}", "generation_id": 1} for number in range(size)]
            for _ in self._groups
        ]

    def form(self, pool: Executor, load: Load) -> None:
        """Join all of them, and wait until all groups are Stable; nobody ends while others are measured."""
        self._form(pool, load, range(len(self._groups)))

    def come_again(self, pool: Executor, load: Load, count: int) -> None:
        """The members of some groups leave, so that they are Empty, and join anew; of others each time."""
        some = [(self._came + number) % len(self._groups) for number in range(count)]
        self._came += count
        leave = {"api": "leave_group", "api_version": 3}
        leaves = [
            self.request(
                self._groups[number],
                members=[{"member_id": place["member_id"]} for place in self._places[number]],
                **leave,
            )
            for number in some
        ]
        self._answers(pool, load, leaves)
        self._form(pool, load, some)

    def _form(self, pool: Executor, load: Load, numbers: Sequence[int]) -> None:
        at_once = max(1, _AT_ONCE // self._size)
        for first in range(0, len(numbers), at_once):
            some = numbers[first : first + at_once]
            theirs = [self._groups[number] for number in some for _ in range(self._size)]
            joined = self._answers(pool, load, [self.request(group, **_JOIN) for group in theirs])
            places = [{name: it[name] for name in ("member_id", "generation_id")} for it in joined]
            pairs = zip(theirs, places, strict=True)
            self._answers(pool, load, [self.request(group, **place, **_SYNC) for group, place in pairs])
            for index, number in enumerate(some):
                self._places[number] = places[index * self._size : (index + 1) * self._size]

    def places(self) -> list[tuple[str, dict[str, Any]]]:
        """The group of each member, and its id and generation; of each group one first, then another."""
        return [
            (group, places[number])
            for number in range(self._size)
            for group, places in zip(self._groups, self._places, strict=True)
        ]

    def beats(self) -> list[Beat]:
        """A heartbeat of each member, in the order of `places`."""
        return [self._beat(group, place, 1) for group, place in self.places()]

    def beats_together(self) -> list[Beat]:
        """A heartbeat of all members for each group."""
        return [
            self._beat(group, {"members": places}, len(places))
            for group, places in zip(self._groups, self._places, strict=True)
        ]

    def request(self, group: str, **fields: Any) -> Request:
        """Any request, with an id of its own."""
        self._number += 1
        request_id = f"r{self._number}"
        return Request(request_id, group.encode(), _encode(group, request_id, fields))

    def join_and_sync(self, count: int) -> list[tuple[Request, Request]]:
        """The first member of the first group joins again, and syncs; each time begins a generation."""
        group, place = self._groups[0], self._places[0][0]
        member_id, generation_id = place["member_id"], int(place["generation_id"])
        place["generation_id"] = generation_id + count
        return [
            (
                self.request(group, member_id=member_id, **_JOIN),
                self.request(group, member_id=member_id, generation_id=generation_id + number, **_SYNC),
            )
            for number in range(1, count + 1)
        ]

    def _beat(self, group: str, fields: dict[str, Any], members: int) -> Beat:
        head, _, tail = _encode(group, "#", {"api": "heartbeat", **fields}).partition(b"#")
        return Beat(group.encode(), head, tail, members)

    def _answers(self, pool: Executor, load: Load, requests: list[Request]) -> list[dict[str, Any]]:
        answers = [msgspec.json.decode(answer) for answer in pool.submit(call, load, requests).result()]
        assert {answer["error"] for answer in answers} == {"NONE"}
        return answers


def _encode(group: str, request_id: str, fields: dict[str, Any]) -> bytes:
    envelope = {"request_id": request_id, "client_id": "bench", "group_id": group, "reply_partition": 0}
    return msgspec.json.encode({**fields, **envelope})
