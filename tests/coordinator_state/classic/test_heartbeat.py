"""Heartbeat, case by case."""

from __future__ import annotations

import json

import msgspec
import pytest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import MemberResult
from tests.coordinator_state.scenario import Scenario, errors, only


def test_generation_before_until_the_new_one_is_known():
    """The coordinator was away between the end of the join phase and its answers."""
    s = Scenario()
    s.form("c1", "c2")
    s.at(9_000)
    assert errors(s.heartbeat("c1", generation_id=s.group.generation_id - 1)) == {"c1": "ILLEGAL_GENERATION"}
    assert s.session_deadline("c1") == 19_000
    s.at(10_000)
    assert list(s.group.members) == [s.ids["c1"]], "c2 was silent"


def test_generation_before_when_the_next_rebalance_begins_before_the_answer_has_come():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.at(1_000)
    s.ask("c3")
    heard = s.generations["c1"]
    for client in ("c3", "c1", "c2"):
        s.join(client)
    assert s.group.state == "CompletingRebalance"
    s.leave("c3")
    for now in range(4_000, 40_000, 3_000):
        s.at(now)
        # The answer that would tell c1 of its generation is still on its way.
        assert errors(s.heartbeat("c1", generation_id=heard)) == {"c1": "ILLEGAL_GENERATION"}
    assert ("c1", "session_expired") not in s.removed()


@pytest.mark.parametrize("proof", ["heartbeat", "sync"])
def test_generation_before_is_none_of_a_member_that_knows_the_new_one(proof):
    s = Scenario()
    s.form("c1")
    if proof == "sync":
        s.sync("c1")
    else:
        s.heartbeat("c1")
    deadline = s.session_deadline("c1")
    s.at(5_000)
    s.heartbeat("c1", generation_id=s.group.generation_id - 1)
    assert s.session_deadline("c1") == deadline


def test_generation_before_does_not_outlast_the_sync_deadline():
    s = Scenario()
    s.form("c1")
    deadline = s.group.sync_deadline_ms
    for now in range(5_000, deadline, 5_000):
        s.at(now)
        s.heartbeat("c1", generation_id=s.group.generation_id - 1)
    s.at(deadline)
    assert [event["reason"] for event in s.events if event["event"] == "member_removed"] == ["not_synced"]


# -- of several members, which Kafka has not -------------------------------------------------------------


def told(s: Scenario, *clients: str, **fields: object) -> list[str]:
    """Beat for `clients` at once, and say what each was told."""
    reply = only(s.heartbeat_of(*clients, **fields))
    assert (reply.error_code, reply.error) == (0, "NONE")
    assert [each.member_id for each in reply.members] == [s.ids.get(client, "") for client in clients]
    return [Errors(each.error_code).name for each in reply.members]


def test_each_of_several_is_told_what_it_would_be_alone():
    s = Scenario()
    s.static("c3")
    s.stabilise("c1", "c2", "c3")
    s.ask("c4")
    s.generations["c2"] += 1
    s.at(4_000)
    assert told(s, "c1", "c2", "c3", "c4", "gone") == [
        "NONE",
        "ILLEGAL_GENERATION",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert [s.session_deadline(client) for client in ("c1", "c2", "c3")] == [14_000, 10_000, 14_000]


def test_all_of_several_hear_of_a_rebalance():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1")
    assert told(s, "c1", "c2") == ["REBALANCE_IN_PROGRESS"] * 2


def test_one_of_several_that_is_fenced():
    s = Scenario()
    s.static("c1")
    s.stabilise("c1", "c2")
    before = {"member_id": s.ids["c1"], "group_instance_id": s.instances["c1"], "generation_id": 1}
    s.restart("c1", "successor")
    reply = only(s.heartbeat_of("c2", members=[before]))
    assert reply.members == [
        MemberResult(
            member_id=before["member_id"],
            group_instance_id=before["group_instance_id"],
            error_code=Errors.FENCED_INSTANCE_ID.value,
        )
    ]


def test_of_nobody_and_of_a_group_that_is_not_there():
    s = Scenario()
    assert told(s, "c1", "c2") == ["UNKNOWN_MEMBER_ID"] * 2
    s.stabilise("c1")
    assert only(s.heartbeat_of("c1", members=[])).members == []


def test_instance_ids_of_several_need_their_version():
    s = Scenario()
    s.static("c1")
    s.stabilise("c1")
    assert errors(s.heartbeat_of("c1", api_version=2)) == {"c1": "UNSUPPORTED_VERSION"}


def test_a_quiet_one_is_answered_if_there_is_news():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.at(4_000)
    assert s.heartbeat("c1", quiet=True) == s.heartbeat_of("c1", "c2", quiet=True) == []
    assert [s.session_deadline(client) for client in ("c1", "c2")] == [14_000] * 2
    assert errors(s.heartbeat("c1", quiet=False)) == {"c1": "NONE"}
    s.generations["c2"] += 1
    assert told(s, "c1", "c2", quiet=True) == ["NONE", "ILLEGAL_GENERATION"]
    assert errors(s.heartbeat("c1", quiet=True, api_version=99)) == {"c1": "UNSUPPORTED_VERSION"}
    s.join("c1")
    assert errors(s.heartbeat("c1", quiet=True)) == {"c1": "REBALANCE_IN_PROGRESS"}


def test_the_answer_to_one_has_no_list():
    s = Scenario()
    s.stabilise("c1")
    alone, several = (
        json.loads(msgspec.json.encode(only(replies)))
        for replies in (s.heartbeat("c1"), s.heartbeat_of("c1"))
    )
    assert "members" not in alone
    assert several["members"] == [{"member_id": s.ids["c1"], "group_instance_id": None, "error_code": 0}]


@pytest.mark.parametrize("gap", [1, 4_000, 9_000, 10_000, 14_000])
def test_several_do_what_each_would_alone(gap):
    """The same group comes of it, and the same events."""
    clients = ("c1", "c2", "c3")
    alone, together = Scenario(), Scenario()
    for s in (alone, together):
        s.stabilise(*clients)
        s.wait(4_000)
    for _ in range(5):
        for client in clients:
            alone.heartbeat(client)
        together.heartbeat_of(*clients)
        for s in (alone, together):
            s.wait(gap)
    assert alone.state == together.state
    of_request = {"event_id": "", "request_id": ""}
    assert [it | of_request for it in alone.events] == [it | of_request for it in together.events]
