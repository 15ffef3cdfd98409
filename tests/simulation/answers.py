"""Who has been answered: everybody once, except those who wait and those who have given up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.requests import JoinGroupRequest, SyncGroupRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from tests.simulation.checks import Answer
    from tests.simulation.network import Entry

Place = tuple[type, str]


class Answers:
    """Requests that were read and are not answered yet, over all batches."""

    def __init__(self) -> None:
        self._unanswered: Counter[str] = Counter()
        # (kind, member id) -> the newest unanswered request: an older one was given up by its sender.
        self._waiting: dict[Place, str] = {}
        self._seen: set[str] = set()
        self._repeats: set[Place] = set()
        self._senders: dict[str, tuple[str, int | None]] = {}

    def check(self, entries: Iterable[Entry], answers: Iterable[Answer], group: ClassicGroup | None) -> None:
        """Check what one batch was answered."""
        at_once, asked = self._ask(entries)
        answered = set()
        for answer in answers:
            request_id = answer.response.request_id
            assert self._unanswered[request_id] > 0, f"{request_id} was answered twice"
            self._unanswered[request_id] -= 1
            answered.add(request_id)
            sender = (answer.response.client_id, answer.partition)
            assert sender == self._senders[request_id], f"{request_id} was answered to somebody else"
        for request_id in at_once:
            assert not self._unanswered[request_id], f"{request_id} was not answered at once"
        self._check_waiting(asked, answered, group)

    def _ask(self, entries: Iterable[Entry]) -> tuple[list[str], dict[Place, list[str]]]:
        at_once = []
        asked = {place: [request_id] for place, request_id in self._waiting.items()}
        for entry in entries:
            request = entry.request
            self._unanswered[request.request_id] += 1
            self._senders[request.request_id] = (request.client_id, request.reply_partition)
            if request.request_id in self._seen and entry.parked_as and not request.member_id:
                # A static member's, a second time: it counts once, unless somebody else has come in between.
                self._repeats.add((type(request), entry.parked_as))
            self._seen.add(request.request_id)
            if entry.parked_as:
                asked.setdefault((type(request), entry.parked_as), []).append(request.request_id)
            else:
                at_once.append(request.request_id)
        return at_once, asked

    def _check_waiting(
        self, asked: dict[Place, list[str]], answered: set[str], group: ClassicGroup | None
    ) -> None:
        members = group.members if group else {}
        parked = {
            (kind, member_id): reply_to.request_id
            for member_id, member in members.items()
            for kind, reply_to in (
                (JoinGroupRequest, member.awaiting_join),
                (SyncGroupRequest, member.awaiting_sync),
            )
            if reply_to is not None
        }
        for place, request_ids in asked.items():
            kind, member_id = place
            # The newest is answered, down to the one that is parked. Older ones: given up by their sender.
            # So is the parked sync of a member that has left; its join would have been answered.
            newest = request_ids[-1]
            if (request_id := parked.get(place)) is not None:
                assert request_id in request_ids, f"{request_id} was not asked, or given up"
                # Parked is the last copy, if it came more than once.
                copies = [index for index, it in enumerate(request_ids) if it == request_id]
                newer = set(request_ids[copies[-1] :]) - {request_id}
                assert newer <= answered, f"{newer - answered} are lost"
            elif place not in self._repeats and (kind is JoinGroupRequest or member_id in members):
                assert newest in answered, f"{newest} is lost"
        assert parked.keys() <= asked.keys(), f"nobody has asked {parked}"
        self._waiting = parked
