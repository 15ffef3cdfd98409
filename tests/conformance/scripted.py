"""Sequences by name: each rule of the classic protocol, where it can be seen from outside.

Sections: joins, syncs, heartbeats and sessions, leaves, the phases' times, group.max.size, static members,
offsets, administration, all versions. `SCRIPTS` has them all.
"""

from __future__ import annotations

from tests.conformance import scripted_admin as admin
from tests.conformance import scripted_offsets as offsets
from tests.conformance.scripted_static import STATIC, STATIC_DELAYED, STATIC_IN_VERSION
from tests.conformance.sequence import Sequence
from tests.conformance.steps import script

__all__ = ["PATIENT", "SCRIPTS"]

_JOINS = {
    "session too short": "join session=99, join session=100",
    "session too long": "join session=60001, join session=60000",
    "session too short in a stable group": "stable 1, join session=99",
    "id in a group that is not there": "join member=nobody, join member=nobody instance=own",
    "first join": "join, wait next",
    "id asked for and used": "join, join, sync, beat",
    "id asked for and not used": "join, wait next, join, join",
    "old join": "new, sync, beat",
    "no protocol type": "new protocol_type=''",
    "no protocols": "new protocols=none",
    "no protocols in a stable group": "stable 1, new 1 protocols=none",
    "other protocol type": "stable 1, new 1 protocol_type=connect, join protocol_type=connect",
    "other protocol type in each phase": (
        "stable 1, new 1, new 2 protocol_type=connect, join, new 2 protocol_type=connect, sync 1, sync, "
        "new 2 protocol_type=connect"
    ),
    "other protocol type once the group is empty": (
        "stable 1, leave, new 1 protocol_type=connect protocols=c, sync 1 names=none version=4"
    ),
    "no common protocol": "stable 1 protocols=a, new 1 protocols=b, join 1 protocols=b",
    "a pending id joins with no common protocol, then with one": (
        "stable 1 protocols=a, join 1 protocols=ab, join 1 protocols=b, join 1 protocols=ab, join protocols=a"
    ),
    "a lone member comes with another protocol": (
        "stable 1 protocols=a, join protocols=b, join protocols=ba, sync"
    ),
    "unknown id in each phase": (
        "formed 2, join 2 member=nobody, synced 2, join 2 member=nobody, join 0, join 2 member=nobody, "
        "join 1, leave also=1, join 2 member=nobody, wait next, join 2 member=nobody"
    ),
    "joins again while parked": "stable 2, join 1 protocols=ba, join 1, join 1 protocols=a, join",
    "joins again while parked, with other timeouts": (
        "stable 2, new 2 rebalance=300, join rebalance=900, join rebalance=300, wait next"
    ),
    "first joins again while parked": "stable 1, join 1, join 1, join 1, join",
    "leader joins again in the sync phase": "formed 2, join, sync 1, join, sync",
    "follower joins again in the sync phase": "formed 2, join 1, sync 1, join 1, sync",
    "leader joins changed in the sync phase": "formed 2, sync 1, join protocols=ba, join 1",
    "follower joins changed in the sync phase": "formed 3, sync 2, join 1 protocols=ab2, join 2, join",
    "follower changes only the order": "stable 2, join 1 protocols=ba, beat, join, sync 1, sync",
    "follower changes only the metadata": "stable 2, join 1 protocols=ab2, join, sync 1, sync",
    "follower offers one more": "stable 2, join 1 protocols=cab, join, sync 1, sync",
    "leader joins again": "stable 2, join, beat 1, join 1, sync 1, sync",
    "leader joins again and nobody else": "stable 2, join, wait next, sync",
    "unchanged follower joins again": "stable 2, join 1, sync 1, join 1 version=2",
    "unchanged follower with other timeouts joins again": (
        "stable 2, join 1 session=2000 rebalance=2000, wait half, beat, wait next"
    ),
    "a parked member joins without its id": "stable 1, join 1, join 1, join 1 member=empty, join",
    "a dynamic id with an instance id": "stable 1, join instance=own, beat instance=own",
    "a pending id with an instance id": "join, join instance=own, join",
    "votes": "new 0 protocols=ab, new 1 protocols=ba, new 2 protocols=ba, join protocols=ab, synced 3",
    "votes go to what all offer": "new 0 protocols=cab, new 1 protocols=bc, join protocols=cab",
    "a change of votes": "stable 3, join 1 protocols=ba, join 2 protocols=ba, join, synced 3",
    "a vote changes when a member goes": (
        "stable 2 protocols=ba, new 2 protocols=a rebalance=300, join 0 protocols=ba, join 1 protocols=ba, "
        "synced 3, leave 2, join 1 protocols=ba, join 0 protocols=ba"
    ),
    "two that were asked to join with an id": "join, join 1, join, join 1, join, sync 1, sync",
}

_SYNCS = {
    "sync in a group that is not there": "sync, sync member=nobody generation=future",
    "sync in an empty group": "join, sync, stable 1, leave, sync member=previous",
    "sync with an unknown id": "formed 2, sync 2 member=nobody, synced 2, sync 2 member=nobody",
    "sync of a pending id": "formed 1, join 1, sync 1, sync",
    "sync of another generation": (
        "formed 2, sync generation=previous, sync generation=future, sync 1 generation=none, synced 2, "
        "sync generation=previous"
    ),
    "sync of another protocol": (
        "formed 2, sync names=type, sync names=name, sync names=none, sync names=none version=4, "
        "sync 1 names=name, sync 1 names=type, sync 1 names=none version=0"
    ),
    "sync without names while the group is not there": "sync names=none, sync names=none version=4",
    "sync without names and without a place": "formed 1, sync 1 names=none, sync 1 member=nobody",
    "sync in the join phase": "stable 2, new 2, sync, sync 1 version=1, sync 1 generation=previous",
    "follower first": "formed 2, sync 1, sync",
    "leader first": "formed 2, sync, sync 1",
    "follower syncs twice": "formed 2, sync 1, sync 1, sync, sync 1, sync 1",
    "leader syncs twice": "formed 2, sync, sync assign=changed, sync 1",
    "a follower's assignments are not read": "formed 2, sync 1 assign=stranger, sync",
    "a member is forgotten": "formed 2, sync 1, sync assign=some",
    "nobody gets anything": "formed 2, sync 1, sync assign=none, beat",
    "a stranger gets something": "formed 2, sync 1, sync assign=stranger",
    "nobody syncs": "formed 2 session=2000, beat, beat 1, wait half, beat, wait next, beat, beat 1",
    "the leader does not sync": "formed 2 session=2000, sync 1, wait next, beat, beat 1, join 1",
    "a follower does not sync": (
        "formed 3 session=2000, sync 1, sync, wait next, beat 2, beat, beat 1, join 1, join"
    ),
    "a follower syncs in time": "formed 2 session=2000, sync, wait almost, sync 1, wait all",
    "all have synced": "formed 2 session=1200, synced 2, wait next",
    "a member leaves before it syncs": (
        "formed 3 session=2000, sync, sync 1, leave 2, join 1, join, synced 2, wait half, beat"
    ),
    "a change drops what was assigned": "stable 2, new 2, join 1, join, sync 1, new 3, sync 1",
}

_SESSIONS = {
    "heartbeat in a group that is not there": "beat, beat member=nobody",
    "heartbeat in an empty group": "join, beat, stable 1, leave, beat member=previous",
    "heartbeat with an unknown id": "stable 1, beat 1 member=nobody, join 2, beat 2",
    "heartbeat of another generation": (
        "stable 2, beat generation=previous, beat 1 generation=future, beat generation=none"
    ),
    "heartbeat in each phase": "formed 2, beat, beat 1, synced 2, beat, new 2, beat, beat 1, beat 2",
    "silence in a stable group": "stable 1, wait next, beat",
    "silence of a follower": "stable 2, wait half, beat, wait next, beat, join",
    "silence of the leader": "stable 2, wait half, beat 1, wait next, beat 1, join 1",
    "silence of the leader of three": "stable 3, wait half, beat 1, beat 2, wait next, join 1, join 2",
    "silence of all": "stable 3, wait next, wait next, wait next",
    "heartbeats keep the session": (
        "stable 1, wait half, beat, wait half, beat, wait almost, beat, wait almost, beat"
    ),
    "heartbeats of another generation do not keep the session": (
        "stable 1, wait half, beat generation=future, wait next, beat"
    ),
    "a sync in a stable group does not keep the session": "stable 1, wait half, sync, wait next, beat",
    "an answered join does not keep the session": "stable 2, wait half, beat, join 1, wait next",
    "silence in the sync phase": "formed 2 session=300, sync 1, wait next, beat 1, join 1",
    "silence of a follower in the sync phase": "formed 2 session=300, wait half, beat, wait next, sync",
    "silence after the sync": "formed 2 session=400 rebalance=2000, sync 1, sync, wait half, beat, wait next",
    "a parked sync keeps the session": (
        "formed 2 session=300 rebalance=2000, sync 1, wait half, beat, wait half, beat, wait half, beat, sync"
    ),
    "a member that has not synced is silent while the leader syncs": (
        "formed 3 session=500 rebalance=2000, sync 1, wait half, sync, beat, wait next, beat"
    ),
    "a parked join keeps the session": (
        "stable 2 session=300 rebalance=1200, join, wait half, beat 1, wait half, beat 1, wait half, "
        "beat 1, join 1"
    ),
    "silence in the join phase ends it": (
        "stable 2 session=400 rebalance=1500, new 2 rebalance=1500, join, wait next"
    ),
    "a heartbeat in the join phase keeps the session": (
        "stable 2 session=400 rebalance=900, join, wait half, beat 1, wait half, beat 1, wait next"
    ),
    "a pending id blocks the join phase until its session ends": (
        "stable 1, join 1 session=400, join, join, wait next, sync"
    ),
    "a pending id blocks the join phase until it joins": "stable 1, join 1, join, join 1, sync 1, sync",
    "a pending id blocks the join phase until it leaves": "stable 1, join 1, join, leave 1",
    "a pending id blocks the join phase until its end": (
        "stable 1 rebalance=400, join 1 session=2000, join rebalance=400, wait next, sync"
    ),
    "a pending id joins after the phase": (
        "stable 1 rebalance=300, join 1 session=2000, join rebalance=300, wait next, join 1"
    ),
    "all members go while an id is pending": (
        "stable 1 rebalance=400, join 1 session=2000, leave, wait next, join 1, wait next"
    ),
    "the last member's session ends while an id is pending": (
        "stable 1 session=300 rebalance=400, join 1 session=1500, wait next, wait next, join 1"
    ),
}

_LEAVES = {
    "leave of a group that is not there": (
        "leave member=nobody, leave member=nobody version=2, leave, leave version=0"
    ),
    "leave of an empty group": "stable 1, leave, leave member=previous, leave member=nobody version=1",
    "leave without an id": "stable 1, leave 1, leave 1 version=0, leave 1 instance=own",
    "leave with an unknown id": "stable 1, leave member=nobody, leave member=nobody version=2",
    "the last member leaves": "stable 1, leave, new 1",
    "a follower leaves": "stable 2, leave 1, beat, join, sync",
    "the leader leaves": "stable 2, leave, beat 1, join 1, sync 1",
    "the leader of three leaves": "stable 3, leave, join 1, join 2, sync 1, sync 2, sync 1",
    "a follower leaves in the sync phase": "formed 3, sync 1, leave 2, join 1, join",
    "a member with a parked sync leaves": "formed 3, sync 1, leave 1, join 2, join",
    "the leader leaves in the sync phase": "formed 3, sync 1, leave, join 1, join 2",
    "a member with a parked join leaves": "stable 2, new 2, leave 2, join 1, join",
    "who is waited for leaves": "stable 2, join, leave 1, sync",
    "a new member with a parked join leaves by another's hand": (
        "stable 2, join 2, join 2, leave 1 member=2, join, join 1"
    ),
    "all leave at once": "stable 3, leave also=1+2",
    "two of three leave at once": "stable 3, leave 1 also=2, join",
    "some leave at once, some are not there": "stable 2, leave member=nobody also=1+empty+1, join",
    "the same leaves twice at once": "stable 2, leave 1 also=1",
    "nobody leaves": "stable 1, leave member=nobody also=nobody",
    "a pending id leaves an empty group": "join, leave, join member=previous",
    "a pending id leaves a stable group": "stable 1, join 1, leave 1, beat, join",
    "a pending id leaves in the sync phase": "formed 2, join 2, sync 1, leave 2 version=2, join 1, join",
    "a pending id leaves with an instance id": "stable 1, join 1, leave 1 instance=own, beat",
    "a pending id and a member leave at once": "stable 2, join 2, leave 2 also=1, join",
}

_PHASES = {
    "who does not join again is out": "stable 3, join, join 1, wait next, synced 2, beat 2",
    "the leader does not join again": "stable 2, join 1 protocols=ba, wait next, sync 1, beat",
    "nobody joins again": "stable 2 rebalance=300, leave 1, wait next, beat",
    "the longest time counts": (
        "stable 2 rebalance=300, new 2 rebalance=900, wait half, beat, beat 1, join, wait next"
    ),
    "the time is not extended": "stable 2 rebalance=300, join rebalance=300, new 2 rebalance=1500, wait next",
    "a new time counts next time": (
        "stable 1 rebalance=300, join rebalance=900, sync, new 1 rebalance=200, wait next"
    ),
    "without a rebalance timeout (version 0)": (
        "new version=0 session=600, sync version=0, new 1 version=0 session=400, wait next"
    ),
    "one after another": "new, new 1, join, new 2, join 1, join, new 3, join, join 2, join 1, synced 4",
}

_DELAYED = {
    "a lone member waits for the initial delay": "new, beat, wait next, sync",
    "a second member extends the delay": "new rebalance=1500, new 1, wait next, wait next, sync",
    "each new member extends the delay": "new rebalance=2000, new 1, wait next, new 2, wait next, wait next",
    "the delay ends with the rebalance timeout": (
        "new rebalance=500, new 1, wait next, new 2, wait next, wait next"
    ),
    "a short rebalance timeout": "new rebalance=150, new 1 rebalance=2000, wait next, sync",
    "a member that joins again does not extend the delay": "new rebalance=1500, wait half, join, wait next",
    "a pending id does not hold up the first phase": "join session=2000, new 1, wait next",
    "a pending id that joins extends the delay": "join, new 1 rebalance=1500, join, wait next, wait next",
    "all leave during the delay": "new, new 1, leave also=1, wait next",
    "one leaves during the delay": "new rebalance=1500, new 1, leave 1 member=1, wait next, wait next",
    "an empty group is delayed again": "new, wait next, sync, leave, new 1, new 2, wait next, wait next",
    "a pending id expires during the delay": "join session=150, new 1, wait next, wait next, sync 1",
    "no delay while there are members": "new, wait next, sync, new 1, join, sync 1, sync",
}

# group.max.size is 3, and there is an initial delay.
_SIZED = {
    "a fourth in the first phase": "new, new 1, new 2, new 3, wait next, wait next",
    "four ids are asked for, three are used": (
        "join, join 1, join 2, join 3, join, join 1, join 2, join 3, wait next, wait next, join 3, join 2"
    ),
    "a fourth in the sync phase": "formed_after_delay 3, new 3, sync 1, sync, new 3, join 3",
    "a fourth with a pending id": (
        "new, new 1, wait next, wait next, sync 1, sync, join 2, join 3, join 2, join 3, join 1, wait next"
    ),
    "members join again in a full group": (
        "formed_after_delay 3, sync 1, sync 2, sync, join, join, join 1, join 1, join 2, new 3"
    ),
    "a stranger is faster than a member": (
        "formed_after_delay 3, sync 1, sync 2, sync, join, join 1, new 3, new 4, wait next"
    ),
    "a stranger is faster than a member, and an id is pending": (
        "formed_after_delay 3, sync 1, sync 2, sync, join, join 5, join 1, new 3, join 2, join 2, wait next"
    ),
    "a fourth is refused for the size first": (
        "formed_after_delay 3, new 3 protocol_type=connect, join 3 member=nobody"
    ),
    "static members fill the group": (
        "restart, restart 1, restart 2, restart 3, wait next, wait next, sync 0 instance=own, restart 3"
    ),
    "a member leaves a full group": (
        "formed_after_delay 3, sync 1, sync 2, sync, leave 2, new 3, join, join 1, new 2"
    ),
}

_NAMELESS = {
    "join": "join, join session=99, join member=nobody, join version=0",
    "sync": "sync, sync names=none, sync version=0",
    "heartbeat": "beat, beat version=0",
    "leave": "leave, leave version=0, leave member=nobody also=nobody",
}

_TIMEOUTS = {
    "no time to rebalance": "new rebalance=0, wait short, beat, new 1, new 2 rebalance=0, wait next",
    "a negative time to rebalance": (
        "new rebalance=-1, wait short, beat, new 1, sync 1, new 2 rebalance=-5, wait next"
    ),
    "no time to rebalance (version 0)": "new version=0 session=150 rebalance=-1, wait half, beat",
    "members with no time to join again": "stable 1 rebalance=0, new 1 rebalance=0, wait short, sync 1",
}


# A group's life in one version: two members, one that leaves, a silent one.
_REST_OF_LIFE = (
    "beat, join, sync 1, sync, join 1, join 2 member=nobody, sync 2 member=nobody, beat 2 member=nobody, "
    "leave 2 member=nobody, leave 1, join, sync, wait next"
)
_LIFE = f"join, join, sync, beat, join 1, join 1, {_REST_OF_LIFE}"
_LIFE_BEFORE_IDS = f"join, sync, beat, join 1, {_REST_OF_LIFE}"


def _scripts() -> dict[str, Sequence]:
    texts = {
        ("plain", "join"): _JOINS,
        ("plain", "sync"): _SYNCS,
        ("plain", "session"): _SESSIONS,
        ("plain", "leave"): _LEAVES,
        ("plain", "phase"): _PHASES,
        ("plain", "static"): STATIC,
        ("tight", "delay"): _DELAYED,
        ("tight", "size"): _SIZED,
        ("tight", "static"): STATIC_DELAYED,
        ("plain", "timeout"): _TIMEOUTS,
        ("plain", "commit"): offsets.COMMITS,
        ("plain", "commit and session"): offsets.SESSIONS,
        ("plain", "fetch"): offsets.FETCHES,
        ("plain", "offset deletion"): offsets.DELETIONS,
        ("tight", "offset deletion"): offsets.DELETIONS_DELAYED,
        ("plain", "offsets in version"): {str(each): offsets.in_version(each) for each in range(1, 10)},
        ("brief", "retention"): offsets.RETENTION,
        ("plain", "describe"): admin.DESCRIBED,
        ("plain", "list"): admin.LISTED,
        ("plain", "group deletion"): admin.DELETED,
        ("tight", "group deletion"): admin.DELETED_DELAYED,
    }
    without_id = _NAMELESS | offsets.WITHOUT_ID | admin.WITHOUT_ID
    return {
        **{
            f"no group id: {name}": Sequence("plain", script(text), True) for name, text in without_id.items()
        },
        **{
            f"{section}: {name}": Sequence(setup, script(text))
            for (setup, section), named in texts.items()
            for name, text in named.items()
        },
        **{
            f"version: {version}": Sequence(
                "plain", script(_LIFE if version >= 4 else _LIFE_BEFORE_IDS, version=str(version))
            )
            for version in range(10)
        },
        **{
            f"static in version: {version}": Sequence(
                "plain", script(STATIC_IN_VERSION, version=str(version), instance="own")
            )
            for version in range(5, 10)
        },
    }


SCRIPTS = _scripts()

_PARKED_FOR_LONG = "stable 1 session=60000 rebalance=400000, new 1 session=60000 rebalance=400000"
PATIENT = {
    "patient: a new member is parked for five minutes at most": Sequence(
        "plain", script(_PARKED_FOR_LONG + 7 * ", beat pause=45000")
    ),
    **{
        f"patient: {name}": Sequence("brief", script(text))
        for name, text in offsets.RETENTION_PATIENT.items()
    },
}
"""Scripts that take minutes."""
