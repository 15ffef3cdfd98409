"""Groups of the consumer protocol on the page: types, epochs, targets, and who waits for whom."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Literal

import msgspec
import pytest

from group_coordinator.coordinator_state.step import Channel
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from group_coordinator.page.group_page import now_part
from group_coordinator.page.html import said
from group_coordinator.page.memory import Memory
from group_coordinator.page.pulse import Pulse
from group_coordinator.page.questions import Questions, Sources, targets_of
from group_coordinator.page.recent import Move, Rebalances, Recent
from tests.brokers_log.consumers import UNRELEASED, UNREVOKED, ConsumerLog
from tests.brokers_log.watching import Watching
from tests.history import consumers
from tests.history.consumers import Consumers, a_day_of_troubles, a_handover


def waiting() -> Consumers:
    """m2 waits for m1, which has been told to give up orders 2 and 3."""
    group = Consumers({"orders": 4})
    group.at(1_000)
    group.join("m1")
    group.at(5_000)
    group.join("m2")
    group.at(6_000)
    group.beat("m1")
    return group


def remembered(group: Consumers, *, since_event: int = 0) -> Memory:
    """What a page knows that has read events from this one on."""
    memory = Memory()
    for offset, body in enumerate(group.bodies):
        if offset >= since_event:
            memory.take_event(offset, body)
    picture = group.pictures[-1]
    memory.take_picture(group.group_id.encode(), None if picture is None else msgspec.json.encode(picture))
    return memory


def shown(memory: Memory, at_ms: int, of: Literal["coordinator", "brokers"] = "coordinator") -> str:
    live = SimpleNamespace(memory=memory, pulse=Pulse(), problem=None)
    lags = SimpleNamespace(newest=lambda _: None)
    questions = Questions(Sources(live, lags, of=of), lambda: time_of(at_ms))
    return now_part(questions, {"group_id": "orders"}, 3_600)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_the_page_says_who_still_holds_what_another_one_waits_for_and_since_when() -> None:
    html = shown(remembered(waiting()), 9_000)

    told = words(html)
    assert "c-m1 still holds orders 2-3, which c-m2 waits for, since 00:00:05 UTC" in told
    assert "epoch 3 · 2 members · consumer protocol (KIP-848) · assignor uniform" in told
    assert "Reconciling" in told
    head = re.search(r"Members</h2>.*?<thead>(.*?)</thead>", html, re.DOTALL)
    assert head is not None
    assert words(head[1]) == "client owns is to own epoch member id instance host session"
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("Members</h2>")[2], re.DOTALL)[1:3]
    assert [words(row).split(" m")[0] for row in rows] == [
        "c-m1 orders 0-3 orders 0-1 2",
        "c-m2 nothing orders 2-3 3",
    ]


def test_the_page_says_the_same_of_a_group_at_the_brokers() -> None:
    log, watching = ConsumerLog("orders", now_ms=0), Watching(group="orders")
    log.joins("m1-1", 2, {"m1-1": [0, 1]})
    log.share("m1-1", 2, t=[0, 1])
    log.now_ms = 4_000
    log.joins("m2-1", 3, {"m1-1": [0], "m2-1": [1]})
    log.share("m2-1", 3, state=UNRELEASED)
    log.share("m1-1", 2, state=UNREVOKED, t=[0], pending={"t": [1]}, ms=1_000)
    watching.read(log.records)
    memory = Memory()
    for offset, output in enumerate(watching.outputs):
        if output.channel is Channel.EVENTS:
            memory.take_event(offset, output.value or b"")
        else:
            memory.take_picture(output.key or b"", output.value)

    html = shown(memory, 9_000, "brokers")

    told = words(html)
    assert "m1 still holds t 1, which m2 waits for, since 00:00:05 UTC" in told
    assert "epoch 3 · 2 members · at the brokers · consumer protocol (KIP-848)" in told
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("Members</h2>")[2], re.DOTALL)[1:3]
    assert [words(row) for row in rows] == [
        "m1 t 0-1 t 0 2 m1-1 dynamic /10.0.0.7 not told",
        "m2 nothing t 1 3 m2-1 dynamic /10.0.0.7 not told",
    ]


def test_a_page_that_has_read_no_event_has_it_from_the_picture_without_the_time() -> None:
    group = waiting()
    told = words(shown(remembered(group, since_event=len(group.bodies)), 9_000))

    assert "c-m1 still holds orders 2-3, which c-m2 waits for" in told
    assert "waits for, since" not in told


def test_nobody_waits_in_a_group_that_is_stable() -> None:
    told = shown(remembered(a_handover()), 30_000)

    assert "still holds" not in told
    assert "epoch 4" in words(told)


def test_of_many_waits_the_first_are_shown_and_the_others_counted() -> None:
    group = Consumers({"orders": 50})
    for number in range(40):
        group.at(number)
        group.join(f"m{number:02}")
    html = shown(remembered(group), 1_000)

    waits = html.partition('<ul class="waits"')[2].partition("</ul>")[0]
    assert waits.count("still holds") == 20
    assert re.search(r"<li>\d+ other members wait as well</li>", waits)


def test_names_of_strangers_are_text() -> None:
    name = "<script>window.harmed=1</script>"
    group = Consumers({name.replace("/", ""): 2})
    group.join(name)
    group.join("m2")
    html = shown(remembered(group), 1_000)

    assert "<script>" not in html
    assert said(f"c-{name}") in html


def test_a_static_member_that_is_away_has_no_epoch() -> None:
    group = Consumers({"orders": 2})
    group.join("m1", instance="worker-1")
    group.join("m2")
    group.settle()
    group.leave("m1", for_good=False)
    rows = re.findall(r"<tr>(.*?)</tr>", shown(remembered(group), 1).partition("Members</h2>")[2], re.DOTALL)

    assert "away" in rows[1]


def test_what_members_have_had_since_before_the_first_event_is_in_the_story() -> None:
    group = Consumers({"orders": 4, "refunds": 2})
    group.at(1_000)
    group.join("m1")
    group.settle()
    group.at(30_000)
    group.join("m2")
    group.settle()
    whole = Story.of_events("orders", enumerate(consumers.events(group)))
    late = next(i for i, each in enumerate(consumers.events(group)) if each.at_ms >= 30_000)
    story = remembered(group, since_event=late).story("orders")
    assert story is not None

    def open_(of: Story) -> set[tuple[str, str | None, int | None]]:
        return {(each.member_id, each.topic, each.partition) for each in of.assignments if each.until is None}

    assert open_(story) == open_(whole)
    assert {(each.member_id, each.since) for each in story.assignments if each.until is None} == {
        ("m1", None),
        ("m2", time_of(30_000)),
    }


def test_targets_are_told_of_the_consumer_protocol() -> None:
    assert targets_of(waiting().picture) == {
        "m1": [("orders", 0), ("orders", 1)],
        "m2": [("orders", 2), ("orders", 3)],
    }


@pytest.mark.parametrize("group", [a_handover(), a_day_of_troubles()], ids=["handover", "troubles"])
def test_rebalances_count_once_each(group: Consumers) -> None:
    rebalances = Rebalances(0)
    moves = [each for each in map(read_move, group.bodies) if each is not None]
    for move in moves:
        rebalances.take(move)
    ended = [each for each in moves if each.rebalance_ms is not None]
    found = rebalances.of("orders", 0, 90_000, None)
    assert (found.rebalances, found.not_stable_ms) == (len(ended), sum(it.rebalance_ms or 0 for it in ended))


def read_move(body: bytes) -> Move | None:
    fields = msgspec.json.decode(body)
    return msgspec.convert(fields, Move) if fields["event"] == "state_changed" else None


def test_a_group_that_is_empty_at_once_has_not_rebalanced() -> None:
    group = Consumers({"orders": 1})
    group.join("m1")
    group.at(30_000)
    group.leave("m1")
    rebalances = Rebalances(0)
    for move in filter(None, map(read_move, group.bodies)):
        rebalances.take(move)

    assert rebalances.of("orders", 0, 90_000, None) == Recent(1, 0, "member_left")
