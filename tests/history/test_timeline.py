from __future__ import annotations

import itertools
import random
import re
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from datetime import datetime, timedelta
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.history.rows import GenerationMember, Join, OffsetChange, Transition, time_of
from group_coordinator.history.spans import Assignment, Membership
from group_coordinator.history.story import LagPoint, Outage, Story
from group_coordinator.history.timeline import rebalances_table, resets_table, timeline_html, timeline_svg
from group_coordinator.history.timeline.lanes import ENDS
from group_coordinator.history.timeline.style import BADGES
from group_coordinator.history.timeline.text import width
from tests.history import consumers
from tests.history.scripts import GROUP, a_day, a_night, events
from tests.history.stories import BEGIN_MS, a_crowd, an_hour

SVG = "{http://www.w3.org/2000/svg}"
LEFT, RIGHT = 204, 1182
T0 = time_of(BEGIN_MS)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Drawn:
    """What is in an SVG."""

    def __init__(self, svg: str) -> None:
        self.svg = svg
        self.root = ET.fromstring(svg)
        self.parents = {child: parent for parent in self.root.iter() for child in parent}

    def rects(self, *names: str) -> list[tuple[float, float, float, float]]:
        """x, y, width and height of rectangles of these classes; the legend's are around 0,0."""
        return [
            (*(float(each.get(name, "0")) for name in ("x", "y", "width", "height")),)
            for each in self.root.iter(f"{SVG}rect")
            if set(names) <= set(each.get("class", "").split()) and not each.get("y", "0").startswith("-")
        ]

    def texts(self, name: str = "") -> list[str]:
        return [
            each.text or ""
            for each in self.root.iter(f"{SVG}text")
            if not name or name in each.get("class", "").split()
        ]

    def titles(self) -> list[str]:
        return [each.text or "" for each in self.root.iter(f"{SVG}title")]

    def owned(self) -> dict[float, list[tuple[float, float]]]:
        """Begin and end of each block, by how high its lane is."""
        lanes = defaultdict(list)
        for x, y, w, _ in self.rects("own"):
            lanes[y].append((x, x + w))
        return lanes

    def x_of(self, at: datetime, since: datetime, until: datetime) -> float:
        return LEFT + (RIGHT - LEFT) * ((at - since) / (until - since))


def a_days_story() -> Story:
    return Story.of_events(GROUP, enumerate(events(a_day())))


def draw(story: Story, first_s: float, last_s: float, **options: object) -> Drawn:
    begin = time_of(0)
    return Drawn(timeline_svg(story, begin + seconds(first_s), begin + seconds(last_s), **options))


# -- what is where -------------------------------------------------------------------------------------------


def test_members_and_what_they_owned_begin_and_end_where_they_did() -> None:
    drawn = draw(a_days_story(), 0, 25)

    def x(at: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * at / 25, 2)

    first, second = sorted(drawn.rects("bar"), key=lambda rect: rect[1])[:2]
    assert (first[0], round(first[0] + first[2], 2)) == (x(1), x(20))
    assert (second[0], round(second[0] + second[2], 2)) == (x(1), x(11))
    lanes = drawn.owned()
    assert [[(a, round(b, 2)) for a, b in lanes[y]] for y in sorted(lanes)] == [
        [(x(1), x(13)), (x(13), x(20))],
        [(x(1), x(11))],
    ]
    assert [text for text in drawn.texts("o") if text] == ["orders 0", "orders 0-1", "orders 1"]


def test_before_its_first_member_a_group_is_not_shown_as_empty() -> None:
    assert "no members yet" in draw(a_days_story(), -20, 25).texts("empty")
    # After its last member has left it is.
    assert draw(a_days_story(), 2, 40).texts("empty") == ["Empty"]


def test_an_outage_of_the_coordinator_is_drawn_and_named() -> None:
    story = a_days_story()
    story.outages = [Outage(time_of(14_000), time_of(17_000))]
    drawn, without = draw(story, 0, 25), draw(a_days_story(), 0, 25)

    assert drawn.texts().count("no coordinator for 3 s") == 1
    assert drawn.texts().count("no coordinator") == 1  # in the legend
    assert not [text for text in without.texts() if "no coordinator" in text]
    (group,) = [
        each
        for each in drawn.root.iter(f"{SVG}g")
        if each.findtext(f"{SVG}title", "").startswith("no coordinator")
        and each.find(f"{SVG}rect") is not None
    ]
    x, width_ = (float(group.find(f"{SVG}rect").get(name)) for name in ("x", "width"))
    assert (x, x + width_) == (
        pytest.approx(LEFT + (RIGHT - LEFT) * 14 / 25, abs=0.01),
        pytest.approx(LEFT + (RIGHT - LEFT) * 17 / 25, abs=0.01),
    )


def test_where_the_topic_has_no_room_the_partitions_are_written_alone() -> None:
    assert "0-1" in draw(a_days_story(), -60, 60).texts("o")


def test_what_began_before_and_what_goes_on_is_cut_off_at_the_ends() -> None:
    drawn = draw(a_days_story(), 5, 10)

    assert {(x, x + w) for x, _, w, _ in drawn.rects("bar")} == {(LEFT, RIGHT)}
    assert list(drawn.owned().values()) == [[(LEFT, RIGHT)], [(LEFT, RIGHT)]]
    assert drawn.root.findall(f".//{SVG}g[@class='end']") == []
    # Also of a generation that began before it is known who leads it.
    assert [(x, x + w) for x, _, w, _ in drawn.rects("lead")] == [(LEFT, RIGHT)]
    # Neither end of any bar is the member's own: the legend has the only cap.
    assert len(drawn.root.findall(f".//{SVG}path[@class='cap']")) == 1


def test_the_groups_states_are_a_band_without_gaps() -> None:
    drawn = draw(a_days_story(), 0, 25)
    band_y = next(y for _, y, w, h in drawn.rects("stable") if h == 20)
    states = sorted(
        (float(each.get("x", "")), float(each.get("width", "")), each.get("class"))
        for each in drawn.root.iter(f"{SVG}rect")
        if float(each.get("y", "0")) == band_y and each.get("class")
    )

    assert [name for _, w, name in states if w > 2] == ["empty", "stable", "join", "stable", "empty"]
    assert states[0][0] == LEFT
    for (x, w, _), (following, _, _) in itertools.pairwise(states):
        assert x + w >= following - 0.05
    assert list(drawn.texts("stable")) == ["generation 2", "generation 3"]


def test_what_happens_at_the_very_end_can_be_seen_there() -> None:
    rects = draw(a_days_story(), 0, 20.001).rects("join")

    # The last rebalance and what came of it are a twentieth of a pixel.
    assert [(x + w, w) for x, _, w, _ in rects][-1] == (RIGHT, 2)


def test_why_it_rebalanced_is_written_and_told() -> None:
    drawn = draw(a_days_story(), 0, 25)

    assert drawn.texts("halo") == ["2x joined", "c2 session expired", "c1 left"]
    # Read at the band as well as at the words above it.
    (join_phase,) = {each for each in drawn.titles() if each.startswith("join phase") and "13.000" in each}
    assert "why: session of " in join_phase
    assert "00:00:11.000 - 00:00:13.000 (2 s)" in join_phase


def test_the_leader_is_marked() -> None:
    drawn = draw(a_days_story(), 0, 25)
    leads = [(x, y, w) for x, y, w, _ in drawn.rects("lead")]

    # c1, which has two blocks.
    assert leads == [(x, y, w) for x, y, w, _ in drawn.rects("own") if y == leads[0][1]]
    assert len(leads) == 2
    assert "leader" in drawn.texts("s")


def test_a_leader_is_still_marked_when_it_starts_again_under_a_new_id() -> None:
    fleet = an_hour()
    drawn = Drawn(timeline_svg(fleet.story(), T0 + timedelta(hours=14), T0 + timedelta(hours=15)))

    assert "static STORE-1 · 2 runs" in drawn.texts("m")
    assert sum(text == "store-1" for text in drawn.texts("m")) == 1


def test_every_way_to_go_has_a_shape_and_a_word_of_its_own() -> None:
    assert set(BADGES) == {*ENDS, "several"}
    assert len({path for _, path in BADGES.values()}) == len(BADGES)

    rows = [
        Membership(
            group_id="g",
            member_id=f"m{number}",
            client_id=f"c{number}",
            since=T0,
            until=T0 + seconds(30),
            begun_by="b",
            reason=reason,
        )
        for number, reason in enumerate([*ENDS, "something new"])
    ]
    drawn = Drawn(timeline_svg(Story.of_rows("g", rows), T0, T0 + seconds(60)))

    written = [text for text in drawn.texts("s") if text in ENDS.values()]
    # Each beside its member, and in the legend. What a later version may say is unknown to this one.
    assert written[: len(rows)] == [*ENDS.values(), ENDS["unknown"]]
    assert set(written[len(rows) :]) == set(ENDS.values())


def test_joins_are_marked_first_ones_otherwise_than_others() -> None:
    drawn = draw(a_days_story(), 0, 25)
    marks = [
        each.get("class") for each in drawn.root.iter(f"{SVG}path") if each.get("class") in ("in", "again")
    ]

    # c1 joins at 1 s, and again at 13 s; c2 at 1 s; the legend.
    assert marks == ["in", "again", "in", "in", "again"]


def test_a_moment_can_be_marked() -> None:
    drawn = draw(a_days_story(), 0, 25, moment=time_of(12_500))

    (line,) = drawn.root.findall(f".//{SVG}path[@class='moment']")
    assert (line.get("d") or "").startswith(f"M{LEFT + (RIGHT - LEFT) / 2:g} ")
    assert drawn.texts("pill") == ["00:00:12"]
    assert draw(a_days_story(), 0, 5, moment=time_of(12_500)).texts("pill") == []


def test_units_have_their_names() -> None:
    members = [
        GenerationMember(
            event_id="e",
            at=T0,
            log_offset=1,
            group_id="g",
            generation_id=1,
            member_id="m",
            is_leader=True,
            protocol_type="units",
            protocol_name="range",
        )
    ]
    owned = [
        Assignment(
            group_id="g", generation_id=1, member_id="m", topic=name, partition=0, since=T0, begun_by="b"
        )
        for name in ("unit-0", "unit-1", "unit-2", "eu")
    ]
    drawn = Drawn(timeline_svg(Story.of_rows("g", [*members, *owned]), T0, T0 + seconds(9)))

    assert drawn.texts("o") == ["eu, unit-{0-2}"]
    assert any("eu, unit-{0-2} (4 units)" in title for title in drawn.titles())


def test_a_story_without_anything_in_it() -> None:
    drawn = Drawn(timeline_svg(Story(group_id="g"), T0, T0 + seconds(1)))

    assert "no members in this time" in drawn.texts()
    assert "no change is known" in drawn.texts()


def test_a_time_that_has_not_begun_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match=r"a timeline needs some time: .* is not before"):
        timeline_svg(Story(group_id="g"), T0, T0)


# -- equal stories, equal pictures ---------------------------------------------------------------------------


def test_equal_stories_give_equal_bytes_in_whatever_order_the_rows_came() -> None:
    story = an_hour().story()
    rows = [*story.transitions, *story.joins, *story.generations, *story.memberships]
    pictures = set()
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        again = Story.of_rows(story.group_id, [*rows, *story.assignments])
        pictures.add(timeline_svg(again, T0 + timedelta(hours=14), T0 + timedelta(hours=15)))

    assert len(pictures) == 1


# -- many ----------------------------------------------------------------------------------------------------


def test_a_hundred_members_and_hundreds_of_rebalances_are_a_picture_of_bounded_size() -> None:
    sizes = []
    for generations in (400, 1_600):
        end = T0 + seconds(4 * generations)
        story = a_crowd(100, generations, T0, seconds(4))
        begin = time.process_time()
        svg = timeline_svg(story, T0, end)
        # Of which most is walking through the rows.
        assert time.process_time() - begin < 0.00005 * len(story.assignments) + 1
        sizes.append(len(svg))
        drawn = Drawn(svg)
        check_geometry(drawn)
        assert len([text for text in drawn.texts("n") if text.startswith("worker-")]) == 100
        # Each time but the last, when the picture ends, there was a new one.
        assert any(text.startswith(f"{generations - 1:,} more members, in for a") for text in drawn.texts())
        assert any(text.startswith("Striped: several") for text in drawn.texts())
    assert max(sizes) < 1_500_000
    assert sizes[1] < 1.2 * sizes[0]


def test_what_is_drawn_as_one_says_how_many_it_is() -> None:
    drawn = Drawn(timeline_svg(a_crowd(3, 300, T0, seconds(4)), T0, T0 + seconds(1_200)))

    labels = [int(text.removesuffix("x")) for text in drawn.texts("several") if text.endswith("x")]
    assert len(labels) > 5
    # The last one is on its own.
    assert sum(labels) == 299
    assert any(re.match(r"\d+ rebalances: \d+x session expired\n", title) for title in drawn.titles())


# -- strangers' words ----------------------------------------------------------------------------------------

hostile = st.one_of(
    st.text(st.characters(), max_size=30),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '"><svg onload=alert(1)>',
            "]]>&amp;&#0;",
            "\x00\x01\x08\x1f\x7f\x9f",
            "\ud800\udfff",
            "\ufffe\uffff",
            "\u202egnirts",
            "a\nb\tc\rd",
            "</title></style>",
            "漢字" * 300,
            "",
        ]
    ),
)
moments = st.integers(-20_000, 80_000).map(lambda ms: T0 + timedelta(milliseconds=ms))
maybe = st.none() | moments


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Rows that no coordinator would write, and some that it would."""
    ids = draw(st.lists(hostile, min_size=1, max_size=4, unique=True))
    of_group = {"group_id": draw(hostile)}
    member = st.sampled_from(ids)
    generation = st.integers(1, 4)
    event = {
        "event_id": st.just("e"),
        "at": moments,
        "log_offset": st.integers(0, 99),
        "generation_id": generation,
    }
    of_request = event | {"principal": st.none() | hostile}
    span = {"since": maybe, "until": maybe, "begun_by": hostile}
    states = hostile | st.sampled_from(["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])

    def many(kind: type, most: int, **fields: st.SearchStrategy) -> list:
        drawn = draw(st.lists(st.fixed_dictionaries(fields), max_size=most))
        return [kind(**of_group, **each) for each in drawn]

    names = {"group_instance_id": st.none() | hostile, "client_reason": st.none() | hostile}
    rows = [
        *many(
            Transition,
            8,
            **of_request,
            from_state=states,
            to_state=states,
            reason=hostile,
            cause=st.none() | hostile,
            rebalance_ms=st.none() | st.integers(0, 9_999),
        ),
        *many(
            Join,
            6,
            **of_request,
            **names,
            member_id=member,
            client_id=hostile,
            is_first=st.booleans(),
            join_phase_ms=st.integers(0, 99),
        ),
        *many(
            OffsetChange,
            6,
            **of_request,
            topic=hostile,
            partition=st.integers(0, 20),
            change=hostile | st.just("committed"),
            committed_offset=st.none() | st.integers(0, 9_999),
            client_id=st.none() | hostile,
        ),
        *many(
            GenerationMember,
            6,
            **event,
            member_id=member,
            is_leader=st.booleans(),
            protocol_type=st.sampled_from(["consumer", "units", ""]),
            protocol_name=hostile,
        ),
        *many(
            Membership,
            6,
            **span,
            **names,
            member_id=member,
            client_id=st.none() | hostile,
            client_host=st.none() | hostile,
            reason=st.none() | hostile | st.sampled_from(list(ENDS)),
        ),
        *many(
            Assignment,
            12,
            **span,
            member_id=member,
            generation_id=generation,
            topic=st.none() | hostile,
            partition=st.none() | st.integers(0, 20),
        ),
    ]
    return Story.of_rows(of_group["group_id"], rows)


def check_geometry(drawn: Drawn) -> None:
    """Everything is inside, and no two blocks of a lane have a place in common."""
    _, _, w, h = map(float, (drawn.root.get("viewBox") or "").split())
    for x, y, rect_w, rect_h in drawn.rects():
        assert x >= 0
        assert x + rect_w <= w + 0.01
        assert y + rect_h <= h
        assert rect_w >= 0
    for text in drawn.root.iter(f"{SVG}text"):
        room = width(text.text or "", 9)  # as narrow as letters get
        begin = float(text.get("x", "")) - {"end": room, "middle": room / 2}.get(
            text.get("text-anchor", ""), 0
        )
        assert begin >= -1
        assert begin + room <= w + 1
        assert 0 < float(text.get("y", "")) <= h
    for each in drawn.root.iter():
        for x, y in re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", each.get("transform", "")):
            assert 0 <= float(x) <= w
            assert -1 <= float(y) <= h
    for blocks in drawn.owned().values():
        for (_, end), (begin, _) in zip(sorted(blocks), sorted(blocks)[1:], strict=False):
            assert end <= begin + 0.02


ELEMENTS = {"svg", "style", "defs", "pattern", "g", "path", "rect", "circle", "text", "title"}
ATTRIBUTES = {
    *(
        "aria-label",
        "class",
        "cx",
        "cy",
        "d",
        "fill",
        "font-size",
        "height",
        "id",
        "patternUnits",
        "r",
        "role",
    ),
    *("rx", "text-anchor", "transform", "viewBox", "width", "x", "y"),
}


@pytest.mark.drawn
@given(stories())
def test_whatever_strangers_write_it_is_xml_and_text(story: Story) -> None:
    svg = timeline_svg(story, T0, T0 + seconds(60), max_lanes=3)
    drawn = Drawn(svg.encode().decode())

    assert {each.tag.removeprefix(SVG) for each in drawn.root.iter()} <= ELEMENTS
    assert {name for each in drawn.root.iter() for name in each.attrib} <= ATTRIBUTES
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", svg)
    check_geometry(drawn)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.rows += tag == "tr"

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


@pytest.mark.drawn
@given(stories())
def test_in_html_it_is_text_as_well(story: Story) -> None:
    html = timeline_html(story, T0, T0 + seconds(60))
    tags = Tags()
    tags.feed(html)
    tags.close()

    assert tags.tags <= ELEMENTS | {
        *("html", "head", "meta", "body", "h2", "div", "table", "thead", "tbody", "tr", "th", "td"),
        *("p", "details", "summary", "ol", "li", "span"),
    }
    assert not {name for name in tags.attributes if name.startswith("on") or name in ("src", "href")}
    html.encode()


# -- the table -----------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_rebalance_the_newest_first() -> None:
    tags = Tags()
    tags.feed(rebalances_table(a_days_story(), time_of(0), time_of(25_000)))

    cells = [each.strip() for each in tags.cells if each.strip()]
    # Nobody kept the others waiting, or had a principal, so there are no such columns.
    assert cells[:6] == ["time (UTC)", "cause", "who", "took", "generation", "members"]
    assert [each for each in cells if each.startswith("00:00:") or each == "What happened"][:3] == [
        *("00:00:20.000", "What happened", "00:00:20.000"),
    ]
    row = cells.index("00:00:11.000")
    assert cells[row : row + 7] == [
        *("00:00:11.000", "session expired", "c2", "2 s", "3", "1"),
        "What happened",
    ]
    assert cells[row + 7 : row + 9] == ["00:00:01.000", "c2 joined."]
    assert cells[row + 10 : row + 12] == [
        "00:00:11.000",
        "c2 was removed, because no heartbeat came for a whole session.",
    ]
    assert cells[row + 12].startswith("event orders@11000-0, member c2-")
    # One that has begun before is there, with all of it.
    part = rebalances_table(a_days_story(), time_of(12_000), time_of(13_000))
    assert (part.count("<details"), "00:00:11.000" in part) == (1, True)


def test_who_joined_last_is_in_the_row() -> None:
    story = Story.of_events(GROUP, enumerate(events(a_night())))
    tags = Tags()
    tags.feed(rebalances_table(story, time_of(5_000), time_of(9_000), lambda member_id, name: f"[{name}]"))
    cells = [each.strip() for each in tags.cells if each.strip()]
    assert cells[4] == "last to join"
    assert cells[7:13] == ["00:00:05.000", "leader rejoined", "[c1]", "1.1 s", "[c2] after 1.1 s", "3"]


def test_a_move_that_belongs_to_no_rebalance_has_a_row() -> None:
    story = a_days_story()
    story.transitions.append(
        msgspec.structs.replace(
            story.transitions[-1], at=time_of(24_000), from_state="Empty", to_state="Dead", cause=None
        )
    )
    table = rebalances_table(story, time_of(23_000), time_of(25_000))
    assert "Empty → Dead: " in table
    assert "<details" not in table


def test_who_did_it_is_shown_where_it_is_known() -> None:
    story, since, until = a_days_story(), time_of(11_000), time_of(13_500)
    assert "principal" not in rebalances_table(story, since, until)
    story.transitions[-1].principal = story.joins[-1].principal = "<al\N{RIGHT-TO-LEFT OVERRIDE}ice>"
    until = time_of(21_000)
    shown = r"&lt;al\u202eice&gt;"
    assert f"<td>{shown}</td>" in rebalances_table(story, since, until)
    assert r"requested by <al\u202eice>" in "".join(draw(story, 11, 21).titles())


def test_who_reset_offsets() -> None:
    s = a_day()
    partitions = [{"partition_index": each, "committed_offset": each * 1_000} for each in range(3)]
    topics = [{"name": "<orders>", "partitions": partitions}]
    s.send("offset_commit", "tool", topics=topics, principal="<alice>", reason="<\x1b[2Jb>")
    s.wait(1_000)
    s.delete_offsets({"<orders>": [1]})
    story = Story.of_events(GROUP, enumerate(events(s)))
    tags = Tags()
    tags.feed(resets_table(story, time_of(0), time_of(22_000)))

    cells = [each.strip() for each in tags.cells if each.strip()]
    assert cells[8:] == [
        *("00:00:21.000", "deleted", "<orders> 1"),
        *("00:00:20.000", "set", "<orders> 0-2", "0 - 2,000", "<alice>", "tool", r"<\x1b[2Jb>"),
    ]
    assert resets_table(story, time_of(0), time_of(20_000)) == "", "members commit there"
    assert "&lt;alice&gt;" in timeline_html(story, time_of(0), time_of(22_000))


def test_the_table_of_a_quiet_time_says_so() -> None:
    assert "The group stayed in its state" in rebalances_table(a_days_story(), time_of(5_000), time_of(9_000))


def test_the_table_is_of_bounded_length() -> None:
    table = rebalances_table(a_crowd(1, 1_500, T0, seconds(1)), T0, T0 + timedelta(days=1))

    assert table.count("<details") == 500
    assert "The newest 500 of 1,500." in table


def test_nobody_but_the_page_styles_it() -> None:
    html = timeline_html(a_days_story(), time_of(0), time_of(25_000))

    assert "default-src 'none'; style-src 'unsafe-inline'" in html
    assert "<script" not in html


# -- the lag -----------------------------------------------------------------------------------------------


def lag(*points: tuple[float, int]) -> list[LagPoint]:
    """Second, and records that are left; each tells of the next 40 s, and 1 record is 10 ms old."""
    return [
        LagPoint(
            time_of(0) + seconds(at_s), time_of(0) + seconds(at_s + 40), records, records * 10, at_least=False
        )
        for at_s, records in points
    ]


def line_of(drawn: Drawn) -> list[str]:
    """The runs of the line of the lag."""
    (path,) = (it for it in drawn.root.iter(f"{SVG}path") if it.get("class") == "lag")
    return path.get("d", "").split("M")[1:]


def test_the_lag_is_a_line_on_the_same_axis_with_gaps_where_nothing_was_measured() -> None:
    story = a_days_story()
    bare = Drawn(timeline_svg(story, time_of(0), time_of(0) + seconds(1_000)))
    story.lag = lag((-30, 50), (0, 0), (40, 100), (500, 20), (2_000, 10**9))
    drawn = Drawn(timeline_svg(story, time_of(0), time_of(0) + seconds(1_000)))
    first, second = line_of(drawn)
    xs, ys = zip(*(map(float, dot.split()) for dot in first.split("L")), strict=True)
    # One that was before still held at the begin, and is drawn there together with the first.
    assert list(xs) == pytest.approx([LEFT, LEFT + (RIGHT - LEFT) * 0.04], abs=0.01)
    assert ys[0] > ys[1]
    assert second.split()[0] == f"{(LEFT + RIGHT) / 2:g}"
    assert "up to 100 records" in drawn.texts()
    assert "00:00:40.000\n100 records\n1 s" in drawn.titles()
    # It takes room only where there is something, and members stay below it.
    assert float(drawn.root.get("height", 0)) > float(bare.root.get("height", 0))
    assert "lag" not in bare.texts("n")
    assert [x for x, *_ in drawn.rects("own")] == [x for x, *_ in bare.rects("own")]


def test_a_long_line_is_of_bounded_size_and_keeps_its_peak() -> None:
    story = Story(group_id="g")
    story.lag = lag(*((number / 10, 9_999 if number == 31_234 else number % 7) for number in range(36_000)))
    svg = timeline_svg(story, time_of(0), time_of(0) + seconds(3_600))
    (run,) = line_of(Drawn(svg))
    assert run.count("L") < (RIGHT - LEFT) / 2
    assert "up to 9,999 records" in svg
    assert len(svg) < 60_000


# -- the consumer protocol -----------------------------------------------------------------------------


def test_members_have_their_partitions_one_by_one_and_waits_are_marked() -> None:
    story = Story.of_events(GROUP, enumerate(consumers.events(consumers.a_handover())))
    drawn = draw(story, 0, 25)

    def x(at: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * at / 25, 2)

    lanes = drawn.owned()
    assert [[(a, round(b, 2)) for a, b in lanes[y]] for y in sorted(lanes)] == [
        [(x(1), x(8)), (x(8), x(20))],
        [(x(9), x(21)), (x(21), x(25))],
    ]
    assert [text for text in drawn.texts("o") if text] == [
        *("orders 0-3", "orders 0-1"),
        *("orders 2-3", "orders 0-3"),
    ]
    assert "waits for orders 2-3, which c-m1 still held\n00:00:05.000 - 00:00:08.000 (3 s)" in drawn.titles()
    wait, _legend = (each for each in drawn.root.iter(f"{SVG}path") if each.get("class") == "wait")
    begin, length = re.fullmatch(r"M(\S+) \S+h(\S+)", wait.get("d")).groups()
    assert (float(begin), float(begin) + float(length)) == (x(5), pytest.approx(x(8), abs=0.02))
    for word in ("waits for what another one holds", "reconciling", "owned, by epoch"):
        assert drawn.texts().count(word) >= 1
    assert "epoch 3" in drawn.texts("stable")
    assert "2 members · 3 rebalances (2 joined, 1 left) · the longest took 4,000 ms" in drawn.texts()


def test_a_wait_that_is_not_over_goes_on_to_the_end() -> None:
    events_ = consumers.events(consumers.a_handover())[:13]
    drawn = draw(Story.of_events(GROUP, enumerate(events_)), 0, 25)

    assert "waits for orders 2-3, which c-m1 still holds\nfrom 00:00:05.000 on" in drawn.titles()


def test_why_members_of_the_consumer_protocol_went_has_its_shape() -> None:
    story = Story.of_events(GROUP, enumerate(consumers.events(consumers.a_day_of_troubles())))
    drawn = draw(story, 0, 90)

    assert "not revoked" in drawn.texts()
    assert any("topics changed" in text for text in drawn.texts())
    assert drawn.texts("n") == ["group", "c-m1", "c-m2", "c-m3"], "one that joins again has its lane"
