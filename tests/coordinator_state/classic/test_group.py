"""The bookkeeping of a group, without the protocol."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.member import Member, stored
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.requests import Protocol
from group_coordinator.coordinator_state.responses import ReplyTo
from group_coordinator.coordinator_state.stored import encode_group


def member(name: str, *protocols: str, **fields) -> Member:
    fields = {
        "client_id": name,
        "client_host": "",
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 2,
    } | fields
    return Member(member_id=name, protocols=stored(Protocol(it, b"") for it in protocols), **fields)


def group(*members: Member) -> ClassicGroup:
    made = ClassicGroup(group_id="orders", now_ms=0, state_timestamp_ms=0)
    for each in members:
        made.add_member(each, "consumer")
    return made


def test_counters_follow_the_members():
    made = group(member("c1", "range", "sticky"), member("c2", "range"))
    assert made.protocol_counts == {"range": 2, "sticky": 1}
    held = made.bytes_held
    made.update_protocols(made.members["c2"], [Protocol("sticky", b"12345")])
    assert made.protocol_counts == {"range": 1, "sticky": 2}
    assert made.bytes_held == held + len("sticky") - len("range") + 5
    made.remove_member(made.members["c1"])
    assert made.protocol_counts == {"sticky": 1}
    made.remove_member(made.members["c2"])
    assert (made.protocol_counts, made.bytes_held) == ({}, 0)


def test_parked_join_goes_with_its_member():
    made = group(member("c1"))
    made.park_join(made.members["c1"], ReplyTo("r", "c", None, 9))
    made.remove_member(made.members["c1"])
    assert (made.num_awaiting_join, made.leader) == (0, None)


def test_replaced_static_member_keeps_its_place_under_another_id():
    made = group(member("c1", "range", group_instance_id="I"), member("c2", "range"))
    it = made.members["c1"]
    it.assignment = b"owned"
    held = made.bytes_held
    made.replace_static_member(it, "longer id", "d1", "10.0.0.7")
    assert (made.leader, made.static_members) == ("longer id", {"I": "longer id"})
    assert made.members.keys() == {"longer id", "c2"}
    assert (it.member_id, it.client_id, it.client_host, it.assignment) == (
        "longer id",
        "d1",
        "10.0.0.7",
        b"owned",
    )
    assert made.protocol_counts == {"range": 2}
    assert made.bytes_held == held + len("longer id") - len("c1") + len("10.0.0.7")


@pytest.mark.parametrize(("timeouts", "expected"), [([], 0), ([5, 9, 7], 9), ([-1], 0), ([-1, 4], 4)])
def test_rebalance_timeout_is_the_longest(timeouts, expected):
    made = group(*(member(f"c{i}", rebalance_timeout_ms=it) for i, it in enumerate(timeouts)))
    assert made.rebalance_timeout_ms == expected


def test_deadline_of_another_kind_of_group_is_an_error():
    made = group(member("c0"))
    assert made.deadline(DeadlineKind.REVOCATION, "c0") is None
    with pytest.raises(AttributeError):
        made.set_deadline(DeadlineKind.REVOCATION, "c0", 1)


@pytest.mark.parametrize("name", ["c", "é" * 50, "\0" * 50, '"' * 50])
def test_size_of_a_member_bounds_what_it_adds_to_the_state_and_to_a_picture(name):
    without = group(member("c0", "range"))
    with_it = group(member("c0", "range"))
    with_it.protocol_name = without.protocol_name = "range"
    it = member(name, "range", client_host=name, session_timeout_ms=2**31 - 1, rebalance_timeout_ms=-(2**31))
    it.protocols = stored([Protocol("range", b"x" * 1_000)])
    it.awaiting_join = it.awaiting_sync = ReplyTo("r" * 20, "c" * 20, 2**31 - 1, 9)
    it.session_deadline_ms = 2**50
    with_it.add_member(it, "consumer")
    grown = len(encode_group(with_it)) - len(encode_group(without))
    # What a parked request adds is gone with its answer, and bounded by its request.
    assert grown <= it.size + 2 * 60
    shown = len(msgspec.json.encode(with_it.picture(GroupConfig()))) - len(
        msgspec.json.encode(without.picture(GroupConfig()))
    )
    assert shown <= 2 * it.size
