"""The list of groups with their last day: worst first, chosen, and joined with the history."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import read_event, time_of
from group_coordinator.page import asking as module
from group_coordinator.page.app import App
from group_coordinator.page.memory import Memory
from group_coordinator.page.overview import Overview
from group_coordinator.page.questions import Questions, Sources
from group_coordinator.page.sides import Sides
from tests.history.plain import write_plain_tables
from tests.history.scripts import TOPIC, a_night, bodies
from tests.page.filled import moved, pictures
from tests.page.test_api import Ask, asking
from tests.page.test_app import Lags, Live, Page, getter, measured
from tests.patience import wait_for

NOW_MS = 1_795_000_000_000
NOW = time_of(NOW_MS)
NIGHT = a_night()
"""Three members, four rebalances that took 6.3 s, the last begins 5 s before the end and goes on."""
NIGHT_MS = 25_000


def night(group_id: str, end_ms: int) -> list[bytes]:
    """The events of such a group, of which the last is at `end_ms`."""
    return moved(bodies(NIGHT), group_id, end_ms - NIGHT_MS)


def picture(group_id: str, end_ms: int, **fields: Any) -> bytes:
    (body,) = moved(pictures(NIGHT), group_id, end_ms - NIGHT_MS)
    return msgspec.json.encode(msgspec.json.decode(body) | fields)


def filled(begin_ms: int, *groups: tuple[str, int]) -> Memory:
    """Groups with the end of their night; the page has been given what happened since `begin_ms`."""
    memory = Memory(begin_ms=begin_ms)
    for group_id, end_ms in groups:
        for offset, event in enumerate(night(group_id, end_ms)):
            if msgspec.json.decode(event)["at_ms"] >= begin_ms:
                memory.take_event(offset, event)
        memory.take_picture(group_id.encode(), picture(group_id, end_ms))
    return memory


def application(memory: Memory, past: Callable[[], Any] | None = None) -> App:
    live = Live()
    live.memory = memory
    return App(Sides(Questions(Sources(live, Lags(lambda _: None), past), lambda: NOW)))


def ids(ask: Ask, **query: Any) -> list[str]:
    return [each["group_id"] for each in ask("/groups", **query)["groups"]]


HOUR = 3_600_000
AGO = {
    "now": NOW_MS - 1_000,
    "hours": NOW_MS - 3 * HOUR,
    "day": NOW_MS - 23 * HOUR,
    "long": NOW_MS - 30 * HOUR,
}


def tables(path: Path) -> HistoryReader:
    def events(group_id: str, end_ms: int) -> list[AnyEvent]:
        return [it for body in night(group_id, end_ms) if (it := read_event(body)) is not None]

    write_plain_tables(path, *(events(group_id, end_ms) for group_id, end_ms in AGO.items()))
    return HistoryReader(str(path))


# -- worst first ---------------------------------------------------------------------------------------------


def test_the_worst_group_is_first(memory: Memory) -> None:
    ask = asking(application(memory))
    found = ask("/groups")
    told = [
        (each["group_id"], each["rebalances"], each["last_cause"], each["not_stable_ms"] // 1_000)
        for each in found["groups"]
    ]
    assert told == [
        # They have stood in a rebalance since then.
        ("long", 0, "member_left", 24 * 3_600),
        ("day", 4, "member_left", 23 * 3_600 + 6),
        ("hours", 4, "member_left", 3 * 3_600 + 6),
        ("now", 4, "member_left", 1 + 6),
    ]
    assert found["groups"][2]["not_stable_percent"] == pytest.approx(100 * 3 / 24, rel=0.001)
    assert found["counted"] == {"since_ms": NOW_MS - 24 * HOUR, "problem": None}
    assert ids(ask, order="asc") == ["now", "hours", "day", "long"]
    # Those that are equal are in the order of their names.
    assert ids(ask, sort="rebalances", order="desc") == ["day", "hours", "now", "long"]
    assert ids(ask, sort="last_cause", order="desc") == ["day", "hours", "long", "now"]


@pytest.fixture
def memory() -> Memory:
    return filled(0, *AGO.items())


def test_groups_are_chosen_by_cause_member_and_topic(memory: Memory) -> None:
    memory.take_picture(b"new", picture("new", AGO["now"], members=[]))
    ask = asking(application(memory))
    assert ids(ask, cause="leader_rejoined", sort="group_id") == ["day", "hours", "now"]
    assert ids(ask, cause="session_expired") == []
    # c2 has left all of them, long ago only one of them.
    assert ids(ask, member="c2", sort="group_id") == ["day", "hours", "now"]
    for name in ("c3", "C3", NIGHT.ids["c3"]):
        assert ids(ask, member=name, sort="group_id") == ["day", "hours", "long", "now"]
    # The static member has another id since it was started again.
    assert ids(ask, member=NIGHT.ids["c3 before"], sort="group_id") == ["day", "hours", "now"]
    assert ids(ask, member="c") == []
    assert ids(ask, topic=TOPIC, sort="group_id") == ["day", "hours", "long", "now"]
    assert ids(ask, topic="order") == []
    assert ids(ask, topic=TOPIC, member="c2", cause="member_joined", q="day") == ["day"]
    memory.take_picture(b"now", picture("now", NOW_MS, members=[]))
    assert ids(ask, topic=TOPIC, sort="group_id") == ["day", "hours", "long"]


def test_the_form_keeps_what_was_chosen(memory: Memory) -> None:
    get = getter(application(memory))
    page = Page(get("/", cause="leader_rejoined", topic=TOPIC, sort="members", order="desc").body)
    fields = {attrs["name"]: attrs["value"] for tag, attrs in page.tags if tag == "input"}
    assert fields == {"q": "", "member": "", "topic": TOPIC, "sort": "members", "order": "desc"}
    chosen = [attrs["value"] for tag, attrs in page.tags if tag == "option" and "selected" in attrs]
    assert chosen == ["leader_rejoined"]
    assert ("details", {"class": "choice", "open": None}) in page.tags
    assert "/?cause=leader_rejoined&topic=orders&sort=members&order=asc" in page.links
    assert ("details", {"class": "choice"}) in Page(get("/").body).tags


def test_a_form_in_which_nothing_was_chosen_shows_all(memory: Memory) -> None:
    get = getter(application(memory))
    expected = get("/").body
    assert get("/", q="", cause="", member="", topic="").body == expected
    assert get("/", cause="bad luck").status == "400 Bad Request"


def test_a_column_without_anything_in_it_is_not_shown() -> None:
    def columns(memory: Memory) -> list[str]:
        body = getter(application(memory))("/").body
        words = [each.removesuffix(" ▼") for each in Page(body).words]
        return [each for each in words if each in ("rebalances", "not Stable", "last cause")]

    quiet = Memory()
    quiet.take_picture(b"g", picture("g", AGO["now"], state="Stable"))
    assert columns(quiet) == ["rebalances"]
    assert columns(filled(0, ("now", AGO["now"]))) == ["not Stable", "rebalances", "last cause"]


# -- with a history ------------------------------------------------------------------------------------------


def test_a_page_that_was_just_started_has_the_whole_day_from_the_history(tmp_path: Path) -> None:
    reader = tables(tmp_path)
    whole = asking(application(filled(0, *AGO.items())))("/groups")
    # It has read six hours, so of `day` it knows the picture alone; `hours` was in the middle of it.
    for begin_ms in (NOW_MS - 6 * HOUR, AGO["hours"] - 12_000, AGO["hours"] + 1, AGO["day"] - 8_500):
        ask = asking(application(filled(begin_ms, *AGO.items()), lambda: reader))
        first = ask("/groups")
        assert first["counted"]["since_ms"] == begin_ms
        wait_for(lambda ask=ask: ask("/groups")["counted"]["since_ms"] == NOW_MS - 24 * HOUR)
        assert ask("/groups")["groups"] == whole["groups"]


def test_what_was_before_is_chosen_by_the_history_as_well(tmp_path: Path) -> None:
    reader = tables(tmp_path)
    memory = filled(NOW_MS - HOUR, *AGO.items())
    memory.take_picture(b"day", picture("day", NOW_MS, members=[]))
    without, ask = asking(application(memory)), asking(application(memory, lambda: reader))
    for query, known in (
        ({"cause": "leader_rejoined"}, ["now"]),
        ({"member": "c2"}, ["now"]),
        ({"topic": TOPIC}, ["hours", "long", "now"]),
    ):
        assert ids(without, **query, sort="group_id") == known
        expected = sorted({*known, "day", "hours"})
        wait_for(lambda query=query, it=expected: ids(ask, **query, sort="group_id") == it)


def test_a_history_that_cannot_be_read_is_no_day_without_rebalances(memory: Memory) -> None:
    class Away:
        def fleet(self, *_: Any, **__: Any) -> Any:
            raise HistoryError("the tables are <away>")

    begin_ms = NOW_MS - 6 * HOUR
    app = application(filled(begin_ms, *AGO.items()), Away)
    ask = asking(app)
    wait_for(lambda: ask("/groups")["counted"]["problem"] is not None)
    assert ask("/groups")["counted"] == {"since_ms": begin_ms, "problem": "the tables are <away>"}
    words = " ".join(Page(getter(app)("/").body).words)
    assert "because the history cannot be read: the tables are <away>" in words
    assert asking(application(memory, Away))("/groups")["counted"]["problem"] is None


def test_the_history_is_asked_once_a_minute_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[datetime, datetime]] = []
    may_answer = threading.Event()

    class Slow:
        def fleet(self, since: datetime, until: datetime, **_: Any) -> Any:
            asked.append((since, until))
            may_answer.wait()
            return self

        def to_pylist(self) -> list[Any]:
            return []

    begin_ms = NOW_MS - 6 * HOUR
    ask = asking(application(filled(begin_ms, *AGO.items()), Slow))
    for _ in range(3):
        assert ask("/groups")["counted"]["since_ms"] == begin_ms
    may_answer.set()
    wait_for(lambda: ask("/groups")["counted"]["since_ms"] < begin_ms)
    assert asked == [(NOW - timedelta(days=1), time_of(begin_ms))]
    clock = module.time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: clock() + 61)
    ask("/groups")
    wait_for(lambda: len(asked) == 2)


def test_a_page_that_has_run_for_a_day_asks_nothing(memory: Memory) -> None:
    def past() -> Any:
        raise AssertionError

    overview = Overview(past, lambda: NOW)
    ask = asking(application(memory, past))
    assert ask("/groups")["counted"]["since_ms"] == NOW_MS - 24 * HOUR
    assert overview._asking._asked == set()


def test_both_sides_count_since_the_later_begin() -> None:
    def side(of: Any, begin_ms: int) -> Questions:
        live = Live()
        live.memory = filled(begin_ms)
        return Questions(Sources(live, Lags(measured), of=of), lambda: NOW)

    app = App(Sides(side("coordinator", NOW_MS - HOUR), side("brokers", NOW_MS - 2 * HOUR)))
    assert asking(app)("/groups")["counted"]["since_ms"] == NOW_MS - HOUR
