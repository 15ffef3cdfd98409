"""The API, asked as a program asks it: without a server, through WSGI."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from group_coordinator.history.errors import HistoryError
from group_coordinator.page import stream as module
from group_coordinator.page.api import OPERATIONS
from group_coordinator.page.app import App
from group_coordinator.page.lags import Measured
from group_coordinator.page.memory import Memory
from tests.page.filled import HOSTILE_GROUP, IMAGE
from tests.page.test_app import (
    NOW,
    Answer,
    Live,
    Past,
    application,
    getter,
    live,
    measured,
    measurements,
    memory,
)
from tests.patience import PATIENCE_S

__all__ = ["live", "memory"]

API = "/api/v1"


class Table:
    """An answer of the history, as Arrow has it."""

    column_names: tuple[str, ...] = ("cause", "rebalances")
    num_rows = 3

    def slice(self, begin: int, length: int) -> Table:
        assert begin == 0
        self._length = length
        return self

    def to_pylist(self) -> list[dict[str, Any]]:
        return [{"cause": f"c{number}", "rebalances": number} for number in range(3)][: self._length]


class Asked(Past):
    """A past that notes the queries it was asked."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.queries: list[str] = []

    def query(self, sql: str, *, most_rows: int) -> Table:
        assert most_rows == 100_000
        self.queries.append(sql)
        return Table()


@pytest.fixture
def past(memory: Memory) -> Asked:
    return Asked(memory)


@pytest.fixture
def app(live: Live, past: Asked) -> App:
    return application(live, measured, lambda: past, measurements=measurements, hosts=["127.0.0.1"])


Ask = Callable[..., Any]


@pytest.fixture
def ask(app: App) -> Ask:
    return asking(app)


def asking(app: App) -> Ask:
    get = getter(app)

    def ask(path: str, status: str = "200 OK", **query: Any) -> Any:
        answer: Answer = get(f"{API}{path}", **query)
        assert answer.status == status, answer.body
        kind = "application/json" if status == "200 OK" else "application/problem+json"
        assert answer.headers["Content-Type"] == kind
        return json.loads(answer.body)

    return ask


def detail(ask: Ask, path: str, status: str, **query: Any) -> str:
    problem = ask(path, status, **query)
    assert problem["status"] == int(status.split(maxsplit=1)[0])
    told: str = problem["detail"]
    return told


# -- groups --------------------------------------------------------------------------------------------------


def test_all_groups_with_their_lag(ask: Ask) -> None:
    answer = ask("/groups", sort="members", order="desc")
    assert answer["matching"] == 2
    assert answer["next_offset"] is None
    hostile, billing = answer["groups"]
    assert (hostile["group_id"], hostile["state"], hostile["members"]) == (HOSTILE_GROUP, "Stable", 2)
    assert hostile["lag"] is None
    assert (billing["group_id"], billing["generation_id"]) == ("billing", 8)
    assert (billing["lag"]["records"], billing["lag"]["trend"]) == (1_234, "growing")
    assert answer["status"]["totals"] == {
        "groups": 2,
        "members": 2,
        "states": {"Empty": 1, "Stable": 1},
        "records": 1_234,
        "measured": 1,
        "sides": {"coordinator": 2},
        "types": {"classic": 2},
    }
    assert [each["group_type"] for each in answer["groups"]] == ["classic", "classic"]


def test_groups_a_part_at_a_time(ask: Ask) -> None:
    first = ask("/groups", limit=1, sort="group_id")
    assert [each["group_id"] for each in first["groups"]] == [HOSTILE_GROUP]
    second = ask("/groups", limit=1, sort="group_id", offset=first["next_offset"])
    assert [each["group_id"] for each in second["groups"]] == ["billing"]
    assert second["next_offset"] is None


def test_the_lag_that_the_coordinator_was_asked_for_says_no_more_than_the_records(live: Live) -> None:
    (billing, _) = asking(application(live))("/groups")["groups"]
    assert billing["lag"] == {
        "records": 1_234,
        "at_ms": round(NOW.timestamp() * 1_000),
        "age_ms": None,
        "error_ms": None,
        "at_least": False,
        "trend": None,
        "clear_in_ms": None,
        "lost_records": 0,
        "lost_in_ms": None,
    }


def test_the_coordinator_is_not_asked_about_groups_that_are_measured(live: Live, memory: Memory) -> None:
    asked: list[str | None] = []

    def lag_of(group_id: str | None) -> Measured | None:
        asked.append(group_id)
        return measured(group_id)

    ask = asking(application(live, lag_of, measurements=measurements))
    assert ask("/groups")["lag_asked"] == {"at_ms": round(NOW.timestamp() * 1_000), "problem": None}
    assert asked == [None]

    live.memory = Memory()
    live.memory.take_picture(b"billing", memory._pictures["billing"][1])
    answer = ask("/groups")
    assert answer["groups"][0]["lag"]["trend"] == "growing"
    assert answer["lag_asked"] is None
    assert asked == [None]


def test_a_group_has_its_members_and_what_they_own(ask: Ask) -> None:
    answer = ask("/group", group_id=HOSTILE_GROUP)
    members = [each["member_id"] for each in answer["group"]["members"]]
    assert len(members) == 2
    assert {each: len(answer["owned"][each]) for each in members} == dict.fromkeys(members, 6)
    assert all(topic == "orders" for owned in answer["owned"].values() for topic, _ in owned)


def test_the_lag_of_a_group_as_asked_for_and_as_measured(ask: Ask) -> None:
    answer = ask("/group/lag", group_id="billing")
    (partition,) = answer["asked"]["partitions"]
    assert partition["topic"] == IMAGE
    assert (partition["committed_offset"], partition["log_end_offset"], partition["lag"]) == (
        1_000,
        2_234,
        1_234,
    )
    assert answer["measured"]["trend"] == "growing"
    assert answer["points"][-1]["records"] == 1_234


def test_why_the_lag_cannot_be_asked_for(live: Live) -> None:
    failed = asking(application(live, lambda _: Measured(NOW, problem="no answer")))
    assert failed("/group/lag", group_id="billing")["asked"]["problem"] == "no answer"
    busy = asking(application(live, lambda _: None))
    assert "ask again" in busy("/group/lag", group_id="billing")["asked"]["problem"]


def test_what_happened_to_a_group_as_data(ask: Ask, past: Asked) -> None:
    query = {"group_id": "billing", "from_": "2026-01-31T11:00:00Z", "to": "2026-01-31T12:00:00Z"}
    answer = ask("/group/timeline", **query)
    assert (answer["since"], answer["until"]) == ("2026-01-31T11:00:00Z", "2026-01-31T12:00:00Z")
    assert len(answer["story"]["memberships"]) == 7
    assert past.asked == []

    ask("/group/timeline", **query, past="true")
    assert past.asked == [("billing", NOW - timedelta(hours=1), NOW)]


@pytest.mark.parametrize("path", ["/group", "/group/lag", "/group/timeline"])
def test_a_group_that_nobody_knows(ask: Ask, path: str) -> None:
    assert "'nobody'" in detail(ask, path, "404 Not Found", group_id="nobody")


def test_the_status_says_what_is_wrong(live: Live) -> None:
    live.problem = "Kafka cannot be read"
    status = asking(application(live))("/status")
    assert (status["problem"], status["bootstrap_servers"]) == ("Kafka cannot be read", "kafka:9092")
    assert status["coordinator_silent_ms"] is None

    live.problem = None
    tick = SimpleNamespace(value=b'{"tick":7}', timestamp=round(NOW.timestamp() * 1_000) - 34_000)
    live.pulse.take(tick, NOW, is_new=False)
    status = asking(application(live))("/status")
    assert status["coordinator_silent_ms"] == 34_000
    assert "no coordinator has run since" in status["problem"]


# -- events --------------------------------------------------------------------------------------------------


def test_events_a_part_at_a_time(ask: Ask, memory: Memory) -> None:
    every = [msgspec.json.decode(each.body) for each in memory.events("billing")]
    found: list[Any] = []
    after = ""
    while after is not None:
        answer = ask("/group/events", group_id="billing", limit=7, after=after)
        found += answer["events"]
        after = answer["next_after"]
    assert found == every
    assert len({each["event_id"] for each in found}) == len(found)


def test_events_since_a_moment(ask: Ask) -> None:
    since = "2026-01-31T11:50:00Z"
    events = ask("/group/events", group_id="billing", since=since, limit=1000)["events"]
    assert events
    assert all(each["at_ms"] >= round((NOW - timedelta(minutes=10)).timestamp() * 1_000) for each in events)
    # A place that is no longer known counts as none.
    assert ask("/group/events", group_id="billing", since=since, limit=1000, after="gone")["events"] == events


class Listener:
    """Takes the parts of a stream."""

    def __init__(self, app: App, last_event_id: str = "", **query: Any) -> None:
        environ = {
            "REQUEST_METHOD": "GET",
            "HTTP_HOST": "127.0.0.1",
            "PATH_INFO": f"{API}/group/events/stream",
            "QUERY_STRING": "&".join(f"{name}={value}" for name, value in query.items()),
            "HTTP_LAST_EVENT_ID": last_event_id,
        }
        self.status = ""
        self.headers: dict[str, str] = {}
        self._parts: Any = app(environ, self._begin)

    def _begin(self, status: str, headers: list[tuple[str, str]], _: Any = None) -> Any:
        self.status, self.headers = status, dict(headers)

    def part(self) -> str:
        part: bytes = next(iter(self._parts))
        return part.decode()

    def event(self) -> dict[str, Any]:
        id_line, data, *end = self.part().split("\n")
        assert end == ["", ""]
        event: dict[str, Any] = json.loads(data.removeprefix("data: "))
        assert id_line == f"id: {event['event_id']}"
        return event

    def close(self) -> None:
        self._parts.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)


def added(memory: Memory, number: int) -> dict[str, Any]:
    event = {"event_id": f"n{number}", "event": "new_kind", "group_id": "g", "at_ms": 1_000 * number}
    memory.take_event(number, msgspec.json.encode(event))
    return event


@pytest.mark.usefixtures("quick")
def test_a_stream_has_what_comes(live: Live, app: App) -> None:
    live.memory = Memory()
    added(live.memory, 1)
    listener = Listener(app, group_id="g")
    assert listener.status == "200 OK"
    assert listener.headers["Content-Type"] == "text/event-stream"
    assert "Content-Length" not in listener.headers
    assert listener.part() == "retry: 2000\n\n"
    second = added(live.memory, 2)
    assert listener.event() == second
    # After Kafka was away the same is read again, and has what came meanwhile.
    live.memory = Memory()
    for number in (1, 2):
        added(live.memory, number)
    third = added(live.memory, 3)
    assert listener.event() == third
    listener.close()


@pytest.mark.usefixtures("quick")
def test_a_stream_begins_where_it_is_asked_to(live: Live, app: App) -> None:
    live.memory = Memory()
    events = [added(live.memory, number) for number in range(1, 6)]
    for begin, first in (
        ({"since": "1970-01-01T00:00:03Z"}, events[2]),
        ({"last_event_id": "n4"}, events[4]),
        ({"after": "n3", "last_event_id": "n1"}, events[1]),
        ({"last_event_id": "gone", "since": "1970-01-01T00:00:05Z"}, events[4]),
    ):
        listener = Listener(app, group_id="g", **begin)
        listener.part()
        assert listener.event() == first
        listener.close()


def test_a_silent_stream_shows_that_it_is_there(monkeypatch: pytest.MonkeyPatch, app: App) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.001)
    monkeypatch.setattr(module, "_SILENCE_S", 0.002)
    listener = Listener(app, group_id="g")
    assert [listener.part(), listener.part()] == ["retry: 2000\n\n", ":\n\n"]
    listener.close()


@pytest.mark.usefixtures("quick")
def test_so_many_streams_at_once_and_no_more(app: App) -> None:
    listeners = [Listener(app, group_id="g") for _ in range(module.MOST_STREAMS)]
    refused = Listener(app, group_id="g")
    assert refused.status == "503 Service Unavailable"
    assert "64 streams are open" in refused.part()
    assert refused.headers["Retry-After"] == "5"
    # HEAD begins none, and the end of one makes room, also if nothing was read of it.
    assert getter(app)(f"{API}/group/events/stream", "HEAD", group_id="g").status.startswith("503")
    listeners[0].close()
    listeners[0].close()
    assert getter(app)(f"{API}/group/events/stream", "HEAD", group_id="g").status == "200 OK"
    assert Listener(app, group_id="g").status == "200 OK"
    assert Listener(app, group_id="g").status.startswith("503")


@pytest.mark.usefixtures("quick")
def test_streams_end_with_the_server(app: App) -> None:
    with app.streaming():
        listener = Listener(app, group_id="g")
        listener.part()
        ended = threading.Event()

        def listen() -> None:
            with pytest.raises(StopIteration):
                listener.part()
            ended.set()

        thread = threading.Thread(target=listen)
        thread.start()
    assert ended.wait(PATIENCE_S)
    thread.join()


# -- the history ---------------------------------------------------------------------------------------------


def test_groups_of_the_history(ask: Ask) -> None:
    answer = ask("/history/groups", limit=2)
    assert len(answer["group_ids"]) == 2
    assert (answer["matching"], answer["next_offset"]) == (3, 2)
    assert answer["reaches_to"] == "2026-01-31T11:50:00Z"
    assert ask("/history/groups", q="gone")["group_ids"] == ["gone"]


def test_a_question_about_the_past(ask: Ask, past: Asked) -> None:
    answer = ask("/history", group_id="it's", question="causes", from_="2026-01-30T00:00:00Z", limit=2)
    assert answer["columns"] == ["cause", "rebalances"]
    assert answer["rows"] == [{"cause": "c0", "rebalances": 0}, {"cause": "c1", "rebalances": 1}]
    assert answer["is_complete"] is False
    (sql,) = past.queries
    assert "group_id = 'it''s'" in sql
    assert "TIMESTAMP '2026-01-30 00:00:00.000+00:00'" in sql

    ask("/history", group_id="g", question="assignments", at="2026-01-30T00:00:00Z", topic="t", partition=3)
    assert "topic = 't' AND partition = 3" in past.queries[-1]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"question": "causes", "at": "2026-01-30"}, "at cannot be asked with causes"),
        ({"question": "states", "member": "m"}, "member cannot be asked with states"),
        ({"question": "assignments", "partition": "3"}, "partition needs topic"),
        ({"at": "2026-01-30", "to": "2026-01-31"}, "at cannot be asked with from and to"),
        ({"from": "2026-01-31", "to": "2026-01-30"}, "and ends before"),
        ({"question": "why"}, "question must be one of assignments, causes"),
        ({"from": "soon"}, "from must be a time in UTC"),
    ],
)
def test_a_question_that_cannot_be_asked(ask: Ask, query: dict[str, str], why: str) -> None:
    given = {f"{name}_" if name == "from" else name: value for name, value in query.items()}
    assert why in detail(ask, "/history", "400 Bad Request", group_id="g", **given)


def test_a_history_that_cannot_be_read(live: Live) -> None:
    def past() -> Past:
        raise HistoryError("there is no table")

    assert detail(asking(application(live, past=past)), "/history/groups", "503 Service Unavailable") == (
        "there is no table"
    )
    without = asking(application(live))
    assert "history.path" in detail(without, "/history", "503 Service Unavailable", group_id="g")


# -- what is refused, and how it is described ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "why"),
    [
        ("/group", {}, "group_id must be given"),
        ("/groups", {"limit": "many"}, "limit must be a number from 1 to 1,000"),
        ("/groups", {"colour": "red"}, "there is no 'colour' here: q, state"),
        ("/group/timeline", {"group_id": "g", "past": "maybe"}, "past must be true or false"),
        ("/group/timeline", {"group_id": "g", "to": "9999-12-31T23:59"}, "to must be a time in UTC"),
        ("/group/events", {"group_id": "g", "since": "now"}, "since must be a time in UTC"),
    ],
)
def test_an_address_that_is_wrong(ask: Ask, path: str, query: dict[str, str], why: str) -> None:
    assert why in detail(ask, path, "400 Bad Request", **query)


def test_what_is_refused_is_refused_in_json(app: App, ask: Ask) -> None:
    assert "/api/v1/openapi.json" in detail(ask, "/nothing", "404 Not Found")
    get = getter(app)
    for answer in (get(f"{API}/groups", "POST"), get(f"{API}/groups", host="evil.example")):
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert json.loads(answer.body)["status"] == int(answer.status.split()[0])
        assert "billing" not in answer.body


@pytest.fixture(scope="module")
def description(memory: Memory) -> Any:
    live = Live()
    live.memory = memory
    return json.loads(getter(application(live))(f"{API}/openapi.json").body)


def test_the_description_is_whole(description: dict[str, Any]) -> None:
    assert description["openapi"] == "3.1.0"
    assert set(description["paths"]) == {f"{API}{each.path}" for each in OPERATIONS}
    operations = [each["get"] for each in description["paths"].values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    for parameter in (it for each in operations for it in each["parameters"]):
        assert set(parameter) == {"name", "in", "required", "description", "schema"}
        assert parameter["description"] or parameter["name"] == "order"
        Draft202012Validator.check_schema(parameter["schema"])
    schemas = description["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    # Whatever is referred to is there.
    referred = set(
        re.findall(r'"\$ref":"#/components/schemas/(\w+)"', msgspec.json.encode(description).decode())
    )
    assert referred <= set(schemas)
    assert {"Groups", "Group", "GroupLag", "Timeline", "Events", "HistoryAnswer", "Problem"} <= referred


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/status", {}),
        ("/groups", {}),
        ("/group", {"group_id": HOSTILE_GROUP}),
        ("/group/lag", {"group_id": "billing"}),
        ("/group/timeline", {"group_id": "billing"}),
        ("/group/events", {"group_id": "billing"}),
        ("/history/groups", {}),
        ("/history", {"group_id": "billing"}),
    ],
)
def test_answers_are_as_they_are_described(
    description: dict[str, Any], ask: Ask, path: str, query: dict[str, str]
) -> None:
    content = description["paths"][f"{API}{path}"]["get"]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"] | {"components": description["components"]}
    Draft202012Validator(schema).validate(ask(path, **query))
    assert list(Draft202012Validator(schema).iter_errors({"nonsense": 1}))
