"""The one list of known and wanted differences between the core's classic groups and those of Kafka 4.2.

Each has a sequence that shows it, and what both sides say there. People read `docs/differences.md`.
Not here, because they cannot be seen on a live broker within a test: the generation after 2147483647, the
moment of the clean-up, what it does to ids that were given out and not used yet, the core's own limits of
sizes, and the time of a postponed join phase if the rebalance timeout is 0. What is chance in Kafka is no
difference, see `core.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.classic.states import GroupState
from tests.conformance.classic.steps import script
from tests.conformance.differences import KnownDifference
from tests.conformance.sequence import Sequence

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from tests.conformance.setups import Setup

__all__ = ["CLIENT_OF_A_STATIC_MEMBER", "DIFFERENCES"]


def _forget_beat_of_another_generation(
    before: ClassicGroup, request: dict[str, Any], after: ClassicGroup
) -> None:
    is_beat = request["api"] == "heartbeat" and request["generation_id"] != before.generation_id
    member = before.members.get(request["member_id"]) if is_beat else None
    if member is not None and member.is_behind:
        _keep_session(before, request, after)


def _forget_sync_in_stable(before: ClassicGroup, request: dict[str, Any], after: ClassicGroup) -> None:
    is_sync = request["api"] == "sync_group" and request["generation_id"] == before.generation_id
    if is_sync and before.state is GroupState.STABLE:
        _keep_session(before, request, after)


def _keep_session(before: ClassicGroup, request: dict[str, Any], after: ClassicGroup) -> None:
    """The request has not begun a new session."""
    member_id = request["member_id"]
    if member_id in before.members and member_id in after.members:
        after.members[member_id].session_deadline_ms = before.members[member_id].session_deadline_ms


def _restarts_in_a_full_group(group: ClassicGroup, request: dict[str, Any], setup: Setup) -> bool:
    if not _restarts(group, request):
        return False
    is_preparing = group.state is GroupState.PREPARING_REBALANCE
    return (group.num_awaiting_join if is_preparing else len(group.members)) >= setup.core.group_max_size


def _restarts_before_its_sync(group: ClassicGroup, request: dict[str, Any], _setup: Setup) -> bool:
    if group.state is not GroupState.STABLE or not _restarts(group, request):
        return False
    return group.members[group.static_members[request["group_instance_id"]]].pending_sync


def _is_the_last_and_too_many(group: ClassicGroup, request: dict[str, Any], setup: Setup) -> bool:
    if request["api"] != "join_group" or group.state is not GroupState.PREPARING_REBALANCE:
        return False
    if group.num_awaiting_join < setup.core.group_max_size or group.previous_state is GroupState.EMPTY:
        return False
    member_id = request["member_id"]
    member = group.members.get(member_id)
    if member is not None and member.awaiting_join is not None:
        return False  # it is in
    left = group.members.keys() - {member_id}
    return group.num_awaiting_join == len(left) and not group.pending_members.keys() - {member_id}


def _restarts(group: ClassicGroup, request: dict[str, Any]) -> bool:
    is_empty = request["api"] == "join_group" and not request["member_id"]
    return is_empty and request.get("group_instance_id") in group.static_members


CLIENT_OF_A_STATIC_MEMBER = KnownDifference(
    name="client of a static member",
    why="People look for a member where it runs now.",
    shown_by=Sequence("plain", script("static 1, restart")),
    kind="description, client_id",
    theirs="i0: 'a0-r0'",
    ours="'a0-r2'",
)
"""This one the driver allows for: it compares with the client of the first start."""

DIFFERENCES = [
    KnownDifference(
        name="heartbeat of a member that is behind",
        why="The answer to the join may still be on its way, so it keeps the session.",
        shown_by=Sequence(
            "plain",
            script("new session=600 rebalance=3000, wait half, beat generation=previous, wait almost, beat"),
        ),
        kind="heartbeat, error_code",
        theirs="r4: 25",
        ours="0",
        undo=_forget_beat_of_another_generation,
    ),
    KnownDifference(
        name="restart in a full group",
        why="The place of a static member is not free for anybody else.",
        shown_by=Sequence(
            "tight",
            script(
                "restart session=2000 rebalance=1500, restart 1 session=2000 rebalance=1500, "
                "restart 2 session=2000 rebalance=1500, wait 700, sync 1 instance=own, "
                "sync 2 instance=own, sync instance=own, restart 1"
            ),
        ),
        kind="join_group, error_code",
        theirs="r7: 81",
        ours="0",
        begins=_restarts_in_a_full_group,
    ),
    KnownDifference(
        name="restart before the sync",
        why="Kafka waits for the sync of an id that nobody has any more, and rebalances when none comes.",
        shown_by=Sequence(
            "plain",
            script(
                "static_formed 2 session=1500 rebalance=400, sync instance=own, "
                "restart 1 session=1500 rebalance=400, sync 1 instance=own, wait half, beat instance=own"
            ),
        ),
        kind="heartbeat, error_code",
        theirs="r7: 27",
        ours="0",
        begins=_restarts_before_its_sync,
    ),
    CLIENT_OF_A_STATIC_MEMBER,
    KnownDifference(
        name="sync in a stable group",
        why="Its answer may have come late, and the first heartbeat comes a while after it.",
        shown_by=Sequence("plain", script("stable 1, wait half, sync, wait almost, beat")),
        kind="heartbeat, error_code",
        theirs="r5: 25",
        ours="0",
        undo=_forget_sync_in_stable,
    ),
    KnownDifference(
        name="the last to join again is one too many",
        why="There is nobody to wait for.",
        shown_by=Sequence(
            "tight",
            script("formed_after_delay 3, sync 1, sync 2, sync 0, join 0, join 1, new 3, join 2"),
        ),
        kind="join_group, who is answered",
        theirs="no answer",
        ours="r10: 0",
        begins=_is_the_last_and_too_many,
    ),
    KnownDifference(
        name="empty instance id",
        why="It would be one name for all that leave it empty.",
        shown_by=Sequence("plain", script("join instance=empty")),
        kind="join_group, error_code",
        theirs="r0: 0",
        ours="42",
    ),
    KnownDifference(
        name="protocol name given twice",
        why="What all members support is decided by how many offer it.",
        shown_by=Sequence("plain", script("new protocols=a, sync, new 1 protocols=aa, new 2 protocols=a")),
        kind="join_group, who is answered",
        theirs="r3: 23",
        ours="no answer",
    ),
    KnownDifference(
        name="subscription of impossible lengths",
        why="Kafka trips over it, and the member waits for ever. It counts as one that cannot be read.",
        shown_by=Sequence("plain", script("new protocols=a!")),
        kind="join_group, who is answered",
        theirs="no answer",
        ours="r0: 0",
    ),
    KnownDifference(
        name="commit for a topic that is not there",
        why="The coordinator serves any work units, and knows no topics.",
        shown_by=Sequence("plain", script("simple offsets=strange")),
        kind="offset_commit, topics",
        theirs="r0: [strange-0: 3, orders-3: 3, orders-0: 0]",
        ours="[strange-0: 0, orders-3: 0, orders-0: 0]",
    ),
    KnownDifference(
        name="deletion of offsets of a topic that is not there",
        why="Likewise.",
        shown_by=Sequence("plain", script("simple, delete_offsets offsets=strange")),
        kind="offset_delete, topics",
        theirs="r1: [strange-0: 3, orders-3: 3, orders-0: 0]",
        ours="[strange-0: 0, orders-3: 0, orders-0: 0]",
    ),
    KnownDifference(
        name="partition named twice in a fetch",
        why="It has but one offset.",
        shown_by=Sequence("plain", script("simple, fetch offsets=twice")),
        kind="offset_fetch, topics",
        theirs="r1: [orders-0: 100 -1  0, orders-1: -1 -1  0, orders-0: 100 -1  0]",
        ours="[orders-0: 100 -1  0, orders-1: -1 -1  0]",
    ),
    KnownDifference(
        name="retention beyond the end of time",
        why="Kafka's sum turns negative, and the offset goes at once. Here it is kept for ever.",
        shown_by=Sequence("brief", script("simple version=4 retention=9223372036854775807")),
        kind="description, group_state",
        theirs="'Dead'",
        ours="'Empty'",
    ),
]
