"""A member's way from the partitions that it has to its target (KIP-848).

First a member gives up the partitions that it loses. While it still has one of them it stays at its epoch,
and gets nothing new. Then it moves to the epoch of the target, and gets those of its new partitions that no
other member has. It waits for the rest. So a member waits for those only that have what it is to get, and
none ever has a partition of another.

Source: CurrentAssignmentBuilder of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.consumer.states import MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions


class Share(NamedTuple):
    """The partitions that a member has. Nobody changes the dicts of one: a change makes a new share.

    `assigned`: its partitions. `pending`: those that it has been told to give up, and may have still.
    `previous_epoch`: its epoch before the newest change, in which the member may not have been told of it.
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Held
    pending: Held


def both(share: Share) -> Held:
    """All that a member may still have: what is assigned, and what it has been told to give up."""
    held = {number: dict(partitions) for number, partitions in share.assigned.items()}
    for number, partitions in share.pending.items():
        held.setdefault(number, {}).update(partitions)
    return held


def reconcile(
    share: Share,
    target_epoch: int,
    target: Partitions,
    is_free: Callable[[int, int], bool],
    owned: Partitions | None,
    subscribed: Container[int],
    *,
    subscription_changed: bool,
) -> Share:
    """The share that a member has after a heartbeat; `share` itself if nothing changes.

    It moves as far to the target as others let it: what it loses comes first.

    Args:
        share: the member's share before.
        target_epoch: the epoch of the group's target.
        target: the member's part of the target.
        is_free: whether no member has the partition of a topic, neither assigned nor pending.
        owned: the partitions that the member says it has; None if it says nothing.
        subscribed: the numbers of the topics that the member subscribes to and that exist.
        subscription_changed: whether this heartbeat has changed them.
    """
    if not _is_due(share, target_epoch, owned):
        return _trim(share, owned, subscribed) if subscription_changed else share
    kept, lost = _divide(share.assigned, target, subscribed)
    if lost and _has_any(owned, lost):
        return Share(share.epoch, share.epoch, MemberState.UNREVOKED_PARTITIONS, kept, lost)
    state = MemberState.STABLE
    for topic, partitions in target.items():
        if topic not in subscribed:
            continue
        missing = partitions - kept.get(topic, {}).keys()
        # Its own, given up a moment ago, are nobody else's.
        returned = share.pending.get(topic, {})
        new = {partition for partition in missing if partition in returned or is_free(topic, partition)}
        if len(new) < len(missing):
            state = MemberState.UNRELEASED_PARTITIONS
        if new:
            kept[topic] = kept.get(topic, {}) | dict.fromkeys(new, target_epoch)
    new_share = Share(target_epoch, share.epoch, state, kept, {})
    return share if new_share == share else new_share


def _is_due(share: Share, target_epoch: int, owned: Partitions | None) -> bool:
    """Whether a member is to move on: it does not wait for itself, and there is somewhere to go."""
    if share.state == MemberState.STABLE:
        return share.epoch != target_epoch
    return share.state != MemberState.UNREVOKED_PARTITIONS or not _has_any(owned, share.pending)


def _divide(assigned: Held, target: Partitions, subscribed: Container[int]) -> tuple[Held, Held]:
    """Divide a member's partitions into those that it keeps and those that it loses."""
    kept: Held = {}
    lost: Held = {}
    for topic, partitions in assigned.items():
        wanted = target.get(topic, ()) if topic in subscribed else ()
        for partition, since in partitions.items():
            (kept if partition in wanted else lost).setdefault(topic, {})[partition] = since
    return kept, lost


def _trim(share: Share, owned: Partitions | None, subscribed: Container[int]) -> Share:
    """Take from a member the topics that it does not subscribe to any more, and change nothing else."""
    kept = {topic: partitions for topic, partitions in share.assigned.items() if topic in subscribed}
    if len(kept) == len(share.assigned):
        return share
    pending = dict(share.pending)
    for topic in share.assigned.keys() - kept.keys():
        pending[topic] = pending.get(topic, {}) | share.assigned[topic]
    if _has_any(owned, pending):
        return Share(share.epoch, share.epoch, MemberState.UNREVOKED_PARTITIONS, kept, pending)
    # It has given them up already. So it was STABLE, since no member in another state gets here that has.
    return Share(share.epoch, share.epoch, share.state, kept, {})


def _has_any(owned: Partitions | None, given_up: Held) -> bool:
    """Whether a member may still have one of the partitions that it has to give up."""
    if owned is None:
        return True
    return any(
        not partitions.keys().isdisjoint(owned.get(topic, ())) for topic, partitions in given_up.items()
    )
