"""Members with a name of their own: they leave for a while, and come back under another id.

Docstrings have Kafka's names, of its `GroupMetadataManagerTest` unless another test class is named.
"""

from __future__ import annotations

import pytest


def two(s):
    """m0 is a member of no name, m1 is that of i1; each has a half."""
    s.instances |= {"m1": "i1", "m2": "i1"}
    s.join("m0", "a")
    s.join("m1", "a")
    s.settle()
    return s


def test_new_static_member(group):
    """testGroupEpochBumpWhenNewStaticMemberJoins"""
    s = two(group())
    assert s.summary == ("Stable", 3, 3)
    assert s.happened("member_added")[1]["group_instance_id"] == "i1"
    assert s.group.static_members == {"i1": "m1"}


def test_it_leaves_for_a_while(group):
    """testNoGroupEpochBumpWhenStaticMemberTemporarilyLeaves"""
    s = two(group())
    reply = s.leave("m1", -2)
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m1", -2, 0)
    assert s.summary == ("Reconciling", 3, 3)
    assert s.of("m1") == {"a": [1]}
    changed = s.happened("state_changed")[-1]
    assert (changed["reason"], changed["cause"]) == ("m1 left for a while", "member_left")
    away = s.happened("member_away")[0]
    assert (away["member_id"], away["group_instance_id"]) == ("m1", "i1")
    # What it has stays its own.
    assert s.told(s.beat("m0")) == (3, None)


def test_it_leaves_for_good(group):
    """testLeavingStaticMemberBumpsGroupEpoch"""
    s = two(group())
    assert s.leave("m1").member_epoch == -1
    assert s.summary == ("Assigning", 4, 3)
    assert s.group.static_members == {}


def test_it_comes_back_under_another_id(group):
    """testStaticMemberGetsBackAssignmentUponRejoin, and
    testRejoiningStaticMemberGetsAssignmentsBackWhenNewGroupCoordinatorIsEnabled"""
    s = two(group())
    s.leave("m1", -2)
    assert s.told(s.join("m2", "a")) == (3, {"a": [1]})
    assert s.summary == ("Stable", 3, 3)
    (fenced,) = s.happened("member_fenced")
    assert (fenced["member_id"], fenced["replaced_by"], fenced["group_instance_id"]) == ("m1", "m2", "i1")
    assert "m1" not in s.group.members
    # It may have worked on its partitions since before all epochs.
    for epoch in (0, 1, 3):
        assert s.commit("m2", epoch, {"a": [1]}) == 0
    assert s.commit("m2", 4, {"a": [1]}) == 113


def test_it_comes_back_under_its_own_id(group):
    s = two(group())
    s.leave("m1", -2)
    assert s.told(s.join("m1", "a")) == (3, {"a": [1]})
    assert s.summary == ("Stable", 3, 3)


def test_it_comes_back_with_other_topics(group):
    """testStaticMemberRejoinsWithNewSubscribedTopics"""
    s = two(group())
    s.leave("m1", -2)
    assert s.told(s.join("m2", "a", "b")) == (4, {"b": [0, 1]})
    assert s.summary == ("Reconciling", 4, 4)
    assert s.told(s.beat("m0")) == (4, {"a": [0, 1]})


def test_it_comes_back_with_another_assignor(group):
    s = group()
    s.instances |= {"m1": "i1", "m2": "i1"}
    s.join("m1", "a")
    s.leave("m1", -2)
    assert s.told(s.join("m2", "a", server_assignor="range")) == (3, {"a": [0, 1]})
    assert s.picture.protocol_name == "range"


def test_what_it_was_to_give_up_is_free_when_it_leaves(group):
    s = group()
    s.instances["m0"] = "i0"
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    assert s.pending("m0") == {"a": [1]}
    s.leave("m0", -2)
    assert s.told(s.beat("m1")) == (3, {"a": [1]})
    # The time that it had for that means nothing now.
    s.wait(31_000)
    assert "m0" in s.group.members
    assert s.told(s.join("m0", "a")) == (3, {"a": [0]})


def test_time_to_revoke_ends_while_it_is_away_and_another_is_there(group):
    """An old deadline of its former id finds nobody."""
    s = group()
    s.instances |= {"m0": "i0", "m2": "i0"}
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    s.leave("m0", -2)
    s.join("m2", "a")
    s.wait(31_000)
    assert s.group.members.keys() == {"m1", "m2"}


def test_instance_id_that_is_in_use(group):
    """testShouldThrownUnreleasedInstanceIdExceptionWhenNewMemberJoinsWithInUseInstanceId"""
    s = two(group())
    reply = s.join("m2", "a")
    assert (reply.error, reply.member_id) == ("UNRELEASED_INSTANCE_ID", None)
    assert s.join("m0", "a", group_instance_id="i1").error == "UNRELEASED_INSTANCE_ID"


def test_it_is_removed_when_its_session_ends(group):
    """testStaticMemberRemovedAfterSessionTimeoutExpiryWhenNewGroupCoordinatorIsEnabled"""
    s = two(group())
    s.wait(40_000)
    s.beat("m0")
    s.wait(4_999)
    assert s.join("m2", "a").error == "UNRELEASED_INSTANCE_ID"
    s.wait(1)
    assert s.told(s.join("m2", "a"))[0] == 5
    assert s.happened("member_removed")[0]["reason"] == "session_expired"


def test_it_joins_again_before_it_has_left(group):
    """The same member has only not heard its answer. Kafka takes it for another one (111)."""
    s = two(group())
    assert s.told(s.join("m1", "a")) == (3, {"a": [1]})


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_instance_id_of_nobody(group, epoch):
    """testShouldThrownUnknownMemberIdExceptionWhenUnknownStaticMemberJoins, ...UnknownStaticMemberLeaves"""
    s = two(group())
    assert s.heartbeat("m1", epoch, group_instance_id="i9").error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_instance_id_of_another(group, epoch):
    """testShouldThrownFencedInstanceIdExceptionWhenStaticMemberWithDifferentMemberIdJoins, ...Leaves"""
    s = two(group())
    assert s.heartbeat("m0", epoch, group_instance_id="i1").error == "FENCED_INSTANCE_ID"
    assert s.heartbeat("m9", epoch, group_instance_id="i1").error == "FENCED_INSTANCE_ID"


@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_heartbeat_from_before_it_left_does_not_bring_it_back(group, epoch):
    """All of its epochs are greater than -2. Else its successor would be told that the name is in use."""
    s = two(group())
    s.leave("m1", -2)
    sent = s.owned({"a": [1]})
    assert s.heartbeat("m1", epoch, topic_partitions=sent).error == "FENCED_MEMBER_EPOCH"
    assert s.told(s.join("m2", "a")) == (3, {"a": [1]})


def test_heartbeat_of_the_epoch_before_does_not_bring_it_back(group):
    s = group()
    s.instances |= {"m0": "i0", "m1": "i0"}
    s.join("m0", "a")
    s.beat("m0", subscribed_topic_names=["a", "b"], topics=s.hints("b"))
    assert s.group.members["m0"].previous_epoch == 2
    s.leave("m0", -2)
    assert s.heartbeat("m0", 2, topic_partitions=[]).error == "FENCED_MEMBER_EPOCH"
    (news,) = s.alive(members=[{"member_id": "m0", "member_epoch": 2}]).members
    assert news.error_code == 110
    assert s.told(s.join("m1", "a", "b"))[0] == 3


def test_member_takes_another_name(group):
    """A member that joins again with another instance id has that one alone, as in Kafka 4.4."""
    s = group()
    s.join("m0", "a", group_instance_id="i0")
    assert s.told(s.join("m0", "a", group_instance_id="i9")) == (2, {"a": [0, 1]})
    assert s.heartbeat("m0", 2, group_instance_id="i0").error == "UNKNOWN_MEMBER_ID"
    assert s.told(s.heartbeat("m0", 2, group_instance_id="i9")) == (2, None)
    assert s.told(s.heartbeat("m0", 2)) == (2, None)
    assert s.join("m1", "a", group_instance_id="i9").error == "UNRELEASED_INSTANCE_ID"
    assert s.told(s.join("m1", "a", group_instance_id="i0"))[0] == 3
    assert s.picture.members[0].group_instance_id == "i9"


def test_member_without_a_name_gets_one(group):
    s = group()
    s.join("m0", "a")
    assert s.told(s.join("m0", "a", group_instance_id="i0")) == (2, {"a": [0, 1]})
    assert s.group.static_members == {"i0": "m0"}


def test_member_takes_the_place_of_one_that_is_away(group):
    """Kafka leaves what it had as a member of no name with nobody; here the work is divided again."""
    s = two(group())
    s.leave("m1", -2)
    assert s.told(s.join("m0", "a", group_instance_id="i1")) == (4, {"a": [0, 1]})
    assert s.group.members.keys() == {"m0"}
    assert s.summary == ("Stable", 4, 4)
    (removed,) = s.happened("member_removed")
    assert (removed["member_id"], removed["reason"]) == ("m0", "left")
    assert s.happened("member_fenced")[0]["replaced_by"] == "m0"
    assert s.happened("state_changed")[-1]["cause"] == "member_left"
    s.leave("m0")
    assert s.summary[0] == "Empty"


def test_one_with_a_name_takes_the_place_of_another(group):
    s = two(group())
    s.join("m3", "a", group_instance_id="i3")
    s.settle()
    s.leave("m1", -2)
    assert s.told(s.join("m3", "a", group_instance_id="i1"))[0] == 5
    assert s.group.static_members == {"i1": "m3"}
    s.settle("m0", "m3")
    assert sorted(s.of("m0")["a"] + s.of("m3")["a"]) == [0, 1]


def test_it_comes_back_with_the_request_id_of_before(group):
    """A program that begins to count again: its join is no copy of the one of its earlier run."""
    s = group()
    s.instances["m0"] = s.instances["m0b"] = "i"
    s.join("m0", "a", request_id="c-1")
    s.join("m1", "a")
    s.beat("m0")
    s.leave("m0", -2)
    reply = s.join("m0b", "a", request_id="c-1")
    assert s.told(reply)[0] == s.group.assignment_epoch
    s.settle("m0b", "m1")


def test_it_commits_while_it_is_away(group):
    s = two(group())
    s.leave("m1", -2)
    assert s.commit("m1", -2, {"a": [1]}) == 0
    for epoch in (-1, 1, 3):
        assert s.commit("m1", epoch, {"a": [1]}) == 113
    assert s.send("offset_fetch", groups=..., member_id="m1", member_epoch=-2).error == "NONE"
