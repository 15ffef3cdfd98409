"""A person with a browser: from the list to a group, and on to a moment of the past."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from kafka import KafkaProducer
from playwright.sync_api import Browser, Page, expect

from tests.page.filled import BREAKOUT, HOSTILE_GROUP, IMAGE, SCRIPT, moved
from tests.page.served import Served, served
from tests.patience import PATIENCE_S

# To install a browser takes minutes.
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def site(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(bootstrap_servers, tmp_path_factory.mktemp("history"), "browser") as site:
        yield site


class Watched:
    """A page, and all that must not happen on it."""

    def __init__(self, page: Page, site: Served) -> None:
        self.page = page
        self.harm: list[str] = []
        self.addresses: set[str] = set()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on("console", lambda message: self.harm.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.harm.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.harm.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.addresses.add(re.sub(r"(\w)/.*", r"\1", request.url)))
        page.add_init_script(
            "window.violations = [];"
            "addEventListener('securitypolicyviolation', e => violations.push(e.violatedDirective));"
        )
        self.site = site

    def goto(self, path: str) -> None:
        self.page.goto(f"{self.site.url}{path}")

    def check(self) -> None:
        """Nobody's words have run, and nothing was wanted that the policy refuses."""
        assert self.page.evaluate("[window.harmed ?? null, window.violations]") == [None, []]
        assert self.harm == []
        assert self.addresses == {self.site.url}


@pytest.fixture
def watched(browser: Browser, site: Served) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, timezone_id="Asia/Kathmandu")
    watched = Watched(context.new_page(), site)
    yield watched
    context.close()


def test_from_the_list_to_a_group_and_to_a_moment_of_its_past(watched: Watched) -> None:
    page, site = watched.page, watched.site
    watched.goto("/")
    # It may still be reading when the page is asked for the first time.
    row = page.locator("table.groups tr", has_text=HOSTILE_GROUP)
    expect(row).to_contain_text("Stable", timeout=PATIENCE_S * 1000)
    expect(page.locator("#fresh")).to_have_text("live")
    watched.check()

    row.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(HOSTILE_GROUP)
    page.get_by_role("link", name="1 h", exact=True).click()
    expect(page.locator("svg.gc-timeline text", has_text="session expired").first).to_be_visible()
    for name in (SCRIPT, BREAKOUT):
        expect(page.locator("table.members td", has_text=name).first).to_be_visible()
    # Who died is in the picture only.
    expect(page.locator("svg.gc-timeline title", has_text=IMAGE).first).to_be_attached()
    watched.check()

    moment = site.past - timedelta(minutes=20)
    page.locator("input[name=at]").fill(f"{moment:%Y-%m-%dT%H:%M:%S}")
    page.locator("select[name=span]").select_option("1 h")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("h2").first).to_have_text(f"Who owned what at {moment:%Y-%m-%d %H:%M:%S} UTC")
    owners = page.locator("table.owners tbody tr")
    expect(owners).to_have_count(3)
    expect(owners.filter(has_text=IMAGE)).to_contain_text("orders 1,4,7,10")
    expect(page.locator("svg .pill").last).to_have_text(f"{moment:%H:%M:%S}")
    watched.check()

    # The tables have the lag of the other group.
    watched.goto(f"/group?group_id=billing&at={moment:%Y-%m-%dT%H:%M:%S}")
    expect(page.locator("svg.gc-timeline path.lag")).to_be_visible()
    page.go_back()

    page.get_by_role("link", name="closer").click()
    expect(page.locator("svg .soft").first).to_contain_text("15 min")
    page.get_by_role("link", name="back to now").click()
    expect(page.locator("#fresh")).to_have_text("live")
    watched.check()


def test_the_past_has_groups_that_are_gone_and_one_can_choose_among_them(watched: Watched) -> None:
    page = watched.page
    watched.goto("/history")
    expect(page.locator("table.groups tbody a")).to_have_count(2)
    page.locator("input[name=q]").fill("<script>")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("table.groups tbody a")).to_have_text([HOSTILE_GROUP])
    watched.check()


def test_what_happens_is_shown_while_it_does(watched: Watched, bootstrap_servers: str) -> None:
    page, site = watched.page, watched.site
    watched.goto("/?q=newcomer")
    expect(page.locator("p.note").first).to_contain_text("There is no such group now.")

    (picture,) = moved(site.filled.pictures["billing"], "newcomer", 0)
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
        producer.send(site.topics["topics.groups"], key=b"newcomer", value=picture).get(PATIENCE_S)

    expect(page.locator("table.groups tbody a")).to_have_text(["newcomer"])
    # Whoever listens to the group's events hears of them.
    page.evaluate("""() => {
        window.heard = [];
        const events = new EventSource("/api/v1/group/events/stream?group_id=newcomer");
        events.onopen = () => { heard.push("open"); };
        events.onmessage = (message) => { heard.push(JSON.parse(message.data).event); };
    }""")
    page.wait_for_function("() => heard.includes('open')")
    (event, *_) = moved(site.filled.events["billing"], "newcomer", 0)
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
        producer.send(site.topics["topics.events"], key=b"newcomer", value=event).get(PATIENCE_S)
    page.wait_for_function("() => heard.includes('group_created')")
    # No reload: what was typed is still there.
    assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate"
    watched.check()


def test_it_stands_still_when_asked_to(watched: Watched) -> None:
    page = watched.page
    page.clock.install()
    watched.goto("/group?group_id=billing")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#fresh")).to_have_text("paused")
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.clock.run_for(20_000)
    assert [url for url in fetched if "part=1" in url] == []

    page.get_by_role("button", name="Go on").click()
    with page.expect_request(lambda request: "part=1" in request.url):
        page.clock.run_for(3_000)
    watched.check()


def test_how_far_a_group_is_behind_is_said_as_soon_as_it_is_known(watched: Watched) -> None:
    page, site = watched.page, watched.site
    watched.goto("/group?group_id=billing")
    expect(page.locator("table.offsets tbody tr")).to_have_text(
        [
            re.compile(
                re.escape(site.topics["topics.work"])
                + r"\s*1\s*6\s*1,240\s*1,234\s*36 min 40 s\s*stopped\s*nobody"
            )
        ]
    )
    as_of = r"s of \d\d:\d\d:\d\d UTC"
    notes = page.locator("p.note", has_text="records behind")
    oldest = r"the oldest 36 min 40 s old \(± 7 s\); growing\."
    expect(notes).to_have_text(
        [
            re.compile(f"^A{as_of}: 1,234 records behind\\.$"),
            re.compile(rf"^Measured .+ ago: 1,234 records behind, {oldest}$"),
        ]
    )
    # The line is along the same axis as the rebalances, and stays within it.
    page.get_by_role("link", name="1 h", exact=True).click()
    expect(page.locator("svg.gc-timeline path.lag")).to_be_visible()
    expect(page.locator("svg.gc-timeline text", has_text="up to 1,234 records")).to_be_visible()
    # In one look: the page draws the picture anew all the time.
    page.wait_for_function("""() => {
        const right = (kind) => [...document.querySelectorAll(`svg.gc-timeline path.${kind}`)]
            .map((path) => path.getBoundingClientRect().right);
        const [line, grid] = [right("lag"), right("grid")];
        return line.length && grid.length > 1 && Math.max(...line) <= grid[1] + 2;
    }""")
    watched.goto("/")
    expect(page.locator("table.groups tr", has_text="billing")).to_contain_text(
        re.compile(r"1,234\s*36 min 40 s\s*growing")
    )
    expect(page.locator("table.groups svg.line path")).to_have_count(1)
    expect(page.locator("p.note").last).to_have_text(re.compile(f"^Lag of the others a{as_of}\\.$"))
    watched.check()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.verify),
        pytest.param(390, "light", marks=pytest.mark.verify),
    ],
)
def test_everybody_can_use_it(browser: Browser, site: Served, scheme: Any, width: int) -> None:
    past = f"{site.past - timedelta(minutes=20):%Y-%m-%dT%H:%M:%S}"
    paths = (
        "/",
        "/?q=nobody",
        "/group?group_id=billing&last=3600",
        f"/group?group_id=billing&at={past}",
        "/history",
    )
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    for path in paths:
        page = context.new_page()
        page.goto(f"{site.url}{path}")
        if path.startswith("/group?") and "at=" not in path:
            expect(page.locator("table.offsets tbody tr")).to_have_count(1)
        found = Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], path
        # Tables and pictures scroll on their own; the page does not scroll sideways.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.close()
    context.close()


def test_the_keyboard_sorts_and_its_place_is_kept_while_the_page_is_live(watched: Watched) -> None:
    page = watched.page
    watched.goto("/")
    page.get_by_role("link", name="members", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("members")
    group = page.get_by_role("link", name="billing", exact=True)
    group.focus()
    # It is drawn anew, since the time in its state goes on.
    page.wait_for_function(
        "before => document.querySelector('table.groups').innerText !== before",
        arg=page.locator("table.groups").inner_text(),
    )
    expect(group).to_be_focused()
    watched.check()


def test_a_picture_on_its_own(watched: Watched, tmp_path: Path) -> None:
    page = watched.page
    watched.goto(f"/group?group_id=billing&at={watched.site.past - timedelta(minutes=30):%Y-%m-%dT%H:%M:%S}")
    for name in ("SVG", "HTML"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        file = tmp_path / f"timeline.{name.lower()}"
        download.value.save_as(file)
        other = page.context.new_page()
        other.on("console", lambda message: watched.harm.append(message.text))
        other.goto(file.as_uri())
        expect(other.locator("svg.gc-timeline text", has_text="generation 3").first).to_be_visible()
        assert colour(other) == "rgb(255, 255, 255)"
        other.emulate_media(color_scheme="dark")
        assert colour(other) == "rgb(13, 17, 23)"
        other.close()
    assert watched.harm == []


def colour(page: Page) -> Any:
    return page.evaluate("getComputedStyle(document.querySelector('.bg')).fill")


def test_letters_have_the_room_that_was_reckoned_for_them(watched: Watched) -> None:
    watched.goto(f"/group?group_id=billing&at={watched.site.past - timedelta(minutes=30):%Y-%m-%dT%H:%M:%S}")
    outside = watched.page.evaluate(
        """() => {
            const all = document.querySelector("svg.gc-timeline").getBoundingClientRect();
            const texts = [...document.querySelectorAll("svg.gc-timeline text")];
            return texts.filter(each => {
                const box = each.getBoundingClientRect();
                return box.left < all.left || box.right > all.right || box.bottom > all.bottom;
            }).map(each => each.textContent);
        }"""
    )
    wide = watched.page.evaluate(
        """() => [...document.querySelectorAll("svg.gc-timeline rect.own")].filter(each => {
            const text = each.parentNode.querySelector("text");
            return text && text.getBBox().width > each.getBBox().width;
        }).length"""
    )

    assert (outside, wide) == ([], 0)


def test_a_script_in_the_page_would_have_been_noticed(watched: Watched) -> None:
    watched.goto("/")
    watched.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'harmed = 1'}))"
    )

    # The policy keeps it from running, and the watch above sees that it wanted to.
    assert watched.page.evaluate("[window.harmed ?? null, window.violations]") == [None, ["script-src-elem"]]
    assert any("Content Security Policy" in each for each in watched.harm)
