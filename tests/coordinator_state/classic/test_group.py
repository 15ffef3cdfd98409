"""The bookkeeping of a group, without the protocol."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.member import Member, stored
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.requests import Protocol
from group_coordinator.coordinator_state.responses import ReplyTo
from group_coordinator.coordinator_state.stored import encode_group

REPLY_TO = ReplyTo("r", "c", None, 9)


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


def test_new_group():
    made = group()
    assert (made.state, made.generation_id, made.members, made.leader) == ("Empty", 0, {}, None)
    assert (made.protocol_type, made.protocol_name, made.rebalance_timeout_ms) == (None, None, 0)


def test_first_member_sets_the_type_and_leads():
    made = group(member("c1", "range"))
    made.add_member(member("c2", "range"), "ignored")
    assert (made.protocol_type, made.leader) == ("consumer", "c1")


def test_pending_id_is_used_up_by_its_member():
    made = group()
    made.pending_members["c1"] = 7
    made.add_member(member("c1"), "consumer")
    assert made.pending_members == {}


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


def test_parked_joins_are_counted_once_each():
    made = group(member("c1"), member("c2"))
    first, second = made.members.values()
    made.park_join(first, REPLY_TO)
    made.park_join(first, ReplyTo("newer", "c", None, 9))
    assert (made.num_awaiting_join, made.all_members_joined) == (1, False)
    made.park_join(second, REPLY_TO)
    assert made.all_members_joined
    made.pending_members["c3"] = 7
    assert not made.all_members_joined
    assert made.take_parked_join(first) == ReplyTo("newer", "c", None, 9)
    assert made.take_parked_join(first) is None
    assert made.num_awaiting_join == 1
    made.remove_member(made.members["c2"])
    assert made.num_awaiting_join == 0


def test_parked_sync_is_taken_once():
    made = group(member("c1"))
    (it,) = made.members.values()
    it.awaiting_sync = REPLY_TO
    assert made.take_parked_sync(it) == REPLY_TO
    assert made.take_parked_sync(it) is None


def test_pending_syncs_are_counted_once_each():
    made = group(member("c1"), member("c2"))
    first, second = made.members.values()
    for it in (first, first, second):
        made.set_pending_sync(it, pending=True)
    assert made.num_pending_sync == 2
    made.remove_member(made.members["c1"])
    assert made.num_pending_sync == 1
    for _ in range(2):
        made.set_pending_sync(second, pending=False)
    assert made.num_pending_sync == 0


def test_leadership_goes_to_who_has_been_in_longest():
    made = group(member("c1"), member("c2"), member("c3"))
    made.remove_member(made.members["c2"])
    assert made.leader == "c1"
    made.remove_member(made.members["c1"])
    assert made.leader == "c3"
    made.remove_member(made.members["c3"])
    assert made.leader is None


def test_static_member_is_known_by_its_instance_id():
    made = group(member("c1"), member("c2", group_instance_id="I"))
    assert made.static_members == {"I": "c2"}
    assert made.static_member("I") is made.members["c2"]
    assert [made.static_member(it) for it in (None, "", "J", "c1")] == [None] * 4
    made.remove_member(made.members["c2"])
    assert (made.static_members, made.static_member("I")) == ({}, None)


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


def test_replaced_follower_does_not_lead():
    made = group(member("c1"), member("c2", group_instance_id="I"))
    made.replace_static_member(made.members["c2"], "d2", "c2", "")
    assert made.leader == "c1"


def test_supported_is_what_all_members_offer():
    def supports(protocol_type: str, *names: str) -> bool:
        return made.supports_protocols(protocol_type, [Protocol(name, b"") for name in names])

    made = group()
    assert supports("consumer", "range")
    assert not supports("", "range")
    assert not supports("consumer")
    made.add_member(member("c1", "range", "roundrobin"), "consumer")
    made.state = GroupState.PREPARING_REBALANCE
    assert supports("consumer", "roundrobin", "foo")
    assert supports("consumer", "foo", "range")
    assert not supports("consumer", "foo", "bar")
    made.add_member(member("c2", "roundrobin", "blah"), "consumer")
    assert supports("consumer", "roundrobin", "foo")
    assert not supports("connect", "roundrobin")
    assert not supports("consumer", "range", "blah")


@pytest.mark.parametrize(("timeouts", "expected"), [([], 0), ([5, 9, 7], 9), ([-1], 0), ([-1, 4], 4)])
def test_rebalance_timeout_is_the_longest(timeouts, expected):
    made = group(*(member(f"c{i}", rebalance_timeout_ms=it) for i, it in enumerate(timeouts)))
    assert made.rebalance_timeout_ms == expected


def test_member_matches_what_it_offered():
    it = member("c1", "range", "sticky")
    assert it.matches([Protocol("range", b""), Protocol("sticky", b"")])
    assert not it.matches([Protocol("sticky", b""), Protocol("range", b"")])
    assert not it.matches([Protocol("range", b"")])
    assert not it.matches([Protocol("range", b""), Protocol("sticky", b"new")])


def test_names_of_a_member_are_in_its_order_each_once():
    assert member("c1", "sticky", "range", "sticky").protocol_names == ["sticky", "range"]


def test_metadata_of_a_protocol_that_is_not_offered_is_empty():
    it = Member(**msgspec.structs.asdict(member("c1")) | {"protocols": stored([Protocol("range", b"x")])})
    assert (it.metadata("range"), it.metadata("sticky"), it.metadata(None)) == (b"x", b"", b"")


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
    shown = len(msgspec.json.encode(with_it.picture())) - len(msgspec.json.encode(without.picture()))
    assert shown <= 2 * it.size
