"""The bookkeeping of a consumer group, without requests.

Docstrings have the names of Kafka's `ConsumerGroupTest`.
"""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.member import ConsumerMember
from group_coordinator.coordinator_state.consumer.reconcile import Share
from group_coordinator.coordinator_state.consumer.states import MemberState
from group_coordinator.coordinator_state.consumer.subscriptions import Wanted
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.stored import decode_group, encode_group


def made(*member_ids: str) -> ConsumerGroup:
    group = ConsumerGroup.new("orders", 5)
    for member_id in member_ids:
        group.add_member(member(member_id))
    return group


def member(member_id: str, **fields) -> ConsumerMember:
    return ConsumerMember(
        **{"member_id": member_id, "client_id": "c", "client_host": "", "rebalance_timeout_ms": 9} | fields
    )


def share(assigned, pending=(), epoch=1):
    def held(partitions):
        return {0: dict.fromkeys(partitions, epoch)} if partitions else {}

    state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
    return Share(epoch, epoch, state, held(assigned), held(pending))


def test_partitions_have_a_holder_until_they_are_given_up():
    """testUpdatingMemberUpdatesPartitionEpoch, testRemovePartitionEpochs, testAddPartitionEpochs,
    testDeletingMemberRemovesPartitionEpoch, testWaitingOnUnreleasedPartition"""
    group = made("m0", "m1")
    assert group.index.is_free(0, 1)
    group.change_member(group.members["m0"], share([1, 2]))
    assert [group.index.is_free(0, each) for each in (1, 2, 3)] == [False, False, True]
    group.change_member(group.members["m0"], share([1], [2]))
    assert not group.index.is_free(0, 2)
    group.change_member(group.members["m0"], share([1]))
    assert group.index.is_free(0, 2)
    group.change_member(group.members["m1"], share([2]))
    group.remove_member(group.members["m1"])
    assert group.index.is_free(0, 2)
    # Also where it is read for the first time.
    again = decode_group(encode_group(group))
    assert (again.index.is_free(0, 1), again.index.is_free(0, 2)) == (False, True)


def test_members_are_counted_as_they_come_and_go():
    """testGetOrCreateMember, testRemoveMember, testGetStaticMemberByInstanceId, testRemoveStaticMember"""
    group = made("m0")
    assert (group.unsettled, group.member_bytes) == (0, member("m0").size)
    group.add_member(member("m1", group_instance_id="i1"))
    assert group.static_members == {"i1": "m1"}
    group.change_facts(group.members["m1"], {"group_instance_id": "i2"})
    assert group.static_members == {"i2": "m1"}
    group.advance_assignment()
    group.change_member(group.members["m0"], share([]))
    assert group.unsettled == 1
    group.remove_member(group.members["m1"])
    assert (group.unsettled, group.static_members) == (0, {})
    assert group.member_bytes == member("m0").size


def test_deadlines_of_a_member_are_those_that_it_has():
    group = made("m0")
    assert list(group.deadlines()) == []
    group.set_deadline(DeadlineKind.SESSION, "m0", 7)
    group.set_deadline(DeadlineKind.REVOCATION, "m0", 8)
    group.set_deadline(DeadlineKind.CLEANUP, "", 9)
    assert list(group.deadlines()) == [
        (7, DeadlineKind.SESSION, "m0"),
        (8, DeadlineKind.REVOCATION, "m0"),
        (9, DeadlineKind.CLEANUP, ""),
    ]
    assert group.deadline(DeadlineKind.SESSION, "m1") is None
    assert group.deadline(DeadlineKind.CLEANUP, "") == 9


@pytest.mark.parametrize("name", ["c", "é" * 50, "\0" * 50, '"' * 50, "a" * 250])
def test_size_of_a_member_bounds_what_it_adds_to_a_picture(name):
    """Its topics are part of it; with them a picture may have twice the bytes that are counted."""
    without, with_it = made("m0"), made("m0")
    for group in (without, with_it):
        group.change_subscription(group.members["m0"], Wanted(()))
    fields = {"client_id": name, "client_host": name, "group_instance_id": name, "server_assignor": name}
    it = member(name, rack_id=name, **fields)
    with_it.add_member(it)
    before = with_it.member_bytes
    with_it.change_subscription(it, Wanted((name, *(f"topic-{number}" for number in range(20)))))
    assert with_it.member_bytes > before
    shown = [
        len(msgspec.json.encode(msgspec.structs.replace(group.picture(GroupConfig()), topics=[])))
        for group in (with_it, without)
    ]
    assert shown[0] - shown[1] <= 2 * with_it.size_of(it)


def test_topics_of_members():
    """testUpdateSubscribedTopicNamesAndSubscriptionType, testSubscriptionType, testIsSubscribedToTopic"""
    group = made("m0", "m1")
    assert group.subscriptions.is_homogeneous
    group.change_subscription(group.members["m0"], Wanted(("a", "b")))
    assert group.subscriptions.is_homogeneous
    group.change_subscription(group.members["m1"], Wanted(("a",)))
    assert not group.subscriptions.is_homogeneous
    assert list(group.subscriptions.all_names()) == ["a", "b"]
    assert (group.is_subscribed("b"), group.is_subscribed("c")) == (True, False)
    group.change_subscription(group.members["m1"], Wanted(("a", "b")))
    assert group.subscriptions.is_homogeneous
    group.subscriptions.drop(group.members["m1"].subscription)
    group.change_subscription(group.members["m0"], Wanted(("c",)))
    assert list(group.subscriptions.all_names()) == ["c"]
