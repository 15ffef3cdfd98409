"""Requests that wait for an answer of the stream, and how long they wait.

Time is an argument, in seconds of any clock that does not go back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.responses import InvalidRequestResponse
from group_coordinator.gateway.translation import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from group_coordinator.coordinator_state.requests import AnyRequest

log = logging.getLogger(__name__)

_FEW = 1_000
"""So many deadlines of questions that have been answered are not worth clearing away."""


@dataclass(eq=False, slots=True)
class _Question:
    """Contract requests that one request of Kafka's has become."""

    requests: dict[str, AnyRequest]
    unwritten: set[str]
    """Those that Kafka has not taken yet, as far as is known."""
    error: Errors
    answer: Callable[[list[Any]], None]
    asker: Hashable
    join: Hashable | None
    responses: dict[str, Any] = field(default_factory=dict)

    def end(self, error: Errors) -> None:
        """Answer; what has not been answered by the stream is refused."""
        self.answer([self.responses.get(it) or refusal(each, error) for it, each in self.requests.items()])


class Waiting:
    """The questions that the stream has not answered yet. An ended question holds no memory."""

    def __init__(self) -> None:
        self._open: dict[int, _Question] = {}
        """By number, in the order in which they were asked."""
        self._numbers: dict[str, int] = {}
        """The questions' numbers by the ids of the requests that have no answer."""
        self._askers: dict[Hashable, set[int]] = {}
        self._joins: dict[Hashable, int] = {}
        """The newest join of each member that waits for one."""
        self._deadlines: list[tuple[float, int]] = []
        self._next = count()
        self.late = 0
        """Answers that nobody waited for: they came twice or late, or do not fit the request."""

    def __len__(self) -> int:
        """How many contract requests wait for their answers."""
        return len(self._numbers)

    def ask(
        self,
        requests: Sequence[AnyRequest],
        until_s: float,
        error: Errors,
        answer: Callable[[list[Any]], None],
        asker: Hashable = None,
        join: Hashable | None = None,
    ) -> None:
        """Wait for the answers to `requests` until `until_s`; those that are missing then are `error`.

        `join`: the member whose join it is. The stream answers its newest join only.
        """
        by_id = {each.request_id: each for each in requests}
        question = _Question(by_id, set(by_id), error, answer, asker, join)
        if not requests:
            question.end(error)
            return
        number = next(self._next)
        self._open[number] = question
        self._numbers.update(dict.fromkeys(by_id, number))
        self._askers.setdefault(asker, set()).add(number)
        if join is not None:
            # The older one can never be answered otherwise, and holds what it takes as long as it waits.
            if (older := self._joins.get(join)) is not None:
                self._close(older).end(Errors.REBALANCE_IN_PROGRESS)
            self._joins[join] = number
        heappush(self._deadlines, (until_s, number))

    def acknowledged(self, request_ids: Sequence[str]) -> None:
        """Note that Kafka has taken these requests."""
        for request_id in request_ids:
            if (number := self._numbers.get(request_id)) is not None:
                self._open[number].unwritten.discard(request_id)

    def take(self, response: Any) -> None:
        """Take what the stream says. It is dropped if it was said before, comes too late, or does not fit."""
        number = self._numbers.get(response.request_id)
        question = None if number is None else self._open[number]
        if number is None or question is None or not fits(question.requests[response.request_id], response):
            self.late += 1
            return
        del self._numbers[response.request_id]
        if isinstance(response, InvalidRequestResponse):
            log.error("the coordinator cannot read a request of the gateway's: %s", response.error_message)
            response = refusal(question.requests[response.request_id], Errors.INVALID_REQUEST)
        question.responses[response.request_id] = response
        if len(question.responses) == len(question.requests):
            self._close(number)
            question.end(question.error)

    def refuse(self, request_ids: Sequence[str], error: Errors) -> None:
        """Refuse these requests with `error`, because the log has not taken them."""
        for request_id in request_ids:
            if (number := self._numbers.get(request_id)) is not None:
                self._close(number).end(error)

    def expire(self, now_s: float) -> None:
        """Refuse the requests that have waited long enough."""
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, number = heappop(self._deadlines)
            if number in self._open:
                question = self._close(number)
                # The error that was asked for is that of a request in the log.
                is_written = not question.unwritten
                question.end(question.error if is_written else Errors.COORDINATOR_NOT_AVAILABLE)
        if len(self._deadlines) > 2 * len(self._open) + _FEW:
            # A client may ask for days: an answered question must not stay for so long.
            self._deadlines = [each for each in self._deadlines if each[1] in self._open]
            heapify(self._deadlines)

    def forget(self, asker: Hashable) -> None:
        """Drop what `asker` has asked, because it has gone."""
        for number in list(self._askers.get(asker, ())):
            self._close(number)

    def _close(self, number: int) -> _Question:
        question = self._open.pop(number)
        for request_id in question.requests:
            self._numbers.pop(request_id, None)
        others = self._askers[question.asker]
        others.discard(number)
        if not others:
            del self._askers[question.asker]
        if self._joins.get(question.join) == number:
            del self._joins[question.join]
        return question
