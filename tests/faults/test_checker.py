"""The checker finds what is wrong: each test spoils a right history in one way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.coordinator_state import faults, scenario
from tests.coordinator_state.observer import Step
from tests.faults import view
from tests.faults.checker import check, figures
from tests.faults.history import History, Written
from tests.faults.notes import Failed, GaveUp, Owned, Sent
from tests.faults.script import SESSION_MS, Script, right_history

A_SECOND_MS = 1_000


@pytest.fixture
def history() -> History:
    return right_history()


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def test_nothing_is_found_in_a_right_history(history: History) -> None:
    assert check(history) == []
    assert figures(history) == {
        "requests": len(history.requests),
        "answers repeated": 1,
        "events repeated": 1,
        "outages": 0,
        "generation_completed": 3,
        "offsets_committed": 2,
        "members removed: session_expired": 1,
    }


def test_it_can_be_kept_in_a_file(history: History) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(history), type=History) == history


# -- how to spoil it -------------------------------------------------------------------------------------


def changed(written: Written, **fields: Any) -> Written:
    value = json.dumps(json.loads(written.value or b"{}") | fields, separators=(",", ":"))
    return written._replace(value=value.encode())


def index(topic: list[Written], **fields: Any) -> int:
    """Where the first record is that has these fields."""
    return next(i for i, it in enumerate(topic) if fields.items() <= json.loads(it.value or b"{}").items())


def change(topic: list[Written], wanted: dict[str, Any], **fields: Any) -> None:
    at = index(topic, **wanted)
    topic[at] = changed(topic[at], **fields)


def write_again(topic: list[Written], wanted: dict[str, Any], **fields: Any) -> None:
    again = changed(topic[index(topic, **wanted)], **fields)
    topic.append(again._replace(offset=topic[-1].offset + 1))


BEAT = {"api": "heartbeat", "error": "NONE"}
FETCH = {"api": "offset_fetch"}
PUT_OFF = {"error": "COORDINATOR_LOAD_IN_PROGRESS", "error_code": 14}
COMMITTED = {"event": "offsets_committed", "generation_id": 2}


def answer_again_otherwise(history: History) -> None:
    write_again(history.responses, BEAT, error="UNKNOWN_MEMBER_ID")


def answer_again_elsewhere(history: History) -> None:
    again = history.responses[index(history.responses, **BEAT)]
    history.responses.append(again._replace(partition=again.partition + 1))


def answer_otherwise(history: History) -> None:
    change(history.responses, BEAT, error="UNKNOWN_MEMBER_ID")


def put_a_heartbeat_off(history: History) -> None:
    change(history.responses, BEAT, **PUT_OFF)


def answer_what_was_put_off(history: History) -> None:
    write_again(history.responses, FETCH, **PUT_OFF)


def leave_unanswered(history: History) -> None:
    del history.responses[index(history.responses, **BEAT)]


def answer_what_was_not_asked(history: History) -> None:
    write_again(history.responses, BEAT, request_id="r99")


def lose_a_reject(history: History) -> None:
    history.rejected.clear()


def reject_a_request(history: History) -> None:
    history.rejected.append(history.rejected[0]._replace(value=b"{}"))


def use_an_event_id_twice(history: History) -> None:
    write_again(history.events, COMMITTED, client_id="somebody else")


def lose_an_event(history: History) -> None:
    del history.events[index(history.events, event="member_added")]


def apply_a_request_twice(history: History) -> None:
    write_again(history.events, {"event": "member_added"}, event_id="requests-0-999-0")


def tell_an_event_otherwise(history: History) -> None:
    change(history.events, {"event": "member_added"}, client_host="elsewhere")


def mix_events_up(history: History) -> None:
    first, second = history.events[3:5]
    history.events[3:5] = [
        second._replace(offset=first.offset),
        first._replace(offset=second.offset),
    ]


def spoil_the_picture(history: History) -> None:
    history.groups.append(changed(history.groups[-1], generation_id=2))


def lose_the_picture(history: History) -> None:
    history.groups.clear()


def bury_the_group(history: History) -> None:
    history.groups.append(history.groups[-1]._replace(value=None))


def picture_a_group_that_never_was(history: History) -> None:
    history.groups.append(history.groups[-1]._replace(key=b"h"))


def set_an_offset_back(history: History) -> None:
    history.offsets.append(changed(history.offsets[-1], committed_offset=10))


def keep_what_was_revoked(history: History) -> None:
    history.notes.remove(next(it for it in history.notes if isinstance(it, GaveUp)))


def own_in_the_same_generation(history: History) -> None:
    owned = next(it for it in history.notes if isinstance(it, Owned) and it.client_id == "b")
    at = history.notes.index(owned)
    history.notes[at] = msgspec.structs.replace(owned, units=["u1"])


def put_out_who_beats(history: History) -> None:
    removed = history.events[index(history.events, event="member_removed")]
    event = json.loads(removed.value or b"{}")
    history.notes += [
        Sent(
            at_ms=event["at_ms"] - ago_ms,
            client_id="b",
            request_id="late",
            api="heartbeat",
            member_id=event["member_id"],
        )
        for ago_ms in range(0, SESSION_MS, 2 * A_SECOND_MS)
    ]
    history.notes.sort(key=lambda note: note.at_ms)


def fail_in_a_client(history: History) -> None:
    history.notes.append(Failed(at_ms=0, client_id="a", error="KeyError()"))


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (answer_again_otherwise, "repeated answers differ"),
        (answer_again_elsewhere, "repeated answers differ"),
        (answer_otherwise, "a request is answered otherwise"),
        (put_a_heartbeat_off, "a request is answered otherwise"),
        (answer_what_was_put_off, "repeated answers differ"),
        (leave_unanswered, "an answer is missing"),
        (answer_what_was_not_asked, "an answer comes from nowhere"),
        (lose_a_reject, "the rejected records are others"),
        (reject_a_request, "the rejected records are others"),
        (use_an_event_id_twice, "two events have one id"),
        (lose_an_event, "an event is missing"),
        (apply_a_request_twice, "an event comes from nowhere"),
        (tell_an_event_otherwise, "an event is another"),
        (mix_events_up, "events are out of order"),
        (spoil_the_picture, "the picture of a group is wrong"),
        (lose_the_picture, "the picture of a group is wrong"),
        (bury_the_group, "the picture of a group is wrong"),
        (picture_a_group_that_never_was, "the picture of a group is wrong"),
        (set_an_offset_back, "an offset is wrong"),
        (keep_what_was_revoked, "a unit has two owners"),
        (own_in_the_same_generation, "a unit has two owners"),
        (put_out_who_beats, "a member is put out although it beats"),
        (fail_in_a_client, "a client failed"),
    ],
)
def test_what_is_wrong_is_found(history: History, spoil: Callable[[History], None], rule: str) -> None:
    spoil(history)

    assert rule in rules(history)


@pytest.mark.parametrize(
    "fault", [faults.grants_all_commits, faults.tells_no_offsets, faults.never_answers_syncs]
)
def test_core_that_is_wrong_is_found(fault: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has decided so both times, so that what was written agrees with its replay."""
    monkeypatch.setattr(scenario, "step", fault)
    monkeypatch.setattr(view, "step", fault)
    s = Script()
    s.join("a")
    s.share("a", a="u1 u2")
    s.commit("a", {"u1": {0: 10}})
    s.commit("a", {"u1": {0: 5}}, generation_id=7)
    s.fetch()
    assert rules(s.history()) == {"the core is wrong"}


# -- what is not wrong -----------------------------------------------------------------------------------


def test_a_question_may_be_put_off(history: History) -> None:
    change(history.responses, FETCH, **PUT_OFF)
    assert rules(history) == set()


def test_a_superseded_sync_needs_no_answer(history: History) -> None:
    answered = {json.loads(it.value or b"{}")["request_id"] for it in history.responses}
    asked = [json.loads(it.value or b"{}") for it in history.requests if it.value != b"this is no request"]

    assert [it["api"] for it in asked if it["request_id"] not in answered] == ["sync_group", "join_group"]
    assert check(history) == []


def test_who_is_put_out_may_believe_that_it_owns(history: History) -> None:
    """A member that was paused for longer than its session."""
    history.notes = [it for it in history.notes if getattr(it, "how", "") != "crashed"]

    assert check(history) == []


def test_who_is_silent_may_be_put_out() -> None:
    """One as a member of a generation, the other before it was told of its first."""
    script = Script()
    script.join("a")
    script.share("a", a="u1")
    script.join("b")
    script.wait(3 * SESSION_MS)

    assert figures(script.history())["members removed: session_expired"] == 2
    assert check(script.history()) == []


def test_who_never_beats_need_not_be_waited_for_in_a_join_phase() -> None:
    """Its session is longer than the time to join again."""
    script = Script()
    script.join("a", session_timeout_ms=60_000, rebalance_timeout_ms=5_000)
    script.share("a", a="u1")
    script.join("b", rebalance_timeout_ms=5_000)
    script.wait(6_000)

    assert figures(script.history())["members removed: not_rejoined"] == 1
    assert check(script.history()) == []


# -- the tables ------------------------------------------------------------------------------------------


def test_an_event_that_is_in_the_table_twice(history: History) -> None:
    history.tables["events"].append(history.tables["events"][3])
    assert rules(history) == {"a row is there twice"}


@pytest.mark.parametrize("table", ["events", "transitions", "joins", "generations", "offsets", "membership"])
def test_a_row_that_is_missing(history: History, table: str) -> None:
    history.tables[table].pop()
    assert rules(history) == {"a row is missing"}


def test_an_assignment_that_is_missing(history: History) -> None:
    history.tables["assignments"].pop()
    assert rules(history) == {"a row is missing", "a member saw something else"}


def test_a_span_that_is_told_to_be_longer(history: History) -> None:
    row = next(it for it in history.tables["assignments"] if it["until"] is not None)
    row["until"] = None
    assert rules(history) == {"a row is missing", "a row comes from nowhere", "spans overlap"}


def test_a_member_that_saw_something_else(history: History) -> None:
    at = next(i for i, it in enumerate(history.notes) if isinstance(it, Owned) and it.units == ["u2"])
    history.notes[at] = msgspec.structs.replace(history.notes[at], units=["u1", "u2"])
    assert "a member saw something else" in rules(history)
