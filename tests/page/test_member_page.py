"""A member's name leads to its life, now and in the past."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import read_event
from group_coordinator.page.memory import Memory
from tests.history.plain import write_plain_tables
from tests.page.filled import HOSTILE_GROUP, IMAGE, SCRIPT, Filled
from tests.page.test_app import NOW, Get, Live, Page, application, get, getter, live, measured, memory, past

__all__ = ["get", "live", "memory", "past"]

FILLED = Filled(round(NOW.timestamp() * 1_000))


def lives(page: Page) -> list[dict[str, str]]:
    """What the links to members' lives ask for."""
    found = [urlsplit(each) for each in page.links if each.startswith("/member?")]
    return [{name: it[0] for name, it in parse_qs(each.query).items()} for each in found]


def words(page: Page) -> str:
    return " ".join(" ".join(page.words).split())


def test_names_lead_to_lives(get: Get) -> None:
    page = Page(get("/group", group_id=HOSTILE_GROUP, last=3600).body)
    (gone,) = {each["member"] for each in lives(page) if each["member"].startswith(IMAGE)}
    assert any(each["member"].startswith(SCRIPT) for each in lives(page))
    assert {each["group_id"] for each in lives(page)} == {HOSTILE_GROUP}

    life = Page(get("/member", group_id=HOSTILE_GROUP, member=gone).body)
    told = words(life)
    assert f"Member {gone} of group {HOSTILE_GROUP}" in told
    assert f"{IMAGE} joined for the first time" in told
    assert f"{IMAGE} owned orders 1,4,7,10 in generation 2, for 18 min" in told
    assert f"{IMAGE} was removed, because no heartbeat came for a whole session." in told
    assert "Commits of members are in the history, and nowhere else." in told
    assert "/member?" in "".join(each for each in life.links if "at=" in each)


def test_a_name_looks_the_same_everywhere(live: Live) -> None:
    live.memory = Memory()
    hostile = "a\u202eb"
    for offset, body in enumerate(FILLED.events["billing"]):
        live.memory.take_event(offset, body.replace(b"billing-c", msgspec.json.encode(hostile)[1:-1]))
    body = getter(application(live))("/group", group_id="billing", last=3600).body
    assert r">a\u202eb</a>" in body
    assert r"a\u202eb joined for the first time" in body
    assert hostile not in body
    assert r"a\\u202eb" not in body


def test_a_member_that_nobody_knows(get: Get) -> None:
    for query in ({"group_id": "billing", "member": SCRIPT}, {"group_id": SCRIPT}, {"group_id": ""}):
        page = Page(get("/member", **query).body)
        assert "Nothing is known of this member in that time." in words(page)
    assert get("/member").status == "400 Bad Request"


def test_a_group_that_is_watched_has_no_links_to_a_history_that_is_not_there(live: Live) -> None:
    page = Page(getter(application(live))("/group", group_id="billing", last=3600).body)
    (first, *_) = lives(page)
    life = Page(getter(application(live))("/member", **first).body)
    assert not [each for each in life.links if "at=" in each]
    assert get_status(live, first) == "503 Service Unavailable"


def get_status(live: Live, query: dict[str, str]) -> str:
    return getter(application(live))("/member", **query, at="2026-01-31T11:00").status


@pytest.fixture
def tables(tmp_path: Path) -> HistoryReader:
    told = [event for body in FILLED.events["billing"] if (event := read_event(body)) is not None]
    write_plain_tables(tmp_path, told)
    return HistoryReader(str(tmp_path))


def test_the_past_has_the_life_with_commits(live: Live, tables: HistoryReader) -> None:
    live.memory = Memory()
    get = getter(application(live, measured, lambda: tables))
    at = f"{NOW - timedelta(minutes=30):%Y-%m-%dT%H:%M:%S}"
    page = Page(get("/group", group_id="billing", at=at, span=3600).body)
    every = lives(page)
    assert {(each.get("at"), each.get("span")) for each in every} == {(at, "3600")}
    (left,) = {each["member"] for each in every if each["member"].startswith("billing-a-")}
    told = words(Page(get("/member", group_id="billing", member=left, at=at, span=3600).body))
    assert "billing-a left the group. In its own words: the consumer is being closed." in told
    assert "The history has no commit of this member in that time." in told
