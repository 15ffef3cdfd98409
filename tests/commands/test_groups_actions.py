"""The actions of `groups`, on groups of the real core in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import MemberToRemove

from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.actions import (
    delete,
    delete_offsets,
    describe,
    list_groups,
    remove_members,
)
from group_coordinator.commands.groups.options import parse_lag
from group_coordinator.commands.tables import Failure, Line, Note, Report, Table
from group_coordinator.coordinator_state.requests import JoinGroupRequest, Protocol
from tests.client.memory import beat

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator import GroupMember
    from tests.client.memory import Coordinator
    from tests.commands.memory_admin import MemoryAdmin


def rows(report: Report) -> list[tuple[object, ...]]:
    return [row for item in report.items if isinstance(item, Table) for row in item.rows]


def told(report: Report) -> list[str]:
    return [item.text for item in report.items if isinstance(item, Line | Note | Failure)]


def offsets_of(report: Report) -> list[tuple[object, ...]]:
    """Group, topic, partition, current offset, log end offset, lag, client id."""
    return [(*row[:6], row[-1]) for row in rows(report)]


# -- list --------------------------------------------------------------------------------------------


def test_list(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", units=["u"])
    admin.commit("idle", orders={0: 1})

    assert [("busy",), ("idle",)] == rows(list_groups(admin, None))
    assert [("busy", "Stable"), ("idle", "Empty")] == rows(list_groups(admin, []))
    assert [("idle", "Empty")] == rows(list_groups(admin, ["Empty"]))


def test_types_are_listed_and_chosen(
    admin: MemoryAdmin, coordinator: Coordinator, make_member: Callable[..., GroupMember]
) -> None:
    make_member("old", units=["u"])
    beat(coordinator, "new", "m1")

    assert [("new", "Consumer"), ("old", "Classic")] == rows(list_groups(admin, None, []))
    assert [("new", "Consumer", "Stable")] == rows(list_groups(admin, ["Stable"], ["Consumer"]))


def test_a_group_of_the_consumer_protocol_is_rebalancing_until_all_have_their_own(
    admin: MemoryAdmin, coordinator: Coordinator
) -> None:
    beat(coordinator, "new", "m1")
    assert told(describe(admin, ["new"], "members")) == []
    beat(coordinator, "new", "m2")

    report = describe(admin, ["new"], "members", verbose=True)
    assert told(report) == ["warning: Consumer group 'new' is rebalancing."]
    assert [(row[1], *row[5:]) for row in rows(report)] == [
        ("m1", 2, 2, {"a": [0, 1]}, 3, {"a": [0]}),
        ("m2", 0, 3, {}, 3, {"a": [1]}),
    ]
    (state,) = rows(describe(admin, ["new"], "state", verbose=True))
    assert state[2:] == ("uniform", "Reconciling", 3, 3, 2)


# -- describe ----------------------------------------------------------------------------------------


def test_offsets_have_their_lag_and_their_owner(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    admin.commit("busy", orders={1: 7}, refunds={0: 0})
    make_member("busy", topics=["orders"])

    report = describe(admin, ["busy"], "offsets")

    assert [
        ("busy", "orders", 0, None, 10, None, "c1"),
        ("busy", "orders", 1, 7, 20, 13, "c1"),
        ("busy", "refunds", 0, 0, 0, 0, None),
    ] == offsets_of(report)
    assert ([], 0) == (told(report), report.exit_code)


def test_what_has_no_log_does_not_spoil_the_rest(admin: MemoryAdmin) -> None:
    admin.commit("g", gone={0: 5}, orders={0: 4, 9: 1})

    report = describe(admin, ["g"], "offsets")

    assert [
        ("g", "gone", 0, 5, None, None, None),
        ("g", "orders", 0, 4, 10, 6, None),
        ("g", "orders", 9, 1, None, None, None),
    ] == offsets_of(report)
    assert 0 == report.exit_code


def test_units_of_work_have_no_log_and_none_is_looked_up(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_member("busy", units=["orders", "other"])
    looked_up: list[object] = []
    monkeypatch.setattr(admin, "list_partition_offsets", lambda specs: looked_up.extend(specs) or {})

    report = describe(admin, ["busy"], "offsets")

    assert [
        ("busy", "orders", 0, None, None, None, "c1"),
        ("busy", "other", 0, None, None, None, "c1"),
    ] == offsets_of(report)
    assert [] == looked_up


def test_absent_group_is_one_line_and_the_others_are_described(admin: MemoryAdmin) -> None:
    admin.commit("b", orders={0: 4})
    admin.commit("d", orders={0: 4})

    report = describe(admin, ["d", "c", "b", "a"], "offsets")

    assert ["b", "d"] == [row[0] for row in rows(report)]
    assert [
        "Consumer group 'a' does not exist.",
        "Consumer group 'b' has no active members.",
        "Consumer group 'c' does not exist.",
        "Consumer group 'd' has no active members.",
    ] == told(report)
    assert 1 == report.exit_code


def test_groups_that_vanish_while_all_are_described_are_not_missed(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.commit("a", orders={0: 4})
    admin.commit("b", orders={0: 4})
    listed = admin.list_groups()
    admin.delete_groups(["b"])
    monkeypatch.setattr(admin, "list_groups", lambda: listed)

    for view in ("offsets", "members", "state"):
        report = describe(admin, None, view)
        assert ["Consumer group 'a' has no active members."] == told(report)
        assert 0 == report.exit_code


def test_group_that_rebalances_says_so(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember], coordinator: Coordinator
) -> None:
    make_member("busy", units=["u"])
    newcomer = {"client_id": "c2", "group_id": "busy", "api_version": 3, "session_timeout_ms": 90_000}
    range_ = Protocol("range", b"{}")
    coordinator.append(
        JoinGroupRequest(request_id="r", protocol_type="units", protocols=[range_], **newcomer)
    )

    report = describe(admin, ["busy"], "state")

    assert ["warning: Consumer group 'busy' is rebalancing."] == told(report)
    assert ["PreparingRebalance"] == [row[3] for row in rows(report)]


def test_lag_chooses_rows_and_says_nothing_of_groups_without(admin: MemoryAdmin) -> None:
    admin.commit("behind", orders={0: 4, 1: 20})
    admin.commit("done", orders={0: 10})

    report = describe(admin, None, "offsets", lag=parse_lag(">0"))

    assert [("behind", "orders", 0, 4, 10, 6, None)] == offsets_of(report)
    assert ["Consumer group 'behind' has no active members."] == told(report)
    assert 0 == report.exit_code


def test_members_and_the_headings_of_none(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    member = make_member("busy", topics=["orders"], group_instance_id="w1")
    admin.commit("idle", orders={0: 4})

    report = describe(admin, ["busy", "idle"], "members", verbose=True)

    assignment = {"orders": [0, 1]}
    assert [("busy", member.member_id, "w1", "h1", "c1", 2, None, assignment, None, None)] == rows(report)
    assert 2 == sum(isinstance(item, Table) for item in report.items)


def test_offsets_of_a_group_without_any_are_no_table(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    make_member("busy", units=["u"]).close(leave=True)

    report = describe(admin, ["busy"], "offsets")

    assert [Note("Consumer group 'busy' has no active members.")] == report.items


def test_state_names_the_partitions_where_the_group_is_looked_after(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    make_member("busy", topics=["orders"])

    assert [("busy", "requests:0  (0)", "range", "Stable", 1)] == rows(describe(admin, ["busy"], "state"))


def test_all_groups_are_asked_about_before_any_answer_is_read(
    admin: MemoryAdmin, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        admin.commit(f"g{number:02}", orders={0: number})
    before = len(coordinator.log)
    lengths = set()
    receive = admin._channel.receive

    def look_and_receive(timeout_ms: int) -> list[Any]:
        lengths.add(len(coordinator.log))
        return receive(timeout_ms)

    monkeypatch.setattr(admin._channel, "receive", look_and_receive)
    report = describe(admin, None, "offsets")

    assert 20 == len(rows(report))
    assert {before + 40} == lengths


# -- delete ------------------------------------------------------------------------------------------


def test_deletion_of_all_that_was_asked_for(admin: MemoryAdmin) -> None:
    admin.commit("b", orders={0: 1})
    admin.commit("a", orders={0: 1})

    report = delete(admin, ["b", "a"])

    assert ["Deletion of requested consumer groups ('a', 'b') was successful."] == told(report)
    assert [("a", "Successful"), ("b", "Successful")] == rows(report)
    assert 0 == report.exit_code
    assert [] == admin.list_groups()


def test_deletion_of_some(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", units=["u"])
    admin.commit("idle", orders={0: 1})

    report = delete(admin, None)
    absent = delete(admin, ["absent"])

    assert [
        "Group 'busy' could not be deleted due to: The group is not empty.",
        "These consumer groups were deleted successfully: 'idle'",
    ] == told(report)
    assert [("busy", "Error: The group is not empty."), ("idle", "Successful")] == rows(report)
    assert ["Group 'absent' could not be deleted due to: The group id does not exist."] == told(absent)
    assert (1, 1) == (report.exit_code, absent.exit_code)


# -- delete offsets ----------------------------------------------------------------------------------


def test_offsets_of_partitions_and_of_whole_topics_are_deleted(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 1, 1: 1, 7: 1}, refunds={0: 0}, gone={3: 1})

    report = delete_offsets(
        admin,
        "g",
        [TopicArgument("orders", None), TopicArgument("gone", None), TopicArgument("refunds", (0, 1))],
    )

    assert ["Request succeeded for deleting offsets from group g."] == told(report)
    assert [
        ("gone", 3, "Successful"),
        ("orders", 0, "Successful"),
        ("orders", 1, "Successful"),
        ("orders", 7, "Successful"),
        ("refunds", 0, "Successful"),
        ("refunds", 1, "Successful"),
    ] == rows(report)
    assert {} == admin.committed("g")


def test_topic_of_which_there_is_nothing_is_one_row(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 1})

    report = delete_offsets(admin, "g", [TopicArgument("nope", None), TopicArgument("orders", (0,))])

    assert ["Encountered some partition-level error, see the follow-up details."] == told(report)
    assert [
        ("nope", None, "Error: This server does not host this topic-partition."),
        ("orders", 0, "Successful"),
    ] == rows(report)
    assert 1 == report.exit_code


def test_offsets_that_members_need_stay(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    admin.commit("busy", orders={0: 1})
    make_member("busy", topics=["orders"])
    make_member("units", "c2", units=["u"])

    topics = delete_offsets(admin, "busy", [TopicArgument("orders", (0,))])
    units = delete_offsets(admin, "units", [TopicArgument("u", (0,))])

    forbidden = (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    )
    assert [("orders", 0, f"Error: {forbidden}")] == rows(topics)
    assert ["The group is not empty."] == told(units)
    assert [("u", 0, "Error: The group is not empty.")] == rows(units)


def test_offsets_of_an_absent_group(admin: MemoryAdmin) -> None:
    report = delete_offsets(admin, "absent", [TopicArgument("orders", (0,))])

    assert ["The group id does not exist."] == told(report)
    assert [("orders", 0, "Error: The group id does not exist.")] == rows(report)
    assert 1 == report.exit_code


# -- remove members ----------------------------------------------------------------------------------


def test_members_are_removed_one_by_one(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", units=["u"], group_instance_id="w1")

    report = remove_members(
        admin, "busy", [MemberToRemove(group_instance_id="w1"), MemberToRemove(member_id="nobody")]
    )

    assert [
        "Member 'nobody' could not be removed due to: The coordinator is not aware of this member."
    ] == told(report)
    assert [
        ("busy", "w1", "Successful"),
        ("busy", "nobody", "Error: The coordinator is not aware of this member."),
    ] == rows(report)
    assert 1 == report.exit_code
    assert "Empty" == admin.describe_groups(["busy"])["busy"].group_state
