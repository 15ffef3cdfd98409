"""Scripts with static members, by name. For `scripted.py`, which has them all."""

from __future__ import annotations

__all__ = ["STATIC", "STATIC_DELAYED", "STATIC_IN_VERSION"]

STATIC = {
    "first": "restart, sync instance=own, beat instance=own, beat",
    "static in an unknown group": (
        "join member=nobody instance=own, sync member=nobody instance=own, beat instance=own, "
        "leave instance=own"
    ),
    "an unknown id with a known instance": (
        "static 1, join 1 member=nobody instance=0, sync 1 member=nobody instance=0, "
        "beat 1 member=nobody instance=0, leave 1 member=nobody instance=0"
    ),
    "a known id with an unknown instance": (
        "static 1, join instance=unknown, sync instance=unknown, beat instance=unknown, "
        "leave instance=unknown"
    ),
    "another's id": (
        "static 2, beat instance=1, beat member=1 instance=own, sync member=1 instance=own, "
        "join member=1 instance=own, leave member=1 instance=own"
    ),
    "fenced before the generation is looked at": (
        "static 1, beat 1 member=nobody instance=0 generation=future, beat instance=unknown generation=future"
    ),
    "a follower starts again": (
        "static 2, restart 1, sync 1 instance=own, beat 1 instance=own, beat instance=own"
    ),
    "a follower starts again, and its older self goes on": (
        "static 2, restart 1, beat 1 member=previous instance=own, beat 1 member=previous, "
        "sync 1 member=previous instance=own, sync 1 member=previous, join 1 member=previous instance=own, "
        "join 1 member=previous, leave 1 member=previous instance=own"
    ),
    "the leader starts again": (
        "static 2, restart, sync instance=own assign=changed, beat instance=own, join instance=own, "
        "join 1 instance=own"
    ),
    "the leader starts again, before version 9": (
        "static 2, restart version=8, sync instance=own, join instance=own, join 1 instance=own"
    ),
    "the leader starts again, in version 5": (
        "static 2, restart version=5, sync instance=own, restart version=6, restart version=7"
    ),
    "a follower starts again, before version 9": (
        "static 2, restart 1 version=8, restart 1 version=5, sync 1 instance=own"
    ),
    "all start again": "static 3, restart, restart 1, restart 2, sync 2 instance=own, sync instance=own",
    "starts again and again": "static 1, restart, restart, restart, beat instance=own",
    "starts again with other metadata": (
        "static 2, restart 1 protocols=ab2, join instance=own, join 1 instance=own protocols=ab2"
    ),
    "starts again with another protocol in front": "static 1, restart protocols=ba, sync instance=own",
    "a follower starts again with another protocol in front": (
        "static 3, restart 1 protocols=ba, beat instance=own"
    ),
    "a follower starts again with fewer protocols": (
        "static 2 protocols=ab, restart 1 protocols=b, join instance=own, sync 1 instance=own, "
        "sync instance=own"
    ),
    "a follower starts again with no common protocol": (
        "static 2 protocols=a, restart 1 protocols=c, beat 1 instance=own"
    ),
    "the leader is away while a follower brings another protocol": (
        "static 2, restart 1 protocols=b, wait next, sync 1 instance=own"
    ),
    "starts again with other timeouts": (
        "static 1 session=600, restart session=1200, wait half, beat instance=own, wait half, wait almost, "
        "beat instance=own"
    ),
    "starts again and is silent": (
        "static 1 session=400, wait half, restart session=1500, wait next, beat instance=own"
    ),
    "a silent static member": (
        "static 2, wait half, beat instance=own, wait next, join instance=own, sync instance=own"
    ),
    "a follower starts again in the sync phase": (
        "static_formed 2, restart 1, sync instance=own, join instance=own, sync 1 instance=own, "
        "sync instance=own"
    ),
    "a follower with a parked sync starts again": (
        "static_formed 2, sync 1 instance=own, restart 1, join instance=own, sync 1 instance=own"
    ),
    "another's parked sync when one starts again": (
        "static_formed 3, sync 1 instance=own, restart 2, join 1 instance=own, join instance=own"
    ),
    "the leader starts again in the sync phase": (
        "static_formed 2, sync 1 instance=own, restart, join 1 instance=own, sync 1 instance=own, "
        "sync instance=own"
    ),
    "a lone member starts again in the sync phase": "static_formed 1, restart, sync instance=own",
    "starts again in the join phase": (
        "static 2, join instance=own, restart 1, sync 1 instance=own, sync instance=own"
    ),
    "starts again while its join is parked": (
        "static 3, join 1 instance=own, restart 1, join instance=own, join 2 instance=own"
    ),
    "starts again while its first join is parked": (
        "static 1 session=1500, restart 1 session=400, restart 1 session=400, wait next, beat instance=own, "
        "join instance=own"
    ),
    "the leader starts again while its join is parked": (
        "static 2, join instance=own, restart, join 1 instance=own, sync 1 instance=own, sync instance=own"
    ),
    "starts again, then its older self joins": (
        "static 2, join instance=own, restart 1, join 1 member=previous instance=own, sync instance=own"
    ),
    "joins again in the sync phase": (
        "static_formed 2, join 1 instance=own, join instance=own, sync 1 instance=own, sync instance=own"
    ),
    "follower joins again": "static 2, join 1 instance=own, join 1",
    "leader joins again": "static 2, join instance=own, join 1 instance=own",
    "changed follower joins again": "static 2, join 1 instance=own protocols=ba, join instance=own",
    "an absent follower is kept": (
        "static 2 session=2000 rebalance=300, join instance=own, wait next, sync instance=own, "
        "beat 1 instance=own, join 1 instance=own, sync 1 instance=own"
    ),
    "an absent leader is kept, and another leads": (
        "static 2 session=2000 rebalance=300, join 1 instance=own protocols=ba, wait next, "
        "sync 1 instance=own, beat instance=own, sync instance=own"
    ),
    "an absent leader of three is kept, and one of the others leads": (
        "static 3 session=2000 rebalance=300, join 1 instance=own protocols=ba, join 2 instance=own, "
        "wait next, sync 1 instance=own, sync 2 instance=own, sync 1 instance=own"
    ),
    "an absent member does not sync in time": (
        "static 2 session=2000 rebalance=300, join instance=own, wait next, sync instance=own, wait next, "
        "beat 1 instance=own"
    ),
    "an absent member's session ends in the join phase": (
        "static 2 session=400 rebalance=1500, join instance=own, wait next, sync instance=own"
    ),
    "dynamic members go, static ones stay": (
        "static 1 session=2000 rebalance=300, new 1 session=2000 rebalance=300, join instance=own, sync 1, "
        "sync instance=own, new 2 rebalance=300, wait next, sync 2, sync 2"
    ),
    "only absent members are left": (
        "static 2 session=900 rebalance=300, leave 1 instance=own, wait next, wait next, beat instance=own, "
        "wait next, wait next"
    ),
    "only absent members are left, and one comes back": (
        "static 2 session=1500 rebalance=300, leave 1 instance=own, wait next, beat instance=own, "
        "join instance=own, sync instance=own"
    ),
    "only absent members are left, and one starts again": (
        "static 3 session=1500 rebalance=300, leave 1 instance=own, wait next, restart, "
        "join 2 instance=own, sync instance=own"
    ),
    "only absent members are left, and a new one comes": (
        "static 2 session=1500 rebalance=300, leave 1 instance=own, wait next, new 2, wait next, sync 2"
    ),
    "only absent members are left, and they go": (
        "static 2 session=1500 rebalance=300, leave 1 instance=own, wait next, "
        "leave member=empty instance=own"
    ),
    "is taken out": "static 2, leave 1 member=empty instance=0, beat instance=own, join 1 instance=own",
    "is taken out by another": "static 2, leave 5 member=empty instance=0 also=empty@1",
    "an unknown one is taken out": "static 1, leave 5 member=empty instance=unknown also=empty+nobody@0",
    "leaves with both ids": "static 2, leave 1 instance=own, beat instance=own",
    "leaves with its member id only": "static 2, leave 1, restart 1, join instance=own",
    "leaves in version 2": "static 2, leave 1 version=2, join instance=own",
    "is taken out twice at once": "static 2, leave 5 member=empty instance=0 also=empty@0+0@0+0",
    "is taken out while its join is parked": (
        "static 2, restart 2, leave 5 member=empty instance=2, join instance=own, join 1 instance=own"
    ),
    "is taken out while its sync is parked": (
        "static_formed 3, sync 1 instance=own, leave 5 member=empty instance=1, join instance=own"
    ),
    "comes back after it was taken out": (
        "static 1, leave member=empty instance=own, beat instance=own, restart, sync instance=own"
    ),
    "a new instance joins a stable group": (
        "static 1, restart 1, join instance=own, sync 1 instance=own, sync instance=own"
    ),
    "two instances in one process": "static 1, restart 0 instance=1, join 1 member=0 instance=1",
    "mixed": (
        "static 1, new 1, join instance=own, sync 1, sync instance=own, restart, beat 1, beat instance=own, "
        "leave 1"
    ),
    "an old leader of static members": "new, restart 1, join version=3, sync 1 instance=own, sync",
    "does not sync in time": (
        "static_formed 2 session=2000 rebalance=400, sync instance=own, wait next, beat 1 instance=own, "
        "restart 1"
    ),
}

STATIC_DELAYED = {
    "starts again during the delay": "restart, restart, wait next, sync instance=own",
    "starts again with others during the delay": (
        "restart rebalance=1500, restart 1, restart 1, wait next, wait next, sync instance=own"
    ),
    "is taken out during the delay": (
        "restart, restart 1, leave 5 member=empty instance=0, wait next, wait next, sync 1 instance=own"
    ),
}

# A static group's life in one version; all is said by the instance.
STATIC_IN_VERSION = (
    "restart, sync, restart 1, join, sync 1, sync, restart 1, restart, sync, beat, beat member=previous, "
    "leave 1, leave member=empty"
)
