"""Rebalances in plain words. All texts are in tests/golden/explained.txt: renew it with GOLDEN=write."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import msgspec

from group_coordinator.coordinator_state.events import (
    AnyEvent,
    OffsetsCommitted,
    RebalanceCause,
    SessionNearlyExpired,
)
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from group_coordinator.history.timeline.explain import Explainer
from group_coordinator.history.timeline.sentence import Sentence
from tests.brokers_log.consumers import AWAY, UNREVOKED, ConsumerLog
from tests.brokers_log.kafka import Log, M
from tests.brokers_log.watching import Watching
from tests.coordinator_state.scenario import Scenario
from tests.golden import assert_golden
from tests.history import consumers
from tests.history.plain import write_plain_tables
from tests.history.scripts import GROUP, a_day, a_night, events
from tests.history.stories import an_hour
from tests.page.filled import HOSTILE_GROUP, hostile_hour


def joined_late() -> Scenario:
    """The third member is new, and the second one keeps the others waiting for four seconds."""
    s = Scenario()
    s.stabilise("c1", "c2", rebalance_timeout_ms=60_000)
    s.wait(1_000)
    s.join("c3", rebalance_timeout_ms=60_000, reason="scaled out")
    s.wait(1_000)
    s.join("c1", rebalance_timeout_ms=60_000)
    s.wait(4_000)
    s.join("c2", rebalance_timeout_ms=60_000)
    s.sync("c1")
    return s


def other_topics() -> Scenario:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.wait(1_000)
    s.join("c2", protocols={"range": b"other topics"}, principal="alice")
    s.join("c1")
    s.sync("c1")
    return s


def restarted() -> Scenario:
    s = Scenario()
    s.static("c1")
    s.form("c1", "c2")
    s.wait(1_000)
    s.restart("c1")
    return s


def restarted_with_another_assignor() -> Scenario:
    s = Scenario()
    s.static("c1")
    s.form("c1", "c2", protocols={"range": b"", "roundrobin": b""})
    s.sync("c1", protocol_name="range")
    s.wait(1_000)
    s.restart("c1", protocols={"roundrobin": b""})
    return s


def never_synced() -> Scenario:
    s = Scenario()
    s.form("c1", "c2", session_timeout_ms=10_000, rebalance_timeout_ms=5_000)
    s.sync("c2")
    s.wait(12_000)
    return s


def many() -> Scenario:
    s = Scenario()
    clients = [f"worker-{number:02}" for number in range(20)]
    s.stabilise(*clients)
    s.wait(1_000)
    s.leave(clients[0], members=[{"member_id": s.ids[each]} for each in clients[:12]])
    for client in clients[12:]:
        s.wait(10)
        s.join(client)
    s.sync(clients[12])
    return s


def close_calls() -> Scenario:
    """c1 and c2 are late, and late again; c2 commits, and is out at 133 s. At 229.5 s c1 is late alone."""
    s = Scenario()
    s.stabilise("c1", "c2", session_timeout_ms=10_000, client_host="10.0.0.7")
    for client, at_ms in (("c2", 9_400), ("c1", 9_500)):
        s.at(at_ms)
        s.heartbeat(client)
    for at_ms in range(15_000, 111_000, 5_000):
        s.at(at_ms)
        s.heartbeat_of("c1", "c2")
    s.at(118_900)
    s.commit("c2", {"t": {0: 5, 1: 5}})
    s.at(119_000)
    s.heartbeat("c1")
    s.at(123_000)
    s.commit("c2", {"t": {0: 7}})
    for at_ms in (127_000, 133_100):
        s.at(at_ms)
        s.heartbeat("c1")
    s.join("c1")
    s.sync("c1", {"c1": b""})
    for at_ms in (*range(138_000, 220_000, 5_000), 220_000, 229_500):
        s.at(at_ms)
        s.heartbeat("c1")
    return s


def all_come_late() -> Scenario:
    s = Scenario()
    clients = [f"worker-{number:02}" for number in range(12)]
    s.stabilise(*clients, session_timeout_ms=10_000)
    s.wait(9_000)
    s.heartbeat_of(*clients)
    s.wait(1_000)
    s.leave(clients[0])
    for client in clients[1:]:
        s.join(client)
    s.sync(clients[1])
    return s


def at_the_brokers() -> list[AnyEvent]:
    log, watching = Log(now_ms=0), Watching()
    log.new(ms=1_000)
    log.stable(1, M("a-1", [0, 1]), ms=3_000)
    log.commit(0, 5, ms=500)
    log.stable(2, M("a-1", [0]), M("b-1", [1]), ms=5_500)
    log.stable(5, M("b-1", [0, 1]), ms=10_000)
    log.stable(6, M("b-1", [0, 1, 2]), ms=10_000)
    log.empty(7, ms=10_000)
    watching.read(log.records)
    return [msgspec.convert(each, AnyEvent) for each in watching.events]


def consumers_at_the_brokers() -> list[AnyEvent]:
    log, watching = ConsumerLog(now_ms=0), Watching()
    log.joins("a-1", 2, {"a-1": [0, 1]}, instance="a")
    log.share("a-1", 2, t=[0, 1])
    log.now_ms = 9_000
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("a-1", 2, state=UNREVOKED, t=[0], pending={"t": [1]}, ms=1_000)
    log.share("a-1", 3, t=[0], ms=2_000)
    log.share("b-1", 3, t=[1], ms=500)
    log.share("a-1", AWAY, t=[0], ms=1_000)
    log.gone("a-1", ms=1_000)
    log.member("a-2", "t", instance="a")
    log.share("a-2", 3, t=[0])
    log.commit(1, 9, ms=1_000)
    log.leaves("b-1", 4, ms=6_000)
    log.divided(4, {"a-2": [0, 1]})
    log.share("a-2", 4, t=[0, 1])
    log.epoch(9, ms=50_000)
    log.divided(9, {"a-2": [0]})
    log.share("a-2", 9, t=[0])
    watching.read(log.records)
    return [msgspec.convert(each, AnyEvent) for each in watching.events]


TOLD = {
    "the coordinator: a day": events(a_day()),
    "the coordinator: a night": events(a_night()),
    "the coordinator: an hour": events(an_hour().s),
    "the coordinator: joined late": events(joined_late()),
    "the coordinator: another subscription": events(other_topics()),
    "the coordinator: a static member restarts in the sync phase": events(restarted()),
    "the coordinator: a static member restarts with another assignor": events(
        restarted_with_another_assignor()
    ),
    "the coordinator: nobody but one syncs": events(never_synced()),
    "the coordinator: many leave": events(many()),
    "the coordinator: members that come late": events(close_calls()),
    "the coordinator: a fleet that comes late": events(all_come_late()),
    "the coordinator: names of strangers": events(hostile_hour()),
    "consumers: a handover": consumers.events(consumers.a_handover()),
    "consumers: a handover that is not over": consumers.events(consumers.a_handover())[:13],
    "consumers: a day of troubles": consumers.events(consumers.a_day_of_troubles()),
    "the brokers": at_the_brokers(),
    "the brokers: consumers": consumers_at_the_brokers(),
}


def explainer(told: list[AnyEvent]) -> Explainer:
    return Explainer(Story.of_events(GROUP, enumerate(told)))


def written(sentences: list[Sentence]) -> str:
    return "".join(
        f"  {each.at:%H:%M:%S.%f} {each.text}\n      {each.event_id} {each.log_offset} {each.member_id}\n"
        for each in sentences
    )


def test_all_texts() -> None:
    texts = []
    for title, told in TOLD.items():
        texts.append(f"# {title}\n")
        explain = explainer(told)
        for each in explain.rebalances:
            who = ", ".join(map(explain.names.name, each.who))
            last = "-" if each.last is None else explain.names.name(each.last.member_id)
            facts = f"took {each.took_ms} ms; last {last}; members {each.members}"
            texts.append(f"{each.cause}: {who}; {facts}\n{written(explain.explain(each))}")
    assert_golden("explained", "\n".join(texts))


def test_there_is_a_text_for_each_cause() -> None:
    rebalances = [each for told in TOLD.values() for each in explainer(told).rebalances]
    moves = {move.cause for each in rebalances for move in each.moves if move.cause is not None}
    # A member gives nothing up while its group rebalances already.
    assert moves == set(RebalanceCause)
    assert {each.cause for each in rebalances} == moves - {RebalanceCause.NOT_REVOKED}


def test_many_waits_are_a_sentence_each_for_the_longest() -> None:
    group = consumers.Consumers({"orders": 40})
    for number in range(40):
        group.at(1_000 * number)
        group.join(f"m{number}")
    explain = explainer(consumers.events(group))
    texts = [each.text for each in explain.explain(explain.rebalances[-1])]
    assert sum(text.startswith("c-m0 still h") for text in texts) == 8
    assert any(re.fullmatch(r"\d+ other members waited for others for a shorter time\.", it) for it in texts)


def test_each_sentence_has_an_event_that_is_in_the_log() -> None:
    for told in TOLD.values():
        places = {each.event_id: (number, time_of(each.at_ms)) for number, each in enumerate(told)}
        explain = explainer(told)
        for rebalance in explain.rebalances:
            for each in explain.explain(rebalance):
                assert each.event_id is not None
                offset, at = places[each.event_id]
                assert each.at == at
                assert each.log_offset in (None, offset)


def test_near_misses_are_told_with_the_rebalance_that_follows_or_by_themselves() -> None:
    told = TOLD["the coordinator: members that come late"]
    explain = explainer(told)
    near = explain.late.near_misses(time_of(0), time_of(600_000))
    ids = [each.event_id for each in told if isinstance(each, SessionNearlyExpired)]
    assert [each.event_id for each in near] == ids
    assert len(ids) == 5
    with_rebalances = {it.event_id for each in explain.rebalances for it in explain.explain(each)}
    assert [each in with_rebalances for each in ids] == [True] * (len(ids) - 1) + [False]


def test_nothing_is_told_twice_of_one_rebalance() -> None:
    for told in TOLD.values():
        explain = explainer(told)
        for rebalance in explain.rebalances:
            signs = {
                each.event_id for each in told if isinstance(each, SessionNearlyExpired | OffsetsCommitted)
            }
            found = [it.event_id for it in explain.explain(rebalance) if it.event_id in signs]
            assert len(found) == len(set(found))


def test_nobody_claims_to_know_what_the_brokers_do_not_write_down() -> None:
    explain = explainer(TOLD["the brokers"])
    texts = " ".join(each.text for it in explain.rebalances for each in explain.explain(it))
    for claimed in ("session of a member expired", "left the group", "after the join phase", "no heartbeat"):
        assert claimed not in texts
    assert [each.took_ms for each in explain.rebalances] == [None] * 5


def test_all_that_have_begun_a_group_at_the_brokers_are_named() -> None:
    log, watching = Log(now_ms=0), Watching()
    ids = [f"c{number}-id" for number in range(3)]
    log.new()
    log.stable(1, *map(M, ids))
    watching.read(log.records)
    told = [msgspec.convert(each, AnyEvent) for each in watching.events]
    (rebalance,) = explainer(told).rebalances
    assert sorted(rebalance.who) == ids


def test_a_story_may_begin_and_end_in_the_middle() -> None:
    story = Story.of_events(GROUP, enumerate(TOLD["the coordinator: a night"]))
    story.transitions = [each for each in story.transitions if each.at >= time_of(6_000)]
    first, *_, last = Explainer(story).rebalances
    # Its moves are gone, and its length says when it began.
    assert (first.began, first.ended, first.cause) == (time_of(5_000), time_of(6_100), "leader_rejoined")
    assert (last.began, last.ended, last.took_ms) == (time_of(25_000), None, None)


def test_the_life_of_a_member() -> None:
    told = TOLD["the coordinator: a night"]
    explain = explainer(told)
    story = Story.of_events(GROUP, enumerate(told))
    restarted = [each.member_id for each in story.memberships if each.client_id == "c3"]
    lives = "".join(f"{each}\n{written(explain.life(each))}" for each in restarted)
    assert_golden("life", lives)
    assert explain.life("nobody") == []


def test_the_life_of_a_member_has_its_near_misses() -> None:
    explain = explainer(TOLD["the coordinator: members that come late"])
    (member_id,) = {each.member_id for each in explain.rebalances[0].joins if "c2" in each.member_id}
    assert [(each.at, each.text) for each in explain.life(member_id) if "sign of life" in each.text] == [
        (
            time_of(at_ms),
            f"c2 at 10.0.0.7 showed a sign of life {left} before its session of 10 s would have expired.",
        )
        for at_ms, left in ((9_400, "600 ms"), (118_900, "1.1 s"))
    ]


def test_many_rebalances_take_not_much_longer_than_few() -> None:
    """Each is explained by its own rows."""
    told = [each for number in range(40) for each in _later(TOLD["the coordinator: many leave"], number)]
    explain = explainer(told)
    looked = 0

    class Counting(list[object]):
        def __getitem__(self, key: object) -> object:
            nonlocal looked
            found = super().__getitem__(key)  # type: ignore[call-overload,index]
            looked += len(found) if isinstance(found, list) else 1
            return found

    explain._gone = Counting(explain._gone)  # type: ignore[assignment]
    for each in explain.rebalances:
        explain.explain(each)
    assert 0 < looked < 5 * len(explain._gone)


def _later(told: list[AnyEvent], number: int) -> list[AnyEvent]:
    return [
        msgspec.structs.replace(
            each, at_ms=each.at_ms + number * 100_000, event_id=f"{number}/{each.event_id}"
        )
        for each in told
    ]


# -- by the history --------------------------------------------------------------------------------------


def test_the_history_explains_a_moment_and_a_time(tmp_path: Path) -> None:
    told = TOLD["the coordinator: a night"]
    write_plain_tables(tmp_path, told)
    reader = HistoryReader(str(tmp_path))
    explain = explainer(told)
    every = [(each, explain.explain(each)) for each in explain.rebalances]
    assert reader.explain(GROUP, since=time_of(0), until=time_of(60_000)) == every
    for at_ms, expected in ((500, 0), (9_000, 1), (10_000, 2), (25_000, 4), (59_000, 4)):
        ((rebalance, sentences),) = reader.explain(GROUP, at=time_of(at_ms))
        assert (rebalance.began, sentences) == (every[expected][0].began, every[expected][1])
    assert reader.explain(GROUP, at=time_of(0) - timedelta(days=1)) == []
    # One that reaches into the time, and one that goes on.
    found = reader.explain(GROUP, since=time_of(11_000), until=time_of(16_000))
    assert [each.began for each, _ in found] == [time_of(10_000), time_of(15_000)]


def test_the_history_has_the_signs_of_life_that_events_are(tmp_path: Path) -> None:
    told = TOLD["the coordinator: members that come late"]
    write_plain_tables(tmp_path, told)
    reader = HistoryReader(str(tmp_path))
    explain = explainer(told)
    every = [(each, explain.explain(each)) for each in explain.rebalances]
    whole = {"since": time_of(0), "until": time_of(600_000)}
    assert reader.explain(GROUP, **whole) == every
    began = every[-1][0].began
    # The time before the moment is read as well.
    ((_, sentences),) = reader.explain(GROUP, at=began)
    assert sentences == every[-1][1]
    assert reader.near_misses(GROUP, **whole) == explain.late.near_misses(*whole.values())
    late = reader.near_misses(GROUP, at=time_of(9_500))
    assert [each.text.split()[0] for each in late] == ["c2", "c1"]
    assert len(reader.near_misses(GROUP, at=time_of(229_499))) == 4
    assert reader.near_misses(GROUP, at=time_of(229_501) + timedelta(minutes=10)) == []


def test_what_is_known_of_a_member_that_went_is_in_the_tables(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, TOLD["the brokers"])
    reader = HistoryReader(str(tmp_path))
    rows = reader.ask("members", "g", since=time_of(0), until=time_of(60_000)).to_pylist()
    assert [(row["session_timeout_ms"], row["last_commit_ms"]) for row in rows] == [
        (45_000, 15_499),
        (45_000, None),
    ] or rows
    texts = [
        each.text for _, it in reader.explain("g", since=time_of(0), until=time_of(60_000)) for each in it
    ]
    assert any("Its session is 45 s, and offsets of its partitions were last committed" in it for it in texts)


def test_a_hostile_group_is_explained_in_words_that_can_be_shown() -> None:
    assert "<" in HOSTILE_GROUP
    explain = explainer(TOLD["the coordinator: names of strangers"])
    texts = " ".join(each.text for it in explain.rebalances for each in explain.explain(it))
    assert "\u202e" not in texts
    assert "\x00" not in texts
