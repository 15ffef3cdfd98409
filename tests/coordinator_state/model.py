"""A group as somebody outside knows it: from what was asked, what was answered and which events were told.

The model decides nothing. It does not know when a phase begins or ends, or who leads: it is told so by the
events, and asserts that each of them was due - or, once its time has passed, that it did happen. What it
keeps of its own is a list of promises: who waits for an answer, who is heard of until when, who has yet to
sync, which id was handed out, what is committed. The answers to requests it foretells with a table for each
API.

The part about time is that of every kind of group (`model_time.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from group_coordinator.coordinator_state import events as told
from group_coordinator.coordinator_state.config import INT32_MAX, GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.partitioning import partition_for_key, state_partition_for_key
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    BeatingMember,
    DeleteGroupRequest,
    DescribeGroupRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import (
    DescribedMember,
    DescribeGroupResponse,
    GroupPicture,
    MemberResult,
)
from tests.coordinator_state.invariants import REMEMBERED_MS, committed
from tests.coordinator_state.model_offsets import (
    IN_USE,
    Commit,
    Key,
    OffsetsModel,
    codes_in,
    commits_of,
    keys_of,
)
from tests.coordinator_state.model_time import NONE, TimedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.events import AnyEvent
    from group_coordinator.coordinator_state.outages import Outage

GROUP, TOPIC = "orders", "requests"
OLDEST = {"offset_commit": 2, "offset_fetch": 1}
NEWEST = {
    "join_group": 9,
    "sync_group": 5,
    "heartbeat": 4,
    "leave_group": 5,
    "describe_group": 6,
    "offset_commit": 9,
    "offset_fetch": 9,
    "offset_delete": 0,
    "delete_group": 2,
    "find_coordinator": 6,
}
STATIC_SINCE = {
    "join_group": 5,
    "sync_group": 3,
    "heartbeat": 3,
    "leave_group": 3,
    "describe_group": 4,
    "offset_commit": 7,
}

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)
MOVES = {
    (EMPTY, PREPARING),
    (EMPTY, DEAD),
    (PREPARING, COMPLETING),
    (PREPARING, EMPTY),
    (COMPLETING, STABLE),
    (COMPLETING, PREPARING),
    (STABLE, PREPARING),
}
REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID = "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"
ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL = "ILLEGAL_GENERATION", "INCONSISTENT_GROUP_PROTOCOL"
MEMBER_ID_REQUIRED, GROUP_FULL = "MEMBER_ID_REQUIRED", "GROUP_MAX_SIZE_REACHED"
NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP = "GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"
CODES = {
    NONE: 0,
    NOT_AVAILABLE: 15,
    ILLEGAL_GENERATION: 22,
    UNKNOWN_MEMBER_ID: 25,
    REBALANCE_IN_PROGRESS: 27,
    GROUP_ID_NOT_FOUND: 69,
    FENCED_INSTANCE_ID: 82,
}

Protocols = tuple[tuple[str, bytes], ...]


@dataclass
class Member:
    """What is known of a member. `heard_until_ms` is when it is out unless it is heard of before."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: Protocols
    heard_until_ms: int
    is_new: bool = True
    parked_join: JoinGroupRequest | None = None
    parked_sync: SyncGroupRequest | None = None
    owes_sync: bool = False
    is_behind: bool = False
    """It was told of a generation, and has not shown that it has heard."""
    assignment: bytes = b""
    given_for: tuple[str, str] | None = None
    """The join that a static member has its id from: whose, and which."""
    untold_until_ms: int = 0
    """Until then, in log time, nobody is told that it came late."""

    @property
    def is_safe(self) -> bool:
        """While it waits for an answer it is the coordinator that keeps silent - but not for ever if new."""
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)

    @property
    def owner(self) -> str:
        """A static member that starts again goes on with what it owned."""
        return self.instance_id or self.member_id

    def take_over(self, ask: JoinGroupRequest, log_ms: int) -> None:
        """Let what a join says of its member hold from now on; but its session has still the old length."""
        if ask.session_timeout_ms != self.session_ms:
            self.untold_until_ms = max(self.untold_until_ms, log_ms + self.session_ms)
        self.session_ms, self.rebalance_ms = ask.session_timeout_ms, rebalance_ms_of(ask)
        self.protocols = protocols_of(ask)


def protocols_of(ask: JoinGroupRequest) -> Protocols:
    # Of one that is named twice the first counts.
    first = {it.name: it.metadata for it in reversed(ask.protocols)}
    return tuple((name, first[name]) for name in dict.fromkeys(it.name for it in ask.protocols))


def rebalance_ms_of(ask: JoinGroupRequest) -> int:
    is_given = ask.version > 0 and ask.rebalance_timeout_ms is not None
    return ask.rebalance_timeout_ms if is_given else ask.session_timeout_ms


class Model(TimedModel):
    """What is known of the group, and what must be true of each call that tells more of it."""

    def __init__(
        self,
        config: GroupConfig,
        outages: list[Outage],
        group_id: str = GROUP,
        units_of: Callable[[bytes], Iterable[object]] = bytes.split,
        layout: Layout = Layout(),  # noqa: B008 - it is immutable
    ) -> None:
        """`units_of`: what an assignment gives a member, each to one member only."""
        super().__init__(config, outages, group_id, layout)
        self._units_of = units_of
        self.state = DEAD
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, int] = {}
        """Ids that were handed out, and until when they may be used to join."""
        self.sync_until_ms: int | None = None
        self.since_ms = self.since_log_ms = 0
        """Since when the group is in its state ..."""
        self.unused_since_ms: int | None = None
        """... and, if it is Empty, since when nothing else is left of it."""
        # The running join phase: whether it is the first since Empty, and when its time is over. What may be
        # added to the first one, how long its round takes, and whether somebody came meanwhile.
        self.is_initial = False
        self.phase_until_ms = self.spare_ms = self.round_ms = 0
        self.somebody_came = False
        self.owners: dict[bytes, str] = {}
        """Who was told in this generation that a work unit is its own."""
        self.ids_given: set[str] = set()
        self.offsets = OffsetsModel(self)

        # What is true within one call only.
        self._ask: AnyRequest | None = None
        self._own_events: list[AnyEvent] = []
        self._rebalance: tuple[int, str] | None = None
        self._must_rejoin: tuple[str, str, str | None] | None = None
        self._must_rebalance = False
        self._must_leave: set[str] = set()
        self._is_full_for: str | None = None
        self._must_assign: SyncGroupRequest | None = None
        self._must_commit: list[Commit] = []
        self._must_forget: set[Key] = set()
        self._must_end, self._must_be_near = False, list[tuple[str, str | None, str, int, int]]()
        self._ran_out_ms: int | None = None
        """When the last session or pending id ran out; that ends even an initial phase (as in Kafka)."""

    @property
    def exists(self) -> bool:
        return self.state != DEAD

    # -- one call ------------------------------------------------------------------------------------

    def _all_is_told(self) -> None:
        assert not self._must_rebalance, "the group has changed and does not rebalance"
        assert self._must_rejoin is None, "a join that nobody is told of"

    def _begin_until(self, to_ms: int) -> None:
        self._begin_rounds(to_ms)
        self._forget_pending(to_ms)

    def _has_happened(self, at_ms: int) -> None:
        self._look_whether_it_is_used(at_ms)

    def _ends_well(self) -> None:
        self._no_phase_goes_on_without_need()

    def _nothing_was_due_before(self, at_ms: int) -> None:
        assert all(it >= at_ms for it in self._gone_by_ms()), "an Empty group or offsets should be gone"
        for member in self.members.values():
            assert member.is_safe or member.heard_until_ms >= at_ms, f"{member.member_id} should be out"
        assert self.sync_until_ms is None or self.sync_until_ms >= at_ms, "the time to sync is over"
        if self.state == PREPARING:
            assert self.phase_until_ms >= at_ms, "the time of the join phase is over"

    def _begin_rounds(self, at_ms: int) -> None:
        """While newcomers keep coming, the first phase goes on for another round; nobody is told."""
        is_running = self.state == PREPARING and self.is_initial
        while is_running and self.phase_until_ms <= at_ms and self.somebody_came and self.spare_ms:
            next_ms = min(self.config.group_initial_rebalance_delay_ms, self.spare_ms)
            self.spare_ms = max(self.spare_ms - self.round_ms, 0)
            self.round_ms, self.somebody_came = next_ms, False
            self.phase_until_ms += next_ms

    def _gone_by_ms(self) -> list[int]:
        """Until when what is not used may be there; it is looked for at intervals."""
        late_ms = self.config.offsets_retention_check_interval_ms
        of_group = [] if self.unused_since_ms is None else [self.unused_since_ms + late_ms]
        return of_group + self.offsets.gone_by_ms()

    def _look_whether_it_is_used(self, now_ms: int) -> None:
        if self.state != EMPTY or self.offsets.kept or self.pending:
            self.unused_since_ms = None
        elif self.unused_since_ms is None:
            self.unused_since_ms = now_ms

    def _forget_pending(self, at_ms: int) -> None:
        """An id that was not used in time is no longer good, and holds up nothing; nobody is told."""
        for until_ms, member_id in sorted((it, member_id) for member_id, it in self.pending.items()):
            if until_ms <= at_ms:
                self._ran_out_ms = max(self._ran_out_ms or 0, until_ms)
                del self.pending[member_id]
                self._look_whether_it_is_used(until_ms)

    def _no_phase_goes_on_without_need(self) -> None:
        if self.state == PREPARING and not self.is_initial:
            assert not self._nobody_is_missing, "nobody is missing, and the join phase goes on"

    @property
    def _nobody_is_missing(self) -> bool:
        return not self.pending and all(it.parked_join is not None for it in self.members.values())

    # -- requests ------------------------------------------------------------------------------------

    def _handle(self, ask: AnyRequest, own: list[AnyEvent]) -> None:
        self._ask = ask
        if own and isinstance(own[0], told.GroupCreated):
            self._happen(own.pop(0))
        self._own_events = own
        if self._is_unsupported(ask):
            self._take(ask, "UNSUPPORTED_VERSION")
        else:
            self._handle_supported(ask)
        for event in own:
            self._happen(event)
        self._all_is_told()
        self._look_whether_it_is_used(self.now)
        assert set() == self._must_leave
        assert self._is_full_for is None
        assert self._must_assign is None, "the leader has synced, and nobody is told"
        assert [] == self._must_commit
        assert set() == self._must_forget
        assert not self._must_end
        assert [] == self._must_be_near, "a member came late, and nobody is told"
        self._ask, self._own_events = None, []

    def _handle_supported(self, ask: AnyRequest) -> None:  # noqa: C901 - one line for each API
        match ask:
            case JoinGroupRequest():
                self._handle_join(ask)
            case SyncGroupRequest():
                self._handle_sync(ask)
            case HeartbeatRequest():
                self._handle_heartbeat(ask)
            case LeaveGroupRequest():
                self._handle_leave(ask)
            case DescribeGroupRequest():
                error = GROUP_ID_NOT_FOUND if not self.exists and ask.version >= 6 else NONE
                self.agrees_with_description(self._take(ask, error), ask.version)
            case OffsetCommitRequest():
                self._handle_commit(ask)
            case OffsetFetchRequest():
                keys = None if ask.topics is None else keys_of(ask.topics)
                self.offsets.agrees_with_fetch(self._take(ask), ask.version, keys)
            case OffsetDeleteRequest():
                self._handle_offset_delete(ask)
            case DeleteGroupRequest():
                self._handle_delete_group(ask)
            case FindCoordinatorRequest():
                answer = self._take(ask)
                key, layout = self._group_id.encode(), self.layout
                assert partition_for_key(key, layout.request_partitions) == answer.partition
                assert state_partition_for_key(key, layout.state_partitions) == answer.state_partition

    def _is_unsupported(self, ask: AnyRequest) -> bool:
        api = str(ask.__struct_config__.tag)
        if not OLDEST.get(api, 0) <= ask.version <= NEWEST[api]:
            return True
        if isinstance(ask, OffsetFetchRequest) and ask.topics is None and ask.version < 2:
            return True
        return ask.version < STATIC_SINCE.get(api, 0) and bool(ask.instance_ids)

    def _error_of(self, member_id: str, instance_id: str | None, generation: int | None = None) -> str:
        named = self._static(instance_id)
        if instance_id is not None and named is None:
            return UNKNOWN_MEMBER_ID
        if named is not None and named.member_id != member_id:
            return FENCED_INSTANCE_ID
        if member_id not in self.members.keys() - self._must_leave:
            return UNKNOWN_MEMBER_ID
        return NONE if generation in (None, self.generation) else ILLEGAL_GENERATION

    def _static(self, instance_id: str | None) -> Member | None:
        for member in self.members.values():
            if instance_id and member.instance_id == instance_id and member.member_id not in self._must_leave:
                return member
        return None

    def _handle_join(self, ask: JoinGroupRequest) -> None:
        known = self.members.get(ask.member_id) if ask.member_id else self._static(ask.group_instance_id)
        error = self._error_of_join(ask, known)
        if error != NONE:
            answer = self._take(ask, error)
            assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
            self._after_refused_join(ask, known, error, answer)
            return
        if known is None:
            assert any(isinstance(it, told.MemberAdded) for it in self._own_events)
        elif not (ask.member_id or self._is_repeat(ask, known)):
            self._comes(known)
            assert any(isinstance(it, told.MemberFenced) for it in self._own_events)
        elif self._is_told_again(ask, known):
            if self.state == STABLE and self.leader == known.member_id:
                self._tells_restarted(ask, known, "")
            else:
                self._tells_generation(self._take(ask), known, ask)
        else:
            self._comes(known)
            known.take_over(ask, self.log_ms)
            self._park_again(known, ask)

    def _error_of_join(self, ask: JoinGroupRequest, known: Member | None) -> str:
        """The first of these that holds is the answer."""
        least, most = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        offered = [{name for name, _ in it.protocols} for it in self.members.values()]
        common = set.intersection(*offered) if offered else {it.name for it in ask.protocols}
        protocol_type = (ask.protocol_type or "none") if self.state == EMPTY else self.protocol_type
        refused = {
            "INVALID_SESSION_TIMEOUT": not least <= ask.session_timeout_ms <= most,
            UNKNOWN_MEMBER_ID: not self.exists and ask.member_id,
            NOT_AVAILABLE: not self.exists and self._is_closed,
            GROUP_FULL: not self._has_room_for(known),
            INCONSISTENT_PROTOCOL: ask.protocol_type != protocol_type
            or not common & {it.name for it in ask.protocols},
        }
        if any(refused.values()):
            return next(error for error, is_due in refused.items() if is_due)
        if ask.member_id in self.pending:
            return NONE if ask.group_instance_id is None else "UNKNOWN_SERVER_ERROR"
        if ask.member_id:
            return self._error_of(ask.member_id, ask.group_instance_id)
        return MEMBER_ID_REQUIRED if ask.group_instance_id is None and ask.version >= 4 else NONE

    def _has_room_for(self, known: Member | None) -> bool:
        if self.state == PREPARING:
            # Who has joined again counts, so that a group that is too large shrinks.
            parked = [it for it in self.members.values() if it.parked_join is not None]
            return known in parked or len(parked) < self.config.group_max_size
        return known is not None or len(self.members) < self.config.group_max_size

    def _after_refused_join(
        self, ask: JoinGroupRequest, known: Member | None, error: str, answer: Any
    ) -> None:
        if error == MEMBER_ID_REQUIRED:
            assert answer.member_id.startswith(f"{ask.client_id}-")
            self._is_given(answer.member_id)
            self.pending[answer.member_id] = self.now + ask.session_timeout_ms
        elif error == GROUP_FULL:
            self.pending.pop(ask.member_id, None)
            self._is_full_for = known.member_id if known else None
            assert "" == answer.member_id
        elif error == "UNKNOWN_SERVER_ERROR":
            assert "" == answer.member_id
        else:
            assert ask.member_id == answer.member_id

    def _is_given(self, member_id: str) -> None:
        assert member_id not in self.ids_given, "an id was given out twice"
        self.ids_given.add(member_id)

    def _is_told_again(self, ask: JoinGroupRequest, known: Member) -> bool:
        """It has not got the answer to its join, or it would know; but a leader may want to divide anew."""
        leads_stable = self.state == STABLE and self.leader == known.member_id
        leads_stable = leads_stable and bool(ask.member_id)
        return self.state != PREPARING and protocols_of(ask) == known.protocols and not leads_stable

    @staticmethod
    def _is_repeat(ask: JoinGroupRequest, known: Member) -> bool:
        """A producer has sent it twice, or a program that restarted uses its request ids again."""
        return not ask.member_id and known.given_for == (ask.client_id, ask.request_id)

    def _park_again(self, member: Member, ask: JoinGroupRequest) -> None:
        if member.parked_join is None:
            self._must_rejoin = member.member_id, ask.client_id, member.instance_id
        self._park_join(member, ask)

    def _park_join(self, member: Member, ask: JoinGroupRequest) -> None:
        # An earlier one is given up: should it be answered, nobody will have waited for that.
        member.parked_join = ask
        self._must_rebalance = self.state in (EMPTY, COMPLETING, STABLE)

    def _tells_generation(
        self, answer: Any, member: Member, ask: JoinGroupRequest, *, skip_assignment: bool = False
    ) -> None:
        """`answer` tells of the current generation, and only the leader of its members."""
        assert self.generation == answer.generation_id
        assert self.protocol_name == answer.protocol_name
        assert (self.protocol_type if ask.version >= 7 else None) == answer.protocol_type
        assert member.member_id == answer.member_id
        assert (self.leader, skip_assignment) == (answer.leader, answer.skip_assignment)
        if self.leader == member.member_id:
            self._lists_all_members(answer, ask.version)
        else:
            assert [] == answer.members

    def _lists_all_members(self, answer: Any, version: int) -> None:
        names = version >= STATIC_SINCE["join_group"]
        expected = {
            (it.member_id, it.instance_id if names else None, dict(it.protocols)[self.protocol_name])
            for it in self.members.values()
        }
        assert expected == {(it.member_id, it.group_instance_id, it.metadata) for it in answer.members}
        assert len(expected) == len(answer.members)

    def _handle_sync(self, ask: SyncGroupRequest) -> None:
        error = self._error_of_sync(ask)
        if error != NONE:
            self._take(ask, error)
            return
        member = self.members[ask.member_id]
        self._comes(member)
        self._has_synced(member)
        if self.state == STABLE:
            self._is_heard(member)
            self._tells_assignment(self._take(ask), member, ask)
            return
        member.parked_sync = ask
        if self.leader == member.member_id:
            self._must_assign = ask

    def _error_of_sync(self, ask: SyncGroupRequest) -> str:
        names = (ask.protocol_type, ask.protocol_name)
        if ask.version >= 5 and None in names:
            return INCONSISTENT_PROTOCOL
        error = self._error_of(ask.member_id, ask.group_instance_id, ask.generation_id)
        if error != NONE:
            return error
        # A group that has had no generation yet has no protocol name either.
        if ask.version >= 5 and names != (self.protocol_type, self.protocol_name or ask.protocol_name):
            return INCONSISTENT_PROTOCOL
        return REBALANCE_IN_PROGRESS if self.state == PREPARING else NONE

    def _has_synced(self, member: Member) -> None:
        member.owes_sync = member.is_behind = False
        if not any(it.owes_sync for it in self.members.values()):
            self.sync_until_ms = None

    def _tells_assignment(self, answer: Any, member: Member, ask: SyncGroupRequest) -> None:
        names = (self.protocol_type, self.protocol_name) if ask.version >= 5 else (None, None)
        assert names == (answer.protocol_type, answer.protocol_name)
        assert member.assignment == answer.assignment
        for unit in self._units_of(answer.assignment):
            assert member.owner == self.owners.setdefault(unit, member.owner), f"{unit!r} has two owners"

    def _handle_heartbeat(self, ask: HeartbeatRequest) -> None:
        errors = [self._beat(each) for each in ask.beats]
        if ask.quiet is True and set(errors) <= {NONE}:
            return
        if ask.members is msgspec.UNSET:
            self._take(ask, errors[0])
            return
        results = [
            MemberResult(
                member_id=it.member_id, group_instance_id=it.group_instance_id, error_code=CODES[error]
            )
            for it, error in zip(ask.beats, errors, strict=True)
        ]
        assert results == self._take(ask).members

    def _beat(self, beat: BeatingMember) -> str:
        error = self._error_of(beat.member_id, beat.group_instance_id, beat.generation_id)
        if error == NONE:
            self.members[beat.member_id].is_behind = False
            self._comes(self.members[beat.member_id])
            self._is_heard(self.members[beat.member_id])
            return REBALANCE_IN_PROGRESS if self.state == PREPARING else NONE
        if error == ILLEGAL_GENERATION and self.members[beat.member_id].is_behind:
            # The answer that tells it of the newest generation may still be on its way.
            self._comes(self.members[beat.member_id])
            self._is_heard(self.members[beat.member_id])
        return error

    def _comes(self, member: Member) -> None:
        """It must be told if it comes in the last fifth of its session - once in ten sessions."""
        left_ms = member.heard_until_ms - self.now
        is_waiting = member.parked_join is not None or member.parked_sync is not None
        if is_waiting or 5 * left_ms >= member.session_ms or self.log_ms < member.untold_until_ms:
            return
        member.untold_until_ms = self.log_ms + 10 * member.session_ms
        names = member.member_id, member.instance_id, member.client_id
        self._must_be_near.append((*names, member.session_ms, left_ms))

    def _is_heard(self, member: Member) -> None:
        member.heard_until_ms = self.now + member.session_ms

    def _handle_leave(self, ask: LeaveGroupRequest) -> None:
        if ask.version < 3 and len(ask.members) != 1:
            self._take(ask, "UNSUPPORTED_VERSION")
            return
        leaving = [(it.member_id, it.group_instance_id) for it in ask.members]
        expected = [self._leave(*each) for each in leaving]
        if NONE in expected and self.state in (COMPLETING, STABLE):
            self._must_rebalance = True
        if ask.version < 3:
            self._take(ask, expected[0])
            return
        answer = self._take(ask)
        assert leaving == [(it.member_id, it.group_instance_id) for it in answer.members]
        assert [CODES[error] for error in expected] == [it.error_code for it in answer.members]

    def _leave(self, member_id: str, instance_id: str | None) -> str:
        if member_id in self.pending:
            del self.pending[member_id]
            return NONE
        if not member_id:
            # Somebody else knows the program, but not its id.
            member = self._static(instance_id)
            member_id = member.member_id if member else ""
        error = self._error_of(member_id, instance_id)
        if error == NONE:
            self._must_leave.add(member_id)
        return error

    def _handle_commit(self, ask: OffsetCommitRequest) -> None:
        """What is wrong with all of it is said of each partition, too."""
        commits = commits_of(ask)
        error = self._error_of_commit(ask, commits)
        codes, member = [CODES[error]] * len(commits), self.members.get(ask.member_id)
        if error == NONE and commits:
            assert self.exists, "a simple group is to be created"
            if member is not None and self.state in (STABLE, PREPARING):
                member.is_behind = False
                self._comes(member)
                self._is_heard(member)
            codes, self._must_commit = self.offsets.commit(commits, ask)
        keys = [(each.topic, each.partition) for each in commits]
        assert list(zip(keys, codes, strict=True)) == codes_in(self._take(ask, error))

    def _error_of_commit(self, ask: OffsetCommitRequest, commits: list[Commit]) -> str:
        is_member = ask.generation_id >= 0 or ask.member_id or ask.group_instance_id is not None
        if not commits:
            return NONE
        if not self.exists and ask.generation_id < 0:
            return NOT_AVAILABLE if self._is_closed else NONE
        if not self.exists:
            return GROUP_ID_NOT_FOUND if ask.version >= 9 else ILLEGAL_GENERATION
        if ask.generation_id < 0 and self.state == EMPTY:
            return NONE
        if not is_member:
            return UNKNOWN_MEMBER_ID
        error = self._error_of(ask.member_id, ask.group_instance_id, ask.generation_id)
        return REBALANCE_IN_PROGRESS if error == NONE and self.state == COMPLETING else error

    def _handle_offset_delete(self, ask: OffsetDeleteRequest) -> None:
        keys, error = keys_of(ask.topics), NONE
        if not self.exists:
            error = GROUP_ID_NOT_FOUND
        elif self.state != EMPTY and self.protocol_type != "consumer":
            error = NON_EMPTY_GROUP
        answer = self._take(ask, error)
        if error != NONE:
            assert [] == answer.topics
            return
        assert [(key, IN_USE if self.offsets.is_read(key[0]) else 0) for key in keys] == codes_in(answer)
        self._must_forget = {key for key in keys if not self.offsets.is_read(key[0])}
        self._must_forget &= self.offsets.kept.keys()

    def _handle_delete_group(self, ask: DeleteGroupRequest) -> None:
        if not self.exists:
            self._take(ask, GROUP_ID_NOT_FOUND)
        elif self.state != EMPTY:
            self._take(ask, NON_EMPTY_GROUP)
        else:
            self._take(ask)
            self._must_forget, self._must_end = set(self.offsets.kept), True

    # -- events --------------------------------------------------------------------------------------

    def _group_created(self, event: told.GroupCreated) -> None:
        ask = self._ask
        assert not self.exists
        assert not self._is_closed
        if isinstance(ask, OffsetCommitRequest):
            assert ask.generation_id < 0
            assert commits_of(ask)
        else:
            assert isinstance(ask, JoinGroupRequest)
            assert "" == ask.member_id
        self.state, self.generation = EMPTY, 0
        self._forgotten_ms = None
        self.since_ms, self.since_log_ms = self.now, event.at_ms
        self.protocol_type = self.protocol_name = self.leader = None
        self.offsets.read = None

    def _state_changed(self, event: told.StateChanged) -> None:
        assert self.state == event.from_
        assert (event.from_, event.to) in MOVES
        if self.state == PREPARING:
            self._join_phase_may_end()
        if event.to == DEAD:
            self._group_ends(event)
        self.state, self.since_ms, self.since_log_ms = event.to, self.now, event.at_ms
        self._tells_cause(event)
        match event.to:
            case "PreparingRebalance":
                self._join_phase_begins(event)
            case "Empty":
                assert {} == self.members
                self._is_next(event.generation_id)
                self.protocol_name, self.leader = None, None
                self.offsets.read_by([])
            case "Stable":
                assert self._must_assign is not None, "only the leader's sync can bring this about"

    def _tells_cause(self, event: told.StateChanged) -> None:
        """Once a rebalance is over, why it began, and when: the group has not been Stable or Empty since."""
        if event.to == PREPARING:
            assert event.cause is not None
            self._rebalance = self._rebalance or (event.at_ms, event.cause)
            assert event.rebalance_ms is None
        elif event.to in (STABLE, EMPTY):
            assert self._rebalance is not None
            since_ms, cause = self._rebalance
            assert (cause, event.at_ms - since_ms) == (event.cause, event.rebalance_ms)
            self._rebalance = None
        else:
            assert (None, None) == (event.cause, event.rebalance_ms)

    def _group_ends(self, event: told.StateChanged) -> None:
        assert {} == self.offsets.kept, "offsets go before their group"
        if self._must_end:
            # Ids that were handed out do not keep it from being deleted.
            self._must_end = False
            self.pending.clear()
        else:
            assert self.unused_since_ms is not None
            assert self.now >= self.since_ms + self.config.offsets_retention_check_interval_ms

    def _join_phase_begins(self, event: told.StateChanged) -> None:
        assert self._must_rebalance, "a rebalance without a cause"
        assert self.generation == event.generation_id
        self._must_rebalance = False
        self.is_initial = event.from_ == EMPTY
        longest = max([0, *(it.rebalance_ms for it in self.members.values())])
        if self.is_initial:
            self.round_ms = self.config.group_initial_rebalance_delay_ms
            self.spare_ms = max(longest - self.round_ms, 0)
            self.phase_until_ms = self.now + self.round_ms
        else:
            self.phase_until_ms = self.now + longest
        self.sync_until_ms = None
        for member in self.members.values():
            member.owes_sync = False
            if event.from_ == COMPLETING:
                member.assignment = b""
                self._answer_sync(member, REBALANCE_IN_PROGRESS)

    def _join_phase_may_end(self) -> None:
        is_over = self.phase_until_ms == self.now
        if self.is_initial:
            assert is_over or (self._ran_out_ms == self.now and self._nobody_is_missing)
        else:
            assert is_over or self._nobody_is_missing, "somebody is missing, and there is time"

    def _is_next(self, generation: int) -> None:
        assert generation == (1 if self.generation == INT32_MAX else self.generation + 1)
        self.generation = generation
        self.owners = {}

    def _answer_sync(self, member: Member, error: str) -> None:
        if (ask := member.parked_sync) is None:
            return
        member.parked_sync = None
        answer = self._take(ask, error)
        self._is_heard(member)
        if error == NONE:
            self._tells_assignment(answer, member, ask)
        else:
            assert (None, b"") == (answer.protocol_name, answer.assignment)

    def _member_added(self, event: told.MemberAdded) -> None:
        ask = self._ask
        assert isinstance(ask, JoinGroupRequest)
        assert (ask.client_id, ask.group_instance_id) == (event.client_id, event.group_instance_id)
        assert self._join_phase_ms(event.at_ms) == event.join_phase_ms
        if ask.member_id:
            assert ask.member_id == event.member_id
            del self.pending[ask.member_id]
        else:
            self._is_given(event.member_id)
        if not self.members:
            self.protocol_type, self.leader = ask.protocol_type, event.member_id
        member = Member(
            event.member_id,
            ask.group_instance_id,
            ask.client_id,
            ask.client_host,
            ask.session_timeout_ms,
            rebalance_ms_of(ask),
            protocols_of(ask),
            # It cannot send heartbeats before it is answered.
            self.now + self.config.new_member_join_timeout_ms,
        )
        if ask.group_instance_id is not None:
            member.given_for = (ask.client_id, ask.request_id)
        self.members[event.member_id] = member
        self.somebody_came |= self.state == PREPARING and self.is_initial
        self._park_join(member, ask)

    def _member_rejoined(self, event: told.MemberRejoined) -> None:
        assert self._must_rejoin == (event.member_id, event.client_id, event.group_instance_id)
        assert self._join_phase_ms(event.at_ms) == event.join_phase_ms
        self._must_rejoin = None

    def _join_phase_ms(self, at_ms: int) -> int:
        return at_ms - self.since_log_ms if self.state == PREPARING else 0

    def _member_fenced(self, event: told.MemberFenced) -> None:
        ask, member = self._ask, self._static(event.group_instance_id)
        assert isinstance(ask, JoinGroupRequest)
        assert member is not None
        assert ("", event.group_instance_id) == (ask.member_id, ask.group_instance_id)
        assert (member.member_id, ask.client_id) == (event.member_id, event.client_id)
        if member.parked_join is not None:
            answer = self._take(member.parked_join, FENCED_INSTANCE_ID)
            assert event.member_id == answer.member_id
            member.parked_join = None
        self._answer_sync(member, FENCED_INSTANCE_ID)
        self._is_given(event.replaced_by)
        old_leader = self.leader
        if old_leader == member.member_id:
            self.leader = event.replaced_by
        del self.members[member.member_id]
        member.member_id, member.client_id = event.replaced_by, event.client_id
        member.client_host = ask.client_host
        self.members[member.member_id] = member
        self._has_synced(member)
        member.is_new, member.given_for = False, (ask.client_id, ask.request_id)
        # One more session as long as its predecessor's.
        self._is_heard(member)
        is_same_vote = [it for it, _ in member.protocols] == [it.name for it in ask.protocols]
        member.take_over(ask, self.log_ms)
        rebalances = any(isinstance(it, told.StateChanged) for it in self._own_events)
        if self.state == STABLE and (is_same_vote or not rebalances):
            assert all(self.protocol_name in dict(it.protocols) for it in self.members.values())
            self._tells_restarted(ask, member, old_leader)
        else:
            self._park_again(member, ask)

    def _tells_restarted(self, ask: JoinGroupRequest, member: Member, old_leader: str | None) -> None:
        """It takes over what it had; a leader must not think that it has to divide anew."""
        leads = self.leader == member.member_id
        answer = self._take(ask)
        if ask.version >= 9:
            self._tells_generation(answer, member, ask, skip_assignment=leads)
        else:
            assert (old_leader, [], False) == (answer.leader, answer.members, answer.skip_assignment)
            assert (self.generation, member.member_id) == (answer.generation_id, answer.member_id)

    def _member_removed(self, event: told.MemberRemoved) -> None:
        member = self.members[event.member_id]
        assert (member.client_id, member.instance_id) == (event.client_id, event.group_instance_id)
        match event.reason:
            case "left":
                self._must_leave.remove(event.member_id)  # else it was not asked for
                # Nobody waits for its sync any more: it has left.
                member.parked_sync = None
            case "session_expired":
                assert not member.is_safe
                assert member.heard_until_ms == self.now
                # A newcomer that waits for the end of a phase is not put out by it.
                assert self.is_initial or (self.state, self.phase_until_ms) != (PREPARING, self.now)
                self._ran_out_ms = self.now
            case "not_rejoined":
                assert self.state == PREPARING
                assert self.phase_until_ms == self.now
                assert (member.parked_join, member.instance_id) == (None, None)
            case "not_synced":
                assert self.state in (COMPLETING, STABLE)
                assert member.owes_sync
                assert self.sync_until_ms == self.now
            case "group_full":
                assert self._is_full_for == event.member_id
                self._is_full_for = None
            case _:
                raise AssertionError(event.reason)
        assert member.parked_sync is None, "nobody is removed while it waits to be told what it owns"
        if member.parked_join is not None:
            answer = self._take(member.parked_join, UNKNOWN_MEMBER_ID)
            assert "" == answer.member_id
        del self.members[event.member_id]
        if self.leader == event.member_id:
            self.leader = next(iter(self.members), None)
        if self.state in (COMPLETING, STABLE):
            self._must_rebalance = True

    def _session_nearly_expired(self, event: told.SessionNearlyExpired) -> None:
        assert self._must_be_near, "nobody came late"
        names = event.member_id, event.group_instance_id, event.client_id
        assert (*names, event.session_timeout_ms, event.remaining_ms) == self._must_be_near.pop(0)
        assert event.remaining_ms > 0

    def _rebalance_postponed(self, event: told.RebalancePostponed) -> None:
        assert self.state == PREPARING
        assert all(it.instance_id and it.parked_join is None for it in self.members.values())
        assert self.phase_until_ms == self.now
        longest = max(it.rebalance_ms for it in self.members.values())
        wait_ms = max(longest, self.config.group_min_session_timeout_ms, 1)
        assert event.at_ms + wait_ms == event.until_ms
        self.phase_until_ms = self.now + wait_ms

    def _generation_wrapped(self, event: told.GenerationWrapped) -> None:
        assert self.generation == INT32_MAX

    def _generation_completed(self, event: told.GenerationCompleted) -> None:
        assert self.state == COMPLETING
        self._is_next(event.generation_id)
        assert list(self.members) == event.members
        joined = [it.member_id for it in self.members.values() if it.parked_join is not None]
        assert len(joined) <= self.config.group_max_size
        assert event.leader == (self.leader if self.leader in joined else joined[0])
        self.leader = event.leader
        assert all(event.protocol_name in dict(it.protocols) for it in self.members.values())
        favourites = {it.protocols[0][0] for it in self.members.values()}
        assert len(favourites) > 1 or {event.protocol_name} == favourites
        self.protocol_name = event.protocol_name
        self.offsets.read_by(dict(it.protocols)[self.protocol_name] for it in self.members.values())
        for member in self.members.values():
            if (ask := member.parked_join) is not None:
                self._tells_generation(self._take(ask), member, ask)
                member.parked_join = None
            member.is_new, member.owes_sync, member.is_behind = False, True, True
            self._is_heard(member)
        longest = max(it.rebalance_ms for it in self.members.values())
        self.sync_until_ms = self.now + max(longest, 0)

    def _assignment_propagated(self, event: told.AssignmentPropagated) -> None:
        ask = self._must_assign
        assert self.state == STABLE
        assert ask is not None
        assert self.generation == event.generation_id
        self._must_assign = None
        given = {it.member_id: it.assignment for it in ask.assignments}
        expected = {member_id: given.get(member_id, b"") for member_id in self.members}
        assert expected == {it.member_id: it.assignment for it in event.assignments}
        for member in self.members.values():
            member.assignment = expected[member.member_id]
            self._answer_sync(member, NONE)

    def _offsets_committed(self, event: told.OffsetsCommitted) -> None:
        assert isinstance(self._ask, OffsetCommitRequest)
        assert (self._ask.member_id, self._ask.client_id) == (event.member_id, event.client_id)
        assert (self._ask.reason or UNSET) == event.client_reason
        told_of = [
            Commit(
                topic.name,
                it.partition_index,
                it.committed_offset,
                it.committed_leader_epoch,
                it.metadata,
                topic.topic_id or "",
            )
            for topic in event.topics
            for it in topic.partitions
        ]
        assert [each._replace(metadata=each.metadata or "") for each in self._must_commit] == told_of
        self._must_commit = []

    def _offsets_deleted(self, event: told.OffsetsDeleted) -> None:
        asked = self._ask.reason if isinstance(self._ask, OffsetDeleteRequest | DeleteGroupRequest) else None
        assert (asked or UNSET) == event.client_reason
        self.offsets.deleted(event.topics, self._must_forget)
        self._must_forget = set()

    def _offsets_expired(self, event: told.OffsetsExpired) -> None:
        assert "@" in event.event_id
        self.offsets.expired(event.topics, event.at_ms)

    def _group_deleted(self, event: told.GroupDeleted) -> None:
        assert (DEAD, {}, {}) == (self.state, self.members, self.pending)
        self.somebody_came = False
        self._forgotten_ms = self.now + REMEMBERED_MS

    _HANDLERS = {  # noqa: RUF012 - a table
        told.GroupCreated: _group_created,
        told.StateChanged: _state_changed,
        told.MemberAdded: _member_added,
        told.MemberRejoined: _member_rejoined,
        told.MemberFenced: _member_fenced,
        told.MemberRemoved: _member_removed,
        told.SessionNearlyExpired: _session_nearly_expired,
        told.GenerationCompleted: _generation_completed,
        told.GenerationWrapped: _generation_wrapped,
        told.RebalancePostponed: _rebalance_postponed,
        told.AssignmentPropagated: _assignment_propagated,
        told.OffsetsCommitted: _offsets_committed,
        told.OffsetsDeleted: _offsets_deleted,
        told.OffsetsExpired: _offsets_expired,
        told.GroupDeleted: _group_deleted,
        told.RequestLate: TimedModel._request_late,
        told.ClockCorrected: TimedModel._clock_corrected,
    }

    # -- what others say of the group ----------------------------------------------------------------

    def agrees_with_group(self, group: ClassicGroup | None, deadline_ms: int | None) -> None:
        """The stored group keeps the promises that the model knows of, and no others."""
        assert self.is_known == (group is not None)
        self.offsets.agrees_with_stored(committed(group))
        if group is None:
            return
        later_ms = self._agrees_on_time(group)
        told_now = (self.state, self.generation, self.leader, self.log_ms, self.since_log_ms)
        stored = (group.state, group.generation_id, group.leader, group.now_ms, group.state_timestamp_ms)
        assert told_now == stored, "untold changes"
        expected = {it: until_ms + later_ms for it, until_ms in self.pending.items()}
        assert expected == group.pending_members, (expected, group.pending_members)
        assert list(self.members) == list(group.members)
        for member_id, member in self.members.items():
            self._agrees_with_member(member, group.members[member_id], later_ms)
        until_ms = None if self.sync_until_ms is None else self.sync_until_ms + later_ms
        assert until_ms == group.sync_deadline_ms
        if self.state == PREPARING:
            assert self.phase_until_ms + later_ms == group.join_deadline_ms
        # It may be earlier: that a session ends while its member is parked is known only then.
        assert deadline_ms is not None
        assert self.now < deadline_ms - later_ms <= min(self._deadlines())

    def _agrees_with_member(self, member: Member, stored: Any, later_ms: int) -> None:
        parked = (stored.awaiting_join, stored.awaiting_sync)
        expected = {
            "session": member.session_ms,
            "rebalance": member.rebalance_ms,
            "is new": member.is_new,
            "owes sync": member.owes_sync,
            "is behind": member.is_behind,
            "untold until": member.untold_until_ms,
            "parked": [ask and ask.request_id for ask in (member.parked_join, member.parked_sync)],
            "heard until": None if member.is_safe else member.heard_until_ms + later_ms,
        }
        actual = {
            "session": stored.session_timeout_ms,
            "rebalance": stored.rebalance_timeout_ms,
            "is new": stored.is_new,
            "owes sync": stored.pending_sync,
            "is behind": stored.is_behind,
            "untold until": stored.untold_until_ms,
            "parked": [reply_to and reply_to.request_id for reply_to in parked],
            "heard until": None if member.is_safe else stored.session_deadline_ms,
        }
        assert expected == actual, f"{member.member_id}: {expected} == {actual}"

    def _deadlines(self) -> list[int]:
        deadlines = [it.heard_until_ms for it in self.members.values() if not it.is_safe]
        deadlines += [*self.pending.values(), *self._gone_by_ms()]
        deadlines += [it for it in (self.sync_until_ms, self._forgotten_ms) if it is not None]
        return deadlines + ([self.phase_until_ms] if self.state == PREPARING else [])

    def agrees_with_description(self, answer: DescribeGroupResponse, version: int) -> None:
        """What is described is what the model knows, as far as `version` shows it."""
        assert self.state == answer.group_state
        if not self.exists:
            assert (-1, "", []) == (answer.generation_id, answer.leader, answer.members)
            return
        assert (self.generation, self.leader or "") == (answer.generation_id, answer.leader)
        is_stable, shows_names = self.state == STABLE, version >= STATIC_SINCE["describe_group"]
        assert (self.protocol_type or "") == answer.protocol_type
        assert (self.protocol_name if is_stable else "") == answer.protocol_data
        expected = [
            {
                "member_id": it.member_id,
                "group_instance_id": it.instance_id if shows_names else None,
                "client_id": it.client_id,
                "client_host": it.client_host,
                "member_metadata": dict(it.protocols)[self.protocol_name] if is_stable else b"",
                "member_assignment": it.assignment,
            }
            for it in self.members.values()
        ]
        assert expected == [msgspec.structs.asdict(member) for member in answer.members]

    def agrees_with_picture(self, picture: GroupPicture | None) -> None:
        """The newest picture, if there ever was one, is what would be described."""
        if not self.exists:
            assert picture is None
            return
        assert picture is not None
        assert picture.group_type == "classic"
        members = [msgspec.structs.asdict(member) for member in picture.members]
        assert {(it.pop("member_epoch"), it.pop("target_assignment")) for it in members} <= {(UNSET, UNSET)}
        times = [(it.pop("session_timeout_ms"), it.pop("rebalance_timeout_ms")) for it in members]
        assert [(it.session_ms, it.rebalance_ms) for it in self.members.values()] == times
        is_stable = picture.state == STABLE
        answer = DescribeGroupResponse(
            request_id="",
            client_id="",
            group_id=picture.group_id,
            group_state=picture.state,
            protocol_type=picture.protocol_type or "",
            protocol_data=(picture.protocol_name or "") if is_stable else "",
            generation_id=picture.generation_id,
            leader=picture.leader or "",
            members=[DescribedMember(**member) for member in members],
        )
        self.agrees_with_description(answer, NEWEST["describe_group"])
