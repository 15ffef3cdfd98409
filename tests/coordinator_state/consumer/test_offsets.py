"""Offsets of a consumer group: who may commit and fetch, and when they go.

Docstrings have Kafka's names, of its `OffsetMetadataManagerTest` and `ConsumerGroupTest`.
"""

from __future__ import annotations

import pytest

from tests.coordinator_state import scenario

STALE, UNKNOWN = 113, 25


def test_commit_of_a_member(group):
    """testConsumerGroupOffsetCommit, testValidateOffsetCommit"""
    s = group()
    s.join("m0", "a")
    assert s.commit("m0", 2, {"a": [0], "other": [7]}) == 0
    assert s.committed() == {"a": [0], "other": [7]}
    assert s.commit("m0", 3, {"a": [0]}) == STALE
    assert s.commit("m1", 2, {"a": [0]}) == UNKNOWN
    # The instance id is not looked at.
    assert s.commit("m0", 2, {"a": [0]}, group_instance_id="i9") == 0


def test_commit_of_an_older_epoch(group):
    """KIP-1251: taken if the member has had all of its partitions since then. One that fails, fails all."""
    s = group()
    s.join("m0", "a")
    s.beat("m0", subscribed_topic_names=["a", "b"], topics=s.hints("b"))
    assert s.group.members["m0"].share.assigned == {0: {0: 2, 1: 2}, 1: {0: 3, 1: 3}}
    assert s.commit("m0", 2, {"a": [0, 1]}) == 0
    assert s.commit("m0", 1, {"a": [0]}) == STALE
    assert s.commit("m0", 2, {"b": [0]}) == STALE
    assert s.commit("m0", 2, {"a": [0, 5]}) == STALE
    assert s.commit("m0", 2, {"a": [0], "z": [0]}) == STALE
    # With its own epoch all are taken, whatever they are of.
    assert s.commit("m0", 3, {"b": [0], "z": [0]}) == 0
    # Also what it is to give up.
    s.join("m1", "a", "b")
    s.beat("m0")
    assert s.pending("m0")
    assert s.commit("m0", 2, {"a": s.pending("m0").get("a", [1])}) == 0


def test_commit_of_an_older_epoch_for_a_topic_that_was_made_again(group):
    """It is a position in the topic of before, which somebody else may read from now on."""
    s = group()
    s.join("m0", "a")
    s.join("m1", "b")
    s.beat("m0")
    s.brokers["a"] = ("A2", 2)
    s.metadata("a")
    s.beat("m0")
    assert s.pending("m0") == {"a": [0, 1]}
    assert s.commit("m0", s.epochs["m0"] - 1, {"a": [0]}) == 113


@pytest.mark.parametrize(("topic_id", "code"), [("A", 0), ("B", 113)])
def test_commit_of_an_older_epoch_that_says_which_topic_it_is_of(group, topic_id, code):
    s = group()
    s.join("m0", "a")
    s.join("m1", "b")
    s.beat("m0")
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    topics = [{"name": "a", "topic_id": topic_id, "partitions": partitions}]
    ids = {"member_id": "m0", "generation_id": s.epochs["m0"] - 1}
    assert s.send("offset_commit", **ids, topics=topics).error_code == code


def test_commit_of_one_that_is_no_member(group):
    """testConsumerGroupOffsetCommitWithUnknownMemberId, ...FromAdminClient"""
    s = group()
    s.join("m0", "a")
    assert s.commit("", -1, {"a": [0]}) == UNKNOWN
    assert s.commit("m0", -1, {"a": [0]}) == STALE
    s.leave("m0")
    assert s.commit("", -1, {"a": [0]}) == 0
    assert s.commit("who", -2, {"a": [1]}) == 0
    assert s.commit("m0", 2, {"a": [0]}) == UNKNOWN


@pytest.mark.parametrize(("version", "code"), [(8, 22), (9, 69)])
def test_commit_without_a_group(group, version, code):
    """testOffsetCommitWithUnknownGroup"""
    s = group()
    assert s.commit("m0", 2, {"a": [0]}, api_version=version) == code


def test_commit_of_an_old_client(group):
    s = group()
    s.join("m0", "a")
    assert s.commit("m0", 2, {"a": [0]}, api_version=8) == 35
    s.leave("m0")
    assert s.commit("", -1, {"a": [0]}, api_version=8) == 0


def test_metadata_of_an_offset_is_too_long(group):
    """testConsumerGroupOffsetCommitWithOffsetMetadataTooLarge"""
    s = group()
    s.join("m0", "a")
    partitions = [
        {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m" * 5_000},
        {"partition_index": 1, "committed_offset": 1},
    ]
    topics = [{"name": "a", "partitions": partitions}]
    reply = s.send("offset_commit", member_id="m0", generation_id=2, topics=topics)
    assert scenario.of_partitions(reply) == {"a": {0: 12, 1: 0}}


def test_fetch(group):
    """testConsumerGroupOffsetFetchWithMemberIdAndEpoch, ...FromAdminClient, ...WithUnknownMemberId,
    ...WithStaleMemberEpoch, testValidateOffsetFetch"""
    s = group()

    def fetch(member_id=..., member_epoch=..., **fields):
        reply = s.send("offset_fetch", member_id=member_id, member_epoch=member_epoch, **fields)
        return reply.error if reply.error != "NONE" else [topic.name for topic in reply.topics]

    assert fetch("m0", 2) == []
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0]})
    assert fetch() == ["a"]
    assert fetch(None, -2) == ["a"]
    assert fetch("m0", 2) == ["a"]
    assert fetch("m0", 1) == "STALE_MEMBER_EPOCH"
    assert fetch("m0", 3) == "STALE_MEMBER_EPOCH"
    assert fetch("m1", 2) == "UNKNOWN_MEMBER_ID"
    assert fetch("", -1) == "UNKNOWN_MEMBER_ID"
    assert fetch(None, 2) == "UNKNOWN_SERVER_ERROR"
    # The version before knows of no members.
    assert fetch("m1", 2, api_version=8) == ["a"]


def test_offsets_of_what_is_read_may_not_be_deleted(group):
    """testConsumerGroupOffsetDelete, testConsumerGroupOffsetDeleteWithErrors, testIsSubscribedToTopic"""
    s = group()
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0], "z": [0]})
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in "az"]
    reply = s.send("offset_delete", topics=topics)
    assert scenario.of_partitions(reply) == {"a": {0: 86}, "z": {0: 0}}
    assert s.committed() == {"a": [0]}
    s.leave("m0")
    assert scenario.of_partitions(s.send("offset_delete", topics=topics)) == {"a": {0: 0}, "z": {0: 0}}
    assert s.committed() == {}


def live_on(s, for_ms):
    """m0 beats for so long."""
    for _ in range(for_ms // 40_000):
        s.wait(40_000)
        s.ack("m0")


def test_offsets_of_what_nobody_reads_expire_from_the_commit_on(group):
    """testOffsetExpirationCondition, testCleanupExpiredOffsets: in every state, also in an Empty group."""
    s = group(offsets_retention_minutes=20)
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0], "z": [0]})
    live_on(s, 1_160_000)
    assert s.committed() == {"a": [0], "z": [0]}
    live_on(s, 40_000)
    assert s.committed() == {"a": [0]}
    # The commit is long ago, so it goes with the next look.
    s.leave("m0")
    assert s.committed() == {"a": [0]}
    s.wait(600_000)
    assert s.committed() == {}


def test_offsets_of_a_topic_that_a_member_stops_reading_expire(group):
    s = group(offsets_retention_minutes=1)
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0]})
    # After the first look there is nothing to look for.
    live_on(s, 800_000)
    assert s.group.cleanup_deadline_ms is None
    s.beat("m0", subscribed_topic_names=["b"], topic_partitions=[])
    assert s.group.cleanup_deadline_ms is not None
    live_on(s, 560_000)
    assert s.committed() == {"a": [0]}
    live_on(s, 40_000)
    assert s.committed() == {}
    assert s.summary[0] == "Stable"


@pytest.mark.parametrize("is_last", [False, True])
def test_offsets_that_nobody_reads_any_more_expire_before_what_expires_later(group, is_last):
    s = group(offsets_retention_minutes=20)
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0]})
    live_on(s, 900_000)
    s.commit("m0", 2, {"z": [0]})
    if is_last:
        s.leave("m0")
        s.wait(600_000)
    else:
        s.beat("m0", subscribed_topic_names=["b"], topic_partitions=[])
        live_on(s, 600_000)
    assert s.committed() == {"z": [0]}


def test_group_that_is_empty_again_and_again_does_not_put_off_what_expires(group):
    s = group(offsets_retention_minutes=1)
    s.join("m0", "a")
    s.commit("m0", 2, {"z": [0]})
    for _ in range(3):
        s.leave("m0")
        s.wait(200_000)
        s.join("m0", "a")
    assert s.committed() == {}


def test_topic_that_is_gone_keeps_its_offsets(group):
    """Kafka deletes them (testOnPartitionsDeleted): a wrong word of a watcher would lose them here."""
    s = group()
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [0]})
    s.metadata(gone=("a",))
    s.beat("m0")
    assert s.committed() == {"a": [0]}
