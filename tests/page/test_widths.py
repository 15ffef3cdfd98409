"""The pages on a telephone, with names as long as they may be: the page does not scroll sideways."""

from __future__ import annotations

from importlib.resources import files

import pytest
from playwright.sync_api import Browser

from group_coordinator.history.rows import OffsetChange, time_of
from group_coordinator.history.story import Story
from group_coordinator.history.timeline import rebalances_table, resets_table, timeline_html
from group_coordinator.page.html import Column, note, page, table
from tests.history.scripts import a_day, events

pytestmark = pytest.mark.spark  # to install a browser takes minutes

WIDTH = 390
LONG = "x" * 255
WHEN = time_of(0), time_of(22_000)


def story() -> Story:
    story = Story.of_events(LONG, enumerate(events(a_day())))
    story.transitions[-1].principal = story.transitions[-1].reason = LONG
    story.resets = [
        OffsetChange(
            event_id="1",
            at=time_of(1_000),
            log_offset=0,
            group_id=LONG,
            generation_id=-1,
            topic=LONG,
            partition=0,
            change="committed",
            committed_offset=10**18,
            principal=LONG,
            client_id=LONG,
        )
    ]
    return story


def sideways(browser: Browser, document: str) -> int:
    """By how many pixels the document is wider than the window."""
    shown = browser.new_page(viewport={"width": WIDTH, "height": 844})
    style = files("group_coordinator.page").joinpath("static", "page.css").read_text()
    shown.set_content(document.replace("</head>", f"<style>{style}</style></head>"))
    width = shown.evaluate("document.documentElement.scrollWidth")
    shown.close()
    return int(width) - WIDTH


def test_offsets_that_were_reset_do_not_make_the_page_wide(browser: Browser) -> None:
    assert resets_table(story(), *WHEN).count(LONG) == 3
    assert sideways(browser, page(LONG, resets_table(story(), *WHEN))) <= 0


def test_long_names_do_not_make_the_page_wide(browser: Browser) -> None:
    columns = [Column(name) for name in ("client", "owns", "member id", "instance", "host")]
    body = table(columns, [[f"<code>{LONG}</code>", *[LONG] * 4]], "members", "Members") + note(LONG, "bad")
    moves = rebalances_table(story(), *WHEN).replace("<details ", "<details open ")
    assert sideways(browser, page(LONG, f"<h1>{LONG}</h1>{body}{moves}", cluster=LONG)) <= 0


def test_a_timeline_as_a_file_is_not_wide_either(browser: Browser) -> None:
    shown = browser.new_page(viewport={"width": WIDTH, "height": 844})
    shown.set_content(timeline_html(story(), *WHEN))
    boxes = shown.locator(".scroll")
    assert boxes.count() == 2
    for box in boxes.all():
        assert box.evaluate("each => each.getBoundingClientRect().right") <= WIDTH
    shown.close()
