"""Members of a consumer group come, beat and go: the heartbeat tests of Kafka's `GroupMetadataManagerTest`.

Docstrings have Kafka's names, where it has such a test. The epochs are those of a live Kafka 4.4: a group's
begin with 2 if its first member names a topic.
"""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.consumer.states import MemberState
from tests.coordinator_state.consumer.scenario import partitions_of

UNKNOWN = "UNKNOWN_MEMBER_ID"


# -- joining ---------------------------------------------------------------------------------------


def test_first_member(group):
    """testMemberJoinsEmptyConsumerGroup"""
    s = group()
    reply = s.join("m0", "a", "b")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m0", 2, 5_000)
    assert s.told(reply) == (2, {"a": [0, 1], "b": [0, 1]})
    assert s.summary == ("Stable", 2, 2)
    assert [each["event"] for each in s.events] == [
        "group_created",
        "member_added",
        "topics_changed",
        "state_changed",
        "target_assigned",
        "state_changed",
        "member_reconciled",
        "state_changed",
    ]
    added = s.happened("member_added")[0]
    assert (added["member_id"], added["client_id"]) == ("m0", "client of m0")
    assert [(each["from"], each["to"]) for each in s.happened("state_changed")] == [
        ("Empty", "Assigning"),
        ("Assigning", "Reconciling"),
        ("Reconciling", "Stable"),
    ]
    assert s.happened("state_changed")[-1]["cause"] == "member_joined"


def test_first_member_that_names_nothing(group):
    """testConsumerGroupHeartbeatWithEmptySubscription: no topics, and no pattern, are a subscription."""
    s = group()
    assert s.told(s.join("m0")) == (1, {})
    assert s.told(s.join("m1", subscribed_topic_names=..., subscribed_topic_regex="")) == (1, {})
    assert s.told(s.join("m2", subscribed_topic_regex="")) == (1, {})
    assert s.summary == ("Stable", 1, 1)


def test_coordinator_makes_ids_for_old_clients(group):
    """testMemberIdGeneration, testMemberIdGeneratedOnServerWhenApiVersionIs0"""
    s = group()
    reply = s.join("", "a", api_version=0, client="c0")
    assert reply.member_id.startswith("c0-")
    assert s.told(reply) == (2, {"a": [0, 1]})
    assert s.told(s.join("", "a", api_version=0, client="c0"))[0] == 3
    assert len(s.group.members) == 2


def test_third_member_waits_for_the_others(group):
    """testNewJoiningMemberTriggersNewTargetAssignment"""
    s = group()
    s.brokers["a"] = ("A", 6)
    s.join("m0", "a")
    s.join("m1", "a")
    s.settle()
    assert s.told(s.join("m2", "a")) == (4, {})
    assert [s.target(each) for each in ("m0", "m1", "m2")] == [{"a": [0, 1]}, {"a": [3, 4]}, {"a": [2, 5]}]
    assert s.group.members["m2"].state.name == "UNRELEASED_PARTITIONS"
    assert s.summary == ("Reconciling", 4, 4)


def test_changed_subscription_makes_a_new_target(group):
    """testUpdatingSubscriptionTriggersNewTargetAssignment"""
    s = group()
    s.join("m0", "a")
    assert s.told(s.beat("m0", subscribed_topic_names=["b", "a"], topics=s.hints("b"))) == (
        3,
        {"a": [0, 1], "b": [0, 1]},
    )
    changed = s.happened("subscription_changed")[0]
    assert (changed["member_id"], changed["topics"]) == ("m0", ["a", "b"])
    # Neither order nor repetition is a change.
    assert s.told(s.beat("m0", subscribed_topic_names=["b", "a", "b"])) == (3, None)


def test_topics_that_a_member_does_not_name_any_more_are_given_up(group):
    s = group()
    s.join("m0", "a", "b")
    assert s.told(s.beat("m0", subscribed_topic_names=["b"])) == (2, {"b": [0, 1]})
    assert s.told(s.ack("m0")) == (3, None)
    assert s.told(s.beat("m0", subscribed_topic_names=[])) == (3, {})
    assert s.told(s.ack("m0")) == (4, None)
    assert s.summary == ("Stable", 4, 4)


def test_names_and_their_hints_are_one_epoch(group):
    s = group()
    s.join("m0", "a")
    assert s.told(s.join("m1", "a", "b", group_instance_id="i1", server_assignor="range"))[0] == 3
    assert s.summary[1] == 3


def test_full_group(group):
    """testNewMemberIsRejectedWithMaximumMembersIsReached"""
    s = group(group_consumer_max_size=2)
    s.join("m0", "a")
    s.join("m1", "a", group_instance_id="i1")
    assert s.join("m2", "a").error == "GROUP_MAX_SIZE_REACHED"
    assert s.join("m2", "a", group_instance_id="i2").error == "GROUP_MAX_SIZE_REACHED"
    # A member may always join again, and one that left for a while comes back under another id.
    assert s.told(s.join("m0", "a"))[0] == 3
    assert s.join("m2", "a", group_instance_id="i1").error == "UNRELEASED_INSTANCE_ID"
    s.heartbeat("m1", -2, group_instance_id="i1")
    assert s.told(s.join("m2", "a", group_instance_id="i1"))[0] == 3
    # Kafka tells it that the group is full; so it joins, as after any other expiry.
    assert s.heartbeat("m9", 3).error == UNKNOWN


def test_group_that_may_not_be(group):
    s = group()
    s.away(1_000, closed=True)
    assert s.join("m0", "a").error == "COORDINATOR_NOT_AVAILABLE"
    assert s.state is None


# -- who may beat ----------------------------------------------------------------------------------


def test_heartbeat_of_nobody(group):
    """testUnknownGroupId, testUnknownMemberIdJoinsConsumerGroup"""
    s = group()
    for epoch in (1, -1):
        assert s.heartbeat("m0", epoch).error == "GROUP_ID_NOT_FOUND"
    assert s.heartbeat("m0", -2, group_instance_id="i0").error == "GROUP_ID_NOT_FOUND"
    s.join("m0", "a")
    reply = s.heartbeat("m1", 1)
    assert (reply.error, reply.member_id, reply.member_epoch) == (UNKNOWN, None, 0)
    assert reply.heartbeat_interval_ms == 0
    assert s.heartbeat("m1", -1).error == UNKNOWN
    assert s.state is not None
    # Nor does an Empty group know anybody.
    s.leave("m0")
    assert s.heartbeat("m0", 2).error == UNKNOWN


@pytest.mark.parametrize("instance_id", [None, "i0"])
def test_epochs_that_are_heard(group, instance_id):
    """testConsumerGroupMemberEpochValidation, testConsumerGroupMemberEpochValidationForStaticMember"""
    s = group()
    s.join("m0", "a", group_instance_id=instance_id)
    s.beat("m0", subscribed_topic_names=["a", "b"], topics=s.hints("b"), group_instance_id=instance_id)
    assert s.epochs["m0"] == 3
    sent = {"group_instance_id": instance_id}
    # Greater, and smaller.
    assert s.heartbeat("m0", 4, **sent).error == "FENCED_MEMBER_EPOCH"
    assert s.heartbeat("m0", 1, **sent).error == "FENCED_MEMBER_EPOCH"
    # The one before: it must say what it has, and have nothing else than it is to have.
    assert s.heartbeat("m0", 2, **sent).error == "FENCED_MEMBER_EPOCH"
    more = [{"topic_id": "A", "partitions": [0, 2]}]
    assert s.heartbeat("m0", 2, topic_partitions=more, **sent).error == "FENCED_MEMBER_EPOCH"
    other = [{"topic_id": "X", "partitions": [0]}]
    assert s.heartbeat("m0", 2, topic_partitions=other, **sent).error == "FENCED_MEMBER_EPOCH"
    some = [{"topic_id": "A", "partitions": [1]}]
    assert s.told(s.heartbeat("m0", 2, topic_partitions=some, **sent)) == (3, None)
    assert s.told(s.heartbeat("m0", 2, topic_partitions=[], **sent)) == (3, None)


@pytest.mark.parametrize("waits", [False, True])
def test_nobody_is_fenced_who_says_the_same_again_and_again_while_nobody_answers(group, waits):
    """A coordinator that was away finds all of it in the log, and others that have joined in between."""
    s = group()
    if waits:
        # What it is to get is what another one has not given up: it has nothing, and is on its way.
        s.join("m0", "a", "b")
        s.settle()
        s.join("m1", "a", "b")
    else:
        # There is nothing for it.
        for member in ("m0", "m1", "m2", "m3"):
            s.join(member, "a")
        s.settle()
    member, epoch = ("m1", s.epochs["m1"]) if waits else ("m3", s.epochs["m3"])
    says = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["a", "b"] if waits else ["a"]}
    for number in range(5):
        s.join(f"n{number}", "a", "b")
        s.ack("m0")
        reply = s.heartbeat(member, epoch, topic_partitions=[], **says)
        assert reply.error == "NONE"
        assert reply.assignment is not None
    first = s.group.members[member]
    assert first.previous_epoch == epoch
    # Once it has heard it goes on.
    s.settle()


def test_a_join_that_the_log_has_twice_gives_nothing_up(group):
    """A gateway whose write is not acknowledged writes again. Meanwhile the member has got its partitions."""
    s = group()
    s.join("m0", "a")
    joined = s.log[-1].value
    s.join("m1", "a")
    s.beat("m0")
    assert s.group.members["m0"].state is MemberState.UNREVOKED_PARTITIONS
    (reply,) = s.put(joined)
    assert (reply.error, reply.member_epoch) == ("NONE", s.epochs["m0"])
    assert s.group.members["m0"].state is MemberState.UNREVOKED_PARTITIONS
    s.beat("m1")
    assert s.held["m1"] == {}, "the other one has not given it up"
    # One that really joins again has nothing any more.
    s.join("m0", "a")
    assert s.group.members["m0"].state is MemberState.STABLE
    s.beat("m1")
    assert s.held["m1"] != {}


@pytest.mark.parametrize("later", [0, 1, 2])
def test_an_acknowledgement_that_the_log_has_twice_gives_nothing_up(group, later):
    """Meanwhile its sender has got partitions in the same epoch, and has maybe said so."""
    s = group()
    s.brokers["a"] = ("A", 4)
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    s.ack("m0")
    s.ack("m1")
    acknowledged = s.log[-1].value
    assert (s.epochs["m1"], s.held["m1"]) == (3, {"a": [2, 3]})
    for _ in range(later):
        s.ack("m1")
    s.join("m2", "a")
    s.put(acknowledged)
    assert s.of("m1") == {"a": [2, 3]}, "it changes nothing"
    s.beat("m2")
    assert s.held["m2"] == {}, "the other one has not given it up"
    s.settle()
    assert s.held["m2"] != {}


def test_fenced_heartbeat_is_no_sign_of_life(group):
    s = group()
    s.join("m0", "a")
    s.wait(44_000)
    assert s.heartbeat("m0", 9).error == "FENCED_MEMBER_EPOCH"
    assert s.alive("m0", members=[{"member_id": "m0", "member_epoch": 9}]).members[0].error_code == 110
    s.wait(1_000)
    assert s.summary[0] == "Empty"


# -- repeats ---------------------------------------------------------------------------------------


def three(s):
    """m0 is to give up a-1, and m1 waits for it."""
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    assert (s.of("m0"), s.pending("m0"), s.of("m1")) == ({"a": [0]}, {"a": [1]}, {})


def is_quiet(s, ask):
    """What is asked twice is answered twice, and changes nothing."""
    first = ask()
    picture, events = s.picture, len(s.events)
    second = ask()
    assert s.told(first) == s.told(second)
    assert s.told(second)[1] is not None
    assert (s.picture, len(s.events)) == (picture, events)


def test_full_heartbeat_twice_in_stable(group):
    """testDuplicateFullHeartbeatInStableState"""
    s = group()
    s.join("m0", "a")
    is_quiet(s, lambda: s.full("m0", "a"))
    assert s.of("m0") == {"a": [0, 1]}


def test_full_heartbeat_twice_while_revoking(group):
    """testDuplicateFullHeartbeatInUnrevokedPartitionsState, testDuplicateFullHeartbeatDuringRevocation"""
    s = group()
    three(s)
    owned = s.owned({"a": [0, 1]})
    is_quiet(s, lambda: s.full("m0", "a", topic_partitions=owned))
    assert s.pending("m0") == {"a": [1]}


def test_full_heartbeat_twice_while_waiting(group):
    """testDuplicateFullHeartbeatInUnreleasedPartitionsState, ...WhileWaitingForPartitions"""
    s = group()
    three(s)
    is_quiet(s, lambda: s.full("m1", "a", topic_partitions=[]))
    assert s.group.members["m1"].state.name == "UNRELEASED_PARTITIONS"


def test_acknowledgement_twice(group):
    """testDuplicateFullHeartbeatWithRevocationAck"""
    s = group()
    three(s)
    first = s.full("m0", "a", topic_partitions=s.owned({"a": [0]}))
    assert s.told(first) == (3, {"a": [0]})
    # Its answer is lost, so it says the same with the epoch before.
    second = s.heartbeat(
        "m0",
        2,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["a"],
        topic_partitions=s.owned({"a": [0]}),
    )
    assert s.told(second) == s.told(first)


# -- joining again ---------------------------------------------------------------------------------


def test_member_joins_again_in_stable(group):
    """testMemberCanRejoinWithEpochZeroInStableState, testFencedMemberCanRejoinWithEpochZero"""
    s = group()
    s.join("m0", "a")
    assert s.heartbeat("m0", 9).error == "FENCED_MEMBER_EPOCH"
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.summary == ("Stable", 2, 2)


def test_member_joins_again_while_it_revokes(group):
    """testMemberCanRejoinWithEpochZeroInUnrevokedPartitionsState: it has nothing, so it has given all up."""
    s = group()
    three(s)
    assert s.told(s.join("m0", "a")) == (3, {"a": [0]})
    assert s.told(s.beat("m1")) == (3, {"a": [1]})


def test_member_joins_again_while_it_waits(group):
    """testMemberCanRejoinWithEpochZeroInUnreleasedPartitionsState"""
    s = group()
    three(s)
    assert s.told(s.join("m1", "a")) == (3, {})
    assert s.group.members["m1"].state.name == "UNRELEASED_PARTITIONS"


# -- leaving ---------------------------------------------------------------------------------------


def test_member_leaves(group):
    """testLeavingMemberBumpsGroupEpoch: the work is divided with the next heartbeat of another."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    s.settle()
    reply = s.leave("m0")
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m0", -1, 0)
    assert reply.assignment is None
    assert s.summary == ("Assigning", 4, 3)
    assert s.told(s.beat("m1")) == (4, {"a": [0, 1]})
    assert s.happened("member_removed")[0]["reason"] == "left"
    # The epochs of an Empty group are equal.
    s.leave("m1")
    assert s.summary == ("Empty", 5, 5)
    assert s.told(s.join("m2", "a"))[0] == 6


def test_group_that_is_deleted_begins_again(group):
    """testConsumerGroupDelete, testConsumerGroupMaybeDelete, testValidateDeleteGroup"""
    s = group()
    s.join("m0", "a")
    assert s.send("delete_group").error == "NON_EMPTY_GROUP"
    s.leave("m0")
    s.commit("", -1, {"a": [0]})
    assert s.send("delete_group").error == "NONE"
    assert s.picture is None
    for epoch in (1, -1):
        assert s.heartbeat("m0", epoch).error == "GROUP_ID_NOT_FOUND"
    assert s.describe().error == "GROUP_ID_NOT_FOUND"
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.committed() == {}


def test_unused_group_is_deleted(group):
    s = group()
    s.join("m0", "a")
    s.leave("m0")
    s.wait(600_000)
    assert s.picture is None
    s.wait(60_000)
    assert s.state is None


# -- what is told ----------------------------------------------------------------------------------


def test_when_the_assignment_is_told(group):
    """testConsumerGroupHeartbeatFullResponse"""
    s = group()
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.told(s.beat("m0")) == (2, None)
    assert s.told(s.beat("m0", topic_partitions=[], rebalance_timeout_ms=1)) == (2, None)
    assert s.told(s.full("m0", "a")) == (2, {"a": [0, 1]})
    assert s.told(s.full("m0", subscribed_topic_names=..., subscribed_topic_regex="")) == (2, {"a": [0, 1]})
    assert s.told(s.beat("m0")) == (2, None)


def test_interval_is_a_setting(group):
    s = group(group_consumer_heartbeat_interval_ms=7_000)
    assert s.join("m0", "a").heartbeat_interval_ms == 7_000
    assert s.beat("m0").heartbeat_interval_ms == 7_000
    assert s.alive("m0").heartbeat_interval_ms == 7_000


def test_quiet_heartbeat_is_answered_only_with_news(group):
    s = group()
    s.join("m0", "a")
    assert s.beat("m0", quiet=True) is None
    assert s.beat("m0", quiet=False) is not None
    assert s.alive("m0", quiet=True) is None
    assert s.alive("m0").members == []
    s.join("m1", "a")
    assert s.told(s.beat("m0", quiet=True)) == (2, {"a": [0]})
    assert s.beat("m0", quiet=True) is None
    # The epoch alone is news.
    assert s.told(s.ack("m0", quiet=True)) == (3, None)
    assert s.heartbeat("m0", 9, quiet=True).error == "FENCED_MEMBER_EPOCH"
    news = s.alive("m1", quiet=True).members
    assert [(each.member_id, each.member_epoch, each.error_code) for each in news] == [("m1", 3, 0)]


def test_heartbeat_of_several(group):
    s = group()
    for member in ("m0", "m1", "m2"):
        s.join(member, "a", group_instance_id="i2" if member == "m2" else None)
    members = [
        {"member_id": "m0", "member_epoch": 2},
        {"member_id": "m1", "member_epoch": 9},
        {"member_id": "m2", "member_epoch": 4, "group_instance_id": "i2"},
        {"member_id": "m2", "member_epoch": 4, "group_instance_id": "i9"},
        {"member_id": "m8", "member_epoch": 4, "group_instance_id": "i2"},
        {"member_id": "m9", "member_epoch": 4},
    ]
    news = s.alive(members=members).members
    assert [(each.member_id, each.error_code, each.member_epoch) for each in news] == [
        ("m0", 0, 2),
        ("m1", 110, 0),
        ("m2", 25, 0),
        ("m8", 82, 0),
        ("m9", 25, 0),
    ]


def test_member_that_one_heartbeat_names_many_times_is_told_once(group):
    """It could be told all its partitions so often that no record holds the answer."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    assert s.group.members["m0"].state is MemberState.UNREVOKED_PARTITIONS
    (told,) = s.alive(*["m0"] * 1_000).members
    assert partitions_of(told.assignment) == {"a": [0]}


def test_sign_of_life_from_before_a_change_is_told_of_it_again(group):
    """A gateway has answered it, and did not know. One that goes by itself is fenced, as in Kafka."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    of_before = [{"member_id": "m0", "member_epoch": 2}]
    for _ in range(2):
        # It is to give up a partition, and has not heard of that.
        (news,) = s.alive(members=of_before).members
        assert (news.member_epoch, partitions_of(news.assignment)) == (2, {"a": [0]})
    assert s.told(s.ack("m0")) == (3, None)
    for _ in range(2):
        (news,) = s.alive(members=of_before).members
        assert (news.member_epoch, partitions_of(news.assignment)) == (3, {"a": [0]})
    assert s.heartbeat("m0", 2).error == "FENCED_MEMBER_EPOCH"
    s.settle()
    s.join("m2", "a")
    s.settle()
    (news,) = s.alive(members=of_before).members
    assert news.error_code == 110, "that was the one before that"


def test_heartbeat_of_several_without_a_group(group):
    s = group()
    news = s.alive(members=[{"member_id": "m0", "member_epoch": 1}]).members
    assert [each.error_code for each in news] == [69]
    assert s.state is None


def test_facts_of_a_member_change(group):
    s = group()
    s.join("m0", "a")
    s.beat("m0", client_host="h", client="c", rack_id="r", rebalance_timeout_ms=9)
    (member,) = s.describe().members
    assert (member.client_host, member.client_id, member.rack_id) == ("h", "c", "r")
    assert (s.picture.members[0].client_host, s.picture.members[0].rebalance_timeout_ms) == ("h", 9)
    assert s.summary == ("Stable", 2, 2)


# -- the whole way ---------------------------------------------------------------------------------


def test_reconciliation_process(group):
    """testReconciliationProcess: two members have all, a third comes, and each state on the way."""
    s = group(group_consumer_assignors="range")
    s.brokers = {"a": ("A", 6), "b": ("B", 3)}
    s.join("m0", "a", "b")
    s.join("m1", "a", "b")
    s.settle()
    assert (s.of("m0"), s.of("m1")) == ({"a": [0, 1, 2], "b": [0, 1]}, {"a": [3, 4, 5], "b": [2]})
    assert s.told(s.join("m2", "a", "b")) == (4, {})
    assert s.summary == ("Reconciling", 4, 4)
    # The first gives up two and stays at its epoch.
    assert s.told(s.beat("m0")) == (3, {"a": [0, 1], "b": [0]})
    assert s.pending("m0") == {"a": [2], "b": [1]}
    # So does the second, which is to get what the first one still has.
    assert s.told(s.beat("m1")) == (3, {"a": [3]})
    assert s.pending("m1") == {"a": [4, 5], "b": [2]}
    # The third gets nothing yet.
    assert s.told(s.beat("m2")) == (4, None)
    # The first says what it has: it is at the new epoch.
    assert s.told(s.ack("m0")) == (4, None)
    assert s.summary == ("Reconciling", 4, 4)
    # The second still has what it gives up, and stays.
    assert s.told(s.beat("m1", topic_partitions=s.owned({"a": [3, 4]}))) == (3, None)
    # A heartbeat without partitions is no acknowledgement.
    assert s.told(s.beat("m1")) == (3, None)
    assert s.told(s.ack("m1")) == (4, {"a": [2, 3], "b": [1]})
    assert s.summary == ("Reconciling", 4, 4)
    assert s.told(s.beat("m2")) == (4, {"a": [4, 5], "b": [2]})
    assert s.summary == ("Stable", 4, 4)
    assert s.told(s.beat("m2")) == (4, None)


def test_states_of_a_group(group):
    """testConsumerGroupStates, testGroupState"""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    assert s.summary == ("Reconciling", 3, 3)
    s.settle()
    s.leave("m1")
    assert s.summary == ("Assigning", 4, 3)
    s.leave("m0")
    assert s.summary == ("Empty", 5, 5)
    s.send("delete_group")
    assert s.group.state == "Dead"


def test_partition_that_is_given_back_is_of_the_new_epoch(group):
    """testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsReassignedBeforeBeingRevoked"""
    s = group()
    three(s)
    s.leave("m1")
    assert s.told(s.ack("m0")) == (4, {"a": [0, 1]})
    assert s.group.members["m0"].share.assigned == {0: {0: 2, 1: 4}}


# -- assignors -------------------------------------------------------------------------------------


def test_assignor_that_is_not_offered(group):
    s = group(group_consumer_assignors="range")
    reply = s.join("m0", "a", server_assignor="uniform")
    assert (reply.error, s.state) == ("UNSUPPORTED_ASSIGNOR", None)
    assert reply.error_message == "ServerAssignor uniform is not supported. Supported: range."
    # Also where it leaves.
    s.join("m0", "a")
    assert s.leave("m0", server_assignor="uniform").error == "UNSUPPORTED_ASSIGNOR"


def test_assignor_of_most_members(group):
    """testPreferredServerAssignor: another one than before is a new epoch at once, as in Kafka 4.4."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    s.settle()
    assert s.describe().assignor_name == "uniform"
    # It is the group's already.
    assert s.told(s.beat("m0", server_assignor="uniform")) == (3, None)
    # A tie goes to the first that is configured, and is no epoch.
    assert s.told(s.beat("m1", server_assignor="range")) == (3, None)
    assert s.told(s.beat("m0", server_assignor="uniform")) == (3, None)
    assert s.summary == ("Stable", 3, 3)
    s.beat("m0", server_assignor="range")
    assert s.summary == ("Reconciling", 4, 4)
    assert s.describe().assignor_name == "range"
    assert s.picture.protocol_name == "range"
    named = [each["server_assignor"] for each in s.happened("subscription_changed")]
    assert named == ["uniform", "range", "range"]


# -- the interval between two assignments ----------------------------------------------------------


def test_assignments_keep_their_distance(group):
    s = group(group_consumer_assignment_interval_ms=1_000)
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.told(s.join("m1", "a")) == (2, {})
    assert s.told(s.join("m2", "a")) == (2, {})
    assert s.summary == ("Assigning", 4, 2)
    s.wait(999)
    assert s.told(s.beat("m1")) == (2, None)
    s.wait(1)
    assert s.told(s.beat("m1")) == (4, None)
    assert s.summary == ("Reconciling", 4, 4)
    assert len(s.happened("target_assigned")) == 2
    s.settle()


def test_each_change_is_an_assignment_without_an_interval(group):
    s = group()
    for member in ("m0", "m1", "m2"):
        s.join(member, "a")
    assert [each["assignment_epoch"] for each in s.happened("target_assigned")] == [2, 3]
    assert s.summary == ("Reconciling", 4, 4)
