"""Heartbeats of many members, as a gateway sends and answers them.

Heartbeats of one group wait a little for others and become one record. All gateways send them at the same
instants, so that the heartbeats of all groups share a batch of the stream. A batch costs as much with many of
them as with few. Some hurry, and take the next of the instants in between. They hold up a later request of
their client, whose answer has to wait for theirs, or their group rebalances.

A heartbeat waits for its verdict. If none comes within some seconds after Kafka has taken its record, the
gateway answers that all is as before. A broker does so while it loads a group
(GroupCoordinatorService.heartbeat: "still loading, so blindly respond"). A later verdict answers the member's
next heartbeat, which goes to the log all the same. A heartbeat that Kafka has not taken is no sign of life,
and is never answered so.

`beat_kinds.py` has what differs between heartbeats of the classic and of the consumer protocol.

Time is an argument, in seconds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.coordinator_state.config import HEAD_BYTES
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH
from group_coordinator.gateway.beat_kinds import (
    CLASSIC,
    REFUSED,
    BeatKind,
    is_rebalance,
    newest,
    small,
    unheard,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.gateway.beat_kinds import Beat, Key, Verdict
    from group_coordinator.gateway.translation import Sender

_MOST_TOGETHER = 1_000
_REBALANCING_S = 6.0
"""How long a group's heartbeats hurry after a join or after news of a rebalance. Most members beat every 3 or
5 s, and learn of it then."""
_KEPT_S = 60.0
"""How long a verdict is kept that came after its beat had been answered."""


class _Asked(NamedTuple):
    """A heartbeat that has come, and what to do with the verdict that answers it."""

    beat: Beat
    answer: Callable[[Verdict], None]


@dataclass
class BeatCounts:
    """Counts of heartbeats, and of what became of them."""

    taken: int = 0
    records: int = 0
    """Records that they have become."""
    answered_early: int = 0
    """Those of them that were answered before their verdicts had come."""


class _Late(NamedTuple):
    """What the stream has said of a beat that had been answered before. `at`: its generation or epoch."""

    since_s: float
    at: int
    verdict: Verdict

    def is_known_at(self, at: int) -> bool:
        """Whether it is news for the member at this generation or epoch."""
        return at == self.at or (not self.verdict.error_code and at == self.verdict.epoch)


@dataclass(eq=False, slots=True)
class _Record:
    """Beats that have become one record. Once they are answered it holds nothing of the clients any more."""

    request: AnyRequest
    beating: list[tuple[Key, int]]
    """The members, and their generations or epochs."""
    answers: list[Callable[[Verdict], None]]
    unheard: list[bool]
    """Whether the verdict on it is heard by nobody, because it was answered by that on an earlier one."""
    is_full: bool = False
    """Whether it says more than that a member is alive."""
    says_all: bool = False
    """Whether it says all that a member says, and is told."""
    due_s: float = 0.0
    """When something happens if nothing comes: the deadlines that were set before are of the past."""
    is_acknowledged: bool = False
    is_answered: bool = False

    @classmethod
    def of(cls, request: AnyRequest, together: list[_Asked]) -> _Record:
        answers = [each.answer for each in together]
        beating = [(beat.key, beat.at) for beat, _ in together]
        return cls(request, beating, answers, [each is _nobody for each in answers])

    def answer(self, verdicts: list[Verdict]) -> None:
        self.is_answered = True
        answers, self.answers = self.answers, []
        for answer, verdict in zip(answers, verdicts, strict=True):
            answer(verdict)


class Beats:
    """The heartbeats of all groups at one gateway, of one kind.

    `sender`: the name in which combined heartbeats go to the log. `most_bytes`: the largest record that the
    coordinator reads. `counts`: theirs, which another kind may share.
    """

    def __init__(
        self,
        sender: Sender,
        most_bytes: int,
        kind: BeatKind = CLASSIC,
        counts: BeatCounts | None = None,
    ) -> None:
        self._sender, self._kind = sender, kind
        self.most_bytes = most_bytes
        """Of the largest record that the coordinator reads."""
        self.wait_s, self.refuse_s = 3.0, 5.0
        """How long a beat waits for its verdict once Kafka has taken it, and how long Kafka has for that."""
        self._lingering: defaultdict[str, list[_Asked]] = defaultdict(list)
        """By group, in the order in which they came."""
        self._held_up: set[str] = set()
        """Groups in which one of these holds up a later request."""
        self._rebalancing: dict[str, float] = {}
        """Until when the heartbeats of a group hurry."""
        self._sent: dict[str, _Record] = {}
        """By request id, until their verdicts have come."""
        self._verdicts: dict[Key, _Late] = {}
        """Verdicts that came too late for their heartbeats, the oldest first."""
        self._deadlines: list[tuple[float, int, str]] = []
        self._numbers = count()
        self.counts = BeatCounts() if counts is None else counts

    # -- a heartbeat arrives -----------------------------------------------------------------------

    def add(self, beat: Beat, answer: Callable[[Verdict], None]) -> bool:
        """Take a beat; returns whether it was answered at once, by the verdict on an earlier one."""
        self.counts.taken += 1
        late = self._late_for(beat)
        if late is not None:
            answer(late.verdict)
            answer = _nobody
        self._lingering[beat.request.group_id].append(_Asked(beat, answer))
        return late is not None

    def _late_for(self, beat: Beat) -> _Late | None:
        """Take the late verdict that answers this beat; None if there is none."""
        late = self._verdicts.get(beat.key)
        if late is None or not late.is_known_at(beat.at):
            return None
        return self._verdicts.pop(beat.key)

    def add_full(self, beat: Beat, answer: Callable[[Verdict], None], now_s: float) -> None:
        """Take a beat that says more than that its member is alive. It goes to the log by itself, as it came.

        It is refused if no verdict comes in time. Its client says everything again then, and is answered by
        the late verdict on what it has said before.
        """
        late = self._late_for(beat)
        if late is not None and late.verdict != REFUSED:
            answer(late.verdict)
            answer = _nobody
        request = beat.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)  # noqa: S101 - classic ones are never full
        if beat.at == JOIN_EPOCH:
            self.rebalances(request.group_id, now_s)
        record = self._sent[request.request_id] = _Record.of(small(request), [_Asked(beat, answer)])
        record.is_full, record.says_all = True, request.is_full
        self._await(request.request_id, now_s + self.refuse_s)

    def joined(self, group_id: str, member_id: str) -> None:
        """Forget earlier verdicts: the member was answered a join or a sync."""
        self._verdicts.pop((group_id, member_id), None)

    def hold_up(self, group_id: str) -> None:
        """Note that a later request waits for a heartbeat of this group."""
        if group_id in self._lingering:
            self._held_up.add(group_id)

    def rebalances(self, group_id: str, now_s: float) -> None:
        """Note that a member joins or leaves the group, or hears that it has to do something."""
        self._rebalancing[group_id] = now_s + _REBALANCING_S

    @property
    def groups(self) -> list[str]:
        """The groups whose heartbeats wait for others."""
        return list(self._lingering)

    def in_a_hurry(self, now_s: float) -> list[str]:
        """The groups among them in which a heartbeat is in a hurry."""
        self._rebalancing = {group: until for group, until in self._rebalancing.items() if until > now_s}
        return [each for each in self._lingering if each in self._held_up or each in self._rebalancing]

    def flush(self, group_id: str, now_s: float) -> Iterator[AnyRequest]:
        """The records of a group's heartbeats, to be written now. Later requests must not overtake them."""
        self._held_up.discard(group_id)
        for together in self._together(self._lingering.pop(group_id, [])):
            request = self._kind.record([beat for beat, _ in together], self._sender.about(group_id))
            self.counts.records += 1
            self._sent[request.request_id] = _Record.of(request, together)
            self._await(request.request_id, now_s + self.refuse_s)
            yield request

    def _together(self, asked: list[_Asked]) -> Iterator[list[_Asked]]:
        """Cut into what the coordinator reads: it would refuse a larger record with all that is in it."""
        if self._kind.tells_once:
            asked = self._each_once(asked)
        together: list[_Asked] = []
        room = self.most_bytes - HEAD_BYTES
        for each in asked:
            size = each.beat.most_bytes
            if together and (len(together) == _MOST_TOGETHER or size > room):
                yield together
                together, room = [], self.most_bytes - HEAD_BYTES
            together.append(each)
            room -= size
        if together:
            yield together

    def _each_once(self, asked: list[_Asked]) -> list[_Asked]:
        """Leave each member in with one epoch: the answer to a record names members, and not their epochs."""
        by_key: dict[Key, list[_Asked]] = {}
        for each in asked:
            same = by_key.setdefault(each.beat.key, [])
            if not same or same[0].beat.member == each.beat.member:
                same.append(each)
            elif all(it.answer is _nobody for it in same):
                # It has heard more since.
                same[:] = [each]
            else:
                each.answer(REFUSED)
        return list(chain.from_iterable(by_key.values()))

    # -- the log, the stream and time answer ---------------------------------------------------------

    def acknowledged(self, request_id: str, now_s: float) -> None:
        """Kafka has taken the record."""
        record = self._sent.get(request_id)
        if record is not None:
            record.is_acknowledged = True
            self._await(request_id, now_s + self.wait_s)

    def refused(self, request_id: str) -> None:
        """Kafka has not taken the record, and never will."""
        record = self._sent.pop(request_id, None)
        if record is None:
            return
        self._lose(record, record.due_s)
        if not record.is_answered:
            record.answer([REFUSED] * len(record.beating))

    def take(self, response: Any, now_s: float) -> bool:
        """Take what the stream says; returns whether that is about heartbeats of this gateway."""
        record = self._sent.get(response.request_id)
        if record is None or not fits(record.request, response):
            # One that does not fit is nobody's: it is counted where the others are.
            return False
        del self._sent[response.request_id]
        verdicts = self._kind.verdicts(response, record.beating)
        if any(map(is_rebalance, verdicts, (at for _, at in record.beating))):
            self.rebalances(record.request.group_id, now_s)
        is_late = record.is_answered
        is_all = record.says_all and not response.error_code
        for number, ((key, at), verdict) in enumerate(zip(record.beating, verdicts, strict=True)):
            verdicts[number] = told = self._with_kept(key, at, verdict, is_all=is_all)
            if is_late or (record.unheard[number] and self._kind.tells_once):
                self._keep(key, _Late(now_s, at, told))
        if not is_late:
            record.answer(verdicts)
        return True

    def _with_kept(self, key: Key, at: int, verdict: Verdict, *, is_all: bool) -> Verdict:
        """A verdict with the news of an earlier one that was not heard, which is kept no longer."""
        if not self._kind.tells_once:
            # This one is newer than any that is kept.
            self._verdicts.pop(key, None)
            return verdict
        kept = self._verdicts.get(key)
        if kept is None or not (is_all or kept.is_known_at(at)):
            return verdict
        del self._verdicts[key]
        return verdict if is_all else newest(kept.verdict, verdict)

    def _keep(self, key: Key, late: _Late) -> None:
        """Keep a verdict for the member's next beat, unless it is none or would say nothing new."""
        _, member_id = key
        is_news = not self._kind.tells_once or late.verdict != unheard(late.at)
        # Members without ids are several.
        if member_id and is_news:
            self._verdicts.pop(key, None)
            self._verdicts[key] = late

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
                self._lose(record, now_s)
            elif record.is_acknowledged:
                self.counts.answered_early += len(record.beating)
                record.answer([REFUSED if record.is_full else unheard(at) for _, at in record.beating])
                self._await(request_id, now_s + _KEPT_S)
            else:
                self.refused(request_id)
        while self._verdicts:
            oldest = next(iter(self._verdicts))
            if self._verdicts[oldest].since_s + _KEPT_S > now_s:
                break
            del self._verdicts[oldest]

    def _lose(self, record: _Record, now_s: float) -> None:
        """Nobody will know what the stream has said of those beats that have been answered."""
        if self._kind.tells_once:
            for (key, at), is_unheard in zip(record.beating, record.unheard, strict=True):
                if record.is_answered or is_unheard:
                    self._keep(key, _Late(now_s, at, REFUSED))

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


def _nobody(_verdict: Verdict) -> None:
    """The beat has been answered already."""
