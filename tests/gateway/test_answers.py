from __future__ import annotations

from typing import Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import DescribeGroupRequest
from group_coordinator.coordinator_state.responses import (
    DeleteGroupResponse,
    DescribeGroupResponse,
    InvalidRequestResponse,
)
from group_coordinator.gateway.answers import Waiting


def ask(request_id: str) -> DescribeGroupRequest:
    return DescribeGroupRequest(request_id=request_id, client_id="c", group_id="g")


def say(request_id: str) -> DescribeGroupResponse:
    return DescribeGroupResponse.to(ask(request_id).reply_to, "g")


class Asked:
    """Questions of one gateway, and what they were answered."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.answered: list[list[tuple[str, str]]] = []

    def ask(self, *request_ids: str, until_s: float = 10, asker: object = None, join: object = None) -> None:
        error = Errors.COORDINATOR_LOAD_IN_PROGRESS
        asked = [ask(each) for each in request_ids]
        self.waiting.ask(asked, until_s, error, self._answer, asker, join)
        self.waiting.acknowledged(request_ids)

    @property
    def held(self) -> list[int]:
        """How much the books hold."""
        waiting = self.waiting
        return [len(waiting._open), len(waiting), len(waiting._askers), len(waiting._joins)]

    def _answer(self, responses: list[Any]) -> None:
        self.answered.append([(each.request_id, each.error) for each in responses])


def test_a_question_is_answered_once_all_its_requests_are() -> None:
    asked = Asked()
    asked.ask("1", "2")
    asked.waiting.take(say("2"))
    assert (asked.answered, len(asked.waiting)) == ([], 1)
    asked.waiting.take(say("1"))
    assert asked.answered == [[("1", "NONE"), ("2", "NONE")]], "in the order in which they were asked"


def test_a_question_about_nothing_is_answered_at_once() -> None:
    asked = Asked()
    asked.ask()
    assert asked.answered == [[]]


def test_what_comes_twice_or_of_nobody_is_dropped_and_counted() -> None:
    asked = Asked()
    asked.ask("1")
    for request_id in ("1", "1", "9"):
        asked.waiting.take(say(request_id))
    assert (len(asked.answered), asked.waiting.late) == (1, 2)


def test_what_has_not_come_in_time_is_refused_and_the_rest_is_told() -> None:
    asked = Asked()
    asked.ask("1", "2", until_s=8)
    asked.ask("3", until_s=4)
    asked.waiting.take(say("1"))
    asked.waiting.expire(3.9)
    assert asked.answered == []
    asked.waiting.expire(8)
    late = "COORDINATOR_LOAD_IN_PROGRESS"
    assert asked.answered == [[("3", late)], [("1", "NONE"), ("2", late)]]
    assert asked.held == [0, 0, 0, 0]
    asked.waiting.take(say("2"))
    assert (len(asked.answered), asked.waiting.late) == (2, 1)


def test_what_the_log_has_not_taken_is_refused_at_once() -> None:
    asked = Asked()
    asked.ask("1", "2")
    asked.waiting.refuse(["2", "9"], Errors.COORDINATOR_NOT_AVAILABLE)
    away = "COORDINATOR_NOT_AVAILABLE"
    assert asked.answered == [[("1", away), ("2", away)]]


def test_a_request_that_the_stream_could_not_read_is_answered() -> None:
    asked = Asked()
    asked.ask("1")
    asked.waiting.take(
        InvalidRequestResponse(
            api="describe_group", request_id="1", client_id="c", group_id="g", error_message="why"
        )
    )
    assert asked.answered == [[("1", "INVALID_REQUEST")]]


def test_what_the_log_may_not_have_is_not_answered_as_if_it_had() -> None:
    asked = Asked()
    asked.waiting.ask([ask("1")], 5, Errors.NONE, asked._answer)
    asked.waiting.expire(5)
    assert asked.answered == [[("1", "COORDINATOR_NOT_AVAILABLE")]]


def test_of_two_joins_of_a_member_the_older_is_told_to_join_again() -> None:
    asked = Asked()
    asked.ask("1", join="m", asker="a")
    asked.ask("2", join="m", asker="b", until_s=20)
    again = [[("1", "REBALANCE_IN_PROGRESS")]]
    assert asked.answered == again, "at once, as it can never be answered otherwise"
    asked.ask("3", join="other")
    asked.waiting.take(say("1"))
    assert asked.waiting.late == 1
    asked.waiting.take(say("2"))
    asked.waiting.expire(10)
    assert asked.answered == [*again, [("2", "NONE")], [("3", "COORDINATOR_LOAD_IN_PROGRESS")]]
    assert asked.held == [0, 0, 0, 0]


def test_ten_thousand_that_join_and_disconnect_leave_nothing_behind() -> None:
    asked = Asked()
    asked.ask("stays", asker="stays", join="other")
    for number in range(10_000):
        asked.ask(f"{number}", f"{number}b", asker=number, join=number % 2 or "m", until_s=1e9)
        asked.waiting.forget(number)
        asked.waiting.expire(0)
    assert asked.held == [1, 1, 1, 1]
    assert len(asked.waiting._deadlines) < 2_000
    asked.waiting.take(say("5"))
    asked.waiting.take(say("stays"))
    assert asked.answered == [[("stays", "NONE")]]


def test_one_that_does_not_fit_is_dropped_counted_and_the_question_stays() -> None:
    asked = Asked()
    asked.ask("1", "2")
    of_other = DescribeGroupResponse.to(ask("1").reply_to, "h")
    of_other_api = DeleteGroupResponse.to(ask("1").reply_to, "g")
    refused = InvalidRequestResponse(api="delete_group", request_id="1", client_id="c", group_id="g")
    for each in (of_other, of_other_api, refused):
        asked.waiting.take(each)
    assert (asked.answered, asked.waiting.late, len(asked.waiting)) == ([], 3, 2)
    asked.waiting.take(say("1"))
    asked.waiting.take(say("2"))
    assert asked.answered == [[("1", "NONE"), ("2", "NONE")]]
