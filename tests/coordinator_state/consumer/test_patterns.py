"""Patterns of members: the core keeps what others say that they match, and compiles none.

Docstrings have the names of tests of Kafka's `GroupMetadataManagerTest`, where it has such a test.
"""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.consumer.subscriptions import (
    Pattern,
    Subscriptions,
    Wanted,
)

PATTERN = "[ab]"
ONLY = {"subscribed_topic_names": None}


def join(s, member="m0", pattern=PATTERN, **fields):
    return s.join(member, **(ONLY | {"topics": [], "subscribed_topic_regex": pattern} | fields))


def say_all(s, **fields):
    return s.full("m0", subscribed_topic_names=..., subscribed_topic_regex=PATTERN, **fields)


# -- a heartbeat brings what its pattern matches ----------------------------------------------------


def test_first_join_is_answered_with_partitions(group):
    """testConsumerGroupMemberJoinsWithNewRegex"""
    s = group()
    assert s.told(join(s, **s.resolved("a", "b"))) == (2, {"a": [0, 1], "b": [0, 1]})
    assert s.summary == ("Stable", 2, 2)
    assert s.patterns() == {(PATTERN, ""): ["a", "b"]}
    assert [topic.name for topic in s.picture.topics] == ["a", "b"]
    told = s.happened("topics_changed")
    assert told[0]["patterns"] == [{"pattern": PATTERN, "user": "", "topics": ["a", "b"]}]
    assert "patterns" not in told[1]


def test_names_and_pattern_are_one_subscription(group):
    s = group()
    s.brokers["c"] = ("C", 1)
    known = s.resolved("a") | {"topics": s.hints("a", "c")}
    assert s.told(join(s, subscribed_topic_names=["c", "a"], **known)) == (2, {"a": [0, 1], "c": [0]})
    (shown,) = s.describe().members
    assert (shown.subscribed_topic_names, shown.subscribed_topic_regex) == (["a", "c"], PATTERN)
    # Without the names the pattern stays, and the other way round.
    assert s.told(s.beat("m0", subscribed_topic_names=[])) == (2, {"a": [0, 1]})
    assert s.told(s.ack("m0")) == (3, None)
    assert s.told(s.beat("m0", subscribed_topic_names=["a"], subscribed_topic_regex="")) == (4, None)
    (shown,) = s.describe().members
    assert (shown.subscribed_topic_names, shown.subscribed_topic_regex) == (["a"], "")


def test_pattern_that_matches_nothing_is_a_subscription(group):
    s = group()
    assert s.told(join(s, **s.resolved())) == (2, {})
    assert s.patterns() == {(PATTERN, ""): []}


def test_second_member_takes_over_what_is_known_of_the_pattern(group):
    """testConsumerGroupMemberPicksUpExistingResolvedRegularExpression"""
    s = group()
    join(s, **s.resolved("a"))
    # It sees more than the first one, or less. Topic metadata decides, and not who comes last.
    assert s.told(join(s, "m1", **s.resolved("a", "b"))) == (3, {})
    s.settle()
    assert (s.of("m0"), s.of("m1")) == ({"a": [0]}, {"a": [1]})
    assert s.patterns() == {(PATTERN, ""): ["a"]}
    assert s.group.subscriptions.is_homogeneous


def test_users_that_see_different_topics_have_each_their_own(group):
    s = group()
    join(s, **s.resolved("a", "b", user="alice"))
    assert s.told(join(s, "m1", **s.resolved("a", user="bob"))) == (3, {})
    s.settle()
    assert s.of("m1").keys() == {"a"}
    assert s.patterns() == {(PATTERN, "alice"): ["a", "b"], (PATTERN, "bob"): ["a"]}
    s.leave("m0")
    s.settle()
    assert s.of("m1") == {"a": [0, 1]}
    assert s.patterns() == {(PATTERN, "bob"): ["a"]}


def test_two_users_that_see_the_same_topics_are_as_one(group):
    s = group()
    join(s, **s.resolved("a", user="alice"))
    join(s, "m1", **s.resolved("a", user="bob"))
    assert s.group.subscriptions.is_homogeneous


def test_version_without_patterns_ignores_them(group):
    s = group()
    assert s.told(join(s, subscribed_topic_names=["a"], api_version=0, **s.resolved("a"))) == (
        2,
        {"a": [0, 1]},
    )
    assert s.patterns() == {}


def test_pattern_has_a_limit(group):
    s = group()
    assert join(s, pattern="a" * 10_001).error == "INVALID_REGULAR_EXPRESSION"
    refused = join(s, pattern="\N{EARTH GLOBE EUROPE-AFRICA}" * 2_501)
    assert (refused.error, refused.error_message) == (
        "INVALID_REGULAR_EXPRESSION",
        "a pattern has 10000 bytes at most",
    )
    assert s.state is None
    assert join(s, pattern="a" * 10_000).error == "NONE"


# -- a member changes its pattern -------------------------------------------------------------------


def test_another_pattern(group):
    """testConsumerGroupMemberJoinsWithUpdatedRegex"""
    s = group()
    join(s, **s.resolved("a"))
    assert s.told(s.beat("m0", subscribed_topic_regex="b", **s.resolved("b"))) == (2, {})
    assert s.pending("m0") == {"a": [0, 1]}
    assert s.told(s.ack("m0", topic_partitions=[])) == (3, {"b": [0, 1]})
    assert s.patterns() == {("b", ""): ["b"]}
    (changed,) = s.happened("subscription_changed")
    assert (changed["topics"], changed["subscribed_topic_regex"]) == (["b"], "b")


def test_pattern_is_taken_back(group):
    """testConsumerGroupMemberJoinsWithRegexAndClearsRegex"""
    s = group()
    join(s, **s.resolved("a"))
    assert s.told(s.beat("m0", subscribed_topic_regex="")) == (2, {})
    assert s.told(s.ack("m0", topic_partitions=[])) == (3, None)
    assert s.patterns() == {}
    assert "subscribed_topic_regex" not in s.happened("subscription_changed")[0]


def test_same_pattern_again_changes_nothing(group):
    s = group()
    join(s, **s.resolved("a"))
    version = s.group.topics.version
    assert s.told(say_all(s, **s.resolved("a", "b"))) == (
        2,
        {"a": [0, 1]},
    )
    assert s.group.topics.version == version
    assert s.happened("subscription_changed") == []


def test_static_member_comes_back_with_another_pattern(group):
    """testStaticConsumerGroupMemberJoinsWithUpdatedRegex"""
    s = group()
    s.instances["m0"] = s.instances["m1"] = "i0"
    join(s, **s.resolved("a"))
    s.leave("m0", -2)
    assert s.told(join(s, "m1", "b", **s.resolved("b"))) == (3, {"b": [0, 1]})
    assert s.patterns() == {("b", ""): ["b"]}


def test_static_member_comes_back_with_the_same_pattern(group):
    s = group()
    s.instances["m0"] = s.instances["m1"] = "i0"
    join(s, **s.resolved("a"))
    s.leave("m0", -2)
    assert s.told(join(s, "m1", **s.resolved("a"))) == (2, {"a": [0, 1]})


# -- nobody has resolved it yet ---------------------------------------------------------------------


def test_pattern_that_nobody_has_resolved_matches_nothing(group):
    """testConsumerGroupMemberJoinsWithNewRegex: no epoch begins before it is resolved."""
    s = group()
    assert s.told(join(s)) == (1, {})
    assert s.summary == ("Stable", 1, 1)
    assert s.patterns() == {(PATTERN, None): None}
    s.resolves(PATTERN, "a")
    assert s.summary == ("Assigning", 2, 1)
    assert s.patterns() == {(PATTERN, None): ["a"]}
    assert s.told(s.beat("m0")) == (2, {"a": [0, 1]})
    (changed,) = s.happened("topics_changed")
    assert changed["patterns"] == [{"pattern": PATTERN, "user": None, "topics": ["a"]}]
    assert [topic["name"] for topic in changed["topics"]] == ["a"]


def test_member_that_changes_to_a_pattern_that_nobody_has_resolved(group):
    """It gives up what it does not name any more, at the same epoch."""
    s = group()
    s.join("m0", "a")
    assert s.told(s.beat("m0", subscribed_topic_names=[], subscribed_topic_regex=PATTERN)) == (2, {})
    assert s.pending("m0") == {"a": [0, 1]}
    assert s.group.generation_id == 3, "it names no topics any more"
    s.ack("m0", topic_partitions=[])
    assert s.told(s.beat("m0", subscribed_topic_regex="b")) == (3, None)
    assert s.group.generation_id == 3


def test_member_whose_pattern_is_resolved_for_its_user_from_now_on(group):
    """It came without a gateway, and comes by one now."""
    s = group()
    join(s)
    assert s.told(say_all(s, **s.resolved("a"))) == (
        2,
        {"a": [0, 1]},
    )
    assert s.patterns() == {(PATTERN, ""): ["a"]}


def test_what_is_found_out_too_late_counts_for_nothing(group):
    """testConsumerGroupMemberJoinsWithRegexAndUpdatesItBeforeResolutionCompleted"""
    s = group()
    join(s)
    version = s.group.topics.version
    s.beat("m0", subscribed_topic_regex="b")
    s.resolves(PATTERN, "a")
    assert s.patterns() == {("b", None): None}
    # Nor for the same pattern, if somebody has had it in between.
    s.beat("m0", subscribed_topic_regex=PATTERN)
    s.resolves(PATTERN, "a", based_on=version)
    assert s.patterns() == {(PATTERN, None): None}


# -- topics come and go -----------------------------------------------------------------------------


def test_new_topic_that_matches(group):
    s = group()
    join(s, **s.resolved("a"))
    s.brokers["b"] = ("B", 3)
    s.resolves(PATTERN, "a", "b", user="")
    assert s.summary == ("Assigning", 3, 2)
    assert s.told(s.beat("m0")) == (3, {"a": [0, 1], "b": [0, 1, 2]})
    assert s.happened("state_changed")[-1]["cause"] == "topics_changed"


def test_topic_that_does_not_match_any_more_is_given_up(group):
    """Its user may not see it any more."""
    s = group()
    join(s, **s.resolved("a", "b"))
    s.resolves(PATTERN, "b", user="")
    assert s.told(s.beat("m0")) == (2, {"b": [0, 1]})
    assert s.told(s.ack("m0")) == (3, None)
    assert [topic.name for topic in s.picture.topics] == ["b"]


def test_topic_that_another_member_names_is_taken_from_the_one_whose_pattern_matched_it(group):
    """All topics of the group are as before, and yet a member has others."""
    s = group()
    join(s, **s.resolved("a", "b"))
    s.join("m1", "a", "b")
    s.settle()
    s.resolves(PATTERN, "b", user="")
    s.settle()
    assert s.of("m0").keys() <= {"b"}
    assert s.of("m1")["a"] == [0, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "bob"},
        {"user": "", "based_on": 0},
        {"user": None},
    ],
    ids=["for another user", "an old version", "for nobody"],
)
def test_topic_metadata_that_is_about_something_else(group, fields):
    s = group()
    join(s, **s.resolved("a"))
    s.resolves(PATTERN, "b", **fields)
    assert s.patterns() == {(PATTERN, ""): ["a"]}
    assert s.summary == ("Stable", 2, 2)


def test_same_again_is_no_news(group):
    s = group()
    join(s, **s.resolved("a"))
    version = s.group.topics.version
    s.resolves(PATTERN, "a", user="")
    assert s.group.topics.version == version
    assert s.summary == ("Stable", 2, 2)


@pytest.mark.parametrize("topics", [["b"], []])
def test_what_a_member_loses_until_its_pattern_is_resolved_is_somebody_elses(group, topics):
    """It has begun an epoch when it lost them, though its new pattern may match none."""
    s = group()
    s.brokers["a"] = ("A", 6)
    s.join("m0", "b", subscribed_topic_regex="a.*")
    s.resolves("a.*", "a")
    s.join("m1", subscribed_topic_regex="a.*")
    s.settle()
    s.ack("m0", subscribed_topic_regex="b.*")
    s.settle()
    s.resolves("b.*", *topics)
    s.settle()
    assert (s.held["m0"], s.held["m1"]) == ({"b": [0, 1]}, {"a": [0, 1, 2, 3, 4, 5]})


def test_pattern_that_matches_what_its_member_names_begins_an_epoch(group):
    """As in Kafka, which compares what the pattern has matched before."""
    s = group()
    assert s.told(s.join("m0", "a", subscribed_topic_regex=PATTERN)) == (2, {"a": [0, 1]})
    s.resolves(PATTERN, "a")
    assert s.summary == ("Assigning", 3, 2)
    assert s.told(s.beat("m0")) == (3, None)


def test_matches_nothing_is_no_change_for_one_that_had_nothing(group):
    """As in Kafka no epoch begins."""
    s = group()
    join(s)
    s.resolves(PATTERN)
    assert s.patterns() == {(PATTERN, None): []}
    assert s.summary == ("Stable", 1, 1)


def test_offsets_of_a_topic_that_a_pattern_matches_are_in_use(group):
    s = group()
    join(s, **s.resolved("a"))
    assert s.commit("m0", 2, {"a": [0]}) == 0
    topics = [{"name": "a", "partitions": [{"partition_index": 0}]}]
    assert s.send("offset_delete", topics=topics).topics[0].partitions[0].error_code == 86
    s.beat("m0", subscribed_topic_regex="b", **s.resolved("b"))
    assert s.send("offset_delete", topics=topics).topics[0].partitions[0].error_code == 0


# -- they are bounded -------------------------------------------------------------------------------


def test_what_a_pattern_matches_is_bounded(group):
    s = group(max_group_bytes=2_000)
    names = [f"topic-{number}" for number in range(300)]
    assert join(s, **s.resolved(*names)).error == "GROUP_MAX_SIZE_REACHED"
    assert join(s, **s.resolved("a")).error == "NONE"
    s.resolves(PATTERN, *names, user="")
    assert "max.group.bytes" in s.rejected()[0]
    assert s.patterns() == {(PATTERN, ""): ["a"]}
    assert s.beat("m0", subscribed_topic_regex="x" * 3_000, **s.resolved()).error == "GROUP_MAX_SIZE_REACHED"


def test_bytes_of_a_group_bound_its_picture_with_patterns(group):
    s = group()
    names = [f"topic-{number}" for number in range(50)]
    s.brokers |= {name: (f"id of {name}", 1) for name in names}
    join(s, **s.resolved(*names))
    before = s.group.bytes_held
    join(s, "m1", **s.resolved(*names))
    # The pattern counts once, and its topics for each member.
    assert s.group.bytes_held - before == s.group.size_of(s.group.members["m1"])
    assert len(msgspec.json.encode(s.picture)) <= 2 * s.group.bytes_held
    held = s.group.bytes_held
    s.resolves(PATTERN, *names[:25], user="")
    assert s.group.bytes_held < held


@pytest.mark.parametrize(("spare", "matched"), [(0, ["a", "b"]), (-1, ["a"])])
def test_a_group_may_be_as_large_as_it_says(group, spare, matched):
    resolved = group()
    join(resolved, **resolved.resolved("a"))
    version = resolved.group.topics.version
    resolved.resolves(PATTERN, "a", "b", user="")
    assert resolved.group.topics.version == version + 2, "the topic, and the pattern"

    s = group(max_group_bytes=resolved.group.bytes_held + spare)
    join(s, **s.resolved("a"))
    s.resolves(PATTERN, "a", "b", user="")
    assert s.patterns() == {(PATTERN, ""): matched}


# -- the form in which they are stored --------------------------------------------------------------


def test_subscriptions_are_homogeneous_as_in_kafka():
    """testSubscriptionType: one pattern of all, and no names beside it."""
    subscriptions = Subscriptions()
    pattern = Pattern("a", "")
    number = subscriptions.add(Wanted((), pattern, ("a",)))
    assert subscriptions.is_homogeneous
    other = subscriptions.add(Wanted((), Pattern("b", ""), ("a",)))
    assert not subscriptions.is_homogeneous
    subscriptions.drop(other)
    assert subscriptions.is_homogeneous
    other = subscriptions.add(Wanted(("a",), pattern))
    assert not subscriptions.is_homogeneous
    subscriptions.drop(number)
    assert not subscriptions.is_homogeneous
    number = subscriptions.add(Wanted(()))
    subscriptions.drop(other)
    assert subscriptions.is_homogeneous
    subscriptions.add(Wanted((), pattern))
    assert not subscriptions.is_homogeneous


def test_their_size_follows_what_patterns_match():
    subscriptions, pattern = Subscriptions(), Pattern("[ab]", "alice")
    numbers = [subscriptions.add(Wanted((), pattern)) for _ in range(2)]
    numbers += [subscriptions.add(Wanted(names)) for names in (("z",), ("a", "z"))]
    numbers.append(subscriptions.add(Wanted(("z",), pattern)))

    for topics in (("a", "b"), ("a", "b", "c"), ("a",), ()):
        subscriptions = subscriptions.with_resolved({pattern: topics})
        assert subscriptions.bytes_of_members == sum(map(subscriptions.size, numbers))
        assert subscriptions.names(numbers[0]) == topics
        assert subscriptions.names(numbers[4]) == (*topics, "z")


def test_subscriptions_are_stored_with_what_patterns_match():
    subscriptions = Subscriptions()
    numbers = [
        subscriptions.add(Wanted(("a",), Pattern("b", "alice"), ("b", "c"))),
        subscriptions.add(Wanted((), Pattern("b"))),
        subscriptions.add(Wanted(("z",))),
    ]
    again = Subscriptions(subscriptions.encode())
    assert [again.names(number) for number in numbers] == [("a", "b", "c"), (), ("z",)]
    assert list(again.all_names()) == ["a", "b", "c", "z"]
    assert again.resolved == {Pattern("b", "alice"): ("b", "c"), Pattern("b"): None}
    assert again.encode() == subscriptions.encode()
    again.drop(numbers[0])
    assert again.resolved == {Pattern("b"): None}
    assert list(again.all_names()) == ["z"]
