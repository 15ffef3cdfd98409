"""The API: what the page knows, as JSON. `OPERATIONS` is all of it; `openapi` describes it to programs.

It stands below `/api/v1`. Fields may be added there. Any other change gets another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from group_coordinator.page.answers import (
    Events,
    Group,
    GroupLag,
    Groups,
    HistoryAnswer,
    HistoryGroups,
    Problem,
    Status,
    Timeline,
)
from group_coordinator.page.queries import (
    EventsQuery,
    GroupQuery,
    GroupsQuery,
    HistoryGroupsQuery,
    HistoryQuery,
    NoQuery,
    TimelineQuery,
)
from group_coordinator.page.questions import FAILURES
from group_coordinator.page.sides import Sides
from group_coordinator.page.stream import Streams, TooManyStreamsError
from group_coordinator.page.web import Answer, Query, asked

PREFIX = "/api/v1"
JSON, PROBLEM, STREAM = "application/json", "application/problem+json", "text/event-stream"
_FAILURES = FAILURES | {TooManyStreamsError: HTTPStatus.SERVICE_UNAVAILABLE}


class Operation(NamedTuple):
    """An address of the API. `query`: what can be asked; `answer`: a type, or the type of each event."""

    path: str
    summary: str
    query: type[msgspec.Struct]
    answer: Any
    kind: str = JSON


OPERATIONS = (
    Operation("/status", "The coordinator, Kafka, and all groups together.", NoQuery, Status),
    Operation("/groups", "Groups: sorted, chosen, and so many at a time.", GroupsQuery, Groups),
    Operation("/group", "A group and its members.", GroupQuery, Group),
    Operation(
        "/group/lag", "The lag of a group: asked for now, and as it was measured.", GroupQuery, GroupLag
    ),
    Operation("/group/timeline", "What happened to a group, as data.", TimelineQuery, Timeline),
    Operation("/group/events", "Events of a group of the last hours.", EventsQuery, Events),
    Operation(
        "/group/events/stream", "The same, and those that follow, as they happen.", EventsQuery, Any, STREAM
    ),
    Operation(
        "/history/groups",
        "Groups that the history knows, also those that are gone.",
        HistoryGroupsQuery,
        HistoryGroups,
    ),
    Operation("/history", "A question about the past of a group.", HistoryQuery, HistoryAnswer),
)


class Api:
    """Answers addresses below `PREFIX`. `description`: what `/openapi.json` says."""

    def __init__(self, sides: Sides, streams: Streams, description: bytes) -> None:
        self._sides, self._streams = sides, streams
        by_path: dict[str, Callable[[Any], Any]] = {
            "/status": lambda _: sides.status(),
            "/groups": sides.groups,
            "/group": lambda query: sides.of(query.of).group(query.group_id),
            "/group/lag": lambda query: sides.of(query.of).lag(query.group_id),
            "/group/timeline": lambda query: sides.of(query.of).timeline(query),
            "/group/events": lambda query: sides.of(query.of).events(query),
            "/group/events/stream": self._stream,
            "/history/groups": lambda query: sides.of(query.of).history_groups(query),
            "/history": lambda query: sides.of(query.of).history(query),
        }
        self._operations = {each.path: (each, by_path[each.path]) for each in OPERATIONS}
        self._description = description

    def answer(self, path: str, query: Callable[[], Query], last_event_id: str) -> Answer:
        """Answer a request. `path`: what follows the prefix; `last_event_id`: of a stream that goes on."""
        if path == "/openapi.json":
            return Answer(self._description, kind=JSON)
        found = self._operations.get(path)
        if found is None:
            return problem(HTTPStatus.NOT_FOUND, f"there is no such address: {PREFIX}/openapi.json has all")
        operation, ask = found
        try:
            given = dict(query())
            if operation.kind == STREAM and last_event_id:
                given["after"] = last_event_id
            answer = ask(asked(given, operation.query))
        except tuple(_FAILURES) as error:
            return problem(_FAILURES[type(error)], str(error))
        return Answer(
            answer if operation.kind == STREAM else msgspec.json.encode(answer), kind=operation.kind
        )

    def _stream(self, query: EventsQuery) -> Iterator[bytes]:
        questions = self._sides.of(query.of)
        kept = questions.kept(query.group_id)
        # Without a begin it is what comes from now on.
        is_from_before = query.since or query.after
        first = questions.kept(query.group_id, query.since, query.after) if is_from_before else []
        return self._streams.begin(kept, first, lambda: questions.kept(query.group_id))


def problem(status: HTTPStatus, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """An answer that says what is wrong."""
    body = msgspec.json.encode(Problem(status.phrase, status.value, detail))
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (*headers, ("Retry-After", "5"))
    return Answer(body, status, PROBLEM, headers)
