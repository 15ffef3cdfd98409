"""What must be true of committed offsets, from the records alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.requests import OffsetCommitRequest, OffsetFetchRequest
from tests.faults.view import View, Violation, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.view import Event

__all__ = ["fetched", "lost", "of_old_generations"]

Place = tuple[str, int]
Offsets = dict[Place, int]


def lost(view: View) -> Iterator[Violation]:
    """What was acknowledged has happened, as an event says; and the last of it is what is kept."""
    for group_id, asked in view.asked.items():
        committed = _by_place(view.events.get(group_id, []))
        for it in asked:
            if not isinstance(it.request, OffsetCommitRequest):
                continue
            granted = _granted(it.request, view.answer_to(it.request))
            happened: Offsets = {}
            for event in committed[it.place]:
                happened |= _offsets_of(event)
            if granted != happened:
                detail = f"{it.place} was granted {granted}, and the events tell of {happened}"
                yield Violation("an acknowledged commit is lost", group_id, detail)
    kept = _kept(view)
    for group_id, events in view.events.items():
        offsets: Offsets = {}
        for event in events:
            _apply(offsets, event)
        found = {
            (topic, index): offset for (group, topic, index), offset in kept.items() if group == group_id
        }
        if offsets != found:
            wrong = dict(offsets.items() ^ found.items())
            detail = f"kept is {found}, and the events tell of {offsets}: {wrong}"
            yield Violation("an acknowledged commit is lost", group_id, detail)


def _kept(view: View) -> dict[tuple[str, str, int], int]:
    newest = {it.key: it.value for it in view.history.offsets}
    kept = {}
    for key, value in newest.items():
        if value is not None:
            group_id, topic, partition = msgspec.json.decode(key or b"")
            kept[group_id, topic, partition] = msgspec.json.decode(value)["committed_offset"]
    return kept


def fetched(view: View) -> Iterator[Violation]:
    """A fetch is told of what was committed before it in the log."""
    for group_id, asked in view.asked.items():
        caused = _by_place(view.events.get(group_id, []))
        offsets: Offsets = {}
        for it in asked:
            for event in caused[it.place]:
                _apply(offsets, event)
            if not isinstance(it.request, OffsetFetchRequest):
                continue
            answer = view.answer_to(it.request)
            for place, offset in _pairs(answer["topics"] if answer else []):
                if offset != offsets.get(place, -1):
                    detail = f"{it.place} was told {offset} of {place}, and not {offsets.get(place)}"
                    yield Violation("a fetch was told of another offset", group_id, detail)


def of_old_generations(view: View) -> Iterator[Violation]:
    """A commit counts if a member makes it in the newest generation, or anybody if there are no members."""
    for group_id, events in view.events.items():
        requests = {it.place: it.request for it in view.asked.get(group_id, [])}
        group = _Group()
        for event in events:
            group.tell(event)
            if event["event"] != "offsets_committed":
                continue
            request = requests.get(place_of(event))
            if not isinstance(request, OffsetCommitRequest) or not group.may_commit(request):
                detail = f"{event} by {request}: it is generation {group.generation_id} of {group.member_ids}"
                yield Violation("a commit of an old generation counts", group_id, detail)


class _Group:
    """Who is in it, as its events tell."""

    def __init__(self) -> None:
        self.generation_id = 0
        self.member_ids: set[str] = set()

    def tell(self, event: Event) -> None:
        match event["event"]:
            case "group_created":
                self.generation_id, self.member_ids = 0, set()
            case "generation_completed":
                self.generation_id = event["generation_id"]
            case "member_added":
                self.member_ids.add(event["member_id"])
            case "member_removed":
                self.member_ids.discard(event["member_id"])
            case "member_fenced":
                self.member_ids ^= {event["member_id"], event["replaced_by"]}

    def may_commit(self, request: OffsetCommitRequest) -> bool:
        if request.generation_id < 0:
            return not self.member_ids
        return request.generation_id == self.generation_id and request.member_id in self.member_ids


def _by_place(events: list[Event]) -> dict[str, list[Event]]:
    by_place = defaultdict(list)
    for event in events:
        by_place[place_of(event)].append(event)
    return by_place


def _apply(offsets: Offsets, event: Event) -> None:
    offsets |= _offsets_of(event)
    if event["event"] in ("offsets_deleted", "offsets_expired"):
        for topic in event["topics"]:
            for index in topic["partition_indexes"]:
                offsets.pop((topic["name"], index), None)


def _offsets_of(event: Event) -> Offsets:
    return dict(_pairs(event["topics"])) if event["event"] == "offsets_committed" else {}


def _pairs(topics: list[dict[str, Any]]) -> Iterator[tuple[Place, int]]:
    for topic in topics:
        for partition in topic["partitions"]:
            yield (topic["name"], partition["partition_index"]), partition["committed_offset"]


def _granted(request: OffsetCommitRequest, answer: dict[str, Any] | None) -> Offsets:
    """What the answer says was committed."""
    if answer is None:
        return {}
    errors = {
        (topic["name"], partition["partition_index"]): partition["error_code"]
        for topic in answer.get("topics", [])
        for partition in topic["partitions"]
    }
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in request.topics
        for partition in topic.partitions
        if errors.get((topic.name, partition.partition_index)) == 0
    }
