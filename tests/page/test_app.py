from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import msgspec
import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.descriptions import MemberDescription
from group_coordinator.client.progress import Progress
from group_coordinator.coordinator_state.events import CommittedPartition, OffsetsCommitted, OffsetsOfTopic
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.story import Story
from group_coordinator.page.app import App
from group_coordinator.page.lags import Measured
from group_coordinator.page.measurements import Measurements
from group_coordinator.page.memory import Limits, Memory
from group_coordinator.page.pulse import Pulse
from group_coordinator.page.questions import Questions, Sources
from group_coordinator.page.sides import Sides
from tests.history.consumers import Consumers
from tests.page.filled import BREAKOUT, HOSTILE_GROUP, IMAGE, SCRIPT, Filled, lag_of

GROUP = {
    "group_id": "g",
    "state": "Empty",
    "generation_id": 1,
    "protocol_type": "consumer",
    "protocol_name": None,
    "leader": None,
    "members": [],
    "state_timestamp_ms": 1,
}
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PATHS = ["/", "/group", "/history", "/timeline.svg", "/timeline.html", "/static/page.css", "/nothing"]


class Live:
    def __init__(self) -> None:
        self.memory = Memory()
        self.pulse = Pulse()
        self.problem: str | None = None


class Past:
    """The same groups, and what it was asked."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.asked: list[tuple[str, datetime, datetime]] = []

    def groups(self) -> list[str]:
        return [each.group_id for each in self._memory.groups()] + ["gone"]

    def reaches_to(self) -> datetime:
        return NOW - timedelta(minutes=10)

    def fleet(self, since: datetime | None = None, until: datetime | None = None, **chosen: Any) -> Any:
        raise HistoryError("the tables are <away>")

    def story(self, group_id: str, since: datetime, until: datetime) -> Story:
        self.asked.append((group_id, since, until))
        return self._memory.story(group_id) or Story(group_id=group_id)


class Answer(NamedTuple):
    status: str
    headers: dict[str, str]
    body: str


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a"]


@pytest.fixture(scope="module")
def memory() -> Memory:
    memory = Memory()
    filled = Filled(round(NOW.timestamp() * 1000))
    for group_id, records in filled.events.items():
        for offset, record in enumerate(records):
            memory.take_event(offset, record)
        for picture in filled.pictures[group_id]:
            memory.take_picture(group_id.encode(), picture)
    return memory


@pytest.fixture
def live(memory: Memory) -> Live:
    live = Live()
    live.memory = memory
    return live


@pytest.fixture
def past(memory: Memory) -> Past:
    return Past(memory)


def measured(group_id: str | None) -> Measured:
    owner = MemberDescription("m", None, SCRIPT, "", b"", b"", None)
    row = Progress(TopicPartition(IMAGE, 1), OffsetAndMetadata(1_000, "", None), 2_234, owner)
    return Measured(NOW, {"billing": [row]})


class Lags:
    def __init__(self, lag_of: Callable[[str | None], Measured | None]) -> None:
        self.newest = lag_of
        self.ask = lag_of


def application(
    live: Live,
    lag_of: Callable[[str | None], Measured | None] = measured,
    past: Callable[[], Any] | None = None,
    *,
    measurements: Callable[[], Measurements] = Measurements,
    hosts: list[str] | None = None,
    now: datetime = NOW,
) -> App:
    sources = Sources(live, Lags(lag_of), past, measurements, "kafka:9092")
    return App(Sides(Questions(sources, lambda: now)), hosts)


Get = Callable[..., Answer]


@pytest.fixture
def get(live: Live, past: Past) -> Get:
    return getter(application(live, measured, lambda: past, hosts=["127.0.0.1"]))


def getter(app: App) -> Get:
    def get(path: str, method: str = "GET", host: str = "127.0.0.1:9465", **query: Any) -> Answer:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "HTTP_HOST": host,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
        }
        # The name after it is a keyword of Python.
        environ["QUERY_STRING"] = urlencode({name.rstrip("_"): value for name, value in query.items()})
        setup_testing_defaults(environ)
        environ["wsgi.input"] = io.BytesIO()
        found: list[Any] = []
        result = validator(app)(
            environ, lambda status, headers, _=None: found.extend((status, headers)) or print
        )
        try:
            body = b"".join(result).decode()
        finally:
            result.close()
        return Answer(found[0], dict(found[1]), body)

    return get


# -- the list ------------------------------------------------------------------------------------------------


def test_the_list_has_state_generation_members_and_lag(get: Get) -> None:
    answer = get("/")
    words = [word for word in Page(answer.body).words if word.strip()]

    assert answer.status == "200 OK"
    start = words.index("billing")
    # It was not Stable for some minutes of the last day, in 8 rebalances.
    expected = ["billing", "Empty", "5 min 1 s", "3 min 46 s · 0.3 %", "8", "not synced", "8", "0", "1,234"]
    assert words[start : start + 9] == expected
    assert "Rebalances, and the time not Stable, count since 2026-01-30 12:00:00 UTC." in words
    assert "Lag as of 12:00:00 UTC." in words


def test_the_page_of_a_group_whose_id_is_empty_has_the_way_to_its_events(live: Live) -> None:
    live.memory = Memory()
    live.memory.take_picture(b"", msgspec.json.encode(GROUP | {"group_id": ""}))
    event = {"event_id": "1", "event": "group_created", "group_id": "", "at_ms": 1}
    live.memory.take_event(0, msgspec.json.encode(event))
    get = getter(application(live))
    (url,) = re.findall(r'href="(/api/v1/group/events[^"]*)"', get("/group", group_id="").body)
    path, _, query = url.partition("?")
    answer = get(path, **dict(parse_qsl(query, keep_blank_values=True)))

    assert answer.status == "200 OK"
    assert msgspec.json.decode(answer.body)["group_id"] == ""


def test_the_type_is_a_column_if_there_are_both(live: Live) -> None:
    group = Consumers({"orders": 1}, "new")
    group.join("m1")
    live.memory = Memory()
    live.memory.take_picture(b"new", msgspec.json.encode(group.picture))
    app = application(live)
    alone = Page(getter(app)("/").body)
    assert "type" not in alone.words
    live.memory.take_picture(b"old", msgspec.json.encode(GROUP | {"group_id": "old"}))
    answer = getter(app)("/", sort="group_type", order="desc")
    both = Page(answer.body)

    assert "type ▼" in both.words
    rows = [word for word in both.words if word in ("new", "consumer", "old", "classic")]
    assert rows == ["new", "consumer", "old", "classic"]


def test_the_lag_is_on_its_way_or_cannot_be_had(live: Live) -> None:
    waiting = getter(application(live, lambda _: None))("/").body
    assert "…" in Page(waiting).words
    assert "Lag: the coordinator is being asked." in Page(waiting).words

    failed = getter(application(live, lambda _: Measured(NOW, problem="no <answer>")))("/").body
    assert "Lag: unknown at 12:00:00 UTC: no <answer>" in Page(failed).words


def measurements(now: datetime = NOW) -> Measurements:
    found = Measurements()
    for each in lag_of("billing", IMAGE, round(now.timestamp() * 1_000)):
        found.take(SimpleNamespace(value=msgspec.json.encode(each)))
    return found


def test_where_lag_is_measured_the_list_has_it_in_time_as_well(live: Live) -> None:
    app = application(live, lambda _: None, measurements=measurements, now=NOW + timedelta(seconds=12))
    words = [word.strip() for word in Page(getter(app)("/").body).words if word.strip()]
    start = words.index("billing")
    assert words[start : start + 3] == ["billing", "Empty", "5 min 13 s"]
    assert words[start + 8 : start + 11] == ["1,234", "36 min 40 s", "growing"]
    # The other group is not measured, and is asked about.
    start = words.index(HOSTILE_GROUP)
    assert words[start + 8 : start + 10] == ["…", "not measured"]
    assert "measure-lag has measured 1 of 2 groups, 12 s ago or less." in words
    assert "Lag of the others: the coordinator is being asked." in words

    alone = Page(getter(app)("/", q="billing").body).words
    assert "measure-lag has measured 1 of 1 group, 12 s ago or less." in alone
    assert not [word for word in alone if "the coordinator is being asked" in word]


def test_a_measurement_of_long_ago_is_not_shown_as_if_it_held(live: Live) -> None:
    app = application(live, measurements=measurements, now=NOW + timedelta(hours=5))
    words = Page(getter(app)("/").body).words
    assert {"lag in time", "trend"}.isdisjoint(words)
    assert "Lag as of 12:00:00 UTC." in words

    words = Page(getter(app)("/group", group_id="billing").body).words
    assert {"lag in time", "status", "stopped"}.isdisjoint(words)
    assert "measure-lag has not measured this group for 5 h." in [word.strip() for word in words]


def test_groups_are_chosen_by_a_part_of_their_ids(get: Get) -> None:
    assert "billing" not in Page(get("/", q="<script>").body).words
    assert HOSTILE_GROUP in Page(get("/", q="<script>").body).words
    words = Page(get("/", q="nothing like it").body).words
    assert any(word.startswith("There is no such group now.") for word in words)


def test_groups_are_found_by_the_names_of_their_members(get: Get) -> None:
    words = Page(get("/", q=BREAKOUT).body).words
    assert HOSTILE_GROUP in words
    assert "billing" not in words


def test_states_and_totals_stand_above_the_list_and_choose(get: Get) -> None:
    page = Page(get("/").body)
    words = [word.strip() for word in page.words if word.strip()]
    start = words.index("2 groups")
    assert words[start : start + 7] == [
        "2 groups",
        "Empty",
        "1",
        "Stable",
        "1",
        "2 members",
        "1,234 records behind",
    ]
    assert "/?state=Stable" in page.links

    words = Page(get("/", state="Stable").body).words
    assert HOSTILE_GROUP in words
    assert "billing" not in words


def many(live: Live) -> Memory:
    memory = Memory()
    picture = live.memory._pictures["billing"][1]
    for number in range(300):
        fields = msgspec.json.decode(picture) | {"group_id": f"g{number:03}", "generation_id": number % 7}
        memory.take_picture(b"", msgspec.json.encode(fields))
    return memory


def names(page: Page) -> list[str]:
    return [word for word in page.words if re.fullmatch(r"g\d\d\d", word)]


def test_a_long_list_is_shown_a_part_at_a_time(live: Live) -> None:
    live.memory = many(live)
    get = getter(application(live))
    first = Page(get("/").body)
    assert names(first) == [f"g{number:03}" for number in range(100)]
    assert any("1 to 100 of 300" in word for word in first.words)
    assert "/?offset=100" in first.links

    last = Page(get("/", offset=200).body)
    assert names(last)[-1] == "g299"
    assert "/?offset=100" in last.links
    assert "/?offset=300" not in last.links
    beyond = Page(get("/", offset=900).body)
    assert any("none of 300 from there on" in word for word in beyond.words)
    assert "/?offset=800" in beyond.links


def test_a_list_is_sorted_by_any_column(live: Live) -> None:
    live.memory = many(live)
    get = getter(application(live))
    page = Page(get("/", sort="group_id").body)
    assert "/?sort=generation_id&order=desc" in page.links
    assert [attrs["aria-sort"] for tag, attrs in page.tags if "aria-sort" in attrs] == ["ascending"]

    by_generation = Page(get("/", sort="generation_id", order="desc").body)
    assert names(by_generation)[:3] == ["g006", "g013", "g020"]
    assert "/?sort=generation_id&order=asc" in by_generation.links
    # What is chosen stays chosen on the next part.
    assert "/?sort=generation_id&order=desc&offset=100" in by_generation.links


def test_groups_whose_lag_is_not_known_come_last(get: Get) -> None:
    for order in ("asc", "desc"):
        links = [link for link in Page(get("/", sort="records", order=order).body).links if "/group?" in link]
        assert links[0] == "/group?group_id=billing"


def test_a_list_without_groups_says_how_there_will_be_some(live: Live) -> None:
    live.memory = Memory()
    words = Page(getter(application(live))("/").body).words

    assert any("There are no groups yet." in word and "bootstrap.servers" in word for word in words)


def ticked(live: Live, ago: timedelta, tick: Any = None) -> None:
    value = msgspec.json.encode({"tick": 1, "coordinator": "c"} | (tick or {}))
    at_ms = round((NOW - ago).timestamp() * 1_000)
    live.pulse.take(SimpleNamespace(value=value, timestamp=at_ms), NOW, is_new=False)


def test_a_group_is_shown_as_it_was_when_the_coordinator_went_long_ago(live: Live) -> None:
    ticked(live, timedelta(hours=1))
    answer = getter(application(live))("/group", group_id="billing", last="60")
    assert answer.status == "200 OK"
    assert "no coordinator has run since" in answer.body
    assert "<svg" in answer.body


def test_while_no_coordinator_runs_the_groups_stand_still(live: Live) -> None:
    ticked(live, timedelta(seconds=1))
    get = getter(application(live))
    assert 'data-fresh="live"' in get("/").body

    ticked(live, timedelta(minutes=3))
    for path in ("/", "/group"):
        body = get(path, **({"group_id": "billing"} if path == "/group" else {})).body
        assert 'data-fresh="as of 11:57:00 UTC"' in body
        assert any(
            "no coordinator has run since 2026-01-31 11:57:00 UTC" in word for word in Page(body).words
        )
    # It has been in this state for 5 min 1 s, but nobody knows that of the last three.
    assert "2 min 1 s" in Page(get("/").body).words


@pytest.mark.parametrize(
    ("max_gap", "tick", "silent_after"),
    [
        (timedelta(seconds=3), {}, timedelta(seconds=10)),
        # A coordinator that nobody asks says that its next tick may be later.
        (timedelta(seconds=3), {"leeway_ms": 1_500}, timedelta(seconds=11.5)),
        # It may be set to tick more seldom than once in ten seconds.
        (timedelta(seconds=20), {"leeway_ms": 10_000}, timedelta(seconds=37)),
    ],
)
def test_a_coordinator_is_silent_only_when_a_tick_and_a_takeover_are_overdue(
    live: Live, max_gap: timedelta, tick: dict[str, int], silent_after: timedelta
) -> None:
    live.pulse = Pulse(max_gap)
    ticked(live, silent_after, tick)
    assert "no coordinator has run" not in getter(application(live))("/").body

    ticked(live, silent_after + timedelta(seconds=1), tick)
    assert "no coordinator has run" in getter(application(live))("/").body


def test_a_coordinator_that_was_stopped_is_not_waited_for(live: Live) -> None:
    ticked(live, timedelta(seconds=1), {"last": True})
    assert "no coordinator has run since" in getter(application(live))("/").body

    live.pulse = Pulse()
    assert "no coordinator" not in getter(application(live))("/").body
    live.pulse.has_looked = True
    assert "no coordinator has run in the last hours" in getter(application(live))("/").body


def test_the_page_says_which_cluster_it_shows(get: Get) -> None:
    for path in ("/", "/history"):
        assert "kafka:9092" in Page(get(path).body).words


def test_a_list_that_is_not_whole_says_so(live: Live) -> None:
    live.memory = Memory(Limits(pictures=1))
    live.memory.take_picture(b"", msgspec.json.encode(GROUP))
    words = Page(getter(application(live, measured))("/").body).words

    assert any("not changed for longest" in word for word in words)


def test_what_is_wrong_is_said(live: Live) -> None:
    live.problem = "Kafka cannot be read: <b>away</b>"
    get = getter(application(live, measured))

    assert live.problem in Page(get("/").body).words
    assert live.problem in Page(get("/group", group_id="billing").body).words


def test_the_part_is_what_the_page_is_without_its_frame(get: Get) -> None:
    for path, query in (("/", {}), ("/group", {"group_id": HOSTILE_GROUP})):
        part = get(path, part="1", **query).body
        assert part.startswith('<div id="part" data-fresh="live">')
        assert part in get(path, **query).body


# -- a group -------------------------------------------------------------------------------------------------


def test_links_lead_to_the_group_whatever_its_id(get: Get) -> None:
    links = [link for link in Page(get("/", sort="group_id").body).links if link.startswith("/group")]
    ids = [parse_qs(urlsplit(link).query)["group_id"][0] for link in links]

    assert ids == [HOSTILE_GROUP, "billing"]
    for link in links:
        assert re.fullmatch(r"/group\?group_id=[A-Za-z0-9_.~%+-]+", link)


def test_a_group_has_its_timeline_members_offsets_and_moves(get: Get) -> None:
    answer = get("/group", group_id=HOSTILE_GROUP, last=3600)
    page = Page(answer.body)

    assert answer.status == "200 OK"
    assert [attrs["class"] for tag, attrs in page.tags if tag == "svg"] == ["gc-timeline"]
    assert SCRIPT in [word.strip() for word in page.words]
    assert {"Members", "Offsets", "What happened", "session expired"} <= set(page.words)
    assert "orders 0,2,4,6,8,10" in page.words


def test_what_is_behind_partition_by_partition(get: Get) -> None:
    words = [word for word in Page(get("/group", group_id="billing").body).words if word.strip()]

    assert "As of 12:00:00 UTC: 1,234 records behind." in words
    start = words.index(IMAGE)
    assert words[start : start + 6] == [IMAGE, "1", "1,000", "2,234", "1,234", SCRIPT]


def test_the_lag_in_time_partition_by_partition_and_as_a_line(live: Live) -> None:
    app = application(live, measurements=measurements, now=NOW + timedelta(seconds=12))
    page = Page(getter(app)("/group", group_id="billing", last=3600).body)
    words = [word for word in page.words if word.strip()]
    told = "Measured 12 s ago: 1,234 records behind, the oldest 36 min 40 s old (± 7 s); growing."
    assert told in words
    start = words.index(IMAGE)
    expected = [IMAGE, "1", "1,000", "2,234", "1,234", "36 min 40 s", "stopped", SCRIPT]
    assert words[start : start + 8] == expected
    (line,) = [attrs["d"] for tag, attrs in page.tags if tag == "path" and attrs.get("class") == "lag"]
    # There was nothing while measuring stood still.
    assert line is not None
    assert line.count("M") == 2
    assert {"lag", "up to 1,234 records"} <= set(words)

    # A group that is not measured has neither line nor columns.
    page = Page(getter(app)("/group", group_id=HOSTILE_GROUP, last=3600).body)
    assert not [tag for tag, attrs in page.tags if attrs.get("class") == "lag"]
    assert not [word for word in page.words if word.startswith(("Measured", "measure-lag"))]


def test_a_group_that_nobody_knows(get: Get, live: Live) -> None:
    asked: list[str | None] = []

    def asking(group_id: str | None) -> Measured | None:
        asked.append(group_id)
        return None

    page = Page(getter(application(live, asking))("/group", group_id="never seen").body)
    assert "Nothing is known of this group, now or in the last hours." in page.words
    # The coordinator is not asked whatever somebody types.
    assert asked == []


def test_a_group_that_has_just_been_deleted_has_its_story(live: Live) -> None:
    memory, old = Memory(), live.memory
    for offset, kept in enumerate(old._events.groups["billing"].kept):
        memory.take_event(offset, kept.body)
    live.memory = memory
    page = Page(getter(application(live, measured))("/group", group_id="billing", last=3600).body)

    assert any("no longer exists" in word for word in page.words)
    assert "billing-a" in page.words


def test_who_reset_offsets_is_shown(live: Live) -> None:
    live.memory = Memory()
    reset = OffsetsCommitted(
        event_id="r-0",
        at_ms=round(NOW.timestamp() * 1_000) - 60_000,
        group_id="reset",
        principal=SCRIPT,
        member_id="",
        client_id="tool",
        topics=[
            OffsetsOfTopic(
                IMAGE,
                [
                    CommittedPartition(
                        partition_index=3, committed_offset=0, committed_leader_epoch=-1, metadata=""
                    )
                ],
            )
        ],
    )
    live.memory.take_event(1, msgspec.json.encode(reset))
    page = Page(getter(application(live, measured))("/group", group_id="reset", last=3600).body)

    words = [word for word in page.words if word.strip()]
    start = words.index("11:59:00.000")
    assert words[start : start + 6] == ["11:59:00.000", "set", f"{IMAGE} 3", "0", SCRIPT, "tool"]
    assert "offsets_committed" in words[start + 6 :]


# -- the past ------------------------------------------------------------------------------------------------


REACH = "The history reaches to 2026-01-31 11:50:00 UTC."


def test_any_moment_of_the_past(get: Get, past: Past) -> None:
    page = Page(get("/group", group_id="billing", at="2026-01-31T11:30:00", span=3600).body)

    at = NOW - timedelta(minutes=30)
    assert past.asked == [("billing", at - timedelta(minutes=30), at + timedelta(minutes=30))]
    assert {REACH, "Who owned what at 2026-01-31 11:30:00 UTC"} <= set(page.words)
    start = page.words.index("Who owned what at 2026-01-31 11:30:00 UTC")
    words = [word for word in page.words[start:] if word.strip()]
    assert [words[i + 1 : i + 5 : 3] for i in (6, 11, 16)] == [
        ["orders 0,3,6,9", "3"],
        ["orders 1,4,7,10", "3"],
        ["orders 2,5,8,11", "3"],
    ]
    shown = [attrs["value"] for tag, attrs in page.tags if tag == "input" and attrs["name"] == "at"]
    assert shown == ["2026-01-31 11:30:00"]
    # It is over: there is nothing to fetch anew.
    assert all(tag != "script" for tag, _ in page.tags)


@pytest.mark.parametrize(
    ("text", "at", "span"),
    [
        ("← earlier", "2026-01-31T11:00:00", "3600"),
        ("later →", "2026-01-31T12:00:00", "3600"),
        ("closer", "2026-01-31T11:30:00", "900"),
        ("further", "2026-01-31T11:30:00", "21600"),
    ],
)
def test_from_there_to_what_is_near(get: Get, text: str, at: str, span: str) -> None:
    body = get("/group", group_id=HOSTILE_GROUP, at="2026-01-31T11:30:00", span=3600).body
    (url,) = (each for each, told in re.findall(r'<a href="([^"]+)">([^<]+)</a>', body) if told == text)

    assert parse_qs(urlsplit(url.replace("&amp;", "&")).query) == {
        "group_id": [HOSTILE_GROUP],
        "at": [at],
        "span": [span],
    }


@pytest.mark.parametrize("query", [{}, {"at": "2026-01-31T11:30:00"}])
def test_the_form_is_about_the_same_group(get: Get, query: dict[str, str]) -> None:
    page = Page(get("/group", group_id=HOSTILE_GROUP, **query).body)

    values = {attrs["name"]: attrs["value"] for tag, attrs in page.tags if tag == "input"}
    assert values["group_id"] == HOSTILE_GROUP


def test_a_time_in_another_zone_is_the_same_moment(get: Get, past: Past) -> None:
    get("/group", group_id="billing", at="2026-01-31T17:15:00+05:45", span=60)

    assert past.asked == [
        ("billing", NOW - timedelta(minutes=30, seconds=30), NOW - timedelta(minutes=29, seconds=30))
    ]


def test_all_groups_that_there_ever_were(get: Get) -> None:
    page = Page(get("/history").body)

    assert {"billing", HOSTILE_GROUP, "gone", REACH} <= set(page.words)
    assert "billing" not in Page(get("/history", q="gone").body).words


def test_a_history_that_cannot_be_read_is_one_line(live: Live) -> None:
    def past() -> Past:
        raise HistoryError("there is no table <x>")

    answer = getter(application(live, measured, past))("/history")
    assert answer.status == "503 Service Unavailable"
    assert "there is no table <x>" in Page(answer.body).words


def test_without_a_history_there_is_nothing_to_choose(live: Live) -> None:
    get = getter(application(live, measured))

    assert "/history" not in Page(get("/").body).links
    assert 'name="at"' not in get("/group", group_id="billing").body
    answer = get("/group", group_id="billing", at="2026-01-31T11:30:00")
    assert answer.status == "503 Service Unavailable"
    assert "set history.path to where write-history writes" in answer.body


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["SVG", "HTML"])
@pytest.mark.parametrize("query", [{}, {"at": "2026-01-31T11:30:00"}])
def test_the_picture_as_a_file(get: Get, kind: str, query: dict[str, str]) -> None:
    body = get("/group", group_id=HOSTILE_GROUP, **query).body
    (url,) = (each for each, told in re.findall(r'<a href="([^"]+)">([^<]+)</a>', body) if told == kind)
    path, _, query_string = url.replace("&amp;", "&").partition("?")
    answer = get(path, **{name: values[0] for name, values in parse_qs(query_string).items()})

    assert answer.status == "200 OK"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="timeline.{kind.lower()}"'
    assert answer.headers["Content-Type"].startswith({"SVG": "image/svg+xml", "HTML": "text/html"}[kind])
    assert "</svg>" in answer.body


@pytest.mark.parametrize(
    ("path", "kind"),
    [("page.css", "text/css"), ("page.js", "text/javascript"), ("icon.svg", "image/svg+xml")],
)
def test_what_the_pages_need_is_served_here(get: Get, path: str, kind: str) -> None:
    answer = get(f"/static/{path}")

    assert answer.status == "200 OK"
    assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert "http" not in answer.body.replace("http://www.w3.org/2000/svg", "")


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_shows(get: Get, method: str) -> None:
    answer = get("/", method)

    assert answer.status == "405 Method Not Allowed"
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(get: Get, path: str) -> None:
    head, whole = get(path, "HEAD"), get(path)

    assert (head.status, head.headers, head.body) == (whole.status, whole.headers, "")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_keeps_scripts_out(get: Get, path: str) -> None:
    headers = get(path).headers
    policy = headers["Content-Security-Policy"]

    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "query", "why"),
    [
        ("/group", {}, "group_id must be the id of a group"),
        ("/group", {"group_id": "g", "last": "7"}, "last must be one of 60, 300, 900"),
        ("/group", {"group_id": "g", "last": "²"}, "last must be one of"),
        ("/group", {"group_id": "g", "at": "soon"}, "at must be a time in UTC, such as 2026-01-31T14:05:00"),
        ("/group", {"group_id": "g", "at": "0001-01-01"}, "at must be a time in UTC"),
        ("/group", {"group_id": "g", "at": "9999-12-31T23:59"}, "at must be a time in UTC"),
        ("/group", {"group_id": "g", "at": "2026-01-31", "span": "-5"}, "span must be one of"),
        (
            "/timeline.svg",
            {"group_id": "g", "from": "2026-01-31", "to": "2026-01-31"},
            "from must be before to",
        ),
        ("/timeline.svg", {"group_id": "g", "from": "2020-01-31", "to": "2026-01-31"}, "at most 400 days"),
        ("/", {"sort": "colour"}, "sort must be one of age_ms, generation_id, group_id"),
        ("/", {"offset": "-1"}, "offset must be a number from 0 to 1,000,000,000"),
        ("/", {"limit": "1001"}, "limit must be a number from 1 to 1,000"),
        (
            "/",
            {"group": "g"},
            "there is no 'group' here: q, state, of, cause, member, topic, sort, order, offset, limit may be",
        ),
        ("/", {f"n{number}": "" for number in range(30)}, "the query of the address is too long"),
    ],
)
def test_an_address_that_is_wrong(get: Get, path: str, query: dict[str, str], why: str) -> None:
    answer = get(path, **query)

    assert answer.status == "400 Bad Request"
    assert any(why in word for word in Page(answer.body).words)


@pytest.mark.parametrize("path", ["/group/g", "/static/../app.py", "/static/", "//"])
def test_an_address_that_is_nobodys(get: Get, path: str) -> None:
    assert get(path).status == "404 Not Found"


def test_a_picture_of_a_group_that_nobody_knows(get: Get) -> None:
    answer = get("/timeline.svg", group_id="<g>", from_="2026-01-30", to="2026-01-31")
    assert answer.status == "404 Not Found"
    assert "nothing is known of group '<g>'" in Page(answer.body).words


@pytest.mark.parametrize("path", ["/group", "/api/v1/group", "/api/v1/group/events"])
def test_a_short_name_of_the_groups_id_is_taken_as_well(get: Get, path: str) -> None:
    """Links to the page have had it. The long one wins."""
    expected = get(path, group_id="billing").body
    assert expected == get(path, id="billing").body
    assert expected == get(path, id="another", group_id="billing").body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9465", "", "127.0.0.1.evil.example"])
def test_a_name_that_somebody_else_points_here_is_not_answered(get: Get, host: str) -> None:
    answer = get("/", host=host)

    assert answer.status == "421 Misdirected Request"
    assert "billing" not in answer.body


def test_an_ipv6_address_is_a_name_too(live: Live) -> None:
    get = getter(application(live, measured, hosts=["::1"]))

    assert get("/", host="[::1]:9465").status == "200 OK"
    assert get("/", host="[::2]:9465").status == "421 Misdirected Request"


# -- strangers' words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", {}),
        ("/", {"q": SCRIPT}),
        ("/", {"member": SCRIPT, "topic": IMAGE}),
        ("/group", {"group_id": HOSTILE_GROUP, "last": "3600"}),
        ("/group", {"group_id": f"{SCRIPT}{BREAKOUT}"}),
        ("/group", {"group_id": HOSTILE_GROUP, "at": "2026-01-31T11:50:00", "span": "3600"}),
        ("/group", {"group_id": IMAGE, "at": IMAGE}),
        ("/history", {"q": BREAKOUT}),
        ("/timeline.html", {"group_id": HOSTILE_GROUP, "from": "2026-01-31T11:00", "to": "2026-01-31T12:00"}),
    ],
)
def test_what_strangers_write_is_text(get: Get, path: str, query: dict[str, str]) -> None:
    page = Page(get(path, **query).body)

    assert {tag for tag, _ in page.tags} <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "link",
            "script",
            "body",
            "header",
            "nav",
            "a",
            "span",
            "button",
            "main",
        ),
        *("h1", "h2", "p", "b", "code", "form", "label", "input", "select", "option", "div", "style"),
        *("details", "summary", "ol"),
        *("table", "thead", "tbody", "tr", "th", "td", "ul", "li", "section"),
        *("svg", "defs", "pattern", "path", "circle", "rect", "g", "text", "title"),
    }
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        if tag == "script":
            assert attrs == {"src": "/static/page.js", "defer": None}
        for name in ("src", "href", "action"):
            assert (attrs.get(name) or "/").startswith(("/", "#"))
