"""`--reset-offsets` on groups of the real core in memory; orders has offsets 0 to 10 and 5 to 20."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import OffsetSpec, OffsetTimestamp
from kafka.errors import UnknownMemberIdError
from kafka.structs import TopicPartition

from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.options import parse_datetime, parse_duration
from group_coordinator.commands.groups.reset import ResetTo, reset_offsets
from group_coordinator.commands.tables import Failure, File, Line, Note, Report, Table
from tests.commands.memory_admin import FIRST_TIMESTAMP_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator import GroupMember
    from tests.commands.memory_admin import MemoryAdmin

ORDERS = [TopicArgument("orders", None)]
NO_LOG = "which have no log: use --to-offset, --shift-by, --to-current or --from-file"


def plan(
    admin: MemoryAdmin, group: str, topics: list[TopicArgument] | None, to: ResetTo, **how: Any
) -> Report:
    return reset_offsets(admin, [group], topics, to, **{"execute": False} | how)


def rows(report: Report) -> list[tuple[object, ...]]:
    """The columns that Kafka's tool has as well."""
    (table,) = [item for item in report.items if isinstance(item, Table)]
    return [row[:4] for row in table.rows]


def compared(report: Report) -> list[tuple[object, ...]]:
    """New and old offset, records that are read again, and records that are skipped."""
    (table,) = [item for item in report.items if isinstance(item, Table)]
    return [row[3:7] for row in table.rows]


def told(report: Report) -> list[str]:
    return [item.text for item in report.items if isinstance(item, Line | File | Note | Failure)]


def new_offsets(report: Report) -> dict[tuple[object, object], object]:
    return {(topic, partition): offset for _, topic, partition, offset in rows(report)}


# -- where to ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (ResetTo(spec=OffsetSpec.EARLIEST), {0: 0, 1: 5}),
        (ResetTo(spec=OffsetSpec.LATEST), {0: 10, 1: 20}),
        (ResetTo(spec=7), {0: 7, 1: 7}),
        (ResetTo(current=True), {0: 3, 1: 35}),
        (ResetTo(shift_by=2), {0: 5, 1: 20}),
        (ResetTo(shift_by=-30), {0: 0, 1: 5}),
        (ResetTo(spec=OffsetTimestamp(FIRST_TIMESTAMP_MS + 7_500)), {0: 8, 1: 8}),
        (ResetTo(plan={"g": {TopicPartition("orders", 1): 6}}), {1: 6}),
    ],
)
@pytest.mark.parametrize("by_name", [True, False])
def test_targets(admin: MemoryAdmin, to: ResetTo, expected: dict[int, int], by_name: bool) -> None:
    admin.commit("g", orders={0: 3, 1: 35})

    report = plan(admin, "g", ORDERS if by_name else None, to)

    assert {("orders", partition): offset for partition, offset in expected.items()} == new_offsets(report)
    assert 0 == report.exit_code


def test_warnings_say_what_is_done_instead(admin: MemoryAdmin) -> None:
    where = "for topic partition orders-{}. Value will be set to {}"

    assert [
        f"warning: New offset (12) is higher than latest offset {where.format(0, 10)}",
    ] == told(plan(admin, "g", ORDERS, ResetTo(spec=12)))
    assert [
        f"warning: New offset (3) is lower than earliest offset {where.format(1, 5)}",
    ] == told(plan(admin, "g", ORDERS, ResetTo(spec=3)))
    assert [
        "warning: Partition 0 from topic refunds is empty. Falling back to latest known offset.",
    ] == told(plan(admin, "g", [TopicArgument("refunds", None)], ResetTo(spec=OffsetTimestamp(0))))


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (ResetTo(spec=OffsetSpec.EARLIEST), [(0, 3, 3, 0), (5, None, None, None)]),
        (ResetTo(spec=OffsetSpec.LATEST), [(10, 3, 0, 7), (20, None, None, None)]),
        (ResetTo(spec=7), [(7, 3, 0, 4), (7, None, None, None)]),
        (ResetTo(current=True), [(3, 3, 0, 0), (20, None, None, None)]),
        (ResetTo(shift_by=-2), [(1, 3, 2, 0)]),
        (ResetTo(spec=OffsetTimestamp(FIRST_TIMESTAMP_MS + 7_500)), [(8, 3, 0, 5), (8, None, None, None)]),
    ],
)
@pytest.mark.parametrize("execute", [True, False])
def test_each_kind_tells_what_is_read_again_and_what_is_skipped(
    admin: MemoryAdmin, to: ResetTo, expected: list[tuple[object, ...]], execute: bool
) -> None:
    admin.commit("g", orders={0: 3})

    assert expected == compared(plan(admin, "g", ORDERS, to, execute=execute))


def test_a_plan_tells_it_as_well(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 3})

    assert [(1, 3, 2, 0)] == compared(
        plan(admin, "g", None, ResetTo(plan={"g": {TopicPartition("orders", 0): 1}}))
    )


def test_current_of_what_is_not_committed_is_the_end_of_the_log(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 3})

    assert {("orders", 0): 3, ("orders", 1): 20} == new_offsets(
        plan(admin, "g", ORDERS, ResetTo(current=True))
    )


def test_what_is_committed_of_a_topic_that_is_gone_can_be_kept(admin: MemoryAdmin) -> None:
    admin.commit("g", gone={0: 3})

    report = plan(admin, "g", None, ResetTo(current=True))

    assert {("gone", 0): 3} == new_offsets(report)
    assert 0 == report.exit_code


# -- what is meant -----------------------------------------------------------------------------------


def test_scopes_add_up_and_come_in_order(admin: MemoryAdmin) -> None:
    topics = [TopicArgument("refunds", (0,)), TopicArgument("orders", (1,)), TopicArgument("orders", (0, 1))]

    report = plan(admin, "g", topics, ResetTo(spec=OffsetSpec.LATEST))

    assert [("g", "orders", 0, 10), ("g", "orders", 1, 20), ("g", "refunds", 0, 0)] == rows(report)


def test_what_does_not_exist_is_told_and_the_rest_is_reset(admin: MemoryAdmin) -> None:
    topics = [TopicArgument("nope", None), TopicArgument("orders", (0, 7)), TopicArgument("gone", (2,))]

    report = plan(admin, "g", topics, ResetTo(spec=OffsetSpec.LATEST), execute=True)

    assert {("orders", 0): 10} == new_offsets(report)
    assert [
        "Topic 'nope' does not exist.",
        "The partitions gone-2, orders-7 do not exist, or have no leader",
    ] == told(report)
    assert 1 == report.exit_code
    assert {("orders", 0): 10} == admin.committed("g")


def test_shift_needs_something_committed(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={1: 8})

    report = plan(admin, "g", [*ORDERS, TopicArgument("refunds", None)], ResetTo(shift_by=1))

    assert {("orders", 1): 9} == new_offsets(report)
    (text,) = told(report)
    assert text == (
        "Cannot shift offsets of group 'g' for partitions orders-0, refunds-0 since there is no current "
        "committed offset"
    )


def test_group_without_a_plan_is_told(admin: MemoryAdmin) -> None:
    to = ResetTo(plan={"g": {TopicPartition("orders", 0): 6}})

    report = reset_offsets(admin, ["g", "h"], None, to, execute=False)

    assert ["No reset plan for group h found"] == told(report)
    assert [("g", "orders", 0, 6)] == rows(report)


# -- which groups ------------------------------------------------------------------------------------


def test_group_with_members_is_left_alone_and_the_others_are_reset(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    admin.commit("busy", orders={0: 1})
    admin.commit("idle", orders={0: 1})
    make_member("busy", topics=["orders"])

    report = reset_offsets(admin, None, None, ResetTo(spec=OffsetSpec.LATEST), execute=True)

    assert [
        "Assignments can only be reset if the group 'busy' is inactive, but the current state is Stable."
    ] == told(report)
    assert [("idle", "orders", 0, 10)] == rows(report)
    assert ({("orders", 0): 1}, {("orders", 0): 10}) == (admin.committed("busy"), admin.committed("idle"))
    assert 1 == report.exit_code


def test_group_that_is_not_there_begins_with_what_it_is_given(admin: MemoryAdmin) -> None:
    report = plan(admin, "new", ORDERS, ResetTo(spec=OffsetSpec.EARLIEST), execute=True)

    assert 0 == report.exit_code
    assert {("orders", 0): 0, ("orders", 1): 5} == admin.committed("new")


def test_all_topics_of_a_group_without_offsets_are_none(admin: MemoryAdmin) -> None:
    assert [] == rows(plan(admin, "new", None, ResetTo(spec=OffsetSpec.EARLIEST)))


def test_units_of_work_are_reset_by_number_only(
    admin: MemoryAdmin, make_member: Callable[..., GroupMember]
) -> None:
    make_member("units", units=["north"]).close(leave=True)
    admin.commit("units", north={0: 100})

    for topics in (None, [TopicArgument("north", None)]):
        assert {("north", 0): 7} == new_offsets(plan(admin, "units", topics, ResetTo(spec=7)))
        assert {("north", 0): 90} == new_offsets(plan(admin, "units", topics, ResetTo(shift_by=-10)))
        assert {("north", 0): 100} == new_offsets(plan(admin, "units", topics, ResetTo(current=True)))
        report = plan(admin, "units", topics, ResetTo(spec=OffsetSpec.LATEST))
        assert ([], [f"Group 'units' shares units of work, {NO_LOG}"]) == (rows(report), told(report))
    unit = [TopicArgument("south", None)]
    assert 1 == plan(admin, "units", unit, ResetTo(current=True)).exit_code


# -- doing it ----------------------------------------------------------------------------------------


def test_nothing_is_done_unless_it_is_to_be(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 3})

    plan(admin, "g", ORDERS, ResetTo(spec=OffsetSpec.LATEST))
    plan(admin, "g", ORDERS, ResetTo(spec=OffsetSpec.LATEST), export=True)

    assert {("orders", 0): 3} == admin.committed("g")


def test_what_the_coordinator_refuses_is_told_and_not_shown_as_done(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(offsets: dict[str, Any], **_: object) -> dict[str, Any]:
        return {group: dict.fromkeys(of_group, UnknownMemberIdError) for group, of_group in offsets.items()}

    monkeypatch.setattr(admin, "alter_offsets_of_groups", refuse)
    report = plan(admin, "g", ORDERS, ResetTo(spec=OffsetSpec.LATEST), execute=True)

    assert ["Group 'g' could not be reset due to: The coordinator is not aware of this member."] == told(
        report
    )
    assert [] == rows(report)
    assert 1 == report.exit_code


def test_export_names_the_group_unless_it_is_the_only_one(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 3, 1: 6})
    admin.commit("h", refunds={0: 0})
    current = ResetTo(current=True)

    assert ["orders,0,3\norders,1,6\n"] == told(plan(admin, "g", None, current, export=True))
    both = "g,orders,0,3\ng,orders,1,6\nh,refunds,0,0\n"
    for group_ids in (None, ["g", "h"]):
        assert [both] == told(reset_offsets(admin, group_ids, None, current, execute=False, export=True))


# -- points in time ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20.500", 1_700_000_000_500),
        ("2023-11-14T22:13:20.500Z", 1_700_000_000_500),
        ("2023-11-14T23:13:20.000+01:00", 1_700_000_000_000),
        ("2023-11-14T23:13:20.000+0100", 1_700_000_000_000),
        ("2023-11-14T23:13:20.000+01", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_datetimes_are_in_utc_unless_they_say_otherwise(text: str, expected: int) -> None:
    assert expected == parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 172_800_000),
        ("P2DT3H4M", 183_840_000),
        ("PT-6H3M", -21_420_000),
        ("-PT6H3M", -21_780_000),
        ("-PT-6H+3M", 21_420_000),
        ("pt0s", 0),
    ],
)
def test_durations_are_as_java_time_duration_has_them(text: str, expected: int) -> None:
    # The examples are those of java.time.Duration.parse.
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1D", "P1W", "PT1", "P1H", "PT1D", "nonsense", "P1.5D"]
)
def test_what_is_no_duration_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as P7D, PT2H30M or"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "nonsense", "2023-13-01T00:00:00", "1700000000000"])
def test_what_is_no_time_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as 2026-01-31T12:00:00"):
        parse_datetime(text)


@given(st.integers(0, 1000), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100_000))
def test_durations_add_up(days: int, hours: int, minutes: int, ms: int) -> None:
    text = f"P{days}DT{hours}H{minutes}M{ms / 1000:.3f}S"

    assert ((days * 24 + hours) * 60 + minutes) * 60_000 + ms == parse_duration(text)
