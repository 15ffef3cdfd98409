"""`--to-history` and `--undo` on groups of the real core in memory, with tables as the history writes them.

The tables have the events up to some offset, and the topic of events has the others.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.as_it_was import AsItWas, events_after
from group_coordinator.commands.groups.reset import ResetTo, reset_offsets
from group_coordinator.commands.tables import Failure, File, Note, Report, Table
from group_coordinator.coordinator_state.requests import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import read_event, time_of
from tests.client import memory
from tests.commands.conftest import LOGS
from tests.commands.memory_admin import MemoryAdmin
from tests.history.plain import write_plain_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from group_coordinator import GroupMember
    from tests.client.memory import Coordinator

T0_MS = 1_768_572_300_000
ORDERS = [TopicPartition("orders", number) for number in range(2)]


class Events:
    """The topic of events, from an offset on."""

    def __init__(self, bodies: list[bytes], begin: int) -> None:
        self._left = list(enumerate(bodies))[begin:]

    @property
    def has_caught_up(self) -> bool:
        return not self._left

    def poll_placed(self, _timeout_ms: int) -> list[tuple[int, dict[str, Any]]]:
        some, self._left = self._left[:3], self._left[3:]
        return [(offset, msgspec.json.decode(body)) for offset, body in some]


class Stage:
    """A coordinator with a clock of its own, its history, and people who reset offsets."""

    def __init__(self, coordinator: Coordinator, make_member: Callable[..., GroupMember], path: Path) -> None:
        self.coordinator, self._make_member, self._path = coordinator, make_member, path
        self.now_ms, self.written, self.people = T0_MS, 0, 0
        self.topic_ids: dict[str, str] = {}

    def at(self, seconds: float) -> None:
        """Let the clock show so many seconds after the beginning."""
        self.now_ms = T0_MS + round(seconds * 1_000)

    def run(self, group: str, metadata: str = "", **offsets: Mapping[int, int]) -> None:
        """Let a member come, commit and leave."""
        member = self._make_member(group, topics=["orders"])
        for topic, of_topic in offsets.items():
            member.commit(
                {
                    TopicPartition(topic, each): OffsetAndMetadata(to, metadata, 3)
                    for each, to in of_topic.items()
                }
            )
        member.close(leave=True)

    def commit_through_a_gateway(self, group: str, offset: int) -> None:
        """Commit for orders-0 with the topic's id of now."""
        topic = OffsetCommitTopic(
            "orders",
            [OffsetCommitPartition(partition_index=0, committed_offset=offset, committed_leader_epoch=3)],
            self.topic_ids["orders"],
        )
        ids = {"request_id": f"r{offset}", "client_id": f"app-{offset}", "group_id": group}
        self.coordinator.append(OffsetCommitRequest(**ids, reply_partition=0, topics=[topic]))
        self.coordinator.read()

    def somebody(self) -> MemoryAdmin:
        """Another run of the command."""
        self.people += 1
        return MemoryAdmin(self.coordinator, LOGS, f"admin-eve@box-{self.people}", self.topic_ids)

    def write(self) -> None:
        """Let the history have all that there is now."""
        self.written = len(self.coordinator.events)

    def go(
        self,
        *groups: str,
        moment: datetime | None = None,
        topics: list[TopicArgument] | None = None,
        **how: Any,
    ) -> Report:
        path = self._path / f"{len(list(self._path.iterdir()))}"
        events = [event for body in self.coordinator.events if (event := read_event(body)) is not None]
        write_plain_tables(path, events[: self.written])

        @contextmanager
        def after(read: Mapping[int, int]) -> Iterator[Events]:
            yield Events(self.coordinator.events, read.get(0, -1) + 1)

        to = ResetTo(as_it_was=AsItWas(HistoryReader(str(path)), after, 1_000, moment))  # type: ignore[arg-type]
        return reset_offsets(self.somebody(), groups or None, topics, to, **{"execute": True} | how)

    def reset(self, group: str, **offsets: Mapping[int, int]) -> None:
        self.somebody().commit(group, **offsets)

    def committed(self, group: str) -> dict[int, int]:
        return {number: to for (_, number), to in self.somebody().committed(group).items()}


@pytest.fixture
def stage(
    coordinator: Coordinator,
    make_member: Callable[..., GroupMember],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    coordinator.topics |= {"orders": 2, "refunds": 1}
    stage = Stage(coordinator, make_member, tmp_path)
    monkeypatch.setattr(memory, "now_ms", lambda: stage.now_ms)
    return stage


def at(seconds: float) -> datetime:
    return time_of(T0_MS + round(seconds * 1_000))


def rows(report: Report) -> list[tuple[object, ...]]:
    """Partition, new and old offset, what is read again, what is skipped, and how old the commit was."""
    (table,) = [item for item in report.items if isinstance(item, Table)]
    return [row[2:] for row in table.rows]


def told(report: Report) -> list[str]:
    return [item.text for item in report.items if isinstance(item, File | Note | Failure)]


BEHIND = pytest.mark.parametrize("is_behind", [True, False], ids=["tables behind", "tables up to date"])
"""Whether the tables lack the last events."""


# -- to a moment -----------------------------------------------------------------------------------------


@BEHIND
def test_to_what_was_committed_then(stage: Stage, is_behind: bool) -> None:
    stage.run("g", "first", orders={0: 3, 1: 8})
    stage.write()
    stage.at(30)
    stage.run("g", "second", orders={0: 7})
    if not is_behind:
        stage.write()
    stage.at(60)
    stage.run("g", orders={0: 9, 1: 12})
    if not is_behind:
        stage.write()

    planned = stage.go("g", moment=at(42), execute=False)
    assert rows(planned) == [(0, 7, 9, 2, 0, 12), (1, 8, 12, 4, 0, 42)]
    assert stage.committed("g") == {0: 9, 1: 12}
    assert rows(stage.go("g", moment=at(29.999))) == [(0, 3, 9, 6, 0, 30), (1, 8, 12, 4, 0, 30)]
    assert stage.committed("g") == {0: 3, 1: 8}
    offsets = stage.somebody().list_group_offsets(["g"])["g"]
    # A leader epoch of a topic before it was made again would have Java's consumer wait for that leader.
    assert offsets == {
        each: OffsetAndMetadata(to, "first", -1) for each, to in zip(ORDERS, (3, 8), strict=True)
    }


def test_a_moment_includes_what_was_committed_in_it(stage: Stage) -> None:
    stage.run("g", orders={0: 3})
    stage.at(30)
    stage.run("g", orders={0: 7})
    stage.write()

    assert rows(stage.go("g", moment=at(30))) == [(0, 7, 7, 0, 0, 0)]


def test_only_the_topics_and_groups_that_are_named(stage: Stage) -> None:
    for group in ("g", "h"):
        stage.run(group, orders={0: 3, 1: 8}, refunds={0: 0})
    stage.at(30)
    for group in ("g", "h"):
        stage.run(group, orders={0: 9, 1: 9})
    stage.write()

    assert [row[0] for row in rows(stage.go("g", moment=at(1), topics=[TopicArgument("orders", (1,))]))] == [
        1
    ]
    assert stage.somebody().committed("g")["orders", 1] == 8
    report = stage.go(moment=at(1), topics=[TopicArgument("orders", None)])
    assert {row[0] for item in report.items if isinstance(item, Table) for row in item.rows} == {"g", "h"}
    assert report.exit_code == 0


def test_the_log_bounds_it_and_metadata_stays_with_its_offset(stage: Stage) -> None:
    stage.run("g", "far", orders={0: 3, 1: 2})
    stage.at(30)
    stage.run("g", orders={1: 9})
    stage.write()

    report = stage.go("g", moment=at(1))

    assert told(report) == [
        (
            "warning: New offset (2) is lower than earliest offset for topic partition orders-1. Value will "
            "be set to 5"
        )
    ]
    assert [row[:2] for row in rows(report)] == [(0, 3), (1, 5)]
    offsets = stage.somebody().list_group_offsets(["g"])["g"]
    assert [offsets[each].metadata for each in ORDERS] == ["far", ""]


def test_what_was_not_committed_then_is_told_and_left(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.somebody().delete_group_offsets("g", [ORDERS[1]])
    stage.at(30)
    stage.run("g", orders={0: 7, 1: 9}, refunds={0: 0}, gone={0: 1})
    stage.write()

    report = stage.go("g", moment=at(10))

    assert told(report) == [
        (
            "warning: Group 'g' stays as it is in gone-0, refunds-0, of which no commit is known at "
            "2026-01-16T14:05:10.000Z."
        ),
        (
            "warning: Group 'g' stays as it is in orders-1, of which the offsets were deleted at "
            "2026-01-16T14:05:10.000Z."
        ),
    ]
    assert [row[:2] for row in rows(report)] == [(0, 3)]
    assert report.exit_code == 0
    missing = stage.go("g", moment=at(10), topics=[TopicArgument("refunds", None)])
    assert "of which no commit is known" in told(missing)[0]


def test_what_had_expired_then_is_told_and_left(stage: Stage) -> None:
    stage.run("g", orders={0: 3})
    stage.at(8 * 86_400)
    stage.coordinator.read()
    stage.run("g", orders={0: 7})
    stage.write()
    (expired,) = (body for body in stage.coordinator.events if b"offsets_expired" in body)
    moment = time_of(msgspec.json.decode(expired)["at_ms"])

    before = stage.go("g", moment=moment - timedelta(milliseconds=1), execute=False)
    assert [row[:2] for row in rows(before)] == [(0, 3)]
    report = stage.go("g", moment=moment)
    assert "stays as it is in orders-0, of which the offsets had expired at" in told(report)[0]
    assert (rows(report), stage.committed("g")) == ([], {0: 7})


def test_a_topic_that_is_gone_is_told(stage: Stage) -> None:
    stage.run("g", orders={0: 3}, gone={0: 1})
    stage.at(30)
    stage.run("g", orders={0: 7})
    stage.write()

    report = stage.go("g", moment=at(10))

    assert told(report) == ["The partitions gone-0 do not exist, or have no leader"]
    assert [row[:2] for row in rows(report)] == [(0, 3)]


@BEHIND
@pytest.mark.parametrize("is_undo", [True, False])
def test_what_was_committed_in_a_topic_before_it_was_made_again_is_told_and_left(
    stage: Stage, is_undo: bool, is_behind: bool
) -> None:
    stage.topic_ids["orders"] = "A"
    for group in ("g", "h"):
        stage.commit_through_a_gateway(group, 3)
    stage.at(30)
    stage.topic_ids["orders"] = "B"
    stage.commit_through_a_gateway("h", 4)
    stage.at(60)
    for group in ("g", "h"):
        stage.commit_through_a_gateway(group, 7)
    if not is_behind:
        stage.write()

    report = stage.go("g", "h", moment=None if is_undo else at(42))

    assert (
        "warning: Group 'g' stays as it is in orders-0, because the topic was deleted and made again since."
    ) in told(report)
    assert [row[:2] for row in rows(report)] == [(0, 4)]
    assert (stage.committed("g"), stage.committed("h")) == ({0: 7}, {0: 4})


def test_where_the_id_of_the_topic_is_not_known_the_offset_counts(stage: Stage) -> None:
    stage.topic_ids["orders"] = "A"
    stage.commit_through_a_gateway("g", 3)
    stage.run("h", orders={0: 3})
    stage.at(30)
    for group in ("g", "h"):
        stage.run(group, orders={0: 7})
    stage.topic_ids["orders"] = ""
    assert [row[:2] for row in rows(stage.go("g", moment=at(1), execute=False))] == [(0, 3)]
    stage.topic_ids["orders"] = "B"
    assert [row[:2] for row in rows(stage.go("h", moment=at(1), execute=False))] == [(0, 3)]


def test_a_group_that_was_deleted_comes_back(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.at(30)
    stage.somebody().delete_groups(["g"])
    stage.at(40)
    stage.write()
    stage.run("other", orders={0: 1})

    assert [row[:3] for row in rows(stage.go("g", moment=at(20)))] == [(0, 3, None), (1, 8, None)]
    assert stage.committed("g") == {0: 3, 1: 8}


def test_a_moment_that_is_not_known_is_refused(stage: Stage) -> None:
    stage.at(10)
    stage.run("g", orders={0: 3})
    stage.at(30)
    stage.run("h", orders={0: 3})
    stage.write()

    for group, moment, expected in [
        ("g", 31, "The history reaches to 2026-01-16T14:05:30.000Z, and not to 2026-01-16T14:05:31.000Z"),
        (
            "g",
            9,
            (
                "Group 'g' cannot be reset to 2026-01-16T14:05:09.000Z: the history knows it since "
                "2026-01-16T14:05:10.000Z"
            ),
        ),
        ("new", 20, "The history knows no group 'new'"),
    ]:
        report = stage.go(group, moment=at(moment))
        assert (told(report), rows(report), report.exit_code) == ([expected], [], 1)


def test_a_history_without_events_knows_no_moment(stage: Stage) -> None:
    assert told(stage.go("new", moment=at(9))) == [
        "The history has no event yet, and not to 2026-01-16T14:05:09.000Z"
    ]


def test_a_group_with_members_is_left_alone(stage: Stage, make_member: Callable[..., GroupMember]) -> None:
    stage.run("g", orders={0: 3})
    stage.write()
    make_member("g", topics=["orders"])

    report = stage.go("g", moment=at(0))

    assert told(report)[0].startswith("Assignments can only be reset if the group 'g' is inactive")
    assert rows(report) == []


def test_it_can_be_exported(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.at(30)
    stage.run("g", orders={0: 7})
    stage.write()

    assert told(stage.go("g", moment=at(1), export=True, execute=False)) == ["orders,0,3\norders,1,8\n"]


def test_units_of_work_go_back_as_well(stage: Stage, make_member: Callable[..., GroupMember]) -> None:
    member = make_member("units", units=["north"])
    member.commit({"north": 100})
    stage.at(30)
    member.commit({"north": 170})
    member.close(leave=True)
    stage.write()

    assert rows(stage.go("units", moment=at(10))) == [(0, 100, 170, 70, 0, 10)]


# -- before the last reset -------------------------------------------------------------------------------


@BEHIND
def test_undo_goes_back_and_forth(stage: Stage, is_behind: bool) -> None:
    stage.run("g", "mine", orders={0: 3, 1: 8})
    stage.at(30)
    stage.write()
    stage.reset("g", orders={0: 0, 1: 20})
    if not is_behind:
        stage.write()

    assert rows(stage.go("g")) == [(0, 3, 0, 0, 3, None), (1, 8, 20, 12, 0, None)]
    assert stage.committed("g") == {0: 3, 1: 8}
    assert stage.somebody().list_group_offsets(["g"])["g"][ORDERS[0]] == OffsetAndMetadata(3, "mine", -1)
    for expected in ({0: 0, 1: 20}, {0: 3, 1: 8}):
        stage.at(60)
        stage.go("g")
        assert stage.committed("g") == expected


@BEHIND
def test_of_two_resets_the_last_is_undone(stage: Stage, is_behind: bool) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.reset("g", orders={0: 0, 1: 5})
    stage.at(2)
    stage.reset("g", orders={0: 10})
    if not is_behind:
        stage.write()

    report = stage.go("g", execute=False)

    assert rows(report) == [(0, 0, 10, 10, 0, None)]
    assert told(report) == [
        "The last reset of group 'g' was at 2026-01-16T14:05:02.000Z, by admin-eve@box-2."
    ]


def test_a_reset_of_many_requests_is_one(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    somebody = stage.somebody()
    somebody.commit("g", orders={0: 0})
    stage.at(9)
    somebody.commit("g", orders={1: 20})

    assert [row[:2] for row in rows(stage.go("g", execute=False))] == [(0, 3), (1, 8)]


def test_a_tool_that_always_has_the_same_name_made_two_resets(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    tool = stage.somebody()
    tool.commit("g", orders={0: 0})
    stage.at(60)
    tool.commit("g", orders={1: 20})

    assert [row[:2] for row in rows(stage.go("g", execute=False))] == [(1, 8)]


def test_what_members_committed_since_is_shown(stage: Stage) -> None:
    stage.run("g", orders={0: 3})
    stage.reset("g", orders={0: 0})
    stage.at(30)
    stage.run("g", orders={0: 9})

    assert rows(stage.go("g", execute=False)) == [(0, 3, 9, 6, 0, None)]


def test_undo_of_some_topics(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.reset("g", orders={0: 0, 1: 20})

    assert [row[:2] for row in rows(stage.go("g", topics=[TopicArgument("orders", (1,))]))] == [(1, 8)]
    assert stage.committed("g") == {0: 0, 1: 8}


def test_undo_leaves_what_had_no_offset_before(stage: Stage) -> None:
    stage.run("g", orders={0: 3})
    stage.reset("g", orders={0: 0, 1: 20})

    report = stage.go("g")

    assert [row[:2] for row in rows(report)] == [(0, 3)]
    assert (
        "warning: Group 'g' stays as it is in orders-1, of which no commit is known before its last reset."
        in told(report)
    )


def test_a_group_that_was_deleted_and_made_again_has_no_reset_to_undo(stage: Stage) -> None:
    stage.run("g", orders={0: 3, 1: 8})
    stage.reset("g", orders={0: 0, 1: 20})
    stage.at(30)
    stage.somebody().delete_groups(["g"])
    stage.write()
    stage.at(40)
    stage.run("g", orders={0: 9, 1: 9})

    report = stage.go("g")

    assert rows(report) == []
    assert told(report)[1:] == [
        (
            "warning: Group 'g' stays as it is in orders-0, orders-1, of which the offsets were deleted "
            "since its last reset."
        )
    ]
    assert stage.committed("g") == {0: 9, 1: 9}


def test_a_group_without_a_reset_is_told(stage: Stage) -> None:
    stage.run("g", orders={0: 3})
    stage.run("h", orders={0: 3})
    stage.reset("h", orders={0: 0})

    report = stage.go("g", "h")

    assert told(report)[0] == "No reset of group 'g' is known"
    assert stage.committed("h") == {0: 3}
    assert report.exit_code == 1


def test_what_the_events_do_not_tell_yet_is_not_undone(stage: Stage) -> None:
    """Commits at the brokers are told up to a minute later."""
    stage.run("g", orders={0: 3, 1: 8})
    stage.reset("g", orders={0: 0})
    known = len(stage.coordinator.events)
    stage.reset("g", orders={1: 20})
    del stage.coordinator.events[known:]

    report = stage.go("g")

    assert told(report) == [
        "The events do not tell yet of what group 'g' has committed in orders-1: ask again in a minute"
    ]
    assert (rows(report), report.exit_code) == ([], 1)


def test_events_that_are_repeated_count_once(stage: Stage) -> None:
    """A coordinator that runs a batch again writes its events again, after newer ones."""
    stage.run("g", orders={0: 3})
    begin = len(stage.coordinator.events)
    stage.reset("g", orders={0: 0})
    stage.reset("g", orders={0: 10})
    stage.write()
    stage.coordinator.events += stage.coordinator.events[begin : begin + 1]

    assert rows(stage.go("g", execute=False)) == [(0, 0, 10, 10, 0, None)]


def test_hostile_words_and_names(stage: Stage) -> None:
    group = "g'; DROP TABLE offsets; --\\\x1b[2J"
    stage.run(group, "\x00'\\", orders={0: 3})
    stage.reset(group, orders={0: 0})
    reason = 'it\'s \x1b[2J\n\u202e\\ "quoted"'

    assert [row[:2] for row in rows(stage.go(group, reason=reason))] == [(0, 3)]
    assert stage.coordinator.requests(OffsetCommitRequest)[-1].reason == reason
    stage.write()
    assert [row[:2] for row in rows(stage.go(group))] == [(0, 0)]


# -- what cannot be read ---------------------------------------------------------------------------------


def test_events_that_are_gone_are_told(stage: Stage, tmp_path: Path) -> None:
    write_plain_tables(tmp_path / "tables", [])

    def after(_read: Mapping[int, int]) -> Any:
        raise OffsetOutOfRangeError("coordinator.events-0 has offsets 7 to 9, and 5 is not among them")

    to = ResetTo(as_it_was=AsItWas(HistoryReader(str(tmp_path / "tables")), after, 1_000))
    report = reset_offsets(stage.somebody(), ["g"], None, to, execute=True)

    assert told(report) == [
        (
            "The events do not follow on what the history has read: coordinator.events-0 has offsets 7 to "
            "9, and 5 is not among them"
        )
    ]
    assert report.exit_code == 1


def test_events_are_not_waited_for_for_ever() -> None:
    class Silent(Events):
        has_caught_up = False

    with pytest.raises(KafkaTimeoutError, match="could not be read for 20 ms"):
        list(events_after(Silent([], 0), 20))  # type: ignore[arg-type]
