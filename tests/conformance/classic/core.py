"""The core's side of a classic group, as the set of states it may be in.

Some things Kafka leaves to chance: who leads when a leader goes (the order of a hash map), which of two
protocols with as many votes wins, which of two deadlines in the same moment fires first. The core decides
them by the order of its members and by its table of deadlines; the comparison must not. So where such a
choice may be made, the step is made from every order, and the states whose outcome is the broker's are kept.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import msgspec

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from tests.conformance import core
from tests.conformance.core import answers_of
from tests.conformance.messages import offsets_by_partition
from tests.conformance.wire import DESCRIBE_VERSION, FETCH_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.step import StepResult
    from tests.conformance.differences import Undo

__all__ = ["RACE_MS", "Core", "Outcome"]

RACE_MS = 25
"""Deadlines that are closer to each other than this may fire in either order."""
_ROUGHLY_MS = 2 * RACE_MS
_FOREVER_MS = 2**62
_MAX_ORDERED = 3
_OF_THE_GROUP = ("cleanup_deadline_ms", "join_deadline_ms", "sync_deadline_ms")
_LISTED_STATE_VERSION = 4
_LISTED_TYPE_VERSION = 5


class Outcome(NamedTuple):
    """What one state makes of a request, or of time that passes."""

    state: bytes | None
    answers: dict[str, dict[str, Any]]
    """By request id, in the contract's terms."""
    deadline_ms: int | None = None
    """When the next deadline is due."""


class _Deadline(NamedTuple):
    at_ms: int
    kind: str
    member_id: str


class Core(core.Core):
    """One group, as all that it may be by what the broker has said so far."""

    def __init__(self, group_id: str, config: GroupConfig, undo: Undo, *where: Any) -> None:
        super().__init__(group_id, config, *where)
        self._undo = undo
        self.states: list[bytes | None] = [None]

    @property
    def group(self) -> ClassicGroup | None:
        """One of the possible groups."""
        return _existing(self.states[0])

    def next_deadline(self) -> int | None:
        """When the first deadline is due; None if there is none."""
        deadlines = [
            deadline
            for state in self.states
            if (deadline := self._step(state, [], 0).deadline_ms) is not None
        ]
        return min(deadlines, default=None)

    def handle(self, request: dict[str, Any], at_ms: int) -> list[Outcome]:
        """All that may come of `request`, which comes at `at_ms`."""
        if request["api"] == "list_groups":
            return [Outcome(state, {request["request_id"]: _listed(state, request)}) for state in self.states]
        record = self._record(request, at_ms)
        self.log.append(record)
        return [
            self._undone(state, request, outcome)
            for state in self.states
            for outcome in self._outcomes([Outcome(state, {})], [record], at_ms)
        ]

    def _undone(self, before: bytes | None, request: dict[str, Any], outcome: Outcome) -> Outcome:
        if before is None or outcome.state is None:
            return outcome
        after = decode_group(outcome.state)
        self._undo(decode_group(before), request, after)
        return outcome._replace(state=encode_group(after))

    def pass_time(self, to_ms: int, since: list[Outcome] | None = None) -> list[Outcome]:
        """All that may come of nothing coming until `to_ms`, `since` this came or now."""
        outcomes = since or [Outcome(state, {}) for state in self.states]
        while any(_deadlines(outcome.state, to_ms) for outcome in outcomes):
            reordered = []
            window_ms = to_ms
            for outcome in outcomes:
                if racing := _racing(outcome.state, to_ms):
                    window_ms = min(window_ms, racing[-1].at_ms)
                    reordered += [Outcome(state, outcome.answers) for state in _orders(outcome.state, racing)]
                else:
                    reordered.append(outcome)
            outcomes = self._outcomes(reordered, [], window_ms)
        return self._outcomes(outcomes, [], to_ms)

    def keep(self, outcomes: list[Outcome]) -> None:
        """The group is in the state of one of `outcomes`."""
        self.states = list({_gist(outcome.state): outcome.state for outcome in outcomes}.values())

    def _outcomes(self, before: list[Outcome], records: list[Record], to_ms: int) -> list[Outcome]:
        outcomes: dict[tuple[Any, ...], Outcome] = {}
        for earlier in before:
            for result in self._results(earlier.state, records, to_ms):
                outcome = Outcome(result.state, earlier.answers | answers_of(result), result.deadline_ms)
                key = (_gist(outcome.state), msgspec.msgpack.encode(outcome.answers, order="sorted"))
                outcomes.setdefault(key, outcome)
        return list(outcomes.values())

    def _results(self, state: bytes | None, records: list[Record], to_ms: int) -> Iterator[StepResult]:
        """What the step makes of `state`, with every choice that Kafka may have made."""
        for variant in self._leader_choices(state, records, to_ms):
            with _ties_go_to(None) as tied:
                yield self._step(variant, records, to_ms)
            for name in tied:
                with _ties_go_to(name):
                    yield self._step(variant, records, to_ms)

    def _leader_choices(
        self, state: bytes | None, records: list[Record], to_ms: int
    ) -> Iterator[bytes | None]:
        """The state, and if the leader is replaced in the step, the state with any other next in line."""
        yield state
        before = None if state is None else decode_group(state)
        if before is None or len(before.members) < 2:
            return
        result = self._step(state, records, to_ms)
        after = decode_group(result.state) if result.state else None
        if after is None or after.leader == before.leader or after.leader not in before.members:
            return
        for member_id in before.members.keys() & after.members.keys():
            variant = decode_group(state or b"")
            variant.members = {member_id: variant.members[member_id]} | variant.members
            yield encode_group(variant)

    def look(self, state: bytes | None) -> dict[str, Any]:
        """Say what can be seen of the group in `state`: its description, and all that is committed."""
        fetched = self._told(state, "offset_fetch", FETCH_VERSION)
        return self._told(state, "describe_group", DESCRIBE_VERSION) | {
            "offsets": offsets_by_partition(fetched["topics"])
        }

    def _told(self, state: bytes | None, api: str, version: int) -> dict[str, Any]:
        """What is answered to a request that changes nothing."""
        record = self._record(self._question(api, version), 0)
        (answer,) = answers_of(self._step(state, [record], 0)).values()
        return answer


def _existing(state: bytes | None) -> ClassicGroup | None:
    """The group, unless it is deleted."""
    group = None if state is None else decode_group(state)
    return None if group is None or group.is_dead else group


def _listed(state: bytes | None, request: dict[str, Any]) -> dict[str, Any]:
    """What a reader of `coordinator.groups` makes of the group's newest picture, in Kafka's terms."""
    groups = []
    states = [each.lower() for each in request.get("states_filter", ())]
    if (group := _existing(state)) is not None:
        picture = group.picture(GroupConfig())
        if not states or picture.state.lower() in states:
            version = request["api_version"]
            groups.append(
                {
                    "protocol_type": picture.protocol_type or "",
                    "group_state": picture.state if version >= _LISTED_STATE_VERSION else "",
                    "group_type": "classic" if version >= _LISTED_TYPE_VERSION else "",
                }
            )
    return {"api": "list_groups", "request_id": request["request_id"], "error_code": 0, "groups": groups}


@contextmanager
def _ties_go_to(preferred: str | None) -> Iterator[set[str]]:
    """In a vote for a protocol let `preferred` win if it has as many votes as the winner.

    Yields the names that could have won in place of the winner.
    """
    tied: set[str] = set()
    select = ClassicGroup.select_protocol

    def select_preferred(group: ClassicGroup) -> str:
        chosen = select(group)
        votes = _votes(group)
        others = {name for name in votes if votes[name] == votes[chosen] and name != chosen}
        tied.update(others)
        return preferred if preferred in others else chosen

    with patch.object(ClassicGroup, "select_protocol", select_preferred):
        yield tied


def _votes(group: ClassicGroup) -> Counter[str]:
    members = group.members.values()
    common = set.intersection(*({each.name for each in member.protocols} for member in members))
    return Counter(next(each.name for each in member.protocols if each.name in common) for member in members)


def _gist(state: bytes | None) -> bytes | None:
    """The state without what does not matter: the order of its members, and a few ms here and there."""
    if state is None:
        return None
    group = decode_group(state)
    group.now_ms = group.state_timestamp_ms = 0
    group.members = dict(sorted(group.members.items()))
    for deadline in _deadlines(state, _FOREVER_MS):
        _set_deadline(group, deadline, deadline.at_ms // _ROUGHLY_MS)
    return encode_group(group)


def _deadlines(state: bytes | None, to_ms: int) -> list[_Deadline]:
    """The deadlines of the group in `state` up to `to_ms`, earliest first."""
    if state is None:
        return []
    group = decode_group(state)
    found = [
        _Deadline(member.session_deadline_ms, "session", member_id)
        for member_id, member in group.members.items()
        if member.session_deadline_ms is not None
    ]
    found += [_Deadline(at_ms, "pending", member_id) for member_id, at_ms in group.pending_members.items()]
    of_group = ((getattr(group, name), name) for name in _OF_THE_GROUP)
    found += [_Deadline(at_ms, name, "") for at_ms, name in of_group if at_ms is not None]
    return sorted(deadline for deadline in found if deadline.at_ms <= to_ms)


def _racing(state: bytes | None, to_ms: int) -> list[_Deadline]:
    """The first deadline up to `to_ms`, and those that race with it."""
    due = _deadlines(state, to_ms)
    return [deadline for deadline in due if deadline.at_ms - due[0].at_ms < RACE_MS]


def _orders(state: bytes | None, racing: list[_Deadline]) -> list[bytes | None]:
    """The state, and the states in which the racing deadlines come in another order."""
    if len(racing) < 2:
        return [state]
    orders: Iterable[Iterable[_Deadline]] = permutations(racing)
    if len(racing) > _MAX_ORDERED:
        # Not all of the many: each first, and each last.
        rests = [(each, [other for other in racing if other != each]) for each in racing]
        orders = [[each, *rest] for each, rest in rests] + [[*rest, each] for each, rest in rests]
    variants: list[bytes | None] = [state]
    for order in orders:
        variant = decode_group(state or b"")
        for place, deadline in enumerate(order):
            at_ms = max(racing[-1].at_ms + 1 + place - len(racing), variant.now_ms + 1)
            _set_deadline(variant, deadline, at_ms)
        variants.append(encode_group(variant))
    return variants


def _set_deadline(group: ClassicGroup, deadline: _Deadline, at_ms: int) -> None:
    match deadline.kind:
        case "session":
            group.members[deadline.member_id].session_deadline_ms = at_ms
        case "pending":
            group.pending_members[deadline.member_id] = at_ms
        case name:
            setattr(group, name, at_ms)
