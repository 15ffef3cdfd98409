"""What the events tell of a rebalance: why it began, who joined when, and how long it took."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent, Event, RebalanceCause
from tests.coordinator_state.scenario import OLD, Scenario

CONTRACT = (Path(__file__).parents[2] / "docs" / "contract.md").read_text()


def joins(s: Scenario) -> list[tuple[str, str, int]]:
    return [
        (event["event"], event["client_id"], event["join_phase_ms"])
        for event in s.events
        if event["event"] in ("member_added", "member_rejoined")
    ]


def rebalances(s: Scenario) -> list[tuple[str, str | None, int | None]]:
    return [(event["to"], event["cause"], event["rebalance_ms"]) for event in s.happened("state_changed")]


def test_each_join_of_a_phase_is_told_with_its_time_in_it() -> None:
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.events.clear()
    s.wait(1_000)
    s.join("c3", protocols={"range": b"other topics"})
    s.wait(2_000)
    s.join("c1")
    s.wait(500)
    s.join("c4")
    s.wait(500)
    s.join("c2")

    assert joins(s) == [
        ("member_rejoined", "c3", 0),
        ("member_rejoined", "c1", 2_000),
        ("member_added", "c4", 2_500),
        ("member_rejoined", "c2", 3_000),
    ]
    assert [event["generation_id"] for event in s.happened("member_rejoined")] == [2, 2, 2]


def test_a_join_of_a_static_member_is_told_with_its_instance_id() -> None:
    s = Scenario()
    s.static("c1")
    s.stabilise("c1", "c2")
    s.events.clear()
    s.join("c1")
    s.join("c2")

    told = [(event["client_id"], event["group_instance_id"]) for event in s.happened("member_rejoined")]
    assert told == [("c1", "C1"), ("c2", None)]


def test_a_join_that_is_sent_again_is_one_join() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1", protocols={"range": b"other topics"})
    s.events.clear()
    s.wait(1_000)
    s.join("c1", protocols={"range": b"other topics"})

    assert s.events == []


def test_a_join_that_is_answered_at_once_begins_nothing() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.events.clear()
    s.join("c2")

    assert s.events == []


def test_the_name_at_the_brokers_is_told_with_all_that_a_request_does() -> None:
    s = Scenario(OLD, group_initial_rebalance_delay_ms=3_000)
    s.join("c1", principal="alice")
    s.wait(3_000)  # a deadline ends the join phase
    s.sync("c1", {"c1": b"mine"}, principal="bob")
    s.commit("c1", {"t": {0: 5}}, principal=None)
    s.leave("c1", principal="")

    assert [(event["event"], event.get("principal")) for event in s.events] == [
        ("group_created", "alice"),
        ("member_added", "alice"),
        ("state_changed", "alice"),
        ("state_changed", None),
        ("generation_completed", None),
        ("state_changed", "bob"),
        ("assignment_propagated", "bob"),
        ("offsets_committed", None),
        ("member_removed", None),
        ("state_changed", None),
        ("state_changed", None),
    ]


def test_the_reason_that_a_client_gives_is_told() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1", reason="topics have changed")

    (rejoined,) = s.happened("member_rejoined")[-1:]
    assert (rejoined["member_id"], rejoined["group_instance_id"]) == (s.ids["c1"], None)
    assert rejoined["client_reason"] == "topics have changed"


# -- why, and for how long -------------------------------------------------------------------------------


def caused(s: Scenario) -> list[str | None]:
    return [cause for to, cause, _ in rebalances(s) if to == "PreparingRebalance"]


def test_a_member_joins() -> None:
    s = Scenario()
    s.stabilise("c1")
    s.join("c2")
    assert caused(s) == ["member_joined", "member_joined"]


def test_a_member_leaves() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.leave("c2")
    assert caused(s)[-1] == "member_left"


def test_a_session_expires() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.wait(9_000)
    s.heartbeat("c1")
    s.wait(1_000)
    assert caused(s)[-1] == "session_expired"


def test_a_member_does_not_sync() -> None:
    s = Scenario()
    s.form("c1", "c2", session_timeout_ms=10_000, rebalance_timeout_ms=5_000)
    s.sync("c2")
    s.wait(5_000)
    assert caused(s)[-1] == "not_synced"


def test_a_member_subscribes_to_something_else() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c2", protocols={"range": b"other topics"})
    assert caused(s)[-1] == "subscription_changed"


def test_the_leader_joins_again() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1")
    assert caused(s)[-1] == "leader_rejoined"


def test_a_static_member_is_replaced() -> None:
    s = Scenario()
    s.static("c1")
    s.form("c1", "c2")
    s.restart("c1")
    assert caused(s)[-1] == "member_replaced"
    assert joins(s)[-1] == ("member_rejoined", "c1", 0)


def test_every_cause_is_tested() -> None:
    # This coordinator knows them all. Two are only those of consumer groups.
    of_others = {RebalanceCause.UNKNOWN, RebalanceCause.NOT_REVOKED, RebalanceCause.TOPICS_CHANGED}
    assert len(set(RebalanceCause) - of_others) == 7


def test_a_rebalance_takes_until_the_group_is_stable_again() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.events.clear()
    s.wait(1_000)
    s.join("c1")
    s.wait(2_000)
    s.join("c2")
    s.wait(500)
    # It begins anew before it is over, for another reason.
    s.leave("c2")
    s.wait(100)
    s.join("c1")
    s.sync("c1")

    assert rebalances(s) == [
        ("PreparingRebalance", "leader_rejoined", None),
        ("CompletingRebalance", None, None),
        ("PreparingRebalance", "member_left", None),
        ("CompletingRebalance", None, None),
        ("Stable", "leader_rejoined", 2_600),
    ]


def test_a_rebalance_takes_until_nobody_is_left() -> None:
    s = Scenario()
    s.stabilise("c1")
    s.events.clear()
    s.wait(1_000)
    s.leave("c1")
    assert rebalances(s) == [("PreparingRebalance", "member_left", None), ("Empty", "member_left", 0)]


def test_the_protocol_type_is_told_with_what_it_is_needed_to_read() -> None:
    s = Scenario(OLD)
    s.stabilise("c1", protocol_type="units")
    for event in ("generation_completed", "assignment_propagated"):
        assert [each["protocol_type"] for each in s.happened(event)] == ["units"]


# -- events of versions before ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        {"event": "state_changed", "from": "Stable", "to": "PreparingRebalance", "reason": "c1 joined"},
        {"event": "member_added", "member_id": "m", "client_id": "c", "client_host": "h"},
        {"event": "generation_completed", "protocol_name": "range", "leader": "m", "members": ["m"]},
        {"event": "assignment_propagated", "assignments": []},
    ],
)
def test_an_event_without_the_fields_that_came_later_can_be_read(event: dict[str, object]) -> None:
    common = {"event_id": "requests-0-7-0", "at_ms": 7, "group_id": "g", "generation_id": 1}
    read = msgspec.convert(common | event, AnyEvent)
    assert read.event_id == "requests-0-7-0"


# -- the contract ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["a bad release", "\x1b[2J\n\u202e", "x" * 255])
def test_a_change_of_offsets_tells_why(words):
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}}, reason=words)
    s.delete_offsets({"t": [1]}, reason=words)
    s.send("delete_group", "admin", reason=words)

    assert {(event["event"], event["client_reason"]) for event in s.events if "client_reason" in event} == {
        ("offsets_committed", words),
        ("offsets_deleted", words),
    }
    assert len(s.happened("offsets_deleted")) == 2
    assert s.reasons()[-1] == f"deleted by admin: {words}"


@pytest.mark.parametrize("fields", [{}, {"reason": None}, {"reason": ""}])
def test_a_change_of_offsets_without_a_reason_tells_none(fields):
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}}, **fields)
    s.delete_offsets({"t": [1]}, **fields)
    s.send("delete_group", "admin", **fields)

    assert "client_reason" not in {name for event in s.events for name in event}
    assert s.reasons()[-1] == "deleted by admin"


@pytest.mark.parametrize("kind", get_args(AnyEvent), ids=lambda it: it.__struct_config__.tag)
def test_the_contract_names_every_field_of_an_event(kind: type[Event]) -> None:
    section = CONTRACT.partition("\n## Events\n")[2].partition("\n## ")[0]
    tag = kind.__struct_config__.tag
    (row,) = re.findall(rf"^\|[^|]*`{tag}`[^|]*\|(.*)\|$", section, re.MULTILINE)

    told = set(re.findall(r"`(\w+)`", row))
    own = {field.encode_name for field in msgspec.structs.fields(kind)} - {*Event.__struct_fields__}
    assert own <= told
    assert {*Event.__struct_fields__} <= set(re.findall(r"`(\w+)`", section.partition("\n\n| ")[0]))
