"""Heartbeats of many members, as a gateway sends and answers them.

Heartbeats of one group wait a little for others and become one record. All gateways send them at the same
instants, so that the heartbeats of all groups share a batch of the stream. A batch costs as much with many of
them as with few. Some hurry, and take the next of the instants in between. They hold up a later request of
their client, whose answer has to wait for theirs, or their group rebalances.

A heartbeat waits for its verdict. If none comes within some seconds after Kafka has taken its record, the
gateway answers NONE. A broker does so while it loads a group (GroupCoordinatorService.heartbeat: "still
loading, so blindly respond"). A later verdict answers the member's next heartbeat, which goes to the log all
the same. A heartbeat that Kafka has not taken is no sign of life, and is never answered NONE.

Time is an argument, in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import BeatingMember, HeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.gateway.translation import Sender

__all__ = ["Beat", "BeatCounts", "Beats", "Instants"]

_MOST_TOGETHER = 1_000
_HEAD_BYTES = 10_000
"""As much as the group's and other ids may take in a record, and more."""
_REBALANCING_S = 5.0
"""How long a group's heartbeats hurry after a join: most members beat every 3 s, and learn of it then."""
_KEPT_S = 60.0
"""How long a verdict is kept that came after its beat had been answered."""
_Key = tuple[str, str]
"""Group and member."""


class Beat(NamedTuple):
    """The heartbeat of one member, which may come again and again."""

    request: HeartbeatRequest
    """As it goes to the log if no other is there, but for the request id."""
    member: BeatingMember
    """The member in a record of many."""
    key: _Key
    """The group and the member."""
    most_bytes: int
    """The most bytes that it takes in a record, since JSON writes some characters with six."""

    @classmethod
    def of(cls, request: HeartbeatRequest) -> Beat:
        """The heartbeat of a request with one member."""
        (member,) = request.beats
        most_bytes = 100 + 6 * (len(member.member_id) + len(member.group_instance_id or ""))
        return cls(request, member, (request.group_id, member.member_id), most_bytes)


class _Asked(NamedTuple):
    """A heartbeat that has come, and what to do with the error code that it is answered with."""

    beat: Beat
    answer: Callable[[int], None]


class BeatCounts:
    """Counts of heartbeats, and of what became of them."""

    def __init__(self) -> None:
        self.taken = 0
        self.records = 0
        """Records that they have become."""
        self.answered_early = 0
        """Those of them that were answered before their verdicts had come."""


class _Verdict(NamedTuple):
    """What the stream has said of a beat that had been answered before."""

    since_s: float
    generation_id: int
    error: int


class _Record:
    """Beats that have become one record. Once they are answered it holds nothing of the clients any more."""

    __slots__ = ("_answers", "beating", "due_s", "is_acknowledged", "is_answered", "request")

    def __init__(self, request: HeartbeatRequest, together: list[_Asked]) -> None:
        self.request = request
        self.beating = [(beat.key, beat.member.generation_id) for beat, _ in together]
        """The members, and their generations."""
        self._answers = [each.answer for each in together]
        self.due_s = 0.0
        """When something happens if nothing comes: the deadlines that were set before are of the past."""
        self.is_acknowledged = False
        self.is_answered = False

    def answer(self, errors: list[int]) -> None:
        self.is_answered = True
        answers, self._answers = self._answers, []
        for answer, error in zip(answers, errors, strict=True):
            answer(error)


class Beats:
    """The heartbeats of all groups at one gateway.

    `sender`: the name in which combined heartbeats go to the log. `most_bytes`: the largest record that the
    coordinator reads. `wait_s`: how long a heartbeat waits for its verdict once Kafka has taken it.
    `refuse_s`: how long Kafka has for that.
    """

    def __init__(self, sender: Sender, most_bytes: int, wait_s: float = 3.0, refuse_s: float = 5.0) -> None:
        self._sender = sender
        self.most_bytes = most_bytes
        """Of the largest record that the coordinator reads."""
        self._wait_s, self._refuse_s = wait_s, refuse_s
        self._lingering: defaultdict[str, list[_Asked]] = defaultdict(list)
        """By group, in the order in which they came."""
        self._held_up: set[str] = set()
        """Groups in which one of these holds up a later request."""
        self._rebalancing: dict[str, float] = {}
        """Until when the heartbeats of a group hurry."""
        self._sent: dict[str, _Record] = {}
        """By request id, until their verdicts have come."""
        self._verdicts: dict[_Key, _Verdict] = {}
        """Verdicts that came too late for their heartbeats, the oldest first."""
        self._deadlines: list[tuple[float, int, str]] = []
        self._numbers = count()
        self.counts = BeatCounts()

    # -- a heartbeat arrives -----------------------------------------------------------------------

    def add(self, beat: Beat, answer: Callable[[int], None]) -> bool:
        """Take a beat; returns whether it was answered at once, by the verdict on an earlier one."""
        self.counts.taken += 1
        late = self._verdicts.pop(beat.key, None)
        is_answered = late is not None and late.generation_id == beat.member.generation_id
        if late is not None and is_answered:
            answer(late.error)
            answer = _nobody
        self._lingering[beat.request.group_id].append(_Asked(beat, answer))
        return is_answered

    def joined(self, group_id: str, member_id: str) -> None:
        """Forget earlier verdicts: the member was answered a join or a sync."""
        self._verdicts.pop((group_id, member_id), None)

    def hold_up(self, group_id: str) -> None:
        """Note that a later request waits for a heartbeat of this group."""
        if group_id in self._lingering:
            self._held_up.add(group_id)

    def rebalances(self, group_id: str, now_s: float) -> None:
        """Note that a member joins the group."""
        self._rebalancing[group_id] = now_s + _REBALANCING_S

    @property
    def groups(self) -> list[str]:
        """The groups whose heartbeats wait for others."""
        return list(self._lingering)

    def in_a_hurry(self, now_s: float) -> list[str]:
        """The groups among them in which a heartbeat is in a hurry."""
        self._rebalancing = {group: until for group, until in self._rebalancing.items() if until > now_s}
        return [each for each in self._lingering if each in self._held_up or each in self._rebalancing]

    def flush(self, group_id: str, now_s: float) -> Iterator[HeartbeatRequest]:
        """The records of a group's heartbeats, to be written now. Later requests must not overtake them."""
        self._held_up.discard(group_id)
        for together in self._together(self._lingering.pop(group_id, [])):
            request = self._alone(together[0]) if len(together) == 1 else self._combined(group_id, together)
            self.counts.records += 1
            self._sent[request.request_id] = _Record(request, together)
            self._await(request.request_id, now_s + self._refuse_s)
            yield request

    def _together(self, asked: list[_Asked]) -> Iterator[list[_Asked]]:
        """Cut into what the coordinator reads: it would refuse a larger record with all that is in it."""
        together: list[_Asked] = []
        room = self.most_bytes - _HEAD_BYTES
        for each in asked:
            size = each.beat.most_bytes
            if together and (len(together) == _MOST_TOGETHER or size > room):
                yield together
                together, room = [], self.most_bytes - _HEAD_BYTES
            together.append(each)
            room -= size
        if together:
            yield together

    def _alone(self, asked: _Asked) -> HeartbeatRequest:
        # The last one may still wait for its verdict.
        return msgspec.structs.replace(asked.beat.request, request_id=self._sender.next_request_id())

    def _combined(self, group_id: str, together: list[_Asked]) -> HeartbeatRequest:
        return HeartbeatRequest(
            request_id=self._sender.next_request_id(),
            client_id=self._sender.client_id,
            client_host=self._sender.client_host,
            reply_partition=self._sender.reply_partition,
            group_id=group_id,
            members=[each.beat.member for each in together],
        )

    # -- the log, the stream and time answer ---------------------------------------------------------

    def acknowledged(self, request_id: str, now_s: float) -> None:
        """Kafka has taken the record."""
        record = self._sent.get(request_id)
        if record is not None:
            record.is_acknowledged = True
            self._await(request_id, now_s + self._wait_s)

    def refused(self, request_id: str) -> None:
        """Kafka has not taken the record, and never will."""
        if (record := self._sent.pop(request_id, None)) is not None and not record.is_answered:
            record.answer([Errors.COORDINATOR_NOT_AVAILABLE.value] * len(record.beating))

    def take(self, response: Any, now_s: float) -> bool:
        """Take what the stream says; returns whether that is about heartbeats of this gateway."""
        record = self._sent.get(response.request_id)
        if record is None or not fits(record.request, response):
            # One that does not fit is nobody's: it is counted where the others are.
            return False
        del self._sent[response.request_id]
        # The stream answers a request that it cannot read as a whole.
        members = getattr(response, "members", msgspec.UNSET)
        if members is msgspec.UNSET or not members:
            errors = [response.error_code] * len(record.beating)
        else:
            errors = [each.error_code for each in members]
        is_late = record.is_answered
        if not is_late:
            record.answer(errors)
        for (key, generation_id), error in zip(record.beating, errors, strict=True):
            # This one is newer than any that is kept.
            self._verdicts.pop(key, None)
            if is_late:
                self._verdicts[key] = _Verdict(now_s, generation_id, error)
        return True

    def expire(self, now_s: float) -> None:
        """Answer the heartbeats whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now_s:
            at_s, _, request_id = heappop(self._deadlines)
            record = self._sent.get(request_id)
            if record is None or record.due_s != at_s:
                continue
            if record.is_answered:
                # Its verdict is so late that it would answer nothing.
                del self._sent[request_id]
            elif record.is_acknowledged:
                self.counts.answered_early += len(record.beating)
                record.answer([Errors.NONE.value] * len(record.beating))
                self._await(request_id, now_s + _KEPT_S)
            else:
                self.refused(request_id)
        while self._verdicts:
            oldest = next(iter(self._verdicts))
            if self._verdicts[oldest].since_s + _KEPT_S > now_s:
                break
            del self._verdicts[oldest]

    def _await(self, request_id: str, at_s: float) -> None:
        self._sent[request_id].due_s = at_s
        heappush(self._deadlines, (at_s, next(self._numbers), request_id))


class Instants:
    """The instants at which all gateways send heartbeats: multiples of `every_s` of the wall clock.

    With `early_s` they are so much earlier, for work that is done before. Other than all else here they go by
    the wall clock, in seconds, which may be set forward or back.
    """

    def __init__(self, every_s: float, wall_s: float, early_s: float = 0.0) -> None:
        self._every_s, self._early_s = every_s, early_s
        self._next_s = self._after(wall_s)

    def _after(self, wall_s: float) -> float:
        return ((wall_s + self._early_s) // self._every_s + 1) * self._every_s - self._early_s

    def until_s(self, wall_s: float) -> float:
        """Seconds until the next one; 0 if it has come."""
        return max(0.0, self._next_s - wall_s)

    def has_come(self, wall_s: float) -> bool:
        """Whether one has come since the last one.

        After the clock was set back one has: members would expire until it shows that time again.
        """
        if 0 < self._next_s - wall_s <= self._every_s:
            return False
        self._next_s = self._after(wall_s)
        return True


def _nobody(_error: int) -> None:
    """The beat has been answered already."""
