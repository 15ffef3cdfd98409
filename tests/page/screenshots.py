"""Makes the pictures of the page that are in the documentation: python -m tests.page.screenshots."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from playwright.sync_api import Page, expect

from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.brokers_log.kafka import Log, M
from tests.brokers_log.watching import Watching
from tests.page.browser import browser
from tests.page.served import Served, served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DEADLINE_MS = 30_000


def main() -> None:
    """Make them anew."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedBroker(Path(name) / "kafka") as broker,
        served(
            broker.bootstrap_servers,
            Path(name) / "history",
            "screenshots",
            _write_at_brokers(broker.bootstrap_servers),
        ) as site,
        browser() as started,
    ):
        for scheme in ("light", "dark"):
            context = started.new_context(
                viewport={"width": 1120, "height": 560}, color_scheme=scheme, locale="en-GB"
            )
            page = context.new_page()
            _take(page, site, scheme)
            _take_sides(page, site, scheme)
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


def _take_sides(page: Page, site: Served, scheme: str) -> None:
    """The list of both sides, and a rebalance at the brokers with what is known of it."""
    page.set_viewport_size({"width": 1120, "height": 560})
    page.goto(f"{site.url}/?q=a")
    expect(page.locator("table.groups tr", has_text="payments")).to_contain_text("brokers")
    page.screenshot(path=IMAGES / f"sides-{scheme}.png", clip={"x": 0, "y": 0, "width": 1120, "height": 380})
    page.goto(f"{site.url}/group?group_id=payments&of=brokers&last=3600")
    page.locator(".told summary").first.click()
    clip = {"x": 0, "y": 0, "width": 1120, "height": 1170}
    page.screenshot(path=IMAGES / f"brokers-{scheme}.png", full_page=True, clip=clip)


def _write_at_brokers(servers: str) -> Mapping[str, str]:
    """Write what `observe` tells of a group whose member has gone; returns the settings of the page."""
    log = Log("payments", round(time.time() * 1_000) - 3_000_000)
    app = {each: f"app{each}-5b7c0d1e-{each}" for each in (1, 2, 3)}
    log.new()
    log.stable(1, *(M(app[each], owns=range(2 * each - 2, 2 * each)) for each in app))
    for number in range(20):
        for partition in range(6):
            log.commit(partition, 100 * number, ms=10_000)
    log.stable(2, M(app[1], owns=range(3)), M(app[2], owns=range(3, 6)), ms=47_000)
    watching = Watching(group="payments")
    watching.read(log.records)
    topics = {
        Channel.EVENTS: "sides.events",
        Channel.GROUPS: "sides.groups",
        Channel.OFFSETS: "sides.offsets",
    }
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics({topic: {"num_partitions": 1} for topic in topics.values()})
        admin.wait_for_topics([*topics.values()])
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for each in watching.outputs:
            headers = [] if each.place is None else [header(each.place)]
            producer.send(topics[each.channel], each.value, each.key, headers=headers)
        producer.flush()
    return {"of": "both"} | {f"brokers.topics.{each.value}": topic for each, topic in topics.items()}


if __name__ == "__main__":
    main()
