"""Heartbeats of the consumer protocol: what goes to the log together, and what answers late ones."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest
from group_coordinator.coordinator_state.responses import (
    AssignedTopic,
    ConsumerGroupHeartbeatResponse,
    ConsumerMemberResult,
    ReplyTo,
)
from group_coordinator.gateway.beat_kinds import CONSUMERS, Beat, Verdict
from group_coordinator.gateway.beats import Beats
from group_coordinator.gateway.translation import Sender

MOST_BYTES = 1_000_000
AWAY, FENCED, UNKNOWN = 15, 110, 25
GAINED = [AssignedTopic("A", "a", [0, 1])]
LOST = [AssignedTopic("A", "a", [0])]


def news(member_id: str, epoch: int = 0, assignment: Any = None, error: int = 0) -> ConsumerMemberResult:
    return ConsumerMemberResult(
        member_id=member_id, error_code=error, member_epoch=epoch, assignment=assignment
    )


class Members:
    """Members of groups that beat through one gateway, at a clock that is set by hand."""

    def __init__(self) -> None:
        numbers = count()
        self.beats = Beats(Sender("gateway", "", 0, lambda: f"g-{next(numbers)}"), MOST_BYTES, CONSUMERS)
        self.answered: list[tuple[str, Verdict]] = []
        self._numbers = count()

    def beat(self, member_id: str, epoch: int, instance_id: str | None = None, group: str = "orders") -> bool:
        """Say that a member is alive; returns whether it was answered at once."""
        request = self._request(member_id, epoch, group, group_instance_id=instance_id)
        return self.beats.add(Beat.of_consumer(request), lambda it: self.answered.append((member_id, it)))

    def beat_in_full(self, member_id: str, epoch: int, now_s: float = 0, **fields: Any) -> Any:
        """Say all; returns the request, which goes to the log by itself."""
        given = {"rebalance_timeout_ms": 9, "subscribed_topic_names": ["a"], "topic_partitions": []}
        request = self._request(member_id, epoch, "orders", **(given | fields))
        self.beats.add_full(
            Beat.of_consumer(request), lambda it: self.answered.append((member_id, it)), now_s
        )
        return request

    def _request(
        self, member_id: str, epoch: int, group: str, **fields: Any
    ) -> ConsumerGroupHeartbeatRequest:
        number = f"b-{next(self._numbers)}"
        return ConsumerGroupHeartbeatRequest(
            request_id=number,
            client_id="c",
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            **fields,
        )

    def flush(self, now_s: float = 0) -> list[Any]:
        return [each for group_id in self.beats.groups for each in self.beats.flush(group_id, now_s)]

    def sent(self, now_s: float = 0) -> Any:
        """The one record of all that waits, once Kafka has taken it."""
        (record,) = self.flush(now_s)
        self.beats.acknowledged(record.request_id, now_s)
        return record

    def say(
        self, request: Any, *told: ConsumerMemberResult, now_s: float = 0, error: Errors = Errors.NONE
    ) -> bool:
        """Let the stream answer: a record of many with news, or one with its member's."""
        reply_to = ReplyTo(request.request_id, "gateway", 0, 1)
        fields: dict[str, Any] = {"members": list(told)}
        if request.members is msgspec.UNSET:
            (each,) = told
            error = Errors(each.error_code)
            fields = {"member_id": None if error else each.member_id, "member_epoch": each.member_epoch}
            fields["assignment"] = each.assignment
        if error:
            fields.pop("members", None)
        response = ConsumerGroupHeartbeatResponse.to(reply_to, request.group_id, error, **fields)
        return self.beats.take(response, now_s)

    def answers(self) -> list[tuple[str, Verdict]]:
        answered, self.answered = self.answered, []
        return answered


@pytest.fixture
def members() -> Members:
    return Members()


def test_only_a_beat_that_says_nothing_else_is_a_sign_of_life() -> None:
    silent = ConsumerGroupHeartbeatRequest(
        request_id="1", client_id="c", group_id="g", member_id="m", member_epoch=1
    )
    assert silent.is_bare
    for said in (
        {"member_epoch": 0},
        {"member_epoch": -1},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 1},
        {"subscribed_topic_names": []},
        {"subscribed_topic_regex": ""},
        {"server_assignor": "range"},
        {"topic_partitions": []},
    ):
        assert not msgspec.structs.replace(silent, **said).is_bare, said


def test_many_become_one_record_and_its_answer_has_the_news(members: Members) -> None:
    for member_id in ("a", "b", "c"):
        members.beat(member_id, 5)
    members.beat("d", 5, group="refunds")
    together, alone = members.flush()
    assert [(each.member_id, each.member_epoch) for each in together.members] == [
        ("a", 5),
        ("b", 5),
        ("c", 5),
    ]
    assert [each.member_id for each in alone.members] == ["d"], "one of one is told in the same way"
    assert members.say(together, news("b", 6, GAINED), news("c", error=FENCED))
    assert members.answers() == [
        ("a", Verdict(0, 5)),
        ("b", Verdict(0, 6, GAINED)),
        ("c", Verdict(FENCED)),
    ]
    assert members.say(alone)
    assert members.answers() == [("d", Verdict(0, 5))]


def test_an_answer_about_somebody_else_is_not_taken(members: Members) -> None:
    members.beat("a", 5)
    record = members.sent()
    assert not members.say(record, news("stranger", 6))
    request = members.beat_in_full("b", 5)
    assert not members.say(request, news("stranger", 6))
    assert members.answers() == []


def test_an_error_of_the_record_is_that_of_each(members: Members) -> None:
    members.beat("a", 5)
    members.beat("b", 5)
    members.say(members.sent(), error=Errors.COORDINATOR_LOAD_IN_PROGRESS)
    assert [(who, it.error_code) for who, it in members.answers()] == [("a", 14), ("b", 14)]


def test_thousands_are_cut_into_records_that_the_coordinator_reads(members: Members) -> None:
    for number in range(2_001):
        members.beat(f"m{number}", 5)
    assert [len(each.members) for each in members.flush()] == [1_000, 1_000, 1]
    for number in range(1_000):
        members.beat(f"{number:04}".ljust(255, "\x01"), 5, instance_id="\x01" * 255)
    records = members.flush()
    assert sum(len(each.members) for each in records) == 1_000
    assert 900_000 < max(len(msgspec.json.encode(each)) for each in records) <= MOST_BYTES


# -- silence -------------------------------------------------------------------------------------------


def test_silence_is_answered_with_the_epoch_that_the_beat_came_with(members: Members) -> None:
    members.beats.wait_s, members.beats.refuse_s = 1.0, 1.5
    members.beat("a", 5)
    members.beat("b", 7)
    members.sent()
    members.beats.expire(0.9)
    assert members.answers() == []
    members.beats.expire(1.0)
    assert members.answers() == [("a", Verdict(0, 5)), ("b", Verdict(0, 7))]
    assert members.beats.counts.answered_early == 2


def test_what_kafka_has_not_taken_is_no_sign_of_life(members: Members) -> None:
    members.beats.refuse_s = 1.5
    members.beat("a", 5)
    (record,) = members.flush()
    members.beats.expire(1.5)
    assert members.answers() == [("a", Verdict(AWAY))]
    members.beat("a", 5)
    (record,) = members.flush()
    members.beats.refused(record.request_id)
    assert members.answers() == [("a", Verdict(AWAY))]
    members.beats.refused("unknown")


def test_the_late_verdict_answers_the_next_beat(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.answers()
    members.say(first, news("a", 6, GAINED), now_s=4)
    assert members.answers() == []
    assert members.beat("a", 5)
    assert members.answers() == [("a", Verdict(0, 6, GAINED))]
    assert [each.member_epoch for each in members.sent(5).members] == [5], "a sign of life all the same"


def test_a_late_verdict_without_news_answers_nothing(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.answers()
    members.say(first, now_s=4)
    assert not members.beat("a", 5), "or each beat would be answered by the one before"


def test_news_that_nobody_heard_answers_the_beat_after(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.say(first, news("a", 5, LOST), now_s=4)
    assert members.beat("a", 5)
    second = members.sent(5)
    members.answers()
    # It was answered by the verdict on the first: this is news all the same.
    members.say(second, news("a", 5, GAINED), now_s=6)
    assert members.beat("a", 5)
    assert members.answers() == [("a", Verdict(0, 5, GAINED))]


def test_a_newer_verdict_does_not_take_for_heard_what_was_not(members: Members) -> None:
    for silent, then in (
        (news("a", 5, GAINED), []),
        (news("a", 5, GAINED), [news("a", 6)]),
    ):
        members.beat("a", 5)
        first = members.sent()
        members.beats.expire(3)
        members.beat("a", 5)
        second = members.sent(4)
        members.answers()
        members.say(first, silent, now_s=4)
        members.say(second, *then, now_s=4)
        epoch = then[0].member_epoch if then else 5
        assert members.answers() == [("a", Verdict(0, epoch, GAINED))]
        assert not members.beat("a", epoch), "it is told once"
        members.say(members.sent(5), now_s=5)
        members.answers()


def test_a_newer_verdict_with_partitions_or_an_error_replaces_the_one_that_is_kept(members: Members) -> None:
    for newer, told in (
        (news("a", 6, LOST), Verdict(0, 6, LOST)),
        (news("a", error=UNKNOWN), Verdict(UNKNOWN)),
    ):
        members.beat("a", 5)
        first = members.sent()
        members.beats.expire(3)
        members.beat("a", 5)
        second = members.sent(4)
        members.answers()
        members.say(first, news("a", 5, GAINED), now_s=4)
        members.say(second, newer, now_s=4)
        assert members.answers() == [("a", told)]
        assert not members.beat("a", 5)
        members.say(members.sent(5), now_s=5)
        members.answers()


def test_a_late_error_is_of_the_past_once_a_newer_verdict_has_none(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.beat("a", 5)
    second = members.sent(4)
    members.answers()
    members.say(first, news("a", error=14), now_s=4)
    members.say(second, now_s=4)
    assert members.answers() == [("a", Verdict(0, 5))]


@pytest.mark.parametrize("is_lost", ["it never comes", "kafka refuses the repeat"])
def test_after_a_verdict_that_is_lost_the_member_says_all_anew(members: Members, is_lost: str) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    if is_lost == "it never comes":
        members.beats.expire(62.9)
        assert members.beats.wait_s == 3
        members.beats.expire(63)
        assert not members.say(first, news("a", 6, GAINED), now_s=64)
    else:
        members.say(first, news("a", 6, GAINED), now_s=4)
        members.beat("a", 5)
        (second,) = members.flush(5)
        members.beats.refused(second.request_id)
    members.answers()
    assert members.beat("a", 5)
    assert members.answers() == [("a", Verdict(AWAY))]
    members.beats.acknowledged(members.flush(64)[0].request_id, 64)
    request = members.beat_in_full("a", 5, 64)
    assert members.answers() == [], "a full one is not told to be full"
    members.say(request, news("a", 6, GAINED), now_s=64)
    assert members.answers() == [("a", Verdict(0, 6, GAINED, "a"))]


def test_a_verdict_that_is_lost_stays_so_until_there_is_one_that_tells_all(members: Members) -> None:
    members.beat("a", 5)
    members.sent()
    members.beats.expire(3)
    members.beat("a", 5)
    second = members.sent(60)
    members.beats.expire(63)
    members.answers()
    # The first may have told of partitions. The second does not, and is late.
    members.say(second, news("a", 6), now_s=63)
    assert members.beat("a", 5)
    assert members.answers() == [("a", Verdict(AWAY))]


def test_kept_verdicts_are_forgotten_in_the_end(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.say(first, news("a", 6, GAINED), now_s=4)
    members.beats.expire(63.9)
    assert ("orders", "a") in members.beats._verdicts
    members.beats.expire(64)
    assert members.beats._verdicts == {}
    assert members.beats._sent == {}


# -- full ones -----------------------------------------------------------------------------------------


def test_a_full_beat_is_refused_in_time_and_its_late_answer_answers_the_repeat(members: Members) -> None:
    members.beats.wait_s, members.beats.refuse_s = 1.0, 1.5
    request = members.beat_in_full("a", 0)
    members.beats.acknowledged(request.request_id, 0.5)
    members.beats.expire(1.4)
    assert members.answers() == []
    members.beats.expire(1.5)
    assert members.answers() == [("a", Verdict(AWAY))]
    members.say(request, news("a", 3, GAINED), now_s=2)
    again = members.beat_in_full("a", 0, 2)
    assert members.answers() == [("a", Verdict(0, 3, GAINED, "a"))]
    # The repeat went to the log as well. What it is told is not lost, and is not told twice.
    members.say(again, news("a", 3, LOST), now_s=3)
    assert members.beat("a", 3)
    assert members.answers() == [("a", Verdict(0, 3, LOST, "a"))]


def test_members_without_ids_are_not_taken_for_each_other(members: Members) -> None:
    request = members.beat_in_full("", 0)
    members.beats.acknowledged(request.request_id, 0)
    members.beats.expire(3)
    members.say(request, news("made up", 3, GAINED), now_s=4)
    members.answers()
    members.beat_in_full("", 0, 4)
    assert members.answers() == []


def test_the_answer_to_all_makes_an_older_verdict_void(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.say(first, news("a", 6, GAINED), now_s=4)
    members.answers()
    # It joins again, since its connection was lost.
    request = members.beat_in_full("a", 0, 5)
    members.say(request, news("a", 6, LOST), now_s=5)
    assert members.answers() == [("a", Verdict(0, 6, LOST, "a"))]
    assert not members.beat("a", 6)


def test_the_answer_to_less_than_all_has_what_was_not_heard(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    request = members.beat_in_full("a", 5, 1, rebalance_timeout_ms=-1, subscribed_topic_names=None)
    members.beats.expire(3)
    members.answers()
    members.say(first, news("a", 5, GAINED), now_s=4)
    members.say(request, news("a", 5), now_s=4)
    assert members.answers() == [("a", Verdict(0, 5, GAINED, "a"))]


def test_a_full_beat_that_waits_holds_nothing_that_is_large(members: Members) -> None:
    request = members.beat_in_full("a", 0, subscribed_topic_names=["x" * 200] * 4_000)
    (record,) = members.beats._sent.values()
    assert len(msgspec.json.encode(record.request)) < 300 < len(msgspec.json.encode(request))
    assert members.say(request, news("a", 1))


# -- the same member twice -----------------------------------------------------------------------------


def test_the_same_beat_twice_is_answered_twice(members: Members) -> None:
    members.beat("a", 5)
    members.beat("a", 5)
    record = members.sent()
    assert [each.member_id for each in record.members] == ["a"]
    members.say(record, news("a", 6, GAINED))
    assert members.answers() == [("a", Verdict(0, 6, GAINED))] * 2


def test_one_record_has_a_member_with_one_epoch(members: Members) -> None:
    for epoch, instance_id in ((5, None), (99, None), (5, "i"), (5, None)):
        members.beat("a", epoch, instance_id)
    members.beat("b", 5)
    record = members.sent()
    assert [(each.member_id, each.member_epoch) for each in record.members] == [("a", 5), ("b", 5)]
    assert members.answers() == [("a", Verdict(AWAY))] * 2, "the others are to say all"
    members.say(record, news("b", 6))
    assert members.answers() == [("a", Verdict(0, 5)), ("a", Verdict(0, 5)), ("b", Verdict(0, 6))]


def test_a_beat_that_is_answered_already_makes_room_for_one_that_has_heard_more(members: Members) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.say(first, news("a", 6, GAINED), now_s=4)
    members.beat("a", 5)
    members.answers()
    members.beat("a", 6)
    record = members.sent(5)
    assert [each.member_epoch for each in record.members] == [6]
    members.say(record, news("a", 6, LOST))
    assert members.answers() == [("a", Verdict(0, 6, LOST))]


def test_somebody_with_its_id_and_another_epoch_does_not_hear_what_a_member_is_to_hear(
    members: Members,
) -> None:
    members.beat("a", 5)
    first = members.sent()
    members.beats.expire(3)
    members.say(first, news("a", 6, GAINED), now_s=4)
    members.answers()
    assert not members.beat("a", 99)
    members.say(members.sent(5), news("a", error=FENCED), now_s=5)
    assert members.answers() == [("a", Verdict(FENCED))]
    assert members.beat("a", 5)
    assert members.answers() == [("a", Verdict(0, 6, GAINED))]


def test_beats_hurry_after_a_join_or_news(members: Members) -> None:
    def hurries(at_s: float) -> bool:
        members.beat("other", 5)
        found = members.beats.in_a_hurry(at_s)
        members.flush(at_s)
        return found == ["orders"]

    members.beat("a", 5)
    members.say(members.sent(10), now_s=10)
    assert not hurries(10)
    members.beat_in_full("b", 0, 100)
    assert [hurries(100 + after) for after in (0, 5.9, 6)] == [True, True, False]
    # Some clients say all again and again.
    again = members.beat_in_full("c", 5, 300)
    members.say(again, news("c", 5), now_s=300)
    assert not hurries(300)
    for at_s, told in ((400, news("a", 6)), (500, news("a", 5, LOST))):
        members.beat("a", 5)
        members.say(members.sent(at_s), told, now_s=at_s)
        assert [hurries(at_s + after) for after in (0, 5.9, 6)] == [True, True, False]
    members.beat("a", 5)
    members.say(members.sent(600), news("a", error=FENCED), now_s=600)
    assert not hurries(600), "one that nobody knows moves no other"
