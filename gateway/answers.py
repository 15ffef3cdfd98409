"""Requests that wait for an answer of the stream, and how long they wait.

    waiting.ask(requests, ..., answer)   `answer` is called once: with the responses, or when time is over
    waiting.take(response)               a response has come, perhaps one that nobody waits for any more
    waiting.expire(now_s)                time has passed

Time is an argument, in seconds of any clock that does not go back.
"""

from __future__ import annotations

import logging
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import InvalidRequestResponse
from group_coordinator.gateway.translation import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from group_coordinator.coordinator_state.requests import AnyRequest

__all__ = ["Waiting"]

log = logging.getLogger(__name__)


class _Question:
    """Contract requests that one request of Kafka's has become."""

    __slots__ = ("answer", "error", "missing", "requests", "responses")

    def __init__(
        self, requests: Sequence[AnyRequest], error: Errors, answer: Callable[[list[Any]], None]
    ) -> None:
        self.requests = requests
        self.responses: dict[str, Any] = {}
        self.missing = len(requests)
        self.error = error
        self.answer = answer

    def end(self) -> None:
        """Answer; what has not been answered by the stream is refused."""
        self.answer(
            [self.responses.get(each.request_id) or refusal(each, self.error) for each in self.requests]
        )


class Waiting:
    """The questions that the stream has not answered yet, by the ids of their requests."""

    def __init__(self) -> None:
        self._questions: dict[str, _Question] = {}
        self._deadlines: list[tuple[float, int, _Question]] = []
        self._numbers = count()
        self.late = 0
        """Answers that nobody waited for: they came twice, or too late."""

    def __len__(self) -> int:
        """How many contract requests wait for their answers."""
        return len(self._questions)

    def ask(
        self,
        requests: Sequence[AnyRequest],
        until_s: float,
        error: Errors,
        answer: Callable[[list[Any]], None],
    ) -> None:
        """Wait for the answers to `requests` until `until_s`; those that are missing then are `error`."""
        question = _Question(requests, error, answer)
        if not requests:
            question.end()
            return
        for each in requests:
            self._questions[each.request_id] = question
        heappush(self._deadlines, (until_s, next(self._numbers), question))

    def take(self, response: Any) -> None:
        """Take what the stream says. It may have been said before, or come too late: then it is dropped."""
        question = self._questions.pop(response.request_id, None)
        if question is None:
            self.late += 1
            return
        if isinstance(response, InvalidRequestResponse):
            log.error("the coordinator cannot read a request of the gateway's: %s", response.error_message)
            asked = next(each for each in question.requests if each.request_id == response.request_id)
            response = refusal(asked, Errors.INVALID_REQUEST)
        question.responses[response.request_id] = response
        question.missing -= 1
        if not question.missing:
            question.end()

    def refuse(self, request_ids: Sequence[str], error: Errors) -> None:
        """The log has not taken these requests: whoever waits for one of them is refused with `error`."""
        for request_id in request_ids:
            if (question := self._questions.get(request_id)) is not None:
                self._end(question, error)

    def expire(self, now_s: float) -> None:
        """Refuse whoever has waited long enough."""
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, _, question = heappop(self._deadlines)
            if question.missing:
                self._end(question, question.error)

    def next_s(self) -> float | None:
        """When `expire` has something to do, at the earliest."""
        while self._deadlines and not self._deadlines[0][2].missing:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _end(self, question: _Question, error: Errors) -> None:
        for each in question.requests:
            self._questions.pop(each.request_id, None)
        question.error, question.missing = error, 0
        question.end()
