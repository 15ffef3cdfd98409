"""What happened in a rebalance is folded below its row, for the mouse, the keyboard and a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from group_coordinator.page.memory import Memory
from group_coordinator.page.server import listen
from tests.page.filled import HOSTILE_GROUP, Filled
from tests.page.test_app import NOW, Live, application, measured

pytestmark = pytest.mark.spark  # to install a browser takes minutes


class Site(NamedTuple):
    url: str
    memory: Memory


@pytest.fixture
def site() -> Iterator[Site]:
    live = Live()
    filled = Filled(round(NOW.timestamp() * 1_000))
    for group_id, events in filled.events.items():
        for offset, event in enumerate(events):
            live.memory.take_event(offset, event)
        for picture in filled.pictures[group_id]:
            live.memory.take_picture(group_id.encode(), picture)
    with listen("127.0.0.1", 0, application(live, measured)) as port:
        yield Site(f"http://127.0.0.1:{port}", live.memory)


def wide(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def test_a_row_is_unfolded_and_stays_so_while_the_page_is_live(browser: Browser, site: Site) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{site.url}/group?group_id=billing&last=3600")
    rows = page.locator(".told details")
    expect(rows).to_have_count(8)
    told = rows.nth(2).locator("li").first
    expect(told).to_be_hidden()
    rows.nth(2).locator("summary").focus()
    page.keyboard.press("Enter")
    expect(told).to_contain_text("billing-a left the group. In its own words: the consumer is being closed.")
    # Nothing has to be scrolled sideways to read it, neither the page nor the table.
    assert wide(page) <= 0
    box = told.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390

    event = {"event_id": "n", "event": "group_deleted", "group_id": "billing", "generation_id": 9}
    site.memory.take_event(9_999, msgspec.json.encode(event | {"at_ms": round(NOW.timestamp() * 1_000)}))
    expect(page.locator(".events tbody tr").first).to_contain_text("group_deleted", timeout=10_000)
    expect(told).to_be_visible()
    assert page.locator("details[open]").count() == 1
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    expect(told).to_be_hidden()
    page.close()


def test_a_name_leads_to_a_life(browser: Browser, site: Site) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(site.url)
    page.get_by_role("link", name=HOSTILE_GROUP[:12]).click()
    # The click returns before the page is another one.
    page.wait_for_url("**/group?*")
    page.goto(f"{page.url}&last=3600")
    page.locator(".rebalances tbody a").first.click()
    expect(page.locator("#life li").last).to_contain_text("no heartbeat came for a whole session")
    assert wide(page) <= 0
    assert page.evaluate("window.harmed ?? null") is None
    page.get_by_role("link", name="The group").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("a/b c%2F?")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(browser: Browser, site: Site, scheme: Literal["light", "dark"]) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{site.url}/group?group_id=billing&last=3600")
    life = page.locator(".rebalances tbody a").first.get_attribute("href")
    for path in ("/?cause=not_synced", "/group?group_id=billing&last=3600", life):
        page.goto(f"{site.url}{path}")
        for each in page.locator(".told summary").all():
            each.click()
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], path
        assert wide(page) <= 0
    context.close()


def test_groups_are_chosen_without_a_script(browser: Browser, site: Site) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    page = context.new_page()
    page.goto(site.url)
    expect(page.get_by_label("With member")).to_be_hidden()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Rebalanced in the last day because").select_option("not synced")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("table.groups tbody tr")).to_have_count(1)
    expect(page.locator("table.groups")).to_contain_text("billing")
    expect(page.get_by_label("With member")).to_be_visible()
    page.get_by_label("Rebalanced in the last day because").select_option("any")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("table.groups tbody tr")).to_have_count(2)
    context.close()
