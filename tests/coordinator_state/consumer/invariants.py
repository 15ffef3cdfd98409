"""What must be true of a consumer group between any two calls, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.reconcile import both
from group_coordinator.coordinator_state.consumer.states import MemberState
from group_coordinator.coordinator_state.consumer.topic_table import Topic
from group_coordinator.coordinator_state.consumer_protocol import assignment_of
from group_coordinator.coordinator_state.responses import GroupPicture

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions

_NO_SUBSCRIPTIONS = msgspec.msgpack.encode((0, {}, []))
_FRAME_BYTES = 40
"""What a partition adds to an answer or a picture besides its topic."""


class _StoredTopics(msgspec.Struct, array_like=True):
    """The first fields of a topic table as it is stored."""

    version: int
    next_number: int
    current: dict[str, Topic]


Identity = tuple[str, str, int]
"""A partition as the members know it: the topic's name and id, and the number."""


def check(old: ConsumerGroup | None, new: ConsumerGroup, watermark_ms: int) -> None:
    """Check a stored group, and the one that the call has found."""
    assert all(at_ms > watermark_ms for at_ms, _, _ in new.deadlines()), "a deadline has passed"
    _no_partition_is_in_two_hands(new)
    _epochs_are_in_order(new)
    _counters_are_what_the_members_say(new)
    _topics_are_what_the_group_needs(new)
    _targets_are_of_what_there_is(new)
    _members_fit_their_states(new)
    if old is not None and not old.is_dead and not new.is_dead:
        _epochs_do_not_fall(old, new)


def agrees_with_picture(group: ConsumerGroup | None, picture: GroupPicture | None) -> None:
    """Check that the newest picture shows the group; an epoch that advances alone is not seen there."""
    if group is None or group.is_dead:
        assert picture is None
        return
    assert picture is not None
    assert picture.group_type == "consumer"
    assert picture.state == group.state
    assert (picture.generation_id, picture.assignment_epoch) == (group.generation_id, group.assignment_epoch)
    assert picture.metadata_version == group.topics.version
    named = {
        name for member in group.members.values() for name in group.subscriptions.names(member.subscription)
    }
    assert [topic.name for topic in picture.topics] == sorted(named)
    for topic in picture.topics:
        (known,) = group.topics.existing([topic.name]) or [None]
        assert topic.partitions == (0 if known is None else known.partitions)
    shown = {member.member_id: member for member in picture.members}
    assert shown.keys() == group.members.keys()
    for member_id, member in group.members.items():
        each = shown[member_id]
        assert (each.group_instance_id, each.client_id) == (member.group_instance_id, member.client_id)
        assert (each.client_host, each.rebalance_timeout_ms) == (
            member.client_host,
            member.rebalance_timeout_ms,
        )
        assert each.member_assignment == _bytes(group, both(member.share))
        assert each.target_assignment == _bytes(group, unpack(member.target))


def current_topics(group: ConsumerGroup) -> list[Topic]:
    """The topics that there are, as they are stored."""
    if not group.stored_topics:
        return []
    return list(msgspec.msgpack.decode(group.stored_topics, type=_StoredTopics).current.values())


def held_by(group: ConsumerGroup, member: ConsumerMember) -> list[Identity]:
    """All that a member may still have, assigned or pending."""
    share = member.share
    return [*_identities(group, share.assigned), *_identities(group, share.pending)]


def _identities(group: ConsumerGroup, partitions: Held | Partitions) -> Iterator[Identity]:
    for number, each in partitions.items():
        topic = group.topics.named(number)
        yield from ((topic.name, topic.topic_id, partition) for partition in each)


def _bytes(group: ConsumerGroup, partitions: Held | Partitions) -> bytes:
    found: dict[str, set[int]] = {}
    for name, _, partition in _identities(group, partitions):
        found.setdefault(name, set()).add(partition)
    return assignment_of((name, sorted(found[name])) for name in sorted(found))


def _no_partition_is_in_two_hands(group: ConsumerGroup) -> None:
    holders = Counter(each for member in group.members.values() for each in held_by(group, member))
    assert [each for each, count in holders.items() if count > 1] == [], "a partition is in two hands"
    targets = Counter(
        each for member in group.members.values() for each in _identities(group, unpack(member.target))
    )
    assert [each for each, count in targets.items() if count > 1] == [], "a partition is in two targets"
    # An id, if there is one, is enough to say which topic it is.
    named = {each[:2] for each in (*holders, *targets)} | {
        (topic.name, topic.topic_id) for topic in group.topics.existing(group.subscriptions.all_names())
    }
    ids = Counter(topic_id for _, topic_id in named if topic_id)
    assert [each for each, count in ids.items() if count > 1] == [], "two topics have one id"


def _epochs_are_in_order(group: ConsumerGroup) -> None:
    assert 0 <= group.assignment_epoch <= group.generation_id
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.is_away or 1 <= member.epoch <= group.assignment_epoch
        assert member.previous_epoch <= group.assignment_epoch
        held = both(member.share)
        latest = group.assignment_epoch if member.is_away else member.epoch
        assert all(0 <= since <= latest for each in held.values() for since in each.values())
    if group.is_empty:
        assert group.assignment_epoch == group.generation_id


def _epochs_do_not_fall(old: ConsumerGroup, new: ConsumerGroup) -> None:
    assert old.generation_id <= new.generation_id
    assert old.assignment_epoch <= new.assignment_epoch
    assert old.topics.version <= new.topics.version
    for member_id, before in old.members.items():
        after = new.members.get(member_id)
        if after is not None and not after.is_away:
            assert before.epoch <= after.epoch, "an epoch falls"


def _counters_are_what_the_members_say(group: ConsumerGroup) -> None:
    members = group.members.values()
    settled = [it for it in members if it.state is MemberState.STABLE and it.epoch == group.assignment_epoch]
    assert group.unsettled == len(members) - len(settled), "unsettled"
    assert group.member_bytes == sum(map(group.size_of, members)), "member_bytes"
    assert group.topics.bytes_held == sum(
        topic.partitions * (len(msgspec.json.encode((topic.name, topic.topic_id))) + _FRAME_BYTES)
        for topic in current_topics(group)
    ), "bytes of topics"
    static = {it.group_instance_id: it.member_id for it in members if it.group_instance_id is not None}
    assert group.static_members == static
    _, counted, resolved = msgspec.msgpack.decode(group.stored_subscriptions or _NO_SUBSCRIPTIONS)
    assert Counter(it.subscription for it in members) == {
        number: count for number, (count, _, _) in counted.items()
    }, "subscriptions"
    patterns = {tuple(pattern) for _, _, pattern in counted.values() if pattern is not None}
    assert {tuple(pattern) for pattern, _ in resolved} == patterns, "a pattern that nobody has"
    assert group.told_state is group.state, "the state was not told"


def _topics_are_what_the_group_needs(group: ConsumerGroup) -> None:
    """No topic is kept for ever that nobody names, or has a partition of."""
    if group.generation_id == group.assignment_epoch and not group.metadata_changed:
        kept = {topic.name for topic in current_topics(group)}
        assert kept <= set(group.subscriptions.all_names()), "a topic that nobody names"
    numbers = {
        number
        for member in group.members.values()
        for number in (*both(member.share), *unpack(member.target))
    }
    for number in numbers:
        group.topics.named(number)


def _targets_are_of_what_there_is(group: ConsumerGroup) -> None:
    """A target is of topics that the member named, and of partitions that there are."""
    if group.generation_id > group.assignment_epoch or group.metadata_changed:
        return  # What it was computed for is no more.
    for member in group.members.values():
        names = set(group.subscriptions.names(member.subscription))
        for name, topic_id, partition in _identities(group, unpack(member.target)):
            (topic,) = group.topics.existing([name])
            assert name in names
            assert topic_id == topic.topic_id
            assert 0 <= partition < topic.partitions
    if group.members:
        wanted = {
            (topic.name, topic.topic_id, partition)
            for topic in group.topics.existing(group.subscriptions.all_names())
            for partition in range(topic.partitions)
        }
        targets = {it for each in group.members.values() for it in _identities(group, unpack(each.target))}
        assert targets == wanted, "a partition is in no target"


def _members_fit_their_states(group: ConsumerGroup) -> None:
    for member in group.members.values():
        assert member.session_deadline_ms is not None, "a member for ever"
        share = member.share
        if member.is_away:
            assert not share.pending
            continue
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        assert is_revoking == bool(share.pending)
        assert is_revoking == (member.revocation_deadline_ms is not None)
        if is_revoking:
            assert member.revocation_epoch == member.epoch
        elif member.epoch == group.assignment_epoch and not member_lags(group, member):
            held = set(_identities(group, share.assigned))
            target = set(_identities(group, unpack(member.target)))
            assert held <= target, "it has what it is not to have"
            if member.state is MemberState.STABLE:
                assert held == target


def member_lags(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether its topics have changed since the target was computed, so that it may have less."""
    return group.generation_id > group.assignment_epoch or group.metadata_changed
