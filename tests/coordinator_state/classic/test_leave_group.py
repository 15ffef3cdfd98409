"""LeaveGroup, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import Scenario, only


def told(reply) -> list[tuple[str, int]]:
    return [(member.member_id, member.error_code) for member in reply.members]


def test_batch_is_one_rebalance_and_each_member_is_told():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    before = len(s.states())
    ids = [s.ids["c2"], "nobody", s.ids["c3"], s.ids["c2"]]
    reply = only(s.leave("c2", members=[{"member_id": member_id} for member_id in ids]))
    # The second time it is no member any more.
    assert told(reply) == [(ids[0], 0), ("nobody", 25), (ids[2], 0), (ids[3], 25)]
    assert s.removed() == [("c2", "left"), ("c3", "left")]
    assert s.states()[before:] == ["PreparingRebalance"]
    assert s.reasons()[-1] == "c2, c3 left"


def test_batch_of_nobody():
    s = Scenario()
    s.stabilise("c1")
    before = s.state
    reply = only(s.leave("c1", members=[]))
    assert (reply.error, reply.members) == ("NONE", [])
    assert s.state == before


@pytest.mark.parametrize("count", [0, 2])
def test_old_version_is_about_one_member(count):
    s = Scenario()
    s.stabilise("c1", "c2")
    before = s.state
    reply = only(s.leave("c1", api_version=2, members=[{"member_id": s.ids["c1"]}] * count))
    assert (reply.error, reply.error_message) == ("UNSUPPORTED_VERSION", "version 2 is about one member")
    assert s.state == before


def test_reason_is_that_of_one_who_left():
    s = Scenario()
    s.stabilise("c1", "c2")
    members = [{"member_id": "nobody", "reason": "not this"}, {"member_id": s.ids["c2"], "reason": "x" * 300}]
    s.leave("c2", members=members)
    assert s.reasons()[-1] == "c2 left: " + "x" * 255


def test_each_is_told_with_its_own_reason():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    reasons = {"c1": "scaled down", "c2": "", "c3": "x" * 300}
    s.leave("c1", members=[{"member_id": s.ids[it], "reason": why} for it, why in reasons.items()])
    assert [(it["client_id"], it["client_reason"]) for it in s.happened("member_removed")] == [
        ("c1", "scaled down"),
        ("c2", None),
        ("c3", "x" * 255),
    ]


def test_at_most_ten_thousand_at_once():
    s = Scenario()
    s.stabilise("c1")
    reply = only(s.leave("c1", members=[{}] * 10_000))
    assert len(reply.members) == 10_000
    reply = only(s.leave("c1", members=[{}] * 10_001))
    assert reply.error == "INVALID_REQUEST"
    assert reply.error_message == "Expected `array` of length <= 10000 - at `$.members`"


@pytest.mark.parametrize("version", range(6))
def test_reason_came_with_version_5(version):
    s = Scenario()
    s.stabilise("c1", "c2")
    s.leave("c2", api_version=version, members=[{"member_id": s.ids["c2"], "reason": "why"}])
    (event,) = s.happened("member_removed")
    assert event["client_reason"] == ("why" if version >= 5 else None)
