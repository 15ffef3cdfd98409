"""Stories of groups at the brokers: what their records tell, and what they cannot tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.sides import GUARD_TYPE
from group_coordinator.history.story import Story
from tests.brokers_log.kafka import Log, M
from tests.brokers_log.watching import Watching, kinds


def last_of(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return [event for event in events if event["event"] == kind][-1]


def begun(events: list[dict[str, Any]]) -> tuple[str, str]:
    """The cause and the reason of the last rebalance."""
    (event,) = [each for each in events if each.get("to") == "PreparingRebalance"][-1:]
    return event["cause"], event["reason"]


# -- a group and its members -----------------------------------------------------------------------------


def test_a_group_is_made_at_a_broker_of_version_4() -> None:
    log, watching = Log(), Watching()
    events = watching.read([log.new()])
    assert kinds(events) == ["group_created"]
    assert (watching.picture["state"], watching.picture["generation_id"]) == ("Empty", 0)
    assert watching.picture["protocol_type"] is None
    events = watching.read([log.stable(1, M("c1-a", [0, 1]), ms=3_000)])
    assert kinds(events) == [
        "added c1-a",
        "Empty>PreparingRebalance",
        "PreparingRebalance>CompletingRebalance",
        "generation 1 of c1-a",
        "CompletingRebalance>Stable",
        "assignment_propagated",
    ]


def test_a_group_is_made_at_a_broker_of_version_3() -> None:
    """That writes down nothing before the first generation."""
    log, watching = Log(), Watching()
    events = watching.read([log.stable(1, M("c1-a"), M("c2-b"))])
    assert kinds(events)[:3] == ["group_created", "added c1-a", "added c2-b"]
    added = last_of(events, "member_added")
    assert (added["client_id"], added["client_host"]) == ("c2", "/10.0.0.7")
    assert added["join_phase_ms"] is None


def test_times_are_those_of_the_end_of_the_join_phase_and_of_the_assignment() -> None:
    log, watching = Log(now_ms=0), Watching()
    watching.read([log.new(ms=1_000)])
    events = watching.read([log.stable(1, M("c1-a"), ms=3_000, joined_ms=40)])
    assert [(each.get("to"), each["at_ms"]) for each in events if each["event"] == "state_changed"] == [
        ("PreparingRebalance", 3_960),
        ("CompletingRebalance", 3_960),
        ("Stable", 4_000),
    ]
    assert last_of(events, "generation_completed")["at_ms"] == 3_960
    assert watching.picture["state_timestamp_ms"] == 4_000


def test_a_time_that_cannot_be_right_is_within_the_records() -> None:
    log, watching = Log(now_ms=50_000), Watching()
    watching.read([log.stable(1, M("c1-a"), ms=1_000)])
    early = watching.read([log.stable(2, M("c1-a"), ms=1_000, joined_ms=9_000)])
    late = watching.read([log.stable(3, M("c1-a"), ms=1_000, joined_ms=-9_000)])
    never = watching.read([log.stable(4, M("c1-a"), ms=1_000, joined_ms=99_000)])
    assert [each[0]["at_ms"] for each in (early, late, never)] == [51_000, 53_000, 54_000]


def test_generations_are_those_of_the_time() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(4, M("c1-a"))])
    events = watching.read([log.stable(5, M("c1-a"), M("c2-b"))])
    assert [each["generation_id"] for each in events] == [4, 4, 5, 5, 5, 5]


def test_a_second_member() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a", [0, 1]))])
    events = watching.read([log.stable(2, M("c1-a", [0]), M("c2-b", [1]))])
    assert kinds(events) == [
        "added c2-b",
        "Stable>PreparingRebalance",
        "PreparingRebalance>CompletingRebalance",
        "generation 2 of c1-a c2-b",
        "CompletingRebalance>Stable",
        "assignment_propagated",
    ]
    assert begun(events) == ("unknown", "c2-b joined")
    stable = [each for each in events if each.get("to") == "Stable"]
    assert [(each["cause"], each["rebalance_ms"]) for each in stable] == [("unknown", None)]
    assert [each["member_id"] for each in watching.picture["members"]] == ["c1-a", "c2-b"]


def test_a_member_goes_and_nobody_knows_why() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a", [0]), M("c2-b", [1, 2], session_ms=10_000))])
    # The newest of all commits is of what the other one owned.
    watching.read([log.commit(1, 5, ms=1_000), log.commit(2, 5, ms=1_000), log.commit(0, 9, ms=3_000)])
    events = watching.read([log.stable(2, M("c1-a", [0, 1, 2]), ms=7_050, joined_ms=50)])
    removed = last_of(events, "member_removed")
    assert (removed["member_id"], removed["client_id"], removed["reason"]) == ("c2-b", "c2", "unknown")
    assert (removed["session_timeout_ms"], removed["last_commit_ms"]) == (10_000, 10_000)
    assert begun(events) == ("unknown", "c2-b went")


def test_nothing_is_claimed_of_commits_that_are_not_known() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a", [0]), M("c2-b", [1])), log.commit(0, 9)])
    events = watching.read([log.stable(2, M("c1-a", [0, 1]))])
    assert "last_commit_ms" not in last_of(events, "member_removed")


def test_a_commit_of_later_than_the_end_of_the_join_phase() -> None:
    log, watching = Log(), Watching()
    committed = log.commit(1, 5, ms=9_000)
    watching.read([log.stable(1, M("a", [0]), M("b", [1]))._replace(timestamp_ms=1_000)])
    watching.read([committed._replace(timestamp_ms=1_000, offset=log.offset + 1)])
    log.offset += 1
    events = watching.read([log.stable(2, M("a", [0]))._replace(timestamp_ms=2_000)])
    assert last_of(events, "member_removed")["last_commit_ms"] == 0


def test_the_last_member_goes() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a"))])
    events = watching.read([log.empty(2, ms=1_000, since_ms=30)])
    assert kinds(events) == ["removed c1-a", "Stable>PreparingRebalance", "PreparingRebalance>Empty"]
    assert {each["at_ms"] for each in events} == {log.now_ms - 30}
    assert watching.picture["state_timestamp_ms"] == log.now_ms - 30
    assert [each["cause"] for each in events if "cause" in each] == ["unknown", "unknown"]
    assert (watching.picture["state"], watching.picture["members"]) == ("Empty", [])
    events = watching.read([log.stable(3, M("c1-b"))])
    assert begun(events) == ("member_joined", "c1-b joined")


def test_a_rebalance_in_which_nothing_changes() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a", [0]))])
    # What a cooperative member owns is in its subscription, which says nothing about its topics.
    events = watching.read([log.stable(2, M("c1-a", [0], user_data=b"generation 1"))])
    assert begun(events) == ("unknown", "nothing has changed that is written down")


def test_the_reason_says_what_has_changed() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a", [0]), M("b", [1]), M("c", [2]))])
    changed = [M("a", [0, 1], topics=("t", "u")), M("b", [3, 4])]
    events = watching.read([log.stable(2, *changed, protocol="sticky")])
    assert begun(events)[1] == (
        "c went; the protocol is sticky and was range; a subscribed to other topics; "
        "partitions added: 2; partitions gone: 1"
    )


def test_a_reason_names_few_members() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a"))])
    events = watching.read([log.stable(2, *(M(f"m{n}") for n in range(200)))])
    assert begun(events)[1] == "a went; m0, m1, m2 and 197 more joined"


def test_a_protocol_of_somebody_elses() -> None:
    """Then neither topics nor partitions can be read."""
    log, watching = Log(), Watching()
    for generation in (1, 2):
        member = M(f"c{generation}")
        value = log.group_value("connect", generation, "sessioned", "c", [member], log.now_ms)
        watching.read([log.write(log.group_key, value)])
    removed = last_of(watching.events, "member_removed")
    assert "last_commit_ms" not in removed
    assert begun(watching.events) == ("unknown", "c1 went; c2 joined")


def test_assignments_that_cannot_be_read() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a", [0]), M("b", [1])), log.commit(1, 5)])
    value = log.records[0].value or b""
    broken = value.replace(b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\1", b"\0\0\0\1\0\1t\x7f\xff\xff\xff\0\0\0\1")
    assert broken != value
    watching = Watching()
    watching.read([log.records[0]._replace(value=broken), log.records[1]])
    events = watching.read([log.stable(2, M("a", [0, 1]))])
    assert "last_commit_ms" not in last_of(events, "member_removed")
    assert begun(events)[1] == "b went"


# -- static members --------------------------------------------------------------------------------------


def test_a_static_member_restarts_without_a_rebalance() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("i-1", [0], instance="i"), M("j-1", [1], instance="j"))])
    since_ms = watching.picture["state_timestamp_ms"]
    after = [M("i-2", [0], instance="i"), M("j-1", [1], instance="j")]
    events = watching.read([log.stable(1, *after, ms=500)])
    assert kinds(events) == ["fenced i-1 by i-2"]
    assert (events[0]["group_instance_id"], events[0]["at_ms"]) == ("i", log.now_ms)
    assert (watching.picture["leader"], watching.picture["state_timestamp_ms"]) == ("i-2", since_ms)


def test_a_static_member_restarts_in_a_rebalance() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("i-1", [0], instance="i"))])
    events = watching.read([log.stable(2, M("i-2", [0], instance="i"), M("c-1", [1]))])
    assert kinds(events)[:3] == ["fenced i-1 by i-2", "added c-1", "Stable>PreparingRebalance"]
    assert begun(events) == ("unknown", "i-2 restarted; c-1 joined; partitions added: 1")


def test_a_static_member_goes_and_another_one_is_there() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("i-1", instance="i"))])
    events = watching.read([log.stable(2, M("j-1", instance="j"))])
    assert kinds(events)[:2] == ["removed i-1", "added j-1"]


def test_two_members_with_one_instance_are_one_restart() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("i-1", instance="i"))])
    events = watching.read([log.stable(2, M("i-2", instance="i"), M("i-3", instance="i"))])
    assert kinds(events)[:2] == ["fenced i-1 by i-2", "added i-3"]


# -- the guard of a group that is at the coordinator ------------------------------------------------------


def guarded(log: Log, generation: int, member_id: str) -> Record:
    guard = M(member_id, instance=GUARD_TYPE)
    value = log.group_value(GUARD_TYPE, generation, GUARD_TYPE, member_id, [guard], log.now_ms + 1)
    return log.write(log.group_key, value)


def test_the_guard_is_no_member_and_its_renewals_are_not_told() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("c1-a")), log.empty(2)])
    events = watching.read([guarded(log, 3, "guard-1")])
    assert kinds(events) == ["Empty>PreparingRebalance", "PreparingRebalance>Empty"]
    assert begun(events) == ("unknown", "the guard came: the group is at the coordinator")
    assert (watching.picture["state"], watching.picture["members"]) == ("Empty", [])
    assert (watching.picture["protocol_type"], watching.picture["leader"]) == (GUARD_TYPE, None)
    told = len(watching.outputs)
    watching.read([guarded(log, 3, f"guard-{number}") for number in range(2, 9)])
    assert len(watching.outputs) == told
    assert begun(watching.read([log.empty(4)])) == ("unknown", "the guard went")
    assert begun(watching.read([log.stable(5, M("c1-b"))])) == ("member_joined", "c1-b joined")


def test_the_guard_is_the_first_member_of_a_group() -> None:
    log, watching = Log(), Watching()
    events = watching.read([guarded(log, 1, "guard-1")])
    assert kinds(events) == ["group_created", "Empty>PreparingRebalance", "PreparingRebalance>Empty"]


def test_a_group_with_the_guard_that_is_older_than_the_log() -> None:
    log, watching = Log(), Watching()
    assert kinds(watching.read([guarded(log, 7, "guard-1")])) == [">Empty"]
    assert watching.picture["members"] == []


# -- what the log has not --------------------------------------------------------------------------------


def test_a_first_generation_that_is_over_is_older_than_the_log() -> None:
    log, watching = Log(), Watching()
    assert kinds(watching.read([log.empty(1)])) == [">Empty"]


@pytest.mark.parametrize("members", [(), (M("c1-a", [0]),)])
def test_a_group_that_is_older_than_the_log(members: tuple[M, ...]) -> None:
    """Compaction has taken all that was before. So nobody is said to have joined."""
    log, watching = Log(), Watching()
    events = watching.read([log.stable(7, *members) if members else log.empty(7)])
    told = [">Stable", "generation 7 of c1-a", "assignment_propagated"] if members else [">Empty"]
    assert kinds(events) == told
    assert events[0]["cause"] is None
    assert watching.picture["generation_id"] == 7


def test_generations_that_were_not_written_down() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(3, M("a"))])
    events = watching.read([log.stable(6, M("a"))])
    assert begun(events)[1] == "generations not written down: 2"
    events = watching.read([log.stable(8, M("a"))])
    assert begun(events)[1] == "generations not written down: 1"
    events = watching.read([log.stable(9, M("a"))])
    assert begun(events)[1] == "nothing has changed that is written down"


@pytest.mark.parametrize("generation", [1, 9])
def test_a_member_is_no_cause_if_generations_were_not_written_down(generation: int) -> None:
    log, watching = Log(), Watching()
    watching.read([log.empty(2)])
    cause, reason = begun(watching.read([log.stable(generation, M("a"))]))
    assert cause == "unknown"
    assert reason.endswith("; a joined")


def test_a_generation_that_is_less() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(9, M("a"))])
    events = watching.read([log.stable(2, M("b"))])
    assert kinds(events)[:3] == ["removed a", "added b", "Stable>PreparingRebalance"]
    assert begun(events)[1].startswith(
        "generation 9 was before: the group was made again, or records are lost; "
    )
    assert watching.picture["generation_id"] == 2


def test_a_record_that_is_written_again_tells_nothing() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(3, M("a"))])
    assert watching.read([log.stable(3, M("a"))]) == []
    assert len([each for each in watching.outputs if each.place]) == 1


def test_an_assignment_that_is_another_one_in_the_same_generation() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(3, M("a", [0]))])
    assert kinds(watching.read([log.stable(3, M("a", [1]))])) == ["assignment_propagated"]


# -- groups that end -------------------------------------------------------------------------------------


def test_a_group_is_deleted_and_made_again() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a")), log.commit(0, 5), log.empty(2)])
    events = watching.read([log.forget(0), log.delete()])
    assert kinds(events) == ["offsets_deleted", "Empty>Dead", "group_deleted"]
    assert events[0]["cause"] == "unknown"
    assert watching.picture is None
    events = watching.read([log.new(), log.stable(1, M("b"))])
    assert kinds(events)[:2] == ["group_created", "added b"]
    assert watching.picture["generation_id"] == 1


def test_a_group_that_goes_over_to_another_protocol() -> None:
    """Kafka writes a tombstone, although it has members, and then records that are not read."""
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a")), log.commit(0, 5)])
    events = watching.read([log.delete(), log.of_kind(17), log.of_kind(18)])
    assert kinds(events) == ["Stable>Dead", "group_deleted"]
    assert "another protocol" in events[0]["reason"]
    assert watching.picture is None
    assert watching.skipped == {17: 1, 18: 1}


def test_a_tombstone_of_a_group_that_is_not_known() -> None:
    log, watching = Log(), Watching()
    assert watching.read([log.delete(), log.forget(0)]) == []
    assert watching.outputs == []
    assert watching.state is None


# -- as the history has it -------------------------------------------------------------------------------


def test_the_history_tells_who_was_a_member_and_who_owned_what() -> None:
    log, watching = Log(now_ms=0), Watching()
    watching.read([log.new(), log.stable(1, M("i-1", [0, 1], instance="i"))])
    watching.read([log.stable(1, M("i-2", [0, 1], instance="i"))])
    watching.read(
        [log.stable(2, M("i-2", [0], instance="i"), M("c-1", [1])), log.stable(3, M("c-1", [0, 1]))]
    )
    watching.read([log.commit(0, 5), log.empty(4), log.commit(0, 7), log.forget(0), log.delete()])
    events = [msgspec.convert(each, AnyEvent) for each in watching.events]
    story = Story.of_events("g", enumerate(events))

    members = [(each.member_id, each.reason, each.since is not None) for each in story.memberships]
    assert sorted(members) == [("c-1", "unknown", True), ("i-1", "replaced", True), ("i-2", "unknown", True)]
    owned = [(each.generation_id, each.member_id, each.partition) for each in story.assignments]
    assert {(2, "i-2", 0), (2, "c-1", 1), (3, "c-1", 0), (3, "c-1", 1)} <= set(owned)
    assert all(each.until is not None for each in story.assignments)
    # A commit of nobody's is by hand: the group was Empty.
    assert [(each.change, each.committed_offset) for each in story.resets] == [("committed", 7)]
