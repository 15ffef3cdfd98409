"""Scripts about committed offsets, by name. For `scripted.py`, which has them all."""

from __future__ import annotations

from tests.conformance.sequence import OFFSETS

__all__ = [
    "COMMITS",
    "DELETIONS",
    "DELETIONS_DELAYED",
    "FETCHES",
    "RETENTION",
    "RETENTION_PATIENT",
    "SESSIONS",
    "WITHOUT_ID",
    "in_version",
]

# Named twice in one fetch a partition is told twice by Kafka, see `differences.py`.
_TWICE = {"twice", "topic twice", "twice, once too large"}
_KNOWN = [name for name in OFFSETS if name != "strange"]

COMMITS = {
    "of nobody to a group that is not there": "simple, fetch, simple offsets=several, fetch offsets=all",
    "of a generation to a group that is not there": (
        "commit generation=zero, commit generation=zero version=8, commit generation=future, "
        "commit generation=future version=8, commit generation=future member=nobody instance=own, "
        "commit generation=future member=nobody version=2"
    ),
    "of somebody without a generation to a group that is not there": (
        "commit generation=none member=nobody instance=unknown"
    ),
    "of generation 0": (
        "join, commit generation=zero, commit generation=zero member=empty, join, commit generation=zero"
    ),
    "of somebody without a generation to an empty group": (
        "stable 1, leave, simple, commit generation=none member=nobody, "
        "commit generation=none member=previous instance=own, "
        "commit generation=none member=empty instance=unknown, fetch"
    ),
    "of a generation to an empty group": (
        "stable 1, leave, commit member=previous, commit member=nobody generation=future, "
        "commit member=empty generation=future, commit member=previous instance=own version=7"
    ),
    "of a generation to a group that never had one": "simple, commit member=nobody generation=future",
    "of a pending id": (
        "join, commit, commit generation=future, stable 1 protocols=a, join 1, commit 1, "
        "commit 1 generation=future"
    ),
    "of a member": "stable 2, commit, commit 1 offsets=several, commit offsets=other, fetch offsets=all",
    "of members to the same partition": "stable 2, commit, commit 1, commit, fetch",
    "of another generation": (
        "stable 2, commit generation=previous, commit generation=future, commit generation=none, "
        "commit 1 generation=previous version=2"
    ),
    "of a stranger": (
        "stable 1, commit 1 member=nobody, commit 1 member=nobody generation=future, commit member=empty, "
        "commit member=nobody generation=none"
    ),
    "of nobody to a stable group": "stable 1, simple, simple version=2, commit, simple offsets=several",
    "of nobody in each phase": "formed 2, simple, sync 1, sync, simple, join, simple, fetch",
    "in the join phase": (
        "stable 2, commit, new 2, commit, commit 1 offsets=several, commit 1 generation=previous, "
        "commit 1 generation=future, commit 3 member=nobody, commit 2 member=2, join, commit, join 1, "
        "commit 1"
    ),
    "in the sync phase": (
        "formed 2, commit, commit 1 version=2, commit generation=previous, commit generation=future, "
        "commit 2 member=nobody, commit 2 member=nobody generation=future, commit instance=unknown, sync 1, "
        "commit 1, sync, commit 1"
    ),
    "in the sync phase of a later generation": "stable 2, commit, join 1 protocols=ba, join, commit, fetch",
    "after the group is empty": "stable 1, commit, leave, simple offsets=several, fetch offsets=all",
    "a new member goes on": "stable 1, commit, leave, new 1, fetch 1, sync 1, commit 1 offsets=several",
    "of a protocol type of its own": (
        "stable 1 protocol_type=connect, commit offsets=several, simple, leave, simple offsets=other"
    ),
    "then the group gets members": "simple offsets=several, new, simple, commit, sync, commit, fetch",
    "of a static member": (
        "static 2, commit instance=own, commit 1 instance=own offsets=several, commit, "
        "commit instance=own version=7, commit instance=own version=6"
    ),
    "of a static member that is fenced": (
        "static 2, commit 1 member=nobody instance=0, commit 1 member=nobody instance=0 generation=future, "
        "commit 1 member=empty instance=0, commit 1 member=0 instance=own, "
        "commit 1 member=empty instance=0 generation=none"
    ),
    "of an unknown instance": (
        "static 1, commit instance=unknown, commit instance=unknown generation=future, "
        "commit member=nobody instance=unknown, simple instance=unknown"
    ),
    "of a dynamic member with an instance id": "stable 1, commit instance=own, commit instance=own version=7",
    "of a static member that was started again": (
        "static 2, commit 1 instance=own, restart 1, commit 1 member=previous instance=own, "
        "commit 1 member=previous, commit 1 instance=own offsets=several"
    ),
    "of a static member in the sync phase": (
        "static_formed 2, commit 1 instance=own, commit 1 member=nobody instance=own, restart 1, "
        "commit 1 member=previous instance=own"
    ),
    "of an absent static member": (
        "static 2 session=2000 rebalance=300, join instance=own, wait next, commit 1 instance=own, "
        "commit 1 instance=own generation=previous"
    ),
    "lower than before": "simple offsets=largest, fetch, simple, fetch, simple offsets=negative, fetch",
    "with and without an epoch": (
        "simple offsets=epoch, fetch offsets=epoch version=4, fetch offsets=epoch version=5, "
        "simple offsets=epoch version=5, simple offsets=epoch version=6, simple, fetch offsets=epoch"
    ),
    "of too much, and of nothing else, to a group that is not there": (
        "simple offsets='too large', describe version=6"
    ),
    "of too much over something": (
        "simple offsets=several, simple offsets='some too large', simple offsets='too large', "
        "simple offsets=null"
    ),
    "of nothing in each state": (
        "commit offsets=nothing generation=future, formed 1, simple offsets=nothing, sync, "
        "simple offsets=nothing, commit offsets=nothing member=nobody, "
        "commit offsets=nothing generation=previous, leave, commit offsets=nothing generation=future"
    ),
    "of nothing does not keep the session": (
        "stable 1, wait half, commit offsets=nothing, wait next, commit offsets=nothing"
    ),
    "of too much, refused for more": "stable 1, simple offsets='too large', commit offsets='some too large'",
    **{f"of {name}": f"simple offsets='{name}', simple offsets='{name}'" for name in _KNOWN},
    **{
        f"of {name} by a member": f"stable 1, commit offsets='{name}', fetch offsets=all stable=true"
        for name in _KNOWN
    },
}

SESSIONS = {
    "commits keep the session": (
        "stable 1, wait half, commit, wait half, commit version=2, wait almost, commit, wait almost, "
        "commit, wait next, commit"
    ),
    "commits of too much keep the session": (
        "stable 1, wait half, commit offsets='too large', wait almost, beat"
    ),
    "commits in the join phase keep the session": (
        "stable 2 session=400 rebalance=900, join, wait half, commit 1, wait half, commit 1, wait next"
    ),
    "commits of a parked join": (
        "stable 2 session=400 rebalance=900, join, wait half, commit, beat 1, wait half, join 1, wait half"
    ),
    "refused commits do not keep the session": (
        "stable 1, wait half, commit generation=future, commit generation=none, simple, wait next, beat"
    ),
    "commits in the sync phase do not keep the session": (
        "formed 2 session=500 rebalance=2000, wait half, beat, commit 1, wait next, commit"
    ),
    "commits under another's instance do not keep the session": (
        "static 2, wait half, beat instance=own, commit 1 instance=0, commit 1 instance=unknown, wait next"
    ),
}

FETCHES = {
    "of a group that is not there": "fetch, fetch offsets=all, fetch offsets=strange, fetch stable=true",
    "of a group that has none": "stable 1, fetch, fetch offsets=all, fetch stable=true",
    "of what is not there": "simple, fetch offsets=strange, fetch offsets=several, fetch offsets=nothing",
    "by anybody in each phase": (
        "simple offsets=several, new, fetch 5, fetch 5 offsets=all, new 1, fetch 5 offsets=several, join, "
        "fetch 5 offsets=all stable=true, sync 1, sync, fetch 5 stable=true, leave also=1, "
        "fetch 5 offsets=all version=7 stable=true"
    ),
    "after a deletion": "simple offsets=several, delete_offsets, fetch, fetch offsets=several",
    "of what was committed with much to say": (
        "simple offsets=null, simple offsets='full wide', simple offsets=epoch, fetch offsets=epoch, "
        "fetch offsets=all"
    ),
    **{
        f"of {name}": "simple offsets=all"
        + "".join(f", fetch offsets='{name}' version={version}" for version in (1, 2, 7, 9))
        for name in OFFSETS
        if name not in _TWICE
    },
}

DELETIONS = {
    "in a group that is not there": "delete_offsets, delete_offsets offsets=several",
    "in an empty group": "stable 1, commit offsets=several, leave, delete_offsets, delete_offsets, fetch",
    "of what is not there": "simple, delete_offsets offsets=other, delete_offsets offsets=several",
    "of all of a simple group": "simple offsets=several, delete_offsets offsets=several, describe, simple",
    "in an empty group of another type": (
        "stable 1 protocol_type=connect, commit offsets=several, leave, delete_offsets"
    ),
    "in a group of another type in each phase": (
        "formed 2 protocol_type=connect, delete_offsets, sync 1, sync, commit offsets=several, "
        "delete_offsets, delete_offsets offsets=other, join protocol_type=connect, delete_offsets"
    ),
    "in a group with an id that is pending": "join, delete_offsets, simple, delete_offsets",
    "of what is read and what is not": (
        "stable 2, commit offsets=all, delete_offsets, delete_offsets offsets=other, "
        "delete_offsets offsets=several"
    ),
    "in each phase": (
        "simple offsets=all, formed 2, delete_offsets offsets=several, sync 1, sync, delete_offsets, join, "
        "delete_offsets, delete_offsets offsets=other, leave also=1, delete_offsets"
    ),
    "what is read is what was read in the last generation": (
        "simple offsets=all, stable 2 protocols=a, join 1 protocols=a2, delete_offsets offsets=several, "
        "join protocols=a2, commit offsets=all, delete_offsets offsets=several, sync 1, sync, "
        "commit offsets=all, delete_offsets offsets=several"
    ),
    "members read different things": (
        "simple offsets=all, formed 1 protocols=a, sync, new 1 protocols=a2, join protocols=a, "
        "delete_offsets offsets=several, sync 1, sync, delete_offsets offsets=several, leave 1, "
        "delete_offsets offsets=several, join protocols=a, delete_offsets offsets=several"
    ),
    "a member that only follows reads, too": (
        "simple offsets=all, new protocols=ba, new 1 protocols=ab2, join protocols=ba, "
        "delete_offsets offsets=several"
    ),
    "a static member starts again and reads something else": (
        "simple offsets=all, static 2 protocols=a, restart 1 protocols=a2, delete_offsets offsets=several, "
        "join instance=own protocols=a, join 1 instance=own protocols=a2, delete_offsets offsets=several"
    ),
    "one that cannot be read": (
        "simple offsets=all, stable 1 protocols=a3, new 1 protocols=a?, delete_offsets offsets=several, "
        "join protocols=a3, delete_offsets offsets=several, sync 1, sync, delete_offsets offsets=several, "
        "leave 1, join protocols=a3, delete_offsets offsets=several"
    ),
    "one that cannot be read in a protocol that is not chosen": (
        "simple offsets=all, stable 1 protocols=ab?, delete_offsets offsets=several"
    ),
    "the type changes while the group is empty": (
        "stable 1 protocol_type=connect, commit offsets=all, leave, new 1, delete_offsets offsets=several, "
        "sync 1, leave 1, new 2 protocol_type=connect, delete_offsets 1 offsets=several"
    ),
    **{
        f"subscribed with {name}": (
            f"simple offsets=all, stable 1 protocols={name}, delete_offsets offsets=several"
        )
        for name in ("a", "a2", "a3", "a?", "a0", "ab", "ba", "ab2", "bc", "c", "ab?")
    },
    **{
        f"of {name}": f"simple offsets=all, delete_offsets offsets='{name}', fetch offsets=all"
        for name in _KNOWN
    },
}

# With an initial delay.
DELETIONS_DELAYED = {
    "in the first join phase": (
        "simple offsets=all, new, delete_offsets offsets=several, wait next, delete_offsets offsets=several"
    ),
    "in the first join phase of a group that was empty": (
        "new, wait next, sync, commit offsets=all, leave, new 1, delete_offsets offsets=several, wait next, "
        "sync 1, delete_offsets offsets=several"
    ),
    "in the first join phase of another type": (
        "simple offsets=all, new protocol_type=connect, delete_offsets, leave, delete_offsets"
    ),
    "commits in the first join phase": "simple, new, simple, commit, commit generation=future, wait next",
}

# Without a group id.
WITHOUT_ID = {
    "commit and fetch": "simple, fetch, fetch offsets=all, describe, simple offsets=several",
    "commit of a generation": "commit generation=future, commit generation=future version=8",
    "commit to what is there": "simple, commit member=nobody generation=future",
    "deletion of offsets": "delete_offsets, simple, delete_offsets",
}


def in_version(version: int) -> str:
    """Commits, fetches and a deletion in one version, by members and others."""
    return (
        "fetch {v}, fetch {v} offsets=all, commit {v} generation=future, "
        "simple {v} offsets=epoch retention=60000, fetch {v} offsets=epoch, formed 2, commit {v}, sync 1, "
        "sync, commit {v} offsets=several, commit 1 {v} offsets=epoch, commit {v} generation=previous, "
        "commit 1 {v} member=nobody, simple {v}, commit {v} instance=own, "
        "fetch {v} offsets=several stable=true, fetch {v} offsets=all, delete_offsets {v} offsets=several, "
        "leave also=1, commit {v} member=previous, simple {v} offsets='some too large', "
        "fetch {v} offsets=strange"
    ).format(v=f"version={version}")


# What may go goes at once.
RETENTION = {
    "of a simple group": "simple version=2 retention=300, fetch, wait 600, fetch",
    "of nothing": "simple version=2 retention=0, simple offsets=other, simple version=3 retention=0",
    "of less than nothing": "simple version=3 retention=-2, simple offsets=other version=4 retention=-1",
    "in a version that does not have it": "simple version=5 retention=300, wait 600",
    "of one of two": "simple version=4 retention=300, simple offsets=other, wait 600",
    "one after the other": (
        "simple version=4 retention=300, simple offsets=other version=4 retention=600, wait next, wait next"
    ),
    "of a newer commit": "simple version=4 retention=300, simple version=4 retention=700, wait 500, wait 500",
    "is over if a newer commit has none": "simple version=4 retention=300, simple, wait 600",
    "of what was deleted": "simple version=4 retention=300 offsets=several, delete_offsets, wait 600",
    "of members": (
        "stable 1 session=2000, commit version=4 retention=300 offsets=several, wait 600, "
        "fetch offsets=all, leave, fetch offsets=all"
    ),
    "of a member that reads nothing": (
        "stable 1 session=2000 protocols=a0, commit version=4 retention=300 offsets=several, wait 600, beat"
    ),
    "of a member of which it is not known what it reads": (
        "stable 1 session=2000 protocols=a?, commit version=4 retention=300 offsets=several, wait 600, "
        "beat, leave"
    ),
    "of members of another type": (
        "stable 1 session=2000 protocol_type=connect, commit version=4 retention=300 offsets=several, "
        "wait 600, simple, leave"
    ),
    "of members that are gone": (
        "stable 1 session=2000, commit version=4 retention=600 offsets=several, leave, wait half, "
        "fetch offsets=all, wait next"
    ),
    "in the join phase": (
        "stable 2 session=2000 rebalance=1200, commit version=4 retention=300 offsets=several, "
        "join rebalance=1200, wait 600, fetch offsets=all, join 1 rebalance=1200, sync 1, sync"
    ),
    "in the sync phase": (
        "simple version=4 retention=300 offsets=several, formed 2 session=2000 rebalance=1200, wait 600, "
        "sync 1, fetch offsets=all, sync"
    ),
    "of what is no longer read": (
        "stable 1 session=2000 protocols=a3, commit version=4 retention=300 offsets=several, wait 600, "
        "join protocols=a session=2000, sync"
    ),
    "while nobody is there, then members come": (
        "simple version=4 retention=600 offsets=several, new session=2000, sync, wait 1000, beat"
    ),
    "of a group that goes with its last offset": "simple version=4 retention=300, wait 600, new, sync",
    "an empty group without offsets goes": "stable 1, leave, new 1",
    "an empty group with offsets stays": "stable 1, commit, leave, wait 200, new 1",
    "too much is kept nowhere": "simple offsets='too large', simple",
    "deletion of the last offset": "simple, delete_offsets, simple",
}

RETENTION_PATIENT = {
    "offsets of a simple group are kept since they were committed": (
        "simple, simple 1 pause=30000, wait 40000"
    ),
    "offsets of a simple group are kept each since it was committed": (
        "simple, simple offsets=other pause=30000, wait 35000, wait 30000"
    ),
    "offsets of an empty group are kept since it became empty": (
        "stable 1 session=60000 rebalance=60000, commit offsets=several, beat pause=30000, leave, "
        "wait 35000, fetch, simple 1 offsets=other, wait 30000"
    ),
    "offsets of members that do not read them are kept since they were committed": (
        "stable 1 session=60000 rebalance=60000, commit offsets=several, beat pause=45000, "
        "beat pause=20000, fetch offsets=all"
    ),
    "offsets of members of another type are kept": (
        "stable 1 protocol_type=connect session=60000 rebalance=60000, commit offsets=several, "
        "beat pause=45000, beat pause=20000"
    ),
    "offsets are kept while the group rebalances": (
        "stable 2 session=60000 rebalance=70000, commit offsets=several, "
        "join session=60000 rebalance=70000, beat 1 pause=45000, beat 1 pause=20000, "
        "join 1 session=60000 rebalance=70000, sync 1, sync"
    ),
}
"""These take minutes."""
