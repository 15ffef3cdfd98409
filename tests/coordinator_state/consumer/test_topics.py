"""Topics of a consumer group: hints of its members, and what the watcher says."""

from __future__ import annotations

import pytest


def fact(name: str, topic_id: str | None, partitions: int) -> dict[str, object]:
    return {"name": name, "topic_id": topic_id, "partitions": partitions}


# -- hints -----------------------------------------------------------------------------------------


def test_first_join_is_answered_with_partitions(group):
    s = group()
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.happened("topics_changed")[0]["topics"] == [fact("a", "A", 2)]


def test_topic_that_nobody_knows_has_no_partitions_until_the_watcher_comes(group):
    """testConsumerGroupHeartbeatIsAccessibleWhenNewGroupCoordinatorIsEnabled"""
    s = group()
    assert s.told(s.join("m0", "z")) == (2, {})
    assert s.summary == ("Stable", 2, 2)
    s.brokers["z"] = ("Z", 3)
    s.metadata("z")
    assert s.told(s.beat("m0")) == (3, {"z": [0, 1, 2]})
    assert s.leave("m0").member_epoch == -1


def test_hint_raises_the_number_of_partitions_and_never_lowers_it(group):
    s = group()
    s.join("m0", "a", topics=[fact("a", "A", 3)])
    assert s.told(s.beat("m0", topics=[fact("a", "A", 2)])) == (2, None)
    assert s.told(s.beat("m0", topics=[fact("a", "A", 4)])) == (3, {"a": [0, 1, 2, 3]})
    assert s.told(s.join("m1", "a", topics=[fact("a", "A", 3)])) == (4, {})


def test_hint_does_not_replace_a_topic(group):
    s = group()
    s.join("m0", "a")
    assert s.told(s.beat("m0", topics=[fact("a", "A2", 9)])) == (2, None)
    assert s.told(s.beat("m0", topics=[fact("a", None, 9)])) == (2, None)


def test_hint_about_what_its_sender_does_not_name_is_nothing(group):
    s = group()
    s.join("m0", "a", topics=[fact("b", "B", 2), fact("a", "A", 2)])
    assert s.picture.topics[0].name == "a"
    assert len(s.picture.topics) == 1


def test_topic_twice_in_one_request_is_one(group):
    s = group()
    assert s.told(s.join("m0", "a", topics=[fact("a", "A", 1), fact("a", "A", 3)])) == (2, {"a": [0, 1, 2]})


def test_topic_that_was_gone_does_not_come_back_by_a_hint(group):
    s = group()
    s.join("m0", "a", "b")
    s.metadata(gone=("a", "never"))
    told = s.happened("topics_changed")[-1]
    assert (told["topics"], told["gone"]) == ([], ["a"])
    assert s.told(s.beat("m0", topics=[fact("a", "A", 2)])) == (2, {"b": [0, 1]})
    assert s.told(s.beat("m0", topics=[fact("a", "A2", 1)])) == (2, None)
    assert s.told(s.ack("m0")) == (4, {"a": [0], "b": [0, 1]})


def test_id_of_another_topic_counts_for_nothing_in_a_hint(group):
    s = group()
    s.join("m0", "a")
    assert s.told(s.join("m1", "b", topics=[fact("b", "A", 2)])) == (3, {})
    both = [fact("c", "X", 1), fact("d", "X", 1)]
    s.beat("m1", subscribed_topic_names=["b", "c", "d"], topics=both)
    assert s.of("m1") == {"c": [0]}


def test_hint_of_the_largest_number_of_partitions_costs_nothing(group):
    s = group()
    reply = s.join("m0", "a", topics=[fact("a", "A", 2**31 - 1)])
    assert reply.error == "GROUP_MAX_SIZE_REACHED"
    assert s.state is None
    s.join("m0", "a")
    assert s.beat("m0", topics=[fact("a", "A", 2**31 - 1)]).error == "GROUP_MAX_SIZE_REACHED"
    assert s.told(s.beat("m0")) == (2, None)


# -- one topic is one, by every way -----------------------------------------------------------------


@pytest.mark.parametrize("topic_id", ["A", None])
def test_topic_that_comes_back_while_a_member_gives_it_up_is_the_same(group, topic_id):
    """Nobody names it for a while. Its partitions are still those of the member that works on them."""
    s = group()
    s.brokers["a"] = (topic_id, 2)
    s.join("m0", "a")
    assert s.told(s.beat("m0", subscribed_topic_names=["b"], topics=s.hints("b"))) == (2, {})
    assert s.pending("m0") == {"a": [0, 1]}
    assert s.told(s.join("m1", "a")) == (4, {})
    # It has not stopped yet.
    s.ack("m0", topic_partitions=s.owned({"a": [1]}))
    assert s.told(s.beat("m1")) == (4, None)
    assert s.told(s.ack("m0", topic_partitions=[])) == (4, {"b": [0, 1]})
    assert s.told(s.beat("m1")) == (4, {"a": [0, 1]})


def test_topic_whose_id_came_under_another_name_keeps_its_partitions(group):
    """A hint has the id of a under the name of b. The watcher knows better, and the id decides."""
    s = group()
    s.join("m0", "b", topics=[fact("b", "A", 2)])
    s.join("m1", "a", "b")
    assert s.told(s.beat("m1")) == (3, None)
    s.metadata("a", "b")
    # It has two partitions of that id, and does not name the topic.
    assert s.told(s.beat("m0")) == (2, {})
    assert s.pending("m0") == {"a": [0, 1]}
    s.ack("m0", topic_partitions=[])
    s.settle()
    assert (s.of("m0"), s.of("m1")) == ({"b": [0, 1]}, {"a": [0, 1]})


def test_topic_that_is_made_again_has_other_partitions(group):
    s = group()
    s.join("m0", "a")
    s.brokers["a"] = ("A2", 2)
    s.metadata("a")
    old = s.owned({"a": []})[0] | {"topic_id": "A", "partitions": [0, 1]}
    # Its partitions are those of the first topic, which is no more.
    assert s.told(s.beat("m0", topic_partitions=[old])) == (2, {})
    assert s.pending("m0") == {"a": [0, 1]}
    assert s.told(s.ack("m0", topic_partitions=[])) == (3, {"a": [0, 1]})
    assert s.told(s.beat("m0", topic_partitions=[old])) == (3, None)


# -- topic metadata --------------------------------------------------------------------------------


def test_metadata_counts_once(group):
    s = group()
    s.join("m0", "a")
    s.brokers["a"] = ("A", 5)
    s.metadata("a", based_on=7)
    assert s.told(s.beat("m0")) == (2, None)
    s.metadata("a")
    before = s.group.topics.version
    s.metadata("a", based_on=before - 1)
    assert s.group.topics.version == before
    assert s.told(s.beat("m0")) == (3, {"a": [0, 1, 2, 3, 4]})


def test_metadata_that_says_nothing_new_changes_nothing(group):
    s = group()
    s.join("m0", "a")
    state = s.state
    s.metadata("a", "b", gone=("never",))
    assert s.state == state


@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        ([fact("a", "A", 1)], "a: 1 partitions, and there were 2"),
        ([fact("a", "X", 1), fact("b", "X", 1)], "b: a has the same id"),
        ([fact("a", "X", 10**6)], "the group would be larger than 4000000 bytes (max.group.bytes)"),
    ],
)
def test_metadata_that_cannot_be_is_refused(group, topics, reason):
    s = group()
    s.join("m0", "a", "b")
    before = s.group
    s.metadata(topics=topics, gone=("b",))
    assert s.rejected() == [reason]
    assert s.group == before


def test_metadata_about_an_id_that_was_gone_is_refused(group):
    s = group()
    s.join("m0", "a")
    s.metadata(gone=("a",))
    s.metadata("a")
    assert s.rejected() == ["a: the topic of this id is gone"]


def test_units_that_are_gone_may_come_back(group):
    """They have no id that could be another one."""
    s = group()
    s.brokers["u"] = (None, 2)
    s.join("m0", "u")
    s.metadata(gone=("u",))
    assert s.told(s.ack("m0", topics=s.hints("u"))) == (3, None)
    assert s.of("m0") == {"u": [0, 1]}


def test_units_of_two_names_have_no_id_in_common(group):
    s = group()
    s.brokers |= {"u": (None, 2), "v": (None, 1)}
    s.join("m0", "u", "v", topics=[])
    s.metadata("u", "v")
    assert s.told(s.beat("m0")) == (3, {"u": [0, 1], "v": [0]})


def test_metadata_without_a_group_of_this_kind_is_nothing(group):
    s = group()
    assert s.send("topic_metadata", "watcher", based_on=0, topics=s.hints("a")) is None
    assert (s.state, s.outputs) == (None, [])
    protocols = [{"name": "range", "metadata": ""}]
    s.send("join_group", session_timeout_ms=9_000, protocol_type="consumer", protocols=protocols)
    state = s.state
    assert s.send("topic_metadata", "watcher", based_on=0, topics=s.hints("a")) is None
    assert s.state == state


def test_only_a_heartbeat_begins_an_epoch(group):
    """testOnNewMetadataImage: only groups that subscribe are asked to look, with the next heartbeat."""
    s = group()
    s.join("m0", "a")
    s.brokers["a"] = ("A", 3)
    s.metadata("a")
    assert s.summary == ("Stable", 2, 2)
    s.alive("m0")
    assert s.summary == ("Stable", 3, 3)
    assert s.held["m0"] == {"a": [0, 1, 2]}


def test_change_that_is_undone_begins_an_epoch_all_the_same(group):
    """Kafka compares hashes of all topics, which costs most where members change their mind most often."""
    s = group()
    s.join("m0", "a", "b", topics=s.hints("a"))
    s.metadata("b")
    s.metadata(gone=("b",))
    assert s.told(s.beat("m0")) == (3, None)


def test_topic_that_nobody_names_any_more_is_gone_without_an_epoch(group):
    s = group()
    s.join("m0", "a", "b")
    s.beat("m0", subscribed_topic_names=["a"])
    s.ack("m0")
    epoch = s.epochs["m0"]
    s.metadata(gone=("b",))
    assert s.told(s.beat("m0")) == (epoch, None)


def test_what_nobody_names_is_forgotten(group):
    """testTopicHashIsRemoveFromCacheIfNoGroupSubscribesIt, testRemoveTopicCleanupTopicHash"""
    s = group()
    s.join("m0", "a", "b")
    s.ack("m0", subscribed_topic_names=["b"], topic_partitions=s.owned({"b": [0, 1]}))
    assert [topic.name for topic in s.picture.topics] == ["b"]
    # One whose id was gone may then come, as it would to a new group.
    s.metadata(gone=("b",))
    s.ack("m0", subscribed_topic_names=["a"], topic_partitions=[], topics=s.hints("a"))
    s.ack("m0", subscribed_topic_names=["b"], topic_partitions=[], topics=s.hints("b"))
    assert s.of("m0") == {"b": [0, 1]}


def test_member_may_name_what_it_owns_without_the_id(group):
    """A unit of work has none. The name of a topic that has one stands for the topic that there is now."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    s.beat("m0")
    kept = [{"name": "a", "partitions": sorted(s.of("m0")["a"])}, {"name": "never", "partitions": [0]}]
    assert s.pending("m0")
    s.beat("m0", topic_partitions=[{"name": "a", "partitions": [0, 1]}])
    assert s.pending("m0"), "it has all of them still"
    s.beat("m0", topic_partitions=kept)
    assert s.pending("m0") == {}
