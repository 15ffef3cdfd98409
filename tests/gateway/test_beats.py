"""Heartbeats that wait for each other, and for their verdicts."""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import HeartbeatRequest
from group_coordinator.coordinator_state.responses import HeartbeatResponse, MemberResult, ReplyTo
from group_coordinator.gateway.beat_kinds import Beat, Verdict
from group_coordinator.gateway.beats import Beats, Instants
from group_coordinator.gateway.translation import Sender

MOST_BYTES = 1_000_000
NONE, UNKNOWN, AWAY = 0, Errors.UNKNOWN_MEMBER_ID.value, Errors.COORDINATOR_NOT_AVAILABLE.value
REBALANCING = Errors.REBALANCE_IN_PROGRESS.value


class Members:
    """Members of a group that beat through one gateway, at a clock that is set by hand."""

    def __init__(self) -> None:
        numbers = count()
        self.beats = Beats(Sender("gateway", "", 0, lambda: f"g-{next(numbers)}"), MOST_BYTES)
        self.answered: list[tuple[str, int]] = []
        self._numbers = count()

    def beat(self, member_id: str, group_id: str = "orders", generation_id: int = 1) -> None:
        request = HeartbeatRequest(
            request_id=f"b-{next(self._numbers)}",
            client_id=member_id,
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
        )
        self.beats.add(Beat.of(request), lambda told: self.answered.append((member_id, told.error_code)))

    def flush(self, now_s: float = 0) -> list[HeartbeatRequest]:
        return [each for group_id in self.beats.groups for each in self.beats.flush(group_id, now_s)]

    def say(self, request: HeartbeatRequest, now_s: float, **errors: int) -> None:
        reply_to = ReplyTo(request.request_id, request.client_id, 0, 4)
        told: dict[str, Any] = {}
        if len(request.beats) > 1:
            told["members"] = [
                MemberResult(member_id=each.member_id, error_code=errors.get(each.member_id, 0))
                for each in request.beats
            ]
        error = Errors(errors.get(request.beats[0].member_id, 0))
        self.beats.take(HeartbeatResponse.to(reply_to, request.group_id, error, **told), now_s)

    def answers(self) -> list[tuple[str, int]]:
        answered, self.answered = self.answered, []
        return answered


@pytest.fixture
def members() -> Members:
    return Members()


def test_beats_that_hold_up_a_later_request_hurry(members: Members) -> None:
    members.beat("a")
    members.beat("b", group_id="refunds")
    members.beats.hold_up("orders")
    members.beats.hold_up("not there")
    assert members.beats.in_a_hurry(0) == ["orders"]
    assert len(members.flush()) == 2
    members.beat("a")
    assert members.beats.in_a_hurry(0) == [], "nothing waits behind this one"


def test_beats_of_a_group_that_rebalances_hurry(members: Members) -> None:
    members.beats.rebalances("orders", 100)
    members.beat("b", group_id="refunds")
    assert members.beats.in_a_hurry(101) == []
    members.beat("a")
    assert members.beats.in_a_hurry(105.9) == ["orders"]
    assert members.beats.in_a_hurry(106) == []


def test_beats_of_a_group_of_which_one_hears_of_a_rebalance_hurry(members: Members) -> None:
    members.beat("a")
    members.say(members.flush()[0], 100, a=UNKNOWN)
    members.beat("a")
    assert members.beats.in_a_hurry(100) == []
    members.say(members.flush()[0], 100, a=REBALANCING)
    members.beat("b")
    assert members.beats.in_a_hurry(105.9) == ["orders"]
    assert members.beats.in_a_hurry(106) == []


def test_beats_of_a_group_become_one_record(members: Members) -> None:
    members.beat("a")
    members.beat("b")
    members.beat("c", group_id="refunds")
    together, alone = members.flush()
    assert ([each.member_id for each in together.beats], alone.member_id) == (["a", "b"], "c")
    assert members.flush() == []
    members.say(together, 0.1, b=UNKNOWN)
    assert members.answers() == [("a", NONE), ("b", UNKNOWN)]


def test_a_record_has_no_more_than_a_thousand(members: Members) -> None:
    for number in range(2_001):
        members.beat(f"m{number}")
    assert [len(each.beats) for each in members.flush()] == [1_000, 1_000, 1]


def test_a_record_is_no_larger_than_the_coordinator_reads(members: Members) -> None:
    for number in range(1_000):
        members.beat(f"{number:04}".ljust(255, "\x01"), group_id="\x01" * 255)
    records = members.flush()
    assert sum(len(each.beats) for each in records) == 1_000
    assert 900_000 < max(len(msgspec.json.encode(each)) for each in records) <= MOST_BYTES


def test_a_beat_whose_verdict_is_late_is_answered_none(members: Members) -> None:
    members.beat("a")
    (request,) = members.flush(0)
    members.beats.acknowledged(request.request_id, 0.5)
    members.beats.expire(3.4)
    assert members.answers() == []
    members.beats.expire(3.5)
    assert (members.answers(), members.beats.counts.answered_early) == ([("a", NONE)], 1)


def test_the_late_verdict_answers_the_next_beat_which_goes_to_the_log(members: Members) -> None:
    members.beat("a")
    (request,) = members.flush(0)
    members.beats.acknowledged(request.request_id, 0)
    members.beats.expire(3)
    members.beats.expire(6)
    members.say(request, 20, a=UNKNOWN)
    assert members.answers() == [("a", NONE)]
    members.beat("a")
    assert members.answers() == [("a", UNKNOWN)]
    (again,) = members.flush(21)
    members.say(again, 21, a=NONE)
    assert members.answers() == [], "it has been answered"


def test_a_late_verdict_does_not_survive_a_newer_one_that_was_answered(members: Members) -> None:
    members.beat("a")
    (first,) = members.flush(0)
    members.beats.acknowledged(first.request_id, 0)
    members.beats.expire(3)
    members.beat("a")
    (second,) = members.flush(4)
    members.say(first, 5, a=UNKNOWN)
    members.say(second, 5)
    assert members.answers() == [("a", NONE), ("a", NONE)]
    members.beat("a")
    assert members.answers() == [], "it waits for its own verdict"


def test_a_member_that_beats_twice_in_one_record_is_answered_twice(members: Members) -> None:
    members.beat("a")
    members.beat("a", generation_id=2)
    (together,) = members.flush()
    assert [each.generation_id for each in together.beats] == [1, 2]
    members.say(together, 1)
    assert members.answers() == [("a", NONE), ("a", NONE)]


def test_what_waits_for_a_late_verdict_holds_nothing_of_the_client(members: Members) -> None:
    class Client:
        def __call__(self, told: Verdict) -> None:
            assert told.error_code == NONE

    client = Client()
    known = weakref.ref(client)
    request = HeartbeatRequest(request_id="b", client_id="c", group_id="g", generation_id=1, member_id="m")
    members.beats.add(Beat.of(request), client)
    (sent,) = members.flush(0)
    members.beats.acknowledged(sent.request_id, 0)
    members.beats.expire(3)
    del client
    assert known() is None


@pytest.mark.parametrize("how", ["joined since", "another generation", "too old"])
def test_a_late_verdict_that_is_of_the_past_answers_nothing(members: Members, how: str) -> None:
    members.beat("a")
    (request,) = members.flush(0)
    members.beats.acknowledged(request.request_id, 0)
    members.beats.expire(3)
    members.say(request, 20, a=UNKNOWN)
    members.answers()
    match how:
        case "joined since":
            members.beats.joined("orders", "a")
            members.beat("a")
        case "another generation":
            members.beat("a", generation_id=2)
        case _:
            members.beats.expire(80)
            members.beat("a")
    assert members.answers() == []


def test_a_beat_that_kafka_has_not_taken_is_never_answered_none(members: Members) -> None:
    members.beat("a")
    members.beat("b", group_id="refunds")
    first, second = members.flush(0)
    members.beats.refused(first.request_id)
    assert members.answers() == [("a", AWAY)]
    members.beats.expire(4.9)
    assert members.answers() == []
    members.beats.expire(5)
    assert members.answers() == [("b", AWAY)]
    members.say(second, 6)
    assert members.answers() == []


def test_an_acknowledged_beat_is_not_refused_by_the_time_for_that(members: Members) -> None:
    members.beat("a")
    (request,) = members.flush(0)
    members.beats.acknowledged(request.request_id, 4)
    members.beats.expire(6)
    assert members.answers() == []
    members.say(request, 6.5, a=UNKNOWN)
    assert members.answers() == [("a", UNKNOWN)]


def test_a_record_that_cannot_be_read_refuses_all_its_beats(members: Members) -> None:
    members.beat("a")
    members.beat("b")
    (request,) = members.flush()
    reply_to = ReplyTo(request.request_id, "gateway", 0, 4)
    members.beats.take(HeartbeatResponse.to(reply_to, "orders", Errors.UNSUPPORTED_VERSION), 1)
    assert members.answers() == [("a", 35), ("b", 35)]


def test_what_is_about_no_beat_is_left_to_others(members: Members) -> None:
    reply_to = ReplyTo("somebody's", "c", 0, 4)
    assert not members.beats.take(HeartbeatResponse.to(reply_to, "orders"), 1)


def test_all_gateways_send_at_the_same_instants() -> None:
    for begin_s in (100, 100.05, 100.2):
        instants = Instants(0.25, begin_s)
        assert not instants.has_come(begin_s)
        assert instants.until_s(begin_s) == pytest.approx(100.25 - begin_s)
        assert [instants.has_come(wall_s) for wall_s in (100.24, 100.25, 100.26, 100.49)] == [0, 1, 0, 0]
        assert instants.until_s(100.51) == 0
        assert [instants.has_come(wall_s) for wall_s in (100.51, 100.52, 100.75)] == [1, 0, 1]


def test_what_is_done_before_is_done_so_much_earlier() -> None:
    early = Instants(0.25, 100.1, 0.02)
    assert early.until_s(100.1) == pytest.approx(0.13)
    assert [early.has_come(wall_s) for wall_s in (100.22, 100.24, 100.25, 100.47, 100.49)] == [0, 1, 0, 0, 1]


@pytest.mark.parametrize("set_to_s", [96_400, 99_999, 100_000.2, 100_002, 103_600])
def test_a_clock_that_is_set_holds_up_no_heartbeat(set_to_s: float) -> None:
    instants = Instants(1, 100_000.5)
    assert not instants.has_come(100_000.9)
    waits_s, wall_s = 0.0, set_to_s
    while not instants.has_come(wall_s):
        waits_s, wall_s = waits_s + 0.02, wall_s + 0.02
    assert waits_s <= 1
    assert not instants.has_come(wall_s)
    assert 0 < instants.until_s(wall_s) <= 1


@pytest.mark.parametrize("told", [["a"], ["b", "a"], ["a", "b", "c"], []])
def test_an_answer_about_other_members_answers_nobody(members: Members, told: list[str]) -> None:
    members.beat("a")
    members.beat("b")
    (request,) = members.flush()
    reply_to = ReplyTo(request.request_id, request.client_id, 0, 4)
    results = [MemberResult(member_id=each, error_code=UNKNOWN) for each in told]
    assert not members.beats.take(HeartbeatResponse.to(reply_to, "orders", members=results), 1)
    assert not members.beats.take(HeartbeatResponse.to(reply_to, "refunds", Errors.UNKNOWN_MEMBER_ID), 1)
    assert members.answers() == []
    members.say(request, 2)
    assert members.answers() == [("a", NONE), ("b", NONE)]
