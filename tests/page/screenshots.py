"""Makes the pictures of the page that are in the documentation: python -m tests.page.screenshots."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Page, expect

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.page.browser import browser
from tests.page.served import Served, served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DEADLINE_MS = 30_000


def main() -> None:
    """Make them anew."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedBroker(Path(name) / "kafka") as broker,
        served(broker.bootstrap_servers, Path(name) / "history", "screenshots") as site,
        browser() as started,
    ):
        for scheme in ("light", "dark"):
            context = started.new_context(
                viewport={"width": 1120, "height": 560}, color_scheme=scheme, locale="en-GB"
            )
            _take(context.new_page(), site, scheme)
            context.close()


def _take(page: Page, site: Served, scheme: str) -> None:
    page.set_default_timeout(DEADLINE_MS)
    page.goto(f"{site.url}/?q=billing")
    expect(page.locator("table.groups tr", has_text="billing")).to_contain_text("1,234", timeout=DEADLINE_MS)
    page.screenshot(path=IMAGES / f"groups-{scheme}.png", clip={"x": 0, "y": 0, "width": 1120, "height": 330})

    at = site.past - timedelta(minutes=28)
    page.goto(f"{site.url}/group?group_id=billing&at={at:%Y-%m-%dT%H:%M:%S}&span=3600")
    page.locator("svg.gc-timeline").screenshot(path=IMAGES / f"timeline-{scheme}.png")
    page.set_viewport_size({"width": 1120, "height": 860})
    # The picture before has scrolled the page.
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=IMAGES / f"past-{scheme}.png")


if __name__ == "__main__":
    main()
