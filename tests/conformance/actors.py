"""The actors of a sequence: what each was told, and so what its next request is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tests.conformance.versions import as_of, clamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Cast", "Offset"]

_Actor = TypeVar("_Actor")


class Offset(NamedTuple):
    """What a commit says of a partition. A fetch or a deletion only names it."""

    topic: str
    partition: int
    metadata: str | None = ""
    leader_epoch: int = -1
    offset: int | None = None
    """None: one of its own for each commit."""


class Cast(ABC, Generic[_Actor]):
    """All actors of a sequence. `new` makes the one with a number. Requests are in the contract's terms."""

    def __init__(self, new: Callable[[int], _Actor]) -> None:
        self._new = new
        self._actors: dict[int, _Actor] = {}
        self._commits = 0

    def __getitem__(self, number: int) -> _Actor:
        if number not in self._actors:
            self._actors[number] = self._new(number)
        return self._actors[number]

    def request(self, step: Any, group_id: str, request_id: str) -> dict[str, Any] | None:
        """The request that `step` stands for; None if it is none."""
        fields = self._asked(step)
        if fields is None:
            return None
        version = clamped(fields, step.version)
        return as_of(version, fields) | {
            "api_version": version,
            "request_id": request_id,
            # Its own for each request: so a member in a description shows which join has made it.
            "client_id": f"a{step.actor}-{request_id}",
            "group_id": group_id,
        }

    @abstractmethod
    def _asked(self, step: Any) -> dict[str, Any] | None:
        """What a step asks for, in the newest version; None if it asks for nothing."""

    def _asked_alike(self, api: str, step: Any) -> dict[str, Any] | None:
        """Likewise, of what both protocols ask for in the same way."""
        match api:
            case "heartbeat":
                return self._of_a_generation("heartbeat", step)
            case "delete_offsets":
                topics = self._by_topic(step, lambda _place, each: {"partition_index": each.partition})
                return {"api": "offset_delete", "topics": topics}
            case "delete_group":
                return {"api": "delete_group"}
        return None

    @abstractmethod
    def _identity(self, step: Any) -> dict[str, Any]:
        """The ids of a member and its instance that a step says."""

    @abstractmethod
    def _generation(self, step: Any) -> int:
        """The generation, or the member's epoch, that a step says."""

    @abstractmethod
    def _offsets(self, step: Any) -> Iterable[Offset]:
        """The partitions that a step is about."""

    def _of_a_generation(self, api: str, step: Any) -> dict[str, Any]:
        return {"api": api, **self._identity(step), "generation_id": self._generation(step)}

    def _left(self, identities: Iterable[dict[str, Any]]) -> dict[str, Any]:
        return {"api": "leave_group", "members": [each | {"reason": None} for each in identities]}

    def _commit(self, step: Any) -> dict[str, Any]:
        self._commits += 1
        topics = self._by_topic(step, self._committed)
        return self._of_a_generation("offset_commit", step) | {"topics": topics}

    def _committed(self, place: int, partition: Offset) -> dict[str, Any]:
        # Each offset is told apart from those of all other commits.
        own = 100 * self._commits + place
        return {
            "partition_index": partition.partition,
            "committed_offset": own if partition.offset is None else partition.offset,
            "committed_leader_epoch": partition.leader_epoch,
            "committed_metadata": partition.metadata,
        }

    def _fetch(self, step: Any, *, is_of_all: bool) -> dict[str, Any]:
        topics = None
        if not is_of_all:
            topics = self._by_topic(step, lambda _place, each: each.partition, "partition_indexes")
        return {"api": "offset_fetch", "topics": topics, "require_stable": False}

    def _by_topic(
        self, step: Any, entry: Callable[[int, Offset], Any], partitions: str = "partitions"
    ) -> list[dict[str, Any]]:
        """The partitions of a step, those of one topic that follow each other together."""
        by_topic = groupby(enumerate(self._offsets(step)), key=lambda place: place[1].topic)
        return [
            {"name": topic, partitions: [entry(place, each) for place, each in those]}
            for topic, those in by_topic
        ]
