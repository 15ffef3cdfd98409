from __future__ import annotations

import json
import sys

import msgspec
import pytest

from group_coordinator.coordinator_state.events import AnyEvent, OffsetsCommitted
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from group_coordinator.page.memory import LIMITS, Limits, Memory
from tests.coordinator_state.scenario import Scenario
from tests.history.scripts import GROUP, a_day, bodies, events, share
from tests.page.filled import moved, pictures


def stable() -> Scenario:
    """c1 and c2 share two partitions since 1 s."""
    s = Scenario()
    s.at(1_000)
    s.form("c1", "c2")
    s.sync("c1", {"c1": share(0), "c2": share(1)})
    s.sync("c2")
    return s


def filled(s: Scenario, limits: Limits = LIMITS) -> Memory:
    memory = Memory(limits)
    for offset, body in enumerate(bodies(s)):
        memory.take_event(offset, body)
    for picture in pictures(s):
        memory.take_picture(GROUP.encode(), picture)
    return memory


HOSTILE = [b'{"group_id":"\xff"}', b'{"a":"\xff"}', b'{"a":' + b"[" * 100_000]
"""Not UTF-8, or nested deeply: what msgspec has other errors for than its own."""


def test_a_group_in_the_list() -> None:
    (listed,) = filled(stable()).groups()

    assert listed == (GROUP, "Stable", 2, 2, time_of(1_000), "classic")


def test_groups_are_sorted_and_a_tombstone_takes_one_away() -> None:
    memory = Memory()
    for name in ("b", "c", "a"):
        memory.take_picture(name.encode(), moved(pictures(stable()), name, 0)[0])
    memory.take_picture(b"c", None)

    assert [each.group_id for each in memory.groups()] == ["a", "b"]
    assert memory.picture("c") is None
    assert memory.story("c") is None


def story_of(s: Scenario) -> Story:
    """The story of all events but for commits of members."""
    return Story.of_events(GROUP, [each for each in enumerate(events(s)) if is_told(each[1])])


@pytest.mark.parametrize("s", [a_day(), stable()], ids=["gone", "stable"])
def test_the_story_is_that_of_the_events(s: Scenario) -> None:
    assert filled(s).story(GROUP) == story_of(s)


def test_events_that_come_again_after_a_crash_count_once() -> None:
    s = a_day()
    memory = filled(s)
    for offset, body in enumerate(bodies(s)):
        memory.take_event(100 + offset, body)

    assert memory.story(GROUP) == story_of(s)


def test_what_is_no_event_and_no_picture_is_skipped() -> None:
    memory = Memory()
    for junk in (None, b"", b"{", b"[]", b'{"event":"left"}', b"\xff", *HOSTILE):
        memory.take_event(1, junk)
        memory.take_picture(b"g", junk)
    memory.take_picture(b"\xff", None)
    memory.take_picture(None, None)

    assert memory.groups() == []


@pytest.mark.parametrize("at_ms", [-1, 1 << 62, 9_000_000_000_000_000_000])
def test_a_time_that_no_calendar_has_is_an_end_of_it(at_ms: int) -> None:
    memory = Memory()
    picture = json.loads(pictures(stable())[-1])
    memory.take_picture(GROUP.encode(), json.dumps(picture | {"state_timestamp_ms": at_ms}).encode())
    event = {"event": "group_created", "event_id": "e", "group_id": GROUP, "at_ms": at_ms}
    memory.take_event(1, json.dumps(event).encode())

    assert [each.group_id for each in memory.groups()] == [GROUP]
    assert memory.story(GROUP) is not None


def test_what_was_read_and_cannot_be_read_again_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks has less of the stack left than who read."""
    memory = Memory()
    depth = sys.getrecursionlimit() // 2
    deep = b"[" * depth + b"]" * depth
    body = b'{"group_id":"g","state":"Stable","generation_id":1,"protocol_type":null,"protocol_name":null,'
    body += b'"leader":null,"state_timestamp_ms":1,"members":[],"more":' + deep + b"}"
    memory.take_picture(b"g", body)
    memory.take_event(1, b'{"event":"e","event_id":"e","group_id":"g","more":' + deep + b"}")
    assert [each.group_id for each in memory.groups()] == ["g"]

    def look(frames: int) -> None:
        if frames:
            return look(frames - 1)
        assert memory.named("more") == set()
        assert memory.picture("g") is None
        assert memory.story("g") is not None
        return None

    look(depth)


def test_events_of_versions_to_come_are_kept_and_not_told() -> None:
    memory = filled(stable())
    before = memory.story(GROUP)
    memory.take_event(99, msgspec.json.encode({"event_id": "n", "event": "new", "group_id": GROUP}))

    assert memory.story(GROUP) == before


def test_a_group_to_which_nothing_has_happened_lately_is_what_its_picture_says() -> None:
    s = stable()
    memory = Memory()
    memory.take_picture(GROUP.encode(), pictures(s)[0])
    story = memory.story(GROUP)

    assert story is not None
    assert [(each.at, each.to_state, each.generation_id) for each in story.transitions] == [
        (time_of(1_000), "Stable", 2)
    ]
    assert {(each.client_id, each.since, each.until) for each in story.memberships} == {
        ("c1", None, None),
        ("c2", None, None),
    }
    assert {(each.member_id, each.partition, each.since) for each in story.assignments} == {
        (s.ids["c1"], 0, time_of(1_000)),
        (s.ids["c2"], 1, time_of(1_000)),
    }
    assert [each.member_id for each in story.generations if each.is_leader] == [s.ids["c1"]]


def test_members_from_before_the_first_event_get_their_names_from_the_picture() -> None:
    s = stable()
    cut = len(bodies(s))
    s.wait(2_000)
    s.join("c3")
    memory = Memory()
    for offset, body in enumerate(bodies(s)[cut:]):
        memory.take_event(offset, body)
    memory.take_picture(GROUP.encode(), pictures(s)[0])
    story = memory.story(GROUP)

    assert story is not None
    assert {each.client_id: each.since for each in story.memberships} == {
        "c1": None,
        "c2": None,
        "c3": time_of(3_000),
    }
    # They are in a join phase: what the picture has of them is older.
    assert [each.to_state for each in story.transitions] == ["PreparingRebalance"]
    assert story.assignments == []


def test_who_has_gone_does_not_come_back_with_an_older_picture() -> None:
    s = stable()
    older = pictures(s)[0]
    s.leave("c2")
    memory = filled(s)
    memory.take_picture(GROUP.encode(), older)
    story = memory.story(GROUP)

    assert story is not None
    assert {each.client_id: each.reason for each in story.memberships} == {"c1": None, "c2": "left"}


def test_offsets_that_no_member_committed_are_kept_apart() -> None:
    s = stable()
    s.commit("c1", {"t": {0: 1}})
    for client in ("c1", "c2"):
        s.leave(client)
    for offset in range(4):
        s.send("offset_commit", "tool", topics=reset_to(offset), principal="alice")
    s.delete_offsets({"t": [0]}, principal="bob")
    story = filled(s, Limits(count_of_resets=3)).story(GROUP)

    assert story is not None
    assert [(each.change, each.committed_offset, each.principal) for each in story.resets] == [
        ("committed", 2, "alice"),
        ("committed", 3, "alice"),
        ("deleted", None, "bob"),
    ]
    assert story.transitions == Story.of_events(GROUP, enumerate(events(s))).transitions


def test_members_that_always_come_late_leave_room_for_the_rest() -> None:
    s = stable()
    for _ in range(40):
        s.wait(8_500)
        s.heartbeat_of("c1", "c2")
    near = s.happened("session_nearly_expired")
    assert len(near) > 6
    story = filled(s, Limits(count_of_group=20, count_of_near=3)).story(GROUP)

    assert story is not None
    late = [each.event_id for each in story.signs if each.is_late]
    assert late == [each["event_id"] for each in near[-3:]]
    assert story.transitions == story_of(s).transitions


def test_a_commit_is_not_kept_if_a_member_may_have_made_it() -> None:
    event = {"event": "offsets_committed", "group_id": GROUP, "client_id": "", "topics": []}
    memory = Memory()
    for number, member_id in enumerate([None, "c1-a", ""]):
        body = event | {"event_id": f"{number}", "member_id": member_id}
        memory.take_event(number, json.dumps(body).encode())
    assert [each.event_id for each in memory.events(GROUP)] == ["2"]


def reset_to(offset: int) -> list[dict[str, object]]:
    return [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]


def is_told(event: AnyEvent) -> bool:
    return not isinstance(event, OffsetsCommitted)


def test_of_one_group_so_many_events_are_kept_the_newest() -> None:
    s = a_day()
    memory = filled(s, Limits(count_of_group=5))
    told = Story.of_events(GROUP, [each for each in enumerate(events(s)) if is_told(each[1])][-5:])
    story = memory.story(GROUP)

    assert story is not None
    assert story.transitions == told.transitions
    assert len(story.joins) < 3


def test_of_one_group_so_many_bytes_are_kept() -> None:
    memory = Memory(Limits(events_of_group=50_000))
    for number in range(1_000):
        memory.take_event(number, event("g", number, "x" * 1_000))

    assert memory._events.size <= 50_000
    assert len(memory._events.groups["g"]._ids) == len(memory._events.groups["g"].kept)
    story = memory.story("g")
    assert story is not None
    assert len(story.transitions) > 30
    assert story.transitions[-1].at == time_of(999)


def event(group_id: str, number: int, reason: str = "") -> bytes:
    return msgspec.json.encode(
        {
            "event": "state_changed",
            "event_id": f"{group_id}-{number}",
            "at_ms": number,
            "group_id": group_id,
            "generation_id": 1,
            "from": "Stable",
            "to": "PreparingRebalance",
            "reason": reason,
        }
    )


def test_of_all_groups_so_much_is_kept_the_one_that_was_silent_longest_goes() -> None:
    memory = Memory(Limits(events=20_000))
    for number in range(100):
        memory.take_event(number, event("busy", number))
        memory.take_event(number, event(f"g{number}", number))

    assert memory._events.size <= 20_000
    assert memory._events.size == sum(each.size for each in memory._events.groups.values())
    assert memory.story("g99") is not None
    assert memory.story("g1") is None
    assert memory.story("busy") is not None


def test_of_pictures_so_much_is_kept_and_that_some_are_missing_is_known() -> None:
    memory = Memory(Limits(pictures=10_000))
    picture = pictures(stable())
    for number in range(100):
        memory.take_picture(b"", moved(picture, f"g{number:02}", 0)[0])

    kept = [each.group_id for each in memory.groups()]
    assert kept == [f"g{number:02}" for number in range(100 - len(kept), 100)]
    assert memory.has_forgotten
    assert 5 < len(kept) < 20
    assert memory._pictures_size <= 10_000


def test_commits_are_not_kept() -> None:
    s = a_day()
    memory = filled(s)

    kept = {msgspec.json.decode(each.body)["event"] for each in memory._events.groups[GROUP].kept}
    assert "offsets_committed" in {msgspec.json.decode(body)["event"] for body in bodies(s)}
    assert "offsets_committed" not in kept
