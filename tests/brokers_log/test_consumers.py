"""Stories of groups of the consumer protocol at the brokers: what their records tell."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.consumer_protocol import topics_of
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.story import Story
from tests.brokers_log.consumers import AWAY, UNRELEASED, UNREVOKED, ConsumerLog, topic_id
from tests.brokers_log.kafka import M
from tests.brokers_log.test_changes import last_of
from tests.brokers_log.watching import ALL, Watching, kinds, partitions


def moves(events: list[dict[str, Any]]) -> list[tuple[str, str | None, str, int | None]]:
    """The states that a group came to, with the cause, the reason, and how long the rebalance took."""
    return [
        (each["to"], each["cause"], each["reason"], each["rebalance_ms"])
        for each in events
        if each["event"] == "state_changed"
    ]


def members(watching: Watching) -> dict[str, tuple[str, str, int]]:
    """What each member of the picture has, is to have, and its epoch."""
    return {
        each["member_id"]: (
            partitions(each["member_assignment"]),
            partitions(each["target_assignment"]),
            each["member_epoch"],
        )
        for each in watching.picture["members"]
    }


def subscriptions(watching: Watching) -> dict[str, list[str]]:
    """The topics of each member of the picture."""
    return {
        each["member_id"]: topics_of(base64.b64decode(each["member_metadata"]))
        for each in watching.picture["members"]
    }


def first_member(log: ConsumerLog, member_id: str = "a-1", **more: Any) -> None:
    """As Kafka 4.4 writes it down: the first epoch is 2."""
    log.joins(member_id, 2, {member_id: [0, 1]}, **more)
    log.share(member_id, 2, t=[0, 1])


# -- members come and go ---------------------------------------------------------------------------------


def test_a_first_member() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    events = watching.read(log.records)
    assert kinds(events) == [
        "group_created",
        "added a-1",
        "Empty>Assigning",
        "targets of a-1",
        "Assigning>Reconciling",
        "a-1 has t0 t1",
        "Reconciling>Stable",
    ]
    assert moves(events) == [
        ("Assigning", "member_joined", "a-1 joined", None),
        ("Reconciling", None, "the work was divided again", None),
        ("Stable", "member_joined", "a-1 is at epoch 2", 0),
    ]
    added, target = last_of(events, "member_added"), last_of(events, "target_assigned")
    assert (added["client_id"], added["client_host"], added["join_phase_ms"]) == ("a", "/10.0.0.7", None)
    assert (target["assignment_epoch"], target["protocol_name"]) == (2, "")
    assert [each["generation_id"] for each in events] == [0, 0, 2, 2, 2, 2, 2]
    assert last_of(events, "member_reconciled")["member_epoch"] == 2
    picture = watching.picture
    assert {name: picture[name] for name in ("state", "generation_id", "assignment_epoch", "group_type")} == {
        "state": "Stable",
        "generation_id": 2,
        "assignment_epoch": 2,
        "group_type": "consumer",
    }
    assert (picture["protocol_type"], picture["protocol_name"]) == ("consumer", None)
    assert members(watching) == {"a-1": ("t0 t1", "t0 t1", 2)}
    (member,) = picture["members"]
    assert (member["session_timeout_ms"], member["rebalance_timeout_ms"]) == (0, 300_000)


def test_a_second_member_waits_for_what_the_first_gives_up() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    begin = len(log.records)
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("b-1", 3, state=UNRELEASED)
    joined_ms = log.now_ms
    log.share("a-1", 2, state=UNREVOKED, t=[0], pending={"t": [1]}, ms=400)
    log.share("a-1", 3, t=[0], ms=100)
    log.share("b-1", 3, t=[1], ms=500)
    events = watching.read(log.records[begin:])
    assert kinds(events) == [
        "added b-1",
        "Stable>Assigning",
        "targets of a-1 b-1",
        "Assigning>Reconciling",
        "a-1 has t0 t1 and gives up t1",
        "a-1 has t0",
        "b-1 has t1",
        "Reconciling>Stable",
    ]
    assert moves(events)[-1] == ("Stable", "member_joined", "b-1 is at epoch 3", 1_000)
    assert log.now_ms == joined_ms + 1_000
    assert members(watching) == {"a-1": ("t0", "t0", 3), "b-1": ("t1", "t1", 3)}
    story = Story.of_events("g", enumerate(msgspec.convert(it, AnyEvent) for it in watching.events))
    (wait,) = story.waits
    assert (wait.topic, wait.partition, wait.holder_id, wait.member_id) == ("t", 1, "a-1", "b-1")
    assert wait.until is not None
    assert wait.since is not None
    assert (wait.until - wait.since).total_seconds() == 0.5


def test_a_member_goes_and_nobody_knows_why() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("a-1", 3, t=[0])
    log.share("b-1", 3, t=[1])
    log.commit(1, 7, ms=100)
    log.commit(0, 7, ms=100)
    watching.read(log.records)
    begin = len(log.records)
    log.leaves("b-1", 4, ms=5_000)
    log.divided(4, {"a-1": [0, 1]})
    log.share("a-1", 4, t=[0, 1])
    events = watching.read(log.records[begin:])
    assert kinds(events)[0] == "removed b-1"
    assert moves(events)[0] == ("Assigning", "unknown", "b-1 went", None)
    assert moves(events)[-1] == ("Stable", "unknown", "a-1 is at epoch 4", 0)
    removed = events[0]
    assert (removed["reason"], removed["client_id"], removed["last_commit_ms"]) == ("unknown", "b", 5_100)
    assert "session_timeout_ms" not in removed


def test_the_last_member_goes_and_the_group_is_deleted() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.commit(0, 3)
    watching.read(log.records)
    begin = len(log.records)
    log.leaves("a-1", 3)
    log.assigned(3)
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["removed a-1", "Stable>Empty"]
    assert moves(events) == [("Empty", "unknown", "a-1 went", None)]
    assert (watching.picture["state"], watching.picture["members"]) == ("Empty", [])
    by_hand = watching.read([log.commit(0, 0)])
    assert [(it["member_id"], it["generation_id"]) for it in by_hand] == [("", 3)]
    events = watching.read([log.forget(0), *log.no_more_consumers()])
    assert kinds(events) == ["offsets_deleted", "Empty>Dead", "group_deleted"]
    assert watching.picture is None
    watching.read([], batch_ms=60_000)
    assert watching.state is None


def test_a_group_at_rest_writes_nothing_and_commits_are_told() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    events = watching.read([log.commit(0, 5)])
    assert [(it["member_id"], it["generation_id"]) for it in events] == [(None, 2)]


def test_an_epoch_that_advances_alone_is_no_event_and_no_picture() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    watching.read(log.records)
    pictures = len(watching.outputs)
    assert watching.read([log.share("b-1", 3, state=UNRELEASED)]) == []
    assert len(watching.outputs) == pictures


# -- static members --------------------------------------------------------------------------------------


def test_a_static_member_restarts() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "a-1", instance="i")
    watching.read(log.records)
    begin = len(log.records)
    log.share("a-1", AWAY, t=[0, 1], ms=100)
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["away a-1", "Stable>Reconciling"]
    assert moves(events) == [("Reconciling", "member_left", "a-1 left for a while", None)]
    assert members(watching) == {"a-1": ("t0 t1", "t0 t1", AWAY)}
    begin = len(log.records)
    log.gone("a-1", ms=900)
    log.member("a-2", "t", instance="i", host="/10.0.0.8")
    log.target("a-2", t=[0, 1])
    log.share("a-2", 0, t=[0, 1])
    log.share("a-2", 2, t=[0, 1])
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["fenced a-1 by a-2", "Reconciling>Stable"]
    assert moves(events) == [("Stable", "member_left", "a-2 is at epoch 2", 900)]
    assert (events[0]["client_host"], events[0]["group_instance_id"]) == ("/10.0.0.8", "i")
    assert members(watching) == {"a-2": ("t0 t1", "t0 t1", 2)}


def test_a_static_member_comes_back_under_the_id_that_it_had() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "a-1", instance="i")
    log.share("a-1", AWAY, t=[0, 1])
    watching.read(log.records)
    begin = len(log.records)
    log.gone("a-1")
    log.member("a-1", "t", instance="i")
    log.share("a-1", 2, t=[0, 1])
    assert kinds(watching.read(log.records[begin:])) == ["fenced a-1 by a-1", "Reconciling>Stable"]


def test_a_static_member_comes_back_with_other_topics() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "a-1", instance="i")
    log.share("a-1", AWAY, t=[0, 1])
    watching.read(log.records)
    begin = len(log.records)
    log.gone("a-1")
    log.member("a-2", "u", instance="i")
    log.epoch(3)
    log.target("a-2", u=[0])
    log.assigned(3)
    log.share("a-2", 3, u=[0])
    events = watching.read(log.records[begin:])
    assert kinds(events)[:3] == ["fenced a-1 by a-2", "a-2 reads u", "Reconciling>Assigning"]
    assert moves(events)[0][1:3] == ("member_replaced", "a-2 changed its subscription")
    assert members(watching) == {"a-2": ("u0", "u0", 3)}


def test_a_static_member_does_not_come_back() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "a-1", instance="i")
    log.share("a-1", AWAY, t=[0, 1])
    watching.read(log.records)
    begin = len(log.records)
    log.leaves("a-1", 3)
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["removed a-1", "Reconciling>Empty"]
    assert moves(events) == [("Empty", "member_left", "a-1 went", 1_000)]


def test_a_dynamic_member_takes_the_place_of_a_static_one() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "a-1", instance="i")
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("a-1", 3, t=[0])
    log.share("b-1", 3, t=[1])
    log.share("a-1", AWAY, t=[0])
    watching.read(log.records)
    begin = len(log.records)
    log.gone("a-1")
    log.member("b-1", "t", instance="i")
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["removed b-1", "fenced a-1 by b-1"]
    assert members(watching) == {"b-1": ("t0", "t0", 0)}


# -- topics ----------------------------------------------------------------------------------------------


def test_a_member_reads_other_topics() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    begin = len(log.records)
    log.member("a-1", "v", "u", assignor="range", ms=50)
    log.epoch(3)
    log.target("a-1", u=[0], v=[3])
    log.assigned(3)
    log.share("a-1", 2, state=UNREVOKED, pending={"t": [0, 1]})
    log.share("a-1", 3, u=[0], v=[3])
    events = watching.read(log.records[begin:])
    assert kinds(events) == [
        "a-1 reads u v",
        "Stable>Assigning",
        "targets of a-1",
        "Assigning>Reconciling",
        "a-1 has t0 t1 and gives up t0 t1",
        "a-1 has u0 v3",
        "Reconciling>Stable",
    ]
    assert moves(events)[0][1:3] == ("subscription_changed", "a-1 changed its subscription")
    assert last_of(events, "target_assigned")["protocol_name"] == "range"
    assert watching.picture["protocol_name"] == "range"


def test_a_topic_grows() -> None:
    log, watching = ConsumerLog(), Watching()
    log.joins("a-1", 2, {})
    log.epoch(3, metadata_hash=5)
    log.divided(3, {"a-1": [0]})
    log.share("a-1", 3, t=[0])
    watching.read(log.records)
    begin = len(log.records)
    log.epoch(4, metadata_hash=-5, ms=3_000)
    log.divided(4, {"a-1": [0, 1]})
    log.share("a-1", 4, t=[0, 1], ms=200)
    events = watching.read(log.records[begin:])
    assert moves(events)[0][1:3] == ("topics_changed", "topics changed")
    assert moves(events)[-1] == ("Stable", "topics_changed", "a-1 is at epoch 4", 200)


def test_the_first_hash_may_be_that_of_newer_brokers() -> None:
    log, watching = ConsumerLog(), Watching()
    log.member("a-1", "t", ms=5)
    log.epoch(1, metadata_hash=0)
    log.assigned(1)
    log.share("a-1", 1)
    watching.read(log.records)
    (move,) = moves(watching.read([log.epoch(2, metadata_hash=5, ms=3_000)]))
    assert move[1:3] == ("unknown", "topics changed, or the brokers were upgraded")


def test_a_new_epoch_for_nothing_that_is_written_down() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    (move,) = moves(watching.read([log.epoch(3)]))
    assert move[1:3] == ("unknown", "nothing has changed that is written down")


def test_something_new_that_makes_no_epoch_is_no_cause_of_a_later_one() -> None:
    """Up to Kafka 4.2 that is so for another assignor."""
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.member("a-1", "t", assignor="range", ms=1_000)
    watching.read(log.records)
    begin = len(log.records)
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    events = watching.read(log.records[begin:])
    assert moves(events)[0][1:3] == ("member_joined", "b-1 joined")


def test_a_member_that_changes_its_mind_again_and_again_takes_no_room() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    size = len(watching.state or b"")
    for number in range(100):
        watching.read([log.member("a-1", "t", assignor=f"{number % 2}", ms=100)])
    assert len(watching.state or b"") < size + 100


def test_a_reason_names_few_members() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    begin = len(log.records)
    log.now_ms += 5
    for number in range(9):
        log.member(f"m{number}-1", "t")
    log.epoch(11)
    watching.read(log.records[:begin])
    assert moves(watching.read(log.records[begin:]))[0][1:3] == (
        "unknown",
        "epochs not written down: 8; m0-1 joined, m1-1 joined, m2-1 joined and 6 more",
    )


def test_patterns() -> None:
    log, watching = ConsumerLog(), Watching()
    log.member("a-1", pattern="t|u.*", ms=5)
    log.epoch(1)
    log.assigned(1)
    log.share("a-1", 1)
    watching.read(log.records)
    assert subscriptions(watching) == {"a-1": []}
    begin = len(log.records)
    log.pattern("t|u.*", "u", "t", ms=100)
    log.epoch(2)
    events = watching.read(log.records[begin:])
    assert kinds(events) == ["t|u.* matches ['t', 'u']", "Stable>Assigning"]
    assert moves(events)[0][1:3] == ("topics_changed", "topics changed")
    assert subscriptions(watching) == {"a-1": ["t", "u"]}
    assert watching.read([log.pattern("t|u.*", "t", "u", ms=100)]) == [], "asked again, it is the same"
    assert kinds(watching.read([log.pattern("t|u.*", "t", ms=100)])) == ["t|u.* matches ['t']"]
    begin = len(log.records)
    log.member("a-1", "v", ms=100)
    log.no_pattern("t|u.*")
    log.epoch(3)
    assert kinds(watching.read(log.records[begin:]))[0] == "a-1 reads v"


def test_a_topic_without_a_name_goes_by_its_id_until_it_has_one() -> None:
    log, watching = ConsumerLog(), Watching(names={})
    first_member(log)
    events = watching.read(log.records)
    assert kinds(events)[-2] == f"a-1 has {topic_id('t')}0 {topic_id('t')}1"
    watching.names = {topic_id("t"): "t"}
    assert kinds(watching.read([log.share("a-1", 2, t=[1], ms=1)])) == ["a-1 has t1"]
    watching.names = {}
    assert kinds(watching.read([log.share("a-1", 2, t=[0], ms=1)])) == ["a-1 has t0"], "once and for ever"


def test_topics_that_nobody_has_are_forgotten() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    size = len(watching.state or b"")
    for epoch in range(3, 40):
        begin = len(log.records)
        # Made again and again, it has another id each time.
        topic = f"t{epoch}"
        log.epoch(epoch, ms=1)
        log.target("a-1", **{topic: [0, 1]})
        log.assigned(epoch)
        log.share("a-1", epoch, **{topic: [0, 1]})
        watching.read(log.records[begin:])
        assert kinds(watching.read([log.share("a-1", epoch, t=[epoch])]))[0] == f"a-1 has t{epoch}"
    assert len(watching.state or b"") < size + 1_000


# -- what is missing -------------------------------------------------------------------------------------


def test_a_group_that_is_older_than_the_log() -> None:
    log, watching = ConsumerLog(), Watching()
    log.member("a-1", "t")
    log.target("a-1", t=[0])
    log.share("a-1", 9, t=[0])
    log.share("b-1", 9, t=[1])
    log.epoch(9)
    log.assigned(9)
    events = watching.read(log.records)
    assert kinds(events) == [">Assigning", "a-1 has t0", "targets of a-1", "Assigning>Stable"]
    assert events[0]["reason"] == "older records of the group are not there"
    assert moves(events)[-1][1:] == ("unknown", "the work was divided again", None)
    assert members(watching) == {"a-1": ("t0", "t0", 9)}, "nobody knows who b-1 is"
    events = watching.read([log.member("b-1", "t")])
    assert kinds(events) == ["added b-1", "b-1 has t1"]
    assert members(watching)["b-1"] == ("t1", "", 9)


@pytest.mark.parametrize(
    ("epoch", "metadata_hash", "told"),
    [(1, 0, "group_created"), (2, 1, "group_created"), (2, 0, ">Assigning")],
)
def test_a_group_is_new_if_it_can_have_begun_with_its_epoch(
    epoch: int, metadata_hash: int, told: str
) -> None:
    """Up to Kafka 4.0 epoch 2 is a second one, of which compaction has left nothing else."""
    log, watching = ConsumerLog(), Watching()
    log.member("a-1", "t", ms=5)
    log.epoch(epoch, metadata_hash=metadata_hash)
    assert kinds(watching.read(log.records))[0] == told


def test_epochs_that_compaction_has_taken() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    watching.read(log.records)
    begin = len(log.records)
    log.member("b-1", "t", ms=60_000)
    log.epoch(7)
    log.divided(7, {"a-1": [0], "b-1": [1]})
    log.share("a-1", 7, t=[0])
    log.share("b-1", 7, t=[1])
    events = watching.read(log.records[begin:])
    assert moves(events)[0] == ("Assigning", "unknown", "epochs not written down: 4; b-1 joined", None)
    assert moves(events)[-1] == ("Stable", "unknown", "b-1 is at epoch 7", None)
    watching.read([log.epoch(8, ms=1)])
    assert moves(watching.read([log.epoch(4, ms=1)])) == [
        ("Stable", "unknown", "epoch 8 was before: the group was made again, or records are lost", None)
    ]


def test_epochs_that_are_missing_within_a_rebalance() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.joins("b-1", 3, {})
    watching.read(log.records)
    begin = len(log.records)
    log.epoch(6, ms=1_000)
    log.assigned(6)
    log.share("a-1", 6, t=[0, 1])
    log.share("b-1", 6)
    assert moves(watching.read(log.records[begin:]))[-1][1:] == ("unknown", "b-1 is at epoch 6", None)


def test_tombstones_of_what_is_not_known() -> None:
    log, watching = ConsumerLog(), Watching()
    assert watching.read([*log.gone("x"), *log.no_more_consumers(), log.no_pattern("a.*")]) == []
    assert (watching.outputs, watching.state) == ([], None)
    log.share("x", 3, t=[0])
    begin = len(log.records)
    first_member(log)
    log.gone("x")
    log.gone("nobody")
    watching.read(log.records[begin - 1 :])
    assert list(members(watching)) == ["a-1"]


def test_what_is_obsolete_is_passed_over() -> None:
    log, watching = ConsumerLog(), Watching()
    assert watching.read([log.of_kind(4), log.of_kind(4, None)]) == []
    assert not watching.skipped
    assert watching.state is None


# -- the two protocols -----------------------------------------------------------------------------------


def test_an_empty_classic_group_with_offsets_becomes_one_of_the_consumer_protocol() -> None:
    log, watching = ConsumerLog(), Watching()
    watching.read([log.stable(1, M("c-1")), log.commit(0, 5), log.empty(2)])
    begin = len(log.records)
    log.delete()
    first_member(log)
    log.records[begin + 1 :] = [each._replace(timestamp_ms=log.now_ms) for each in log.records[begin + 1 :]]
    events = watching.read(log.records[begin:])
    assert kinds(events)[:3] == ["classic to consumer", "added a-1", "Empty>Assigning"]
    assert watching.picture["group_type"] == "consumer"
    assert kinds(watching.read([log.commit(0, 6)])) == ["offsets_committed"]


def test_an_empty_group_of_the_consumer_protocol_becomes_classic() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log)
    log.commit(0, 5)
    log.leaves("a-1", 3)
    watching.read(log.records)
    events = watching.read([*log.no_more_consumers(), log.new(ms=0)])
    assert kinds(events) == ["consumer to classic"]
    assert (watching.picture["group_type"], watching.picture["state"]) == ("classic", "Empty")
    events = watching.read([log.stable(1, M("c-1", [0]))])
    assert kinds(events)[:2] == ["added c-1", "Empty>PreparingRebalance"]
    assert "assignment_epoch" not in watching.picture


def test_a_classic_group_with_members_is_upgraded() -> None:
    log, watching = ConsumerLog(), Watching()
    watching.read([log.stable(4, M("c-1", [0]), M("c-2", [1]))])
    begin = len(log.records)
    log.delete()
    for member_id in ("c-1", "c-2"):
        log.member(member_id, "t", classic_session_ms=45_000)
    log.epoch(4)
    log.target("c-1", t=[0])
    log.target("c-2", t=[1])
    log.assigned(4)
    log.share("c-1", 4, t=[0])
    log.share("c-2", 4, t=[1])
    log.member("n-1", "t")
    log.epoch(5)
    events = watching.read(log.records[begin:])
    assert kinds(events) == [
        "classic to consumer",
        "targets of c-1 c-2",
        "c-1 has t0",
        "c-2 has t1",
        "added n-1",
        "Stable>Assigning",
    ]
    assert moves(events)[0][1:3] == ("member_joined", "n-1 joined")
    assert [it["session_timeout_ms"] for it in watching.picture["members"]] == [45_000, 45_000, 0]
    begin = len(log.records)
    log.leaves("c-2", 6)
    removed = last_of(watching.read(log.records[begin:]), "member_removed")
    assert removed["session_timeout_ms"] == 45_000


def test_a_member_of_a_classic_group_names_a_topic_that_cannot_be_written_again() -> None:
    """A subscription is the member's own, and a byte that is not UTF-8 becomes three."""
    log, watching = ConsumerLog(), Watching()
    written = log.stable(1, M("c-1", topics=("x" * 20_000, "t")))
    value = (written.value or b"").replace(b"x" * 20_000, b"\xff" * 20_000)
    watching.read([written._replace(value=value), log.delete(), log.epoch(2)])
    assert watching.picture["group_type"] == "consumer"
    assert subscriptions(watching) == {"c-1": ["t"]}


def test_a_group_with_members_is_downgraded() -> None:
    """When the last member of the consumer protocol goes, if a broker's settings say so."""
    log, watching = ConsumerLog(), Watching()
    first_member(log, "c-1", classic_session_ms=45_000)
    log.joins("n-1", 3, {"c-1": [0], "n-1": [1]})
    log.share("c-1", 3, t=[0])
    log.share("n-1", 3, t=[1])
    watching.read(log.records)
    events = watching.read([*log.no_more_consumers("c-1", "n-1"), log.stable(3, M("c-1", [0]), ms=0)])
    assert kinds(events)[:2] == ["consumer to classic", "removed n-1"]
    assert [it["member_id"] for it in watching.picture["members"]] == ["c-1"]
    assert watching.picture["group_type"] == "classic"


def test_a_downgrade_that_loses_nobody() -> None:
    log, watching = ConsumerLog(), Watching()
    first_member(log, "c-1", classic_session_ms=45_000)
    watching.read(log.records)
    events = watching.read([*log.no_more_consumers("c-1"), log.stable(2, M("c-1", [0, 1]), ms=0)])
    assert kinds(events) == ["consumer to classic", "assignment_propagated"]


@pytest.mark.parametrize("is_classic", [False, True])
@pytest.mark.parametrize("follows", ["nothing", "a commit", "itself", "something much later"])
def test_a_group_with_offsets_that_is_deleted_and_does_not_go_on(is_classic: bool, follows: str) -> None:
    """Kafka does not do that. But whatever is in the log, a group does not stay for ever."""
    log, watching = ConsumerLog(), Watching(ALL)
    if is_classic:
        watching.read([log.stable(1, M("a-1")), log.commit(0, 5)])
    else:
        first_member(log)
        log.commit(0, 5)
        watching.read(log.records)
    deletion = [log.delete()] if is_classic else log.no_more_consumers("a-1")
    gone_ms, told = log.now_ms, ["Stable>Dead", "group_deleted"]
    assert watching.read(deletion, batch_ms=5_000) == []
    assert watching.deadline_ms == 15_000
    begin = len(log.records)
    if follows == "nothing":
        assert watching.read([], batch_ms=14_999) == []
        events = watching.read([], batch_ms=15_000)
    elif follows == "a commit":
        events = watching.read([log.commit(0, 6, ms=50)])
    elif follows == "itself":
        if is_classic:
            events = watching.read([log.stable(1, M("b-1"), ms=50)])
        else:
            first_member(log)
            events = watching.read(log.records[begin:])
    # The other protocol, but not because of the deletion.
    elif is_classic:
        log.now_ms += 10_000
        first_member(log)
        events = watching.read(log.records[begin:])
    else:
        events = watching.read([log.stable(1, M("b-1"), ms=10_000)])
    assert kinds(events)[:2] == told
    assert {each["at_ms"] for each in events[:2]} == {gone_ms}
    assert events[0]["event_id"] == f"{deletion[-1]}-0"


def test_a_group_of_commits_and_then_of_members() -> None:
    log, watching = ConsumerLog(), Watching()
    watching.read([log.commit(0, 1)])
    assert watching.picture["group_type"] == "classic"
    begin = len(log.records)
    first_member(log)
    assert kinds(watching.read(log.records[begin:]))[0] == "group_created"
    assert watching.picture["group_type"] == "consumer"
