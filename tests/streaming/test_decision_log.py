from __future__ import annotations

import base64
import io
import json
import pickle
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import structlog

from group_coordinator.coordinator_state.clocks import Span
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import StepResult, step
from group_coordinator.streaming.decision_log import _LINES, DecisionLog
from tests.coordinator_state.scenario import GROUP, OLD, SECRET, TOPIC, Scenario
from tests.coordinator_state.test_fuzz import VALID
from tests.history.consumers import a_handover

FORMS = ("logfmt", "json")


def decided(s: Scenario) -> StepResult:
    """All that a script has brought about, as one call."""
    return step(GROUP.encode(), None, s.log, s.now, s.config, SECRET)


def written(result: StepResult, level: str = "info", form: str = "json") -> str:
    file = io.BytesIO()
    DecisionLog(level, form, file).write(result)
    return file.getvalue().decode()


def lines(result: StepResult, level: str = "info") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in written(result, level).splitlines()]
    for line in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    return found


def logfmt(result: StepResult, level: str = "info") -> list[str]:
    return [line.partition(" ")[2] for line in written(result, level, "logfmt").splitlines()]


def a_rebalance() -> tuple[Scenario, str]:
    """One member joins, syncs, commits, and falls silent. Its id, too."""
    s = Scenario(OLD)
    s.at(1_000)
    s.join("c1", client_host="10.0.0.7")
    s.sync("c1")
    s.commit("c1", {"t": {0: 5, 1: 6}, "u": {0: 7}})
    s.heartbeat("c1")
    s.at(11_000)
    return s, s.ids["c1"]


# -- the lines -------------------------------------------------------------------------------------------


def test_on_a_terminal_a_line_has_what_happened_and_why() -> None:
    s, _ = a_rebalance()
    s.heartbeat("c1")
    lines = written(decided(s), form="short").splitlines()

    assert all(re.match(r"(\d\d:\d\d:\d\d| {8}) ", line) for line in lines)
    shown = [re.sub(r"c1-[0-9a-f]{4}…", "c1-…", line[9:]) for line in lines]
    assert shown == [
        "orders: group created",
        "orders: member added: c1-…",
        "orders: Empty -> PreparingRebalance: c1-… joined",
        "orders: PreparingRebalance -> CompletingRebalance: the initial",
        "rebalance delay is over",
        "orders: generation 1 completed: leader c1-…",
        "orders: CompletingRebalance -> Stable: the leader's assignment arrived",
        "orders: member removed: c1-…, session_expired",
        "orders: Stable -> PreparingRebalance: session of c1-… expired",
        "orders: PreparingRebalance -> Empty: no members are left",
        "warning: orders: request refused: c1-…, heartbeat,",
        "UNKNOWN_MEMBER_ID",
    ]


def test_what_changes_a_group_is_told_at_info() -> None:
    s, member = a_rebalance()
    asked = f"group=orders member={member} request_id=c1-0 generation=0 at_ms=1000 event_id=requests-0-0"
    moved = "level=info event=state_changed group=orders"
    synced = f"{moved} request_id=c1-1 generation=1 at_ms=1000"

    assert logfmt(decided(s)) == [
        (
            "level=info event=group_created group=orders request_id=c1-0 generation=0 at_ms=1000 "
            "event_id=requests-0-0-0"
        ),
        f"level=info event=member_added {asked}-1 client_id=c1 client_host=10.0.0.7 join_phase_ms=0",
        (
            f"{moved} request_id=c1-0 generation=0 at_ms=1000 event_id=requests-0-0-2 "
            f'from=Empty to=PreparingRebalance reason="{member} joined" cause=member_joined'
        ),
        (
            f"{moved} request_id=c1-0 generation=1 at_ms=1000 event_id=requests-0-0-3 "
            'from=PreparingRebalance to=CompletingRebalance reason="the initial rebalance delay is over"'
        ),
        (
            "level=info event=generation_completed group=orders request_id=c1-0 generation=1 at_ms=1000 "
            f"event_id=requests-0-0-4 protocol_type=consumer protocol_name=range leader={member} members=1"
        ),
        (
            f"{synced} event_id=requests-0-1-0 from=CompletingRebalance "
            'to=Stable reason="the leader\'s assignment arrived" cause=member_joined rebalance_ms=0'
        ),
        (
            f"level=info event=member_removed group=orders member={member} generation=1 at_ms=11000 "
            "event_id=orders@11000-0 client_id=c1 reason=session_expired"
        ),
        (
            f"{moved} generation=1 at_ms=11000 event_id=orders@11000-1 from=Stable to=PreparingRebalance "
            f'reason="session of {member} expired" cause=session_expired'
        ),
        (
            f"{moved} generation=2 at_ms=11000 event_id=orders@11000-2 from=PreparingRebalance to=Empty "
            'reason="no members are left" cause=session_expired rebalance_ms=0'
        ),
    ]


def test_json_has_the_same_fields() -> None:
    s, member = a_rebalance()
    (added,) = [line for line in lines(decided(s)) if line["event"] == "member_added"]

    assert list(added.items()) == [
        ("level", "info"),
        ("event", "member_added"),
        ("group", "orders"),
        ("member", member),
        ("request_id", "c1-0"),
        ("generation", 0),
        ("at_ms", 1_000),
        ("event_id", "requests-0-0-1"),
        ("client_id", "c1"),
        ("client_host", "10.0.0.7"),
        ("join_phase_ms", 0),
    ]


def test_what_comes_often_is_told_at_debug() -> None:
    s, member = a_rebalance()
    asked = f"group=orders member={member} request_id=c1"
    answered = f"level=debug event=request_answered {asked}"

    assert [line for line in logfmt(decided(s), "debug") if "level=debug" in line] == [
        (
            "level=debug event=assignment_propagated group=orders request_id=c1-1 generation=1 at_ms=1000 "
            "event_id=requests-0-1-1 protocol_type=consumer assignments=1"
        ),
        (
            f"level=debug event=offsets_committed {asked}-2 generation=1 at_ms=1000 event_id=requests-0-2-0 "
            "client_id=c1 topics=2"
        ),
        f"{answered}-0 client_id=c1 api=join_group error=NONE",
        f"{answered}-1 client_id=c1 api=sync_group error=NONE",
        f"{answered}-2 client_id=c1 api=offset_commit error=NONE",
        f"{answered}-3 client_id=c1 api=heartbeat error=NONE",
    ]


def test_a_clock_that_is_wrong_is_told_with_the_request_that_shows_it() -> None:
    s = Scenario(OLD)
    s.at(1_000)
    s.join("c1")
    span = Span(watermark_ms=9_000, earliest_ms=6_000, latest_ms=13_550, planned_ms=10_050)
    result = step(GROUP.encode(), None, s.log, 9_000, s.config, SECRET, span=span)
    corrected, created, *_ = logfmt(result)

    assert corrected == (
        "level=info event=clock_corrected group=orders generation=0 at_ms=10050 "
        "event_id=requests-0-0-clock-0 partition=0 offset=0 appended_ms=1000 shift_ms=9050 skipped_ms=1050"
    )
    assert "event=group_created" in created
    assert "orders: clock corrected" in written(result, form="short")


@pytest.mark.parametrize("level", ["warning", "error"])
def test_at_a_higher_level_all_is_quiet_while_all_is_well(level: str) -> None:
    assert written(decided(a_rebalance()[0]), level) == ""


def test_at_info_a_thousand_heartbeats_say_nothing() -> None:
    s = Scenario(OLD)
    s.stabilise("c1")
    beats = [record("heartbeat", number, member_id=s.ids["c1"], generation_id=1) for number in range(1_000)]
    result = step(GROUP.encode(), s.state, beats, 0, s.config, SECRET)

    assert [reply.response.error for reply in result.replies] == ["NONE"] * 1_000
    assert written(result) == ""
    assert len(lines(result, "debug")) == 1_000


def record(api: str, number: int, **fields: Any) -> Record:
    request = {"api": api, "request_id": f"r{number}", "client_id": f"c{number}", "group_id": GROUP}
    return Record(TOPIC, 0, 100 + number, 2_000, GROUP.encode(), msgspec.json.encode(request | fields))


def test_every_kind_of_event_has_a_line() -> None:
    assert set(_LINES) == set(get_args(AnyEvent))


def test_a_group_of_the_consumer_protocol_is_told_without_what_its_members_read() -> None:
    told = [line for result in a_handover().results for line in lines(result)]

    assert [line["event"] for line in told if line.get("generation") == 3] == [
        *("state_changed", "target_assigned", "state_changed", "state_changed", "member_removed"),
    ]
    (target,) = [line for line in told if line["event"] == "target_assigned" and line["generation"] == 3]
    assert (target["assignment_epoch"], target["protocol_name"], target["assignments"]) == (3, "uniform", 2)
    assert "revoking" not in str([lines(result, "debug") for result in a_handover().results])


def test_members_of_the_consumer_protocol_that_are_refused_in_an_answer_to_several() -> None:
    group = a_handover()
    members = [{"member_id": it, "member_epoch": 1} for it in ("m2", "m8", "m9")]
    beat = record("consumer_group_heartbeat", 99, members=members)
    result = step(GROUP.encode(), group.state, [beat], group.now, group.config, SECRET)

    told = [line for line in lines(result, "warning") if line["event"] == "request_refused"]
    assert [(it["member"], it["error"], it["count"]) for it in told] == [
        ("m2", "FENCED_MEMBER_EPOCH", 1),
        ("m8", "UNKNOWN_MEMBER_ID", 2),
    ]


def test_a_batch_that_runs_again_says_the_same() -> None:
    s, _ = a_rebalance()

    assert lines(decided(s), "debug") == lines(decided(s), "debug")


# -- what is refused -------------------------------------------------------------------------------------


def test_a_flood_of_refusals_is_one_line_for_each_kind() -> None:
    s = Scenario()
    for number in range(500):
        s.send("heartbeat", f"c{number}", member_id=f"m{number}", generation_id=1)
        s.send("join_group", f"c{number}", session_timeout_ms=1, protocol_type="consumer", protocols=[])

    assert logfmt(decided(s)) == [
        (
            "level=warning event=request_refused group=orders member=m0 request_id=c0-0 client_id=c0 "
            "api=heartbeat error=UNKNOWN_MEMBER_ID count=500"
        ),
        (
            "level=warning event=request_refused group=orders request_id=c0-1 client_id=c0 api=join_group "
            "error=INVALID_SESSION_TIMEOUT "
            'error_message="session_timeout_ms must be between 6000 and 1800000" count=500'
        ),
    ]
    assert written(decided(s), "error") == ""


def test_members_that_are_refused_in_an_answer_to_several() -> None:
    s = Scenario(OLD)
    s.join("c1")
    s.heartbeat_of("c1", members=[{"member_id": it, "generation_id": 1} for it in (s.ids["c1"], "m1", "m2")])
    s.send("leave_group", "c1", members=[{"member_id": "m3"}], api_version=3)

    told = [line for line in lines(decided(s), "warning") if line["event"] == "request_refused"]
    assert [(it["member"], it["api"], it["error"], it["count"]) for it in told] == [
        ("m1", "heartbeat", "UNKNOWN_MEMBER_ID", 2),
        ("m3", "leave_group", "UNKNOWN_MEMBER_ID", 1),
    ]


def test_a_flood_of_records_that_cannot_be_read_is_one_line() -> None:
    s = Scenario()
    for number in range(500):
        s.log.append(record("fly", 2 * number, request_id="r" * 2_000))
        s.log.append(record("", 2 * number + 1)._replace(value=b"\xff" * 7))

    (line,) = lines(decided(s))
    assert line == {
        "level": "warning",
        "event": "record_rejected",
        "group": "orders",
        "request_id": "r" * 1_000,
        "at_ms": 2_000,
        "record": "requests-0-100",
        "value_bytes": len(s.log[0].value or b""),
        "count": 1_000,
    }
    assert {line["api"] for line in lines(decided(s), "debug")[:-1]} == {"unreadable"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", [None, -1, 0, 99])
@pytest.mark.parametrize("request_", VALID, ids=lambda it: it["api"])
def test_any_request_of_any_version_can_be_told(request_: dict[str, Any], version: int, form: str) -> None:
    value = json.dumps(request_ | {"api_version": version}).encode()
    record = Record(TOPIC, 0, 7, 5, request_["group_id"].encode(), value)
    result = step(record.key, None, [record], 0, Scenario().config, SECRET)

    told = written(result, "debug", form)
    # What a watcher says of topics is not answered, and of no group there is nothing to say.
    assert told or request_["api"] == "topic_metadata"
    assert "UNSET" not in told


def test_who_is_refused_for_the_version_is_told_if_it_is_one() -> None:
    s = Scenario(OLD)
    s.heartbeat("c1", member_id="m1", generation_id=1, api_version=99)
    s.heartbeat_of("c1", "c2", api_version=98)
    s.leave("c1", members=[{"member_id": "m2"}], api_version=99)

    assert [(it["api"], it.get("member"), it["count"]) for it in lines(decided(s), "warning")] == [
        ("heartbeat", "m1", 2),
        ("leave_group", "m2", 1),
    ]


def test_a_record_without_key_and_value_is_told_too() -> None:
    result = step(None, None, [Record(TOPIC, 0, 7, 5, None, None)], 0, Scenario().config, SECRET)

    assert logfmt(result) == [
        "level=warning event=record_rejected group= at_ms=5 record=requests-0-7 value_bytes=0 count=1"
    ]


def test_what_belongs_to_a_rebalance_is_no_warning() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.ask("c3")
    s.join("c1", protocols={"range": b"other"})
    s.heartbeat("c2")
    s.join("c2")
    s.heartbeat("c1", generation_id=1)
    s.send("describe_group", "tool")
    s.send("sync_group", "c1", member_id=s.ids["c1"], generation_id=1)
    s.heartbeat("c1", generation_id=99)
    told = lines(decided(s), "debug")

    assert {line["error"] for line in told if line["event"] == "request_answered"} >= {
        "MEMBER_ID_REQUIRED",
        "REBALANCE_IN_PROGRESS",
        "ILLEGAL_GENERATION",
    }
    assert [
        line for line in told if line["level"] == "warning" and line["error"] != "INCONSISTENT_GROUP_PROTOCOL"
    ] == []


def test_a_commit_that_came_too_late_is_a_warning() -> None:
    s = Scenario()
    s.stabilise("c1")
    s.commit("c1", {"t": {0: 1}}, generation_id=0)

    assert [(line["api"], line["error"], line["member"]) for line in lines(decided(s), "warning")] == [
        ("offset_commit", "ILLEGAL_GENERATION", s.ids["c1"])
    ]


# -- what strangers may call themselves ------------------------------------------------------------------

HOSTILE = [
    "a\nlevel=error event=fired",
    "a\r\n{}",
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m",
    "\x7f\x08\x08",
    "\u2028\u2029\x85",
    "\u202egnp.exe",
    "\U000e0001",
    'q" level="error',
    'back\\slash" =',
    "\t\x00",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("form", FORMS)
def test_no_name_gets_out_of_its_line(name: str, form: str) -> None:
    s = Scenario()
    s.join(name, client_host=name, reason=name, group_instance_id=name)
    s.send("heartbeat", name, request_id=name, member_id=name, generation_id=1)
    s.log.append(record(name, 0, request_id=name, client_id=name))
    text = written(decided(s), "debug", form)
    told = text.split("\n")

    assert len(told) == len(lines(decided(s), "debug")) + 1 > 8
    assert told.pop() == ""
    for line in told:
        assert line.isprintable()
        assert line.startswith(("timestamp=2", '{"timestamp":"2'))
    if form == "json":
        refused = next(it for it in lines(decided(s)) if it["event"] == "request_refused")
        assert (refused["member"], refused["request_id"], refused["client_id"]) == (name, name, name)
    else:
        assert all(re.match(r"\S+ level=(info|debug|warning) event=\w+ group=", line) for line in told)


def test_a_made_up_member_id_is_cut_off() -> None:
    s = Scenario()
    s.send("heartbeat", "c1", member_id="m" * 100_000, generation_id=1)

    (line,) = lines(decided(s))
    assert line["member"] == "m" * 1_000


# -- what is nobody's business ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_what_members_tell_each_other_is_told_nowhere(form: str) -> None:
    private = {name: f"private-{name}" for name in ("metadata", "assignment", "note", "value", "field")}
    s = Scenario(OLD)
    s.join("c1", protocols={"range": private["metadata"].encode()})
    assignments = [
        {"member_id": s.ids["c1"], "assignment": base64.b64encode(private["assignment"].encode()).decode()}
    ]
    s.send("sync_group", "c1", member_id=s.ids["c1"], generation_id=1, assignments=assignments)
    s.commit("c1", {"t": {0: {"committed_offset": 1, "committed_metadata": private["note"]}}})
    s.log.append(record("heartbeat", 1, **{private["field"]: private["value"]}))
    s.log.append(record(private["value"], 2))
    result = decided(s)
    text = written(result, "debug", form)

    assert {"assignment_propagated", "offsets_committed", "record_rejected"} <= {
        line["event"] for line in lines(result, "debug")
    }
    for secret in private.values():
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in text


# -- where it is used ------------------------------------------------------------------------------------


def test_it_can_be_shipped_and_writes_to_the_stderr_there(capfdbinary: Any, monkeypatch: Any) -> None:
    log = pickle.loads(pickle.dumps(DecisionLog("info", "logfmt")))
    with open(2, "wb", closefd=False) as stderr:
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(stderr))
        log.write(decided(a_rebalance()[0]))
        monkeypatch.undo()

    assert capfdbinary.readouterr().err.count(b"\n") == 9


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    full = Path("/dev/full").open("wb")  # noqa: SIM115 - closing it fails, too
    s, _ = a_rebalance()
    try:
        DecisionLog("info", "json", full).write(decided(s))
        with pytest.raises(OSError, match="No space left"):
            full.flush()
    finally:
        with suppress(OSError):
            full.close()


def test_somebody_elses_structlog_stays_as_it_is() -> None:
    before = structlog.get_config()
    written(decided(a_rebalance()[0]))

    assert not structlog.is_configured()
    assert structlog.get_config() == before
