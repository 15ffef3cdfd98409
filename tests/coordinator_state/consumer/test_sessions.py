"""Sessions, and the time that a member has to give up partitions. Docstrings have Kafka's names."""

from __future__ import annotations

import pytest


def revoking(s, **fields):
    """m0 is to give up a-1, for m1."""
    s.join("m0", "a", **fields)
    s.join("m1", "a")
    s.beat("m0")
    assert s.pending("m0") == {"a": [1]}
    return s


def test_session_goes_on_with_each_heartbeat(group):
    """testSessionTimeoutLifecycle"""
    s = group()
    s.join("m0", "a")
    for _ in range(3):
        s.wait(44_999)
        s.beat("m0")
        s.wait(44_999)
        s.alive("m0")
    s.wait(44_999)
    assert s.summary == ("Stable", 2, 2)
    assert s.happened("member_removed") == []


def test_session_ends(group):
    """testSessionTimeoutExpiration"""
    s = group()
    s.join("m0", "a")
    s.join("m1", "a")
    s.settle()
    s.wait(40_000)
    s.beat("m1")
    s.wait(5_000)
    assert s.summary == ("Assigning", 4, 3)
    (removed,) = s.happened("member_removed")
    assert (removed["member_id"], removed["reason"]) == ("m0", "session_expired")
    assert s.beat("m0").error == "UNKNOWN_MEMBER_ID"
    assert s.told(s.beat("m1")) == (4, {"a": [0, 1]})


def test_session_of_one_that_is_away_ends(group):
    """testSessionTimeoutExpirationStaticMember"""
    s = group()
    s.join("m0", "a", group_instance_id="i0")
    s.wait(10_000)
    s.heartbeat("m0", -2, group_instance_id="i0")
    s.wait(34_999)
    assert s.summary[0] == "Reconciling"
    s.wait(1)
    assert s.summary == ("Empty", 3, 3)


def test_session_is_a_setting(group):
    s = group(group_consumer_session_timeout_ms=6_000)
    s.join("m0", "a")
    assert s.picture.members[0].session_timeout_ms == 6_000
    s.wait(6_000)
    assert s.summary[0] == "Empty"


def test_commit_is_no_sign_of_life(group):
    s = group()
    s.join("m0", "a")
    s.wait(40_000)
    assert s.commit("m0", 2, {"a": [0]}) == 0
    s.wait(5_000)
    assert s.summary[0] == "Empty"


def test_time_without_a_coordinator_does_not_count(group):
    """testOnLoadedSessionTimeoutExpiration, testOnLoaded: Kafka begins all sessions again."""
    s = revoking(group())
    s.away(1_000_000)
    s.wait(29_999)
    assert s.happened("member_removed") == []
    s.beat("m1")
    s.wait(1)
    assert [each["reason"] for each in s.happened("member_removed")] == ["not_revoked"]


def test_time_to_revoke_is_over_when_it_is_done(group):
    """testRebalanceTimeoutLifecycle"""
    s = revoking(group())
    s.wait(29_999)
    s.ack("m0")
    assert s.group.members["m0"].revocation_deadline_ms is None
    s.wait(1)
    assert s.happened("member_removed") == []


def test_time_to_revoke_ends(group):
    """testRebalanceTimeoutExpiration: heartbeats do not extend it."""
    s = revoking(group())
    s.wait(20_000)
    s.beat("m0")
    s.beat("m1")
    s.wait(9_999)
    assert s.happened("member_removed") == []
    s.wait(1)
    (removed,) = s.happened("member_removed")
    assert (removed["member_id"], removed["reason"]) == ("m0", "not_revoked")
    assert s.told(s.beat("m1")) == (4, {"a": [0, 1]})


def test_second_revocation_begins_the_time_again(group):
    s = revoking(group())
    s.wait(20_000)
    # It stays at its epoch, and gives up more.
    s.beat("m1")
    s.beat("m0", subscribed_topic_names=["b"])
    assert s.pending("m0") == {"a": [0, 1]}
    s.wait(29_999)
    assert s.happened("member_removed") == []
    s.beat("m1")
    s.wait(1)
    assert s.happened("member_removed")[0]["member_id"] == "m0"


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_member_without_time_to_revoke_is_out_as_soon_as_it_has_to(group, timeout_ms):
    s = group()
    s.join("m0", "a", rebalance_timeout_ms=timeout_ms)
    s.join("m1", "a")
    assert s.told(s.beat("m0")) == (2, {"a": [0]})
    assert s.happened("member_removed")[0]["reason"] == "not_revoked"
    assert s.told(s.beat("m1")) == (4, {"a": [0, 1]})


def test_changed_time_counts_from_the_next_revocation_on(group):
    s = revoking(group())
    s.beat("m0", rebalance_timeout_ms=1_000)
    s.wait(1_000)
    assert s.happened("member_removed") == []
    s.wait(29_000)
    assert s.happened("member_removed")[0]["reason"] == "not_revoked"
    assert s.summary[1:] == (4, 3)


def test_member_that_waits_is_not_out_of_time(group):
    s = revoking(group())
    for _ in range(5):
        s.wait(5_000)
        s.beat("m0")
        s.beat("m1")
    s.ack("m0")
    assert s.told(s.beat("m1")) == (3, {"a": [1]})
