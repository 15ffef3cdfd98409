"""SyncGroup, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import Scenario, errors, only


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
@pytest.mark.parametrize("version", range(5))
def test_protocol_is_not_read_before_version_5(version, fields):
    s = Scenario()
    s.form("c1")
    assert errors(s.sync("c1", api_version=version, **fields)) == {"c1": "NONE"}


def test_assignment_of_a_stranger_is_ignored():
    s = Scenario()
    s.form("c1")
    s.ids["stranger"] = "nobody"
    for _ in range(2):  # the second time it changes nothing
        s.sync("c1", {"c1": b"1", "stranger": b"2"})
    (event,) = s.happened("assignment_propagated")
    assert event["assignments"] == [{"member_id": s.ids["c1"], "assignment": "MQ=="}]
    assert event["generation_id"] == 1


def test_follower_after_the_leader_is_answered_at_once():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c1", {"c2": b"2"})
    s.at(4_000)
    assert only(s.sync("c2")).assignment == b"2"
    # It may have been told late, and its first heartbeat is due a while from now.
    assert s.session_deadline("c2") == 14_000
