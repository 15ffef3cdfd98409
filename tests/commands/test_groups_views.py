"""The lines that kafka-consumer-groups.sh of Apache Kafka 4.2 has printed, from the same groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.descriptions import Coordinator, GroupDescription, MemberDescription
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.client.progress import progress_of
from group_coordinator.commands.groups.options import parse_lag
from group_coordinator.commands.groups.views import group_list, members_table, state_table
from group_coordinator.commands.groups.views import offsets_table as table_of
from group_coordinator.commands.tables import Table

LONG = "simple-with-a-long-name-of-more-than-30-characters"
ORDERS = [TopicPartition("orders", number) for number in range(3)]
REFUNDS = [TopicPartition("refunds", number) for number in range(2)]


def lines(table: Table) -> str:
    return "\n".join(table.lines())


def member(
    name: str, partitions: list[TopicPartition] | None, instance: str | None = None
) -> MemberDescription:
    return MemberDescription(
        member_id=f"{name}-08f7f418",
        group_instance_id=instance,
        client_id=name,
        client_host="/127.0.0.1",
        member_metadata=b"",
        member_assignment=b"",
        topic_partitions=None if partitions is None else tuple(partitions),
    )


def group(*members: MemberDescription, group_id: str = "active") -> GroupDescription:
    return GroupDescription(
        group_id=group_id,
        group_state="Stable" if members else "Empty",
        protocol_type="consumer",
        protocol_data="range" if members else "",
        generation_id=1,
        leader="",
        members=members,
    )


def committed(*offsets: int, epoch: int | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        partition: OffsetAndMetadata(offset, "", epoch)
        for partition, offset in zip(ORDERS, offsets, strict=False)
    }


def offsets_table(
    group: GroupDescription,
    committed: dict[TopicPartition, OffsetAndMetadata],
    log_ends: dict[TopicPartition, int],
    **options: Any,
) -> Table:
    return table_of(group.group_id, progress_of(group, committed, log_ends), **options)


ALPHA = member("alpha", ORDERS[:2])
BETA = member("beta", [REFUNDS[1], REFUNDS[0], ORDERS[2]])
LOG_ENDS = dict(zip(ORDERS + REFUNDS, (10, 20, 30, 5, 5), strict=True))


# -- list --------------------------------------------------------------------------------------------


def test_list_is_names() -> None:
    listed = [GroupListing("a", "Empty", ""), GroupListing("b", "Stable", "units")]

    assert lines(group_list(listed, with_state=False)) == "a\nb"
    assert lines(group_list([], with_state=False)) == ""


def test_list_with_states() -> None:
    listed = [GroupListing("active", "Stable", "consumer"), GroupListing(LONG, "Empty", "")]

    assert lines(group_list(listed[:1], with_state=True)) == (
        "GROUP                     STATE\nactive                    Stable"
    )
    assert lines(group_list(listed, with_state=True)) == (
        "GROUP                                                        STATE\n"
        "active                                                       Stable\n"
        f"{LONG}           Empty"
    )
    assert lines(group_list([], with_state=True)) == "GROUP                     STATE"


def test_list_with_types() -> None:
    listed = [GroupListing("active", "Stable", "consumer", "consumer"), GroupListing("old", "Empty", "")]

    assert lines(group_list(listed, with_type=True)) == (
        "GROUP                     TYPE\n"
        "active                    Consumer\n"
        "old                       Classic"
    )
    assert lines(group_list(listed, with_type=True, with_state=True)) == (
        "GROUP                     TYPE                 STATE\n"
        "active                    Consumer             Stable\n"
        "old                       Classic              Empty"
    )


# -- offsets -----------------------------------------------------------------------------------------


def test_who_owns_most_comes_first_and_then_what_nobody_owns() -> None:
    table = offsets_table(group(ALPHA, BETA), {TopicPartition("old", 0): OffsetAndMetadata(1)}, LOG_ENDS)

    assert lines(table) == (
        "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID     HOST            CLIENT-ID\n"
        "active          orders          2          -               30              -               "
        "beta-08f7f418   /127.0.0.1      beta\n"
        "active          refunds         0          -               5               -               "
        "beta-08f7f418   /127.0.0.1      beta\n"
        "active          refunds         1          -               5               -               "
        "beta-08f7f418   /127.0.0.1      beta\n"
        "active          orders          0          -               10              -               "
        "alpha-08f7f418  /127.0.0.1      alpha\n"
        "active          orders          1          -               20              -               "
        "alpha-08f7f418  /127.0.0.1      alpha\n"
        "active          old             0          1               -               -               "
        "-               -               -"
    )


def test_units_come_in_their_natural_order() -> None:
    units = [TopicPartition(f"unit-{i}", 0) for i in (10, 9, 2, 1)]
    sharing = replace(group(member("alpha", units[1:3])), protocol_type="units")
    table = offsets_table(sharing, dict.fromkeys(units, OffsetAndMetadata(1)), {})

    assert [row[1] for row in table.rows] == ["unit-2", "unit-9", "unit-1", "unit-10"]


def test_lag_may_be_negative_and_names_may_be_long() -> None:
    simple = offsets_table(group(group_id=LONG), committed(3, 20, 35), LOG_ENDS)

    assert lines(simple) == (
        "\nGROUP                                              TOPIC           PARTITION  CURRENT-OFFSET  "
        "LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"
        f"{LONG} orders          0          3               "
        "10              7               -               -               -\n"
        f"{LONG} orders          1          20              "
        "20              0               -               -               -\n"
        f"{LONG} orders          2          35              "
        "30              -5              -               -               -"
    )


def test_leader_epochs_are_for_the_curious() -> None:
    table = offsets_table(group(group_id="left"), committed(4, epoch=0), LOG_ENDS, verbose=True)

    assert lines(table) == (
        "\nGROUP           TOPIC           PARTITION  LEADER-EPOCH    CURRENT-OFFSET  LOG-END-OFFSET  LAG"
        "             CONSUMER-ID     HOST            CLIENT-ID\n"
        "left            orders          0          0               4               10              6"
        "               -               -               -"
    )
    unknown = offsets_table(group(), committed(4, epoch=-1), LOG_ENDS, verbose=True)
    assert [None] == [row[3] for row in unknown.rows]


def test_rows_are_chosen_by_lag() -> None:
    offsets = committed(3, 20, 35) | {TopicPartition("gone", 0): OffsetAndMetadata(1)}

    def lags(condition: str) -> list[object]:
        return [row[5] for row in offsets_table(group(), offsets, LOG_ENDS, lag=parse_lag(condition)).rows]

    assert [7] == lags(">0")
    assert [7, 0] == lags(">=0")
    assert [0] == lags("=0")
    assert [-5] == lags("<0")


def test_what_cannot_be_read_of_one_member_does_not_spoil_the_rest() -> None:
    odd = group(member("odd", None), ALPHA)

    assert ["alpha", "alpha"] == [row[-1] for row in offsets_table(odd, {}, LOG_ENDS).rows]
    assert [None, 2] == [row[5] for row in members_table(odd).rows]


# -- members -----------------------------------------------------------------------------------------


def test_members() -> None:
    assert lines(members_table(group(BETA, ALPHA))) == (
        "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS\n"
        "active          beta-08f7f418   /127.0.0.1      beta            3\n"
        "active          alpha-08f7f418  /127.0.0.1      alpha           2"
    )
    assert lines(members_table(group())) == (
        "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS"
    )


def test_static_members_and_their_assignments() -> None:
    static = group(member("gamma", REFUNDS, "worker-1"), member("delta", [], "worker-2"), group_id="static")

    assert lines(members_table(static, verbose=True)) == (
        "\nGROUP           CONSUMER-ID     GROUP-INSTANCE-ID HOST            CLIENT-ID       #PARTITIONS     "
        "CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT\n"
        "static          gamma-08f7f418  worker-1          /127.0.0.1      gamma           2               "
        "-               refunds:0,1          -               -\n"
        "static          delta-08f7f418  worker-2          /127.0.0.1      delta           0               "
        "-               -                    -               -"
    )


def test_assignment_of_several_topics() -> None:
    (row,) = members_table(group(BETA), verbose=True).rows

    assert {"orders": [2], "refunds": [0, 1]} == row[7]


def test_members_of_the_consumer_protocol_have_epochs_and_targets() -> None:
    there = replace(member("alpha", ORDERS[:2]), member_epoch=3, target_partitions=tuple(ORDERS[:1]))
    comes = replace(member("beta", []), member_epoch=4, target_partitions=tuple(ORDERS[1:2]))
    leaves = replace(member("gone", [], "worker-1"), member_epoch=-2, target_partitions=())
    moving = replace(group(there, comes), group_type="consumer", assignment_epoch=4)

    assert lines(members_table(moving, verbose=True)) == (
        "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
        "CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT\n"
        "active          alpha-08f7f418  /127.0.0.1      alpha           2               "
        "3               orders:0,1           4               orders:0\n"
        "active          beta-08f7f418   /127.0.0.1      beta            0               "
        "4               -                    4               orders:1"
    )
    (row,) = members_table(replace(moving, members=(leaves,)), verbose=True).rows
    assert row[6:] == (-2, {}, 4, {})


# -- state -------------------------------------------------------------------------------------------

WHERE = Coordinator("127.0.0.1", 19592, 1)


def test_state() -> None:
    assert lines(state_table(group(ALPHA, BETA), WHERE)) == (
        "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS\n"
        "active          127.0.0.1:19592  (1)      range                Stable               2"
    )
    assert lines(state_table(group(group_id=LONG), WHERE)) == (
        "\nGROUP                                              COORDINATOR (ID)          ASSIGNMENT-STRATEGY  "
        "STATE                #MEMBERS\n"
        f"{LONG} 127.0.0.1:19592  (1)      -                    "
        "Empty                0"
    )


def test_state_with_epochs() -> None:
    assert lines(state_table(group(ALPHA, BETA), WHERE, verbose=True)) == (
        "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                "
        "GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS\n"
        "active          127.0.0.1:19592  (1)      range                Stable               "
        "-               -                         2"
    )
    moving = replace(group(ALPHA), generation_id=7, group_type="consumer", assignment_epoch=6)
    (row,) = state_table(moving, WHERE, verbose=True).rows
    assert row[4:6] == (7, 6)
