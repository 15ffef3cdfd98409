"""Requests of one protocol that meet a group of the other (table in `routes.py`; policy `disabled`)."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state.subscription import subscription

PROTOCOLS = [{"name": "range", "metadata": msgspec.json.decode(msgspec.json.encode(subscription("a")))}]


def join(s, member_id="", **fields):
    asked = {"session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": PROTOCOLS}
    return s.send("join_group", "classic", member_id=member_id, **(asked | fields))


def sync(s, member_id="", **fields):
    asked = {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    return s.send("sync_group", "classic", member_id=member_id, **(asked | fields))


def beat(s, member_id="", **fields):
    return s.send("heartbeat", "classic", member_id=member_id, generation_id=1, **fields)


def classic(s):
    """The classic group with one member, in Stable; the member's id."""
    member_id = join(s).member_id
    s.wait(0)
    join(s, member_id)
    s.wait(3_000)
    sync(s, member_id)
    group = decode_group(s.state)
    assert (type(group), str(group.state)) == (ClassicGroup, "Stable")
    return member_id


def test_classic_join_of_a_group_with_members(group):
    """Kafka 4.4's throwIfClassicMemberCannotJoinConsumerGroup."""
    s = group()
    s.join("m0", "a", group_instance_id="i0")
    before = s.state
    for fields in ({}, {"member_id": "m0"}, {"group_instance_id": "i0"}, {"api_version": 2}):
        reply = join(s, **fields)
        assert reply.error == "INCONSISTENT_GROUP_PROTOCOL"
        assert "group.protocol=consumer" in reply.error_message
        assert reply.member_id == ""
    assert decode_group(before).members == s.group.members


@pytest.mark.parametrize("ask", [sync, beat])
def test_classic_requests_of_no_classic_member(group, ask):
    s = group()
    s.join("m0", "a", group_instance_id="i0")
    assert ask(s, "m0").error == "UNKNOWN_MEMBER_ID"
    assert ask(s, "who").error == "UNKNOWN_MEMBER_ID"
    assert ask(s, "m0", group_instance_id="i0").error == "UNKNOWN_MEMBER_ID"
    assert ask(s, "m0", group_instance_id="i9").error == "UNKNOWN_MEMBER_ID"
    assert ask(s, "who", group_instance_id="i0").error == "FENCED_INSTANCE_ID"
    s.leave("m0", group_instance_id="i0")
    assert ask(s, "m0").error == "UNKNOWN_MEMBER_ID"


def test_classic_heartbeat_of_several(group):
    s = group()
    s.join("m0", "a", group_instance_id="i0")
    members = [
        {"member_id": "m0", "generation_id": 1},
        {"member_id": "who", "generation_id": 1, "group_instance_id": "i0"},
    ]
    reply = s.send("heartbeat", "classic", members=members)
    assert [(each.member_id, each.error_code) for each in reply.members] == [("m0", 25), ("who", 82)]
    # As at a classic group: a quiet one is answered only if a member has an error.
    assert s.send("heartbeat", "classic", members=members, quiet=True).members == reply.members
    assert s.send("heartbeat", "classic", members=[], quiet=True) is None
    assert s.send("heartbeat", "classic", members=[]).members == []


def test_tools_remove_members_by_leave_group(group):
    """LeaveGroupRequestTest's testLeaveGroupWithNewConsumerGroupProtocol: all in one epoch."""
    s = group()
    for number in range(4):
        s.join(f"m{number}", "a", group_instance_id=f"i{number}" if number > 1 else None)
    epoch = s.summary[1]
    members = [
        {"member_id": "m0", "reason": "why"},
        {"member_id": "m0"},
        {"member_id": "", "group_instance_id": "i2"},
        {"member_id": "m3", "group_instance_id": "i3"},
        {"member_id": "m1", "group_instance_id": "i2"},
        {"member_id": "who"},
        {"member_id": "", "group_instance_id": "i9"},
    ]
    reply = s.send("leave_group", members=members, api_version=5)
    assert [each.error_code for each in reply.members] == [0, 0, 0, 0, 82, 25, 25]
    assert s.group.members.keys() == {"m1"}
    assert s.summary == ("Assigning", epoch + 1, epoch)
    assert s.happened("member_removed")[0]["client_reason"] == "why"
    # Nobody that is a member: no epoch.
    assert s.send("leave_group", members=[{"member_id": "who"}]).members[0].error_code == 25
    assert s.summary[1] == epoch + 1
    # Old versions are about one.
    several = [{"member_id": "m1"}, {"member_id": "who"}]
    refused = s.send("leave_group", members=several, api_version=2)
    assert (refused.error, refused.error_message) == (
        "UNSUPPORTED_VERSION",
        "version 2 is about one member",
    )
    assert s.send("leave_group", members=[{"member_id": "who"}], api_version=2).error == "UNKNOWN_MEMBER_ID"
    assert s.send("leave_group", members=[{"member_id": "m1"}], api_version=2).error == "NONE"
    assert s.summary == ("Empty", epoch + 2, epoch + 2)
    assert s.send("leave_group", members=[{"member_id": "m1"}]).members[0].error_code == 25


@pytest.mark.parametrize(("version", "error"), [(5, "NONE"), (6, "GROUP_ID_NOT_FOUND")])
def test_classic_description(group, version, error):
    """DescribeGroups of a consumer group is as if there were none."""
    s = group()
    s.join("m0", "a")
    reply = s.send("describe_group", api_version=version)
    assert (reply.error, reply.group_state, reply.members) == (error, "Dead", [])


def test_heartbeat_of_a_classic_group_with_members(group):
    """testConsumerGroupHeartbeatWithNonEmptyClassicGroup"""
    s = group()
    member_id = classic(s)
    for epoch in (0, 1, -1):
        assert s.join("m0", "a", member_epoch=epoch).error == "GROUP_ID_NOT_FOUND"
    several = s.send("consumer_group_heartbeat", members=[{"member_id": member_id, "member_epoch": 1}])
    assert several.error == "GROUP_ID_NOT_FOUND"
    assert s.describe().error == "GROUP_ID_NOT_FOUND"
    assert beat(s, member_id).error == "NONE"


def test_empty_classic_group_becomes_one_of_consumers(group):
    """testConsumerGroupHeartbeatWithEmptyClassicGroup"""
    s = group()
    member_id = classic(s)
    s.commit(member_id, 1, {"a": [1]})
    s.send("leave_group", members=[{"member_id": member_id}])
    assert s.heartbeat("m0", 1).error == "GROUP_ID_NOT_FOUND"
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.committed() == {"a": [1]}
    changed = s.happened("group_type_changed")[0]
    assert (changed["from"], changed["to"]) == ("classic", "consumer")
    assert s.picture.group_type == "consumer"


def test_simple_group_becomes_one_of_consumers(group):
    s = group()
    s.commit("", -1, {"a": [1]})
    assert s.told(s.join("m0", "a")) == (2, {"a": [0, 1]})
    assert s.committed() == {"a": [1]}


def test_empty_group_becomes_a_classic_one(group):
    """testClassicGroupJoinWithEmptyConsumerGroup"""
    s = group()
    s.join("m0", "a")
    s.commit("m0", 2, {"a": [1]})
    s.leave("m0")
    # An id that it does not know makes no group.
    assert join(s, "who").error == "UNKNOWN_MEMBER_ID"
    assert s.group.is_empty
    reply = join(s, "", api_version=3, rebalance_timeout_ms=1)
    s.wait(3_000)
    group_now = decode_group(s.state)
    assert type(group_now) is ClassicGroup
    assert group_now.generation_id == 1
    assert s.committed() == {"a": [1]}
    assert s.picture.group_type == "classic"
    assert s.happened("group_type_changed")[0]["to"] == "classic"
    assert reply is None
    s.send("leave_group", members=[{"member_id": next(iter(group_now.members))}])
    assert s.told(s.join("m1", "a"))[0] == 2


def test_group_that_was_deleted_is_of_no_kind(group):
    s = group()
    s.join("m0", "a")
    s.leave("m0")
    s.send("delete_group")
    assert sync(s, "m0").error == "UNKNOWN_MEMBER_ID"
    assert join(s, "m0").error == "UNKNOWN_MEMBER_ID"
    assert s.send("describe_group", api_version=6).error == "GROUP_ID_NOT_FOUND"
    assert join(s).error == "MEMBER_ID_REQUIRED"
    assert type(decode_group(s.state)) is ClassicGroup
    assert s.happened("group_type_changed") == []
