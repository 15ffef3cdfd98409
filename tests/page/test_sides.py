"""The page of groups at the brokers, and of both sides at once.

A group id may be on both sides, so each link says which is meant.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from group_coordinator.page.app import App
from group_coordinator.page.lags import Measured
from group_coordinator.page.memory import Memory
from group_coordinator.page.questions import Questions, Sources
from group_coordinator.page.settings import PageSettings
from group_coordinator.page.sides import Sides
from tests.page.filled import Filled
from tests.page.test_api import Ask, asking, detail
from tests.page.test_app import NOW, Get, Lags, Live, Page, Past, getter, measured, ticked

FILLED = Filled(round(NOW.timestamp() * 1_000))


def remembering(*group_ids: str, generation_id: int) -> Memory:
    """Groups like `billing`."""
    memory = Memory()
    (picture,) = map(msgspec.json.decode, FILLED.pictures["billing"])
    for group_id in group_ids:
        changed = picture | {"group_id": group_id, "generation_id": generation_id}
        memory.take_picture(group_id.encode(), msgspec.json.encode(changed))
    return memory


HERE = remembering("billing", "orders", generation_id=8)
THERE = remembering("billing", "payments", generation_id=31)
for number, event in enumerate(FILLED.events["billing"]):
    THERE.take_event(number, event)


def side(of: Any, memory: Memory, lag_of: Any = measured, past: Any = None) -> Questions:
    live = Live()
    live.memory = memory
    if of == "coordinator":
        ticked(live, timedelta(hours=1))
    return Questions(Sources(live, Lags(lag_of), past, bootstrap_servers="kafka:9092", of=of), lambda: NOW)


def both(**given: Any) -> App:
    return App(Sides(side("coordinator", HERE, **given), side("brokers", THERE, **given)))


@pytest.fixture
def get() -> Get:
    return getter(both(past=lambda: Past(THERE)))


@pytest.fixture
def ask() -> Ask:
    return asking(both())


def words_of(get: Get, path: str, **query: Any) -> list[str]:
    return [word.strip() for word in Page(get(path, **query).body).words if word.strip()]


def test_one_list_has_both_and_says_which_is_which(get: Get) -> None:
    words = words_of(get, "/", sort="group_id")
    start = words.index("billing")
    assert words[start : start + 2] == ["billing", "coordinator"]
    assert words[words.index("orders") + 1] == "coordinator"
    assert words[words.index("payments") + 1] == "brokers"
    assert [it for it in words if it in ("coordinator 2", "brokers 2", "4 groups")] == [
        *("4 groups", "coordinator 2", "brokers 2")
    ]
    links = Page(get("/", sort="group_id").body).links
    assert [each for each in links if each.startswith("/group?")] == [
        "/group?group_id=billing&of=coordinator",
        "/group?group_id=billing&of=brokers",
        "/group?group_id=orders&of=coordinator",
        "/group?group_id=payments&of=brokers",
    ]
    assert "/?sort=of&order=asc" in links


def test_a_side_can_be_chosen_and_stays_chosen(get: Get) -> None:
    assert "/?of=brokers" in Page(get("/").body).links
    page = Page(get("/", of="brokers").body)
    assert "orders" not in page.words
    assert {"/?of=brokers&state=Empty", "/?of=brokers&sort=members&order=desc"} <= set(page.links)
    assert ("input", {"type": "hidden", "name": "of", "value": "brokers"}) in page.tags


def test_the_coordinator_that_is_away_is_told_and_groups_at_the_brokers_go_on(get: Get) -> None:
    words = words_of(get, "/", sort="group_id")
    assert [word for word in words if "no coordinator has run since" in word]
    # The time of groups of the coordinator stands still since then.
    billing = [at for at, word in enumerate(words) if word == "billing"]
    assert [words[at + 3] for at in billing] == ["0 s", "5 min 1 s"]
    told = " ".join(words_of(get, "/group", group_id="billing", of="brokers"))
    assert "no coordinator" not in told


def test_the_page_of_a_group_says_its_side_and_stays_on_it(get: Get) -> None:
    assert "at the brokers" in " ".join(words_of(get, "/group", group_id="billing", of="brokers"))
    assert "at the coordinator" in " ".join(words_of(get, "/group", group_id="billing", of="coordinator"))
    for query in ({}, {"at": "2026-01-31T11:30"}):
        page = Page(get("/group", group_id="billing", of="brokers", **query).body)
        own = [each for each in page.links if "group_id=" in each]
        assert own
        assert [each for each in own if "of=brokers" not in each] == []
        assert ("input", {"type": "hidden", "name": "of", "value": "brokers"}) in page.tags


def test_without_a_side_a_group_is_that_of_the_coordinator(get: Get, ask: Ask) -> None:
    assert ask("/group", group_id="billing")["group"]["generation_id"] == 8
    assert "at the coordinator" in " ".join(words_of(get, "/group", group_id="billing"))


def test_the_history_is_that_of_a_side(get: Get) -> None:
    page = Page(get("/history", of="brokers").body)
    assert {"/history?of=coordinator", "/history?of=brokers"} <= set(page.links)
    assert [each for each in page.links if "group_id=gone" in each and "of=brokers" in each]


def test_the_api_carries_the_side(ask: Ask) -> None:
    answer = ask("/groups", sort="of", order="asc")
    assert [(each["group_id"], each["of"]) for each in answer["groups"]] == [
        ("billing", "brokers"),
        ("payments", "brokers"),
        ("billing", "coordinator"),
        ("orders", "coordinator"),
    ]
    assert answer["matching"] == 4
    assert answer["status"]["totals"]["sides"] == {"coordinator": 2, "brokers": 2}
    assert answer["status"]["totals"]["groups"] == 4
    assert [each["of"] for each in ask("/groups", of="brokers", limit=1)["groups"]] == ["brokers"]
    assert ask("/status")["totals"]["states"] == {"Empty": 4}
    for of, generation in (("coordinator", 8), ("brokers", 31)):
        found = ask("/group", group_id="billing", of=of)
        assert (found["of"], found["group"]["generation_id"]) == (of, generation)
        assert ask("/group/lag", group_id="billing", of=of)["of"] == of
    assert ask("/group/events", group_id="billing", of="brokers")["events"]
    assert ask("/group/events", group_id="billing", of="coordinator")["events"] == []
    assert "no group 'payments'" in detail(ask, "/group", "404 Not Found", group_id="payments")
    told = detail(ask, "/group", "400 Bad Request", group_id="billing", of="both")
    assert told == "of must be one of brokers, coordinator"
    told = detail(ask, "/history/groups", "503 Service Unavailable", of="brokers")
    assert told == "there is no history to look at: set brokers.history.path to where write-history writes"


def test_lag_that_is_asked_for_is_that_of_both() -> None:
    def asked(here: Measured | None, there: Measured | None) -> Any:
        sides = side("coordinator", HERE, lambda _: here), side("brokers", THERE, lambda _: there)
        return asking(App(Sides(*sides)))("/groups")

    at, before = Measured(NOW), Measured(NOW - timedelta(seconds=9))
    away = Measured(NOW, problem="nobody answers")
    assert asked(at, None)["lag_asked"] is None
    assert asked(at, before)["lag_asked"]["at_ms"] == round(before.at.timestamp() * 1_000)
    assert asked(away, before)["lag_asked"]["problem"] == "nobody answers"
    sides = side("coordinator", HERE, lambda _: None), side("brokers", THERE, lambda _: None)
    words = words_of(getter(App(Sides(*sides))), "/")
    assert "Lag: the coordinator and the brokers are being asked." in words


def test_the_time_that_a_group_at_the_brokers_was_not_stable_is_never_said(ask: Ask, get: Get) -> None:
    found = {(each["group_id"], each["of"]): each for each in ask("/groups")["groups"]}
    billing = found["billing", "brokers"]
    # There it would be in the events of this test, which are a coordinator's.
    assert (billing["rebalances"], billing["not_stable_ms"], billing["not_stable_percent"]) == (8, None, None)
    assert found["orders", "coordinator"]["not_stable_ms"] == 0
    words = words_of(get, "/", of="brokers")
    start = words.index("billing")
    assert words[start + 4 : start + 7] == ["unknown", "8", "not synced"]


def test_problems_of_both_are_told() -> None:
    sides = side("coordinator", HERE), side("brokers", THERE)
    for each in sides:
        each._of.live.problem = f"{each.of}: away"
    problem = asking(App(Sides(*sides)))("/status")["problem"]
    assert problem == "coordinator: away; brokers: away"


def test_a_page_of_groups_at_the_brokers_alone_knows_no_coordinator() -> None:
    app = App(Sides(side("brokers", THERE, lambda _: None)))
    words = words_of(getter(app), "/")
    assert "Groups at the brokers" in words
    assert "Lag: the brokers are being asked." in words
    assert not [word for word in words if "coordinator" in word.replace("Group coordinator", "")]
    links = Page(getter(app)("/").body).links
    assert "/group?group_id=billing" in links
    assert "at the brokers" in " ".join(words_of(getter(app), "/group", group_id="billing"))
    status = asking(app)("/status")
    assert (status["problem"], status["coordinator_silent_ms"]) == (None, None)
    told = detail(asking(app), "/group", "404 Not Found", group_id="billing", of="coordinator")
    assert told == "this page does not show groups of side 'coordinator': start it with --of both"
    nothing = getter(App(Sides(side("brokers", Memory()))))
    assert "There are no groups at the brokers yet." in " ".join(words_of(nothing, "/"))


def test_the_settings_of_each_side() -> None:
    given = {"history.path": "here", "brokers.history.path": "there", "brokers.topics.events": "e"}
    both = PageSettings.load(None, {}, given | {"of": "both"})
    found = [(each.of, each.topics_groups, each.topics_events, each.history_path) for each in both.sides]
    assert found == [
        ("coordinator", "coordinator.groups", "coordinator.events", "here"),
        ("brokers", "brokers.groups", "e", "there"),
    ]
    for of in ("coordinator", "brokers"):
        alone = PageSettings.load(None, {}, given | {"of": of})
        assert alone.sides == [alone]
