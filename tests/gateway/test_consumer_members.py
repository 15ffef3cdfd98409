"""Members of the consumer protocol from frame to frame, by the coordinator's rules, without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from kafka.protocol.consumer.group import HeartbeatRequest, OffsetCommitRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.requests import ConsumerGroupHeartbeatRequest as Asked
from group_coordinator.coordinator_state.requests import (
    PatternTopics,
    Resolved,
    TopicFacts,
    TopicMetadataRequest,
)
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse
from group_coordinator.gateway import codec, rules
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis.guarding import Resolution
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest
from group_coordinator.gateway.renewals import Told
from group_coordinator.jobs.topic_patterns import Matched
from tests.gateway.consumers import IDS, KAFKA, alive, full, owns, sent
from tests.gateway.talks import Talk, number
from tests.gateway.test_local import CONFIG, Gateway

AWAY = Errors.COORDINATOR_NOT_AVAILABLE.value
INTERVAL_MS = CONFIG.group_consumer_heartbeat_interval_ms


class Kafka:
    """Kafka's topics. It tells of them when a test says so."""

    def __init__(self, gateway: Gateway) -> None:
        self.asked: list[list[str]] = []
        self.topics = gateway.look_up(self.asked.append)
        self._gateway = gateway

    def tells(self, found: dict[str, Found] | None = None) -> None:
        """Answer the newest question."""
        self.topics.told(KAFKA if found is None else found, self._gateway.now_s)


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def kafka(gateway: Gateway) -> Kafka:
    return Kafka(gateway)


def hints(gateway: Gateway) -> list[TopicFacts]:
    """What the newest record says of topics."""
    (asked,) = gateway.log
    assert isinstance(asked, Asked)
    return asked.topics


def joined(gateway: Gateway, kafka: Kafka, member_id: str = "m", **fields: Any) -> Any:
    """Let a member join; its answer."""
    gateway.ask(full(member_id=member_id, **fields))
    kafka.tells()
    gateway.coordinate()
    (response,) = gateway.answered
    gateway.answered.clear()
    assert response.error_code == 0
    return response


def held(response: Any) -> dict[Any, list[int]]:
    return {each.topic_id: list(each.partitions) for each in response.assignment.topic_partitions}


# -- what a member is told -----------------------------------------------------------------------------


def test_a_first_join_is_answered_with_partitions(gateway: Gateway, kafka: Kafka) -> None:
    response = joined(gateway, kafka, subscribed_topic_names=["a", "b"])
    assert (response.member_id, response.heartbeat_interval_ms) == ("m", INTERVAL_MS)
    assert held(response) == {IDS["a"]: [0, 1, 2, 3], IDS["b"]: [0, 1]}
    assert gateway.tell(alive(response.member_epoch)).assignment is None


def test_the_life_of_two_members(gateway: Gateway, kafka: Kafka) -> None:
    first = joined(gateway, kafka)
    gateway.now_s += 2
    second = joined(gateway, kafka, "n")
    assert held(second) == {}
    told = gateway.tell(alive(first.member_epoch))
    (kept,) = held(told).values()
    assert len(kept) == 2
    # Until it has given up what it is to, it is told so.
    assert held(gateway.tell(alive(first.member_epoch))) == {IDS["a"]: kept}
    given_up = gateway.tell(alive(first.member_epoch, topic_partitions=owns(a=kept)))
    assert given_up.member_epoch == second.member_epoch
    received = gateway.tell(alive(second.member_epoch, "n"))
    assert sorted([*kept, *held(received)[IDS["a"]]]) == [0, 1, 2, 3]
    assert gateway.tell(alive(-1, "n")).member_epoch == -1
    assert gateway.tell(alive(second.member_epoch, "n")).error_code == Errors.UNKNOWN_MEMBER_ID


def test_a_member_of_version_0_gets_its_id_from_the_coordinator(gateway: Gateway, kafka: Kafka) -> None:
    first, second = (joined(gateway, kafka, "", version=0).member_id for _ in range(2))
    assert first
    assert second not in ("", first)
    refused = gateway.tell(full(member_id="", subscribed_topic_names=[]))
    assert refused.error_code == Errors.INVALID_REQUEST, "newer clients make theirs"


def test_many_signs_of_life_are_one_record(gateway: Gateway, kafka: Kafka) -> None:
    epochs = {name: joined(gateway, kafka, name).member_epoch for name in ("m", "n", "o")}
    for name, epoch in epochs.items():
        gateway.ask(alive(epoch, name))
    gateway.local.flush(gateway.now_s)
    (record,) = gateway.log
    assert isinstance(record, Asked)
    assert record.members is not msgspec.UNSET
    assert [each.member_id for each in record.members] == ["m", "n", "o"]
    assert (record.client_id, record.principal) == ("gateway-gw", msgspec.UNSET)
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered] == [0, 0, 0]


def test_what_a_member_says_does_not_overtake_what_came_before(gateway: Gateway, kafka: Kafka) -> None:
    epoch = joined(gateway, kafka).member_epoch
    gateway.ask(alive(epoch))
    gateway.ask(alive(epoch, topic_partitions=owns(a=[0, 1, 2, 3])))
    gateway.ask(alive(epoch))
    gateway.ask(alive(-1))
    records = [each for each in gateway.log if isinstance(each, Asked)]
    assert [each.members is msgspec.UNSET for each in records] == [False, True, False, True]
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered] == [0, 0, 0, 0]


def test_tools_are_told_of_the_group(gateway: Gateway, kafka: Kafka) -> None:
    joined(gateway, kafka)
    message = ConsumerGroupDescribeRequest(
        version=1, group_ids=["orders", "none"], include_authorized_operations=False
    )
    orders, none = gateway.tell(message).groups
    assert (orders.group_state, orders.assignor_name, none.error_code) == ("Stable", "uniform", 69)
    (member,) = orders.members
    assert (member.client_id, member.client_host) == ("c1", "/10.0.0.7")
    assert [each.topic_name for each in member.target_assignment.topic_partitions] == ["a"]


def test_a_commit_has_the_epoch_of_its_member(gateway: Gateway, kafka: Kafka) -> None:
    epoch = joined(gateway, kafka).member_epoch
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    for at, error in ((epoch, 0), (epoch + 1, Errors.STALE_MEMBER_EPOCH)):
        message = OffsetCommitRequest(
            version=9,
            group_id="orders",
            generation_id_or_member_epoch=at,
            member_id="m",
            topics=[kind(name="a", partitions=[partition])],
        )
        gateway.ask(message)
        if at == epoch:
            kafka.tells()
        gateway.coordinate()
        assert gateway.answered.pop().topics[0].partitions[0].error_code == error


# -- what Kafka knows of topics ------------------------------------------------------------------------


def test_only_topics_that_there_are_and_that_have_an_id_are_hints(gateway: Gateway, kafka: Kafka) -> None:
    names = ["a", "b", "gone", "hidden", "old", "untold"]
    gateway.ask(full(subscribed_topic_names=names))
    assert gateway.log == []
    kafka.tells({**KAFKA, "gone": Found(0), "hidden": Found(None, "H"), "old": Found(3)})
    assert hints(gateway) == [TopicFacts("a", 4, str(IDS["a"])), TopicFacts("b", 2, str(IDS["b"]))]


def test_they_are_asked_for_anew_and_for_each_that_names_topics(gateway: Gateway, kafka: Kafka) -> None:
    for partitions in (4, 9):
        gateway.ask(full())
        kafka.tells({"a": Found(partitions, str(IDS["a"]))})
        assert [each.partitions for each in hints(gateway)] == [partitions]
        gateway.coordinate()
    assert kafka.asked == [["a"], ["a"]]
    for message in (alive(1), alive(1, topic_partitions=[]), full(1, subscribed_topic_names=[]), alive(-1)):
        gateway.ask(message)
    assert len(kafka.asked) == 2, "these name none"


@pytest.mark.parametrize(("interval_ms", "waits_s"), [(5_000, 1.0), (60_000, 1.0), (1_000, 0.2)])
def test_they_are_not_waited_for_longer_than_a_member_waits(
    gateway: Gateway, kafka: Kafka, interval_ms: int, waits_s: float
) -> None:
    gateway.local._consumers.take_interval(interval_ms)
    gateway.ask(full())
    assert gateway.passes(waits_s - 0.01) == []
    assert gateway.log == []
    gateway.passes(0.02)
    assert hints(gateway) == []
    kafka.tells()
    assert len(gateway.log) == 1


def test_what_comes_later_waits_behind_them(gateway: Gateway, kafka: Kafka) -> None:
    gateway.ask(full())
    gateway.ask(full(member_id="n", subscribed_topic_names=[]))
    gateway.ask(alive(-1))
    assert gateway.log == []
    kafka.tells()
    assert [(each.member_id, each.epoch) for each in gateway.log if isinstance(each, Asked)] == [
        ("m", 0),
        ("n", 0),
        ("m", -1),
    ]


def test_the_client_that_has_gone_meanwhile_has_asked_all_the_same(gateway: Gateway, kafka: Kafka) -> None:
    gateway.ask(full())
    gateway.local.gone(gateway.client)
    gateway.ask(alive(-1))
    kafka.tells()
    gateway.coordinate()
    gateway.answered.clear()
    assert gateway.tell(alive(1)).error_code == Errors.UNKNOWN_MEMBER_ID


def test_kafka_is_not_asked_for_one_that_is_refused(gateway: Gateway, kafka: Kafka) -> None:
    most = CONFIG.max_id_length
    for message in (
        full(subscribed_topic_names=["a" * (most + 1)]),
        full(subscribed_topic_names=["a" * most] * 5_000),
        full(instance_id="i" * (most + 1)),
        full(member_id="m" * (most + 38)),
        full(group_id=""),
        alive(3, topic_partitions=owns(a=[-1])),
    ):
        gateway.ask(message)
        (response,) = gateway.answered
        assert response.error_code in (Errors.INVALID_REQUEST, Errors.INVALID_GROUP_ID)
        assert response.member_id is None
        gateway.answered.clear()
    assert (gateway.log, kafka.asked) == ([], [])
    # The next one of the group does not wait for those.
    gateway.ask(full(subscribed_topic_names=[]))
    assert len(gateway.log) == 1


def test_hints_that_make_it_too_large_are_left_out(gateway: Gateway, kafka: Kafka) -> None:
    names = [f"{it:0100}" for it in range(6_000)]
    gateway.ask(full(subscribed_topic_names=names))
    while not gateway.log:
        kafka.tells({name: Found(1, str(IDS["a"])) for name in names})
    assert hints(gateway) == []
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered] == [0]


# -- silence -------------------------------------------------------------------------------------------


def test_a_coordinator_that_is_away_for_long_fences_nobody(gateway: Gateway, kafka: Kafka) -> None:
    first = joined(gateway, kafka)
    gateway.now_s += 2
    second = joined(gateway, kafka, "n")
    epochs = {"m": first.member_epoch, "n": second.member_epoch}
    log = []
    for _ in range(18):
        for name, epoch in epochs.items():
            gateway.ask(alive(epoch, name))
        gateway.local.flush(gateway.now_s)
        gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
        log += [(gateway.now_s, each) for each in gateway.log]
        gateway.log.clear()
        for _ in range(INTERVAL_MS // 100):
            gateway.now_s += 0.1
            gateway.local.expire(gateway.now_s)
        # From the second minute on they are to say all anew: it is not known any more what they have heard.
        errors = {each.error_code for each in gateway.answered}
        assert errors == ({0} if gateway.now_s < 70 else {AWAY})
        assert {each.member_epoch for each in gateway.answered} <= {0, *epochs.values()}
        assert len(gateway.answered) == 2
        gateway.answered.clear()
    away_until_s = gateway.now_s
    # Kafka has the times at which they came.
    for gateway.now_s, record in log:
        gateway.log.append(record)
        gateway.coordinate()
    gateway.now_s = away_until_s
    gateway.answered.clear()
    shares = {}
    for name, epoch in epochs.items():
        has = owns(a=[0, 1, 2, 3]) if name == "m" else []
        gateway.ask(full(epoch, name, topic_partitions=has))
        kafka.tells()
        gateway.local.flush(gateway.now_s)
        gateway.coordinate()
        response = gateway.answered.pop()
        assert response.error_code == 0
        shares[name] = held(response).get(IDS["a"], [])
    assert len(shares["m"]) == 2, "it goes on where it was"


def test_full_heartbeats_are_refused_within_half_an_interval(gateway: Gateway, kafka: Kafka) -> None:
    for slow in (False, True):
        gateway.ask(full())
        waited_s = 0.0
        if not slow:
            kafka.tells()
            gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
        while not gateway.answered:
            assert waited_s < INTERVAL_MS / 2_000
            gateway.now_s += 0.1
            waited_s += 0.1
            kafka.topics.expire(gateway.now_s)
            gateway.local.expire(gateway.now_s)
        assert [each.error_code for each in gateway.answered] == [AWAY]
        gateway.answered.clear()
    gateway.coordinate()
    gateway.answered.clear()
    # It is answered at once, with what the coordinator has said of the first.
    kafka.tells()
    gateway.ask(full())
    kafka.tells()
    assert held(gateway.answered[0]) == {IDS["a"]: [0, 1, 2, 3]}


def test_the_interval_that_the_coordinator_tells_is_the_one_that_counts(gateway: Gateway) -> None:
    _, beats = gateway.local._all_beats
    assert (beats.wait_s, beats.refuse_s) == (1.0, 1.5)
    gateway.ask(alive(3))
    gateway.local.flush(gateway.now_s)
    (asked,) = gateway.log
    told = ConsumerGroupHeartbeatResponse.to(
        asked.reply_to, "orders", heartbeat_interval_ms=2_000, members=[]
    )
    gateway.local.take([told], gateway.now_s)
    assert gateway.answered[0].heartbeat_interval_ms == 2_000
    assert (beats.wait_s, pytest.approx(beats.refuse_s)) == (0.4, 0.6)
    gateway.local.take([msgspec.structs.replace(told, heartbeat_interval_ms=0)], gateway.now_s)
    assert beats.wait_s == 0.4, "an error tells none"
    assert gateway.local._classic_beats.wait_s == 3.0


def matched(gateway: Gateway, *names: str, is_judged: bool = False, **fields: Any) -> Any:
    """Let a member join with a pattern that matches these topics; its answer."""
    facts = [TopicFacts(name, KAFKA[name].partitions, KAFKA[name].topic_id) for name in names]
    message = full(**({"subscribed_topic_names": None, "subscribed_topic_regex": "a.*"} | fields))
    gateway.ask(message, name="alice", resolved=Resolution(facts, is_judged))
    (asked,) = gateway.log
    gateway.coordinate()
    (response,) = gateway.answered
    gateway.answered.clear()
    return asked, response


def test_the_topics_of_a_pattern_are_the_first_answer(gateway: Gateway) -> None:
    asked, response = matched(gateway, "a", "b")
    assert (asked.resolved.topics, asked.resolved.user) == (["a", "b"], "")
    assert held(response) == {IDS["a"]: [0, 1, 2, 3], IDS["b"]: [0, 1]}


def test_the_topics_of_a_pattern_are_kept_for_the_user_that_may_see_them(gateway: Gateway) -> None:
    gateway.ask(alive(-1))
    gateway.coordinate()
    gateway.answered.clear()
    gateway.log.clear()
    gateway.client.is_judged = True
    asked, _ = matched(gateway, "a", is_judged=True)
    assert asked.resolved.user == "alice"
    gateway.client.principal = None
    # Nobody knows who it is, so nobody else is told what it may see.
    assert gateway.client.user_as("m") == "\0m"


def test_of_a_heartbeat_that_is_answered_no_topics_are_kept(gateway: Gateway) -> None:
    many = {f"topic-{number:03}": TopicFacts(f"topic-{number:03}", 1, "i" * 64) for number in range(500)}
    resolved = Resolution(list(many.values()), is_judged=False)
    message = full(subscribed_topic_names=None, subscribed_topic_regex="topic-.*")

    def is_kept() -> bool:
        records = [each.request for each in gateway.local._consumers_beats._sent.values()]
        accepted = gateway.client.accepted and gateway.client.accepted.request
        return gateway.client.asked is not None or b"topic-" in msgspec.json.encode([*records, accepted])

    gateway.ask(message, resolved=resolved)
    gateway.coordinate()
    assert not is_kept(), "of a join"
    epoch = gateway.answered.pop().member_epoch
    gateway.ask(
        full(epoch, subscribed_topic_names=None, subscribed_topic_regex="topic-.*"), resolved=resolved
    )
    gateway.coordinate()
    assert gateway.client.accepted is not None
    assert not is_kept(), "of one that may come again"
    # The verdict on this one comes late, and is kept for the next.
    gateway.ask(message, resolved=resolved)
    gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    gateway.passes(5)
    assert gateway.local._consumers_beats._sent
    assert not is_kept(), "of one that was answered before the stream has"


def test_a_pattern_beside_names(gateway: Gateway, kafka: Kafka) -> None:
    facts = [TopicFacts("a", 4, str(IDS["a"]))]
    message = full(subscribed_topic_names=["b"], subscribed_topic_regex="a.*")
    gateway.ask(message, resolved=Resolution(facts, is_judged=False))
    assert kafka.asked == [["b"]]
    kafka.tells({"b": KAFKA["b"]})
    gateway.coordinate()
    (response,) = gateway.answered
    assert held(response) == {IDS["a"]: [0, 1, 2, 3], IDS["b"]: [0, 1]}


def test_a_pattern_of_so_many_topics_that_no_more_has_room_than_their_names(gateway: Gateway) -> None:
    many = {f"topic-{number:05}": TopicFacts(f"topic-{number:05}", 1, "i" * 64) for number in range(8_000)}
    message = full(subscribed_topic_names=None, subscribed_topic_regex="topic-.*")
    gateway.ask(message, resolved=Resolution(list(many.values()), is_judged=False))
    (asked,) = gateway.log
    assert asked.resolved.topics == list(many)
    # The watcher of topics tells the group of their partitions.
    assert asked.topics == []


def test_topics_of_a_pattern_are_not_looked_at_again(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred bytes of a client may stand for 10,000 topics, which Kafka has named itself."""
    sizes: list[int] = []
    read = rules.read_request
    monkeypatch.setattr(
        rules, "read_request", lambda record, config: sizes.append(len(record.value)) or read(record, config)
    )
    many = {f"topic-{number:05}": TopicFacts(f"topic-{number:05}", 1, "i" * 64) for number in range(8_000)}
    message = full(subscribed_topic_names=None, subscribed_topic_regex="topic-.*")
    gateway.ask(message, resolved=Resolution(list(many.values()), is_judged=False))
    assert len(gateway.log) == 1
    assert sizes
    assert max(sizes) < 1_000


def test_a_pattern_that_matches_more_than_a_record_holds_is_refused(gateway: Gateway) -> None:
    many = [TopicFacts(f"{number:05}".ljust(249, "t"), 1, "i" * 22) for number in range(8_000)]
    message = full(subscribed_topic_names=None, subscribed_topic_regex=".*")
    gateway.ask(message, resolved=Resolution(many, is_judged=False))
    assert gateway.log == []
    assert [each.error_code for each in gateway.answered] == [Errors.INVALID_REQUEST]


def test_topics_that_a_pattern_matches_from_now_on_are_told_to_the_group(gateway: Gateway) -> None:
    _, response = matched(gateway, "a")
    facts = {"b": TopicFacts("b", 2, str(IDS["b"]))}
    pattern = PatternTopics(pattern="a.*", topics=["a", "b"], user="")
    gateway.local._renewals.tell(Told("orders", 2, pattern, list(facts.values())))
    (record,) = gateway.log
    assert isinstance(record, TopicMetadataRequest)
    assert (record.client_id, record.topics) == ("gateway-gw", [facts["b"]])
    gateway.coordinate()
    assert gateway.answered == []
    gateway.now_s += 2
    assert held(gateway.tell(alive(response.member_epoch))) == {IDS["a"]: [0, 1, 2, 3], IDS["b"]: [0, 1]}


def test_nobody_is_told_what_a_client_may_see_that_has_gone(gateway: Gateway) -> None:
    matched(gateway, "a")
    told: list[frozenset[str]] = []
    gateway.client.may_describe(["a"], told.append)
    assert told == [frozenset({"a"})]
    gateway.local.gone(gateway.client)
    gateway.client.may_describe(["a"], told.append)
    assert len(told) == 1


def test_what_has_no_room_in_the_record_is_left_to_the_watcher(gateway: Gateway) -> None:
    names = [f"topic-{number:05}" for number in range(8_000)]
    facts = [TopicFacts(name, 1, "i" * 64) for name in names]
    pattern = PatternTopics(pattern="a.*", topics=names, user="")
    gateway.local._renewals.tell(Told("orders", 2, pattern, facts))
    (record,) = gateway.log
    assert isinstance(record, TopicMetadataRequest)
    assert (record.topics, record.patterns) == ([], [pattern])


# -- frames that come again ----------------------------------------------------------------------------


class Connection:
    """A connection of a client to a gateway with a coordinator."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.talk = gateway, Talk()
        self.decoded = 0
        self.again = 0
        self._number = 0
        self.talk.gateway.answer = self._answer  # type: ignore[method-assign]
        self.talk.gateway.beat_again = self._beat_again  # type: ignore[method-assign]

    def _answer(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        self.decoded += 1
        self.gateway.local.answer(request, client, self.gateway.now_s, reply)

    def _beat_again(self, beat: Any, answer: Callable[[Any], None]) -> None:
        self.again += 1
        self.gateway.local.beat_again(beat, answer)

    def send(self, message: Any) -> None:
        self._number += 1
        self.talk.client(sent(message, self._number))

    def coordinate(self) -> list[Any]:
        """Let the coordinator answer; the responses that the client reads."""
        self.gateway.local.flush(self.gateway.now_s)
        self.gateway.coordinate()
        self.talk.loop.run()
        frames = self.talk.told()
        last = self._number
        assert [number(each) for each in frames] == list(range(last - len(frames) + 1, last + 1))
        return [codec.decode_response(68, 1, each) for each in frames]

    def ask(self, message: Any) -> Any:
        self.send(message)
        (response,) = self.coordinate()
        return response


@pytest.fixture
def connection(gateway: Gateway) -> Connection:
    return Connection(gateway)


def test_signs_of_life_that_come_again_are_not_read(connection: Connection) -> None:
    epoch = connection.ask(full()).member_epoch
    for _ in range(5):
        response = connection.ask(alive(epoch))
        assert (response.error_code, response.member_id, response.member_epoch) == (0, "m", epoch)
        assert (response.heartbeat_interval_ms, response.assignment) == (INTERVAL_MS, None)
    assert (connection.decoded, connection.again) == (2, 4)


def test_news_comes_on_the_fast_path_as_well(connection: Connection, gateway: Gateway, kafka: Kafka) -> None:
    connection.send(full())
    kafka.tells()
    (first,) = connection.coordinate()
    connection.ask(alive(first.member_epoch))
    gateway.now_s += 2
    joined(gateway, kafka, "n")
    told = connection.ask(alive(first.member_epoch))
    assert connection.again == 1
    assert [len(each) for each in held(told).values()] == [2]


def test_an_error_is_told_and_the_next_one_is_read(connection: Connection) -> None:
    epoch = connection.ask(full()).member_epoch
    connection.ask(alive(epoch))
    connection.gateway.tell(alive(-1))
    assert connection.ask(alive(epoch)).error_code == Errors.UNKNOWN_MEMBER_ID
    assert (connection.decoded, connection.again) == (2, 1)
    assert connection.ask(alive(epoch)).error_code == Errors.UNKNOWN_MEMBER_ID
    assert (connection.decoded, connection.again) == (3, 1)


def test_full_heartbeats_take_the_fast_path_once_they_were_answered_with_their_epoch(
    connection: Connection,
) -> None:
    # As franz-go's members without partitions.
    epoch = connection.ask(full(subscribed_topic_names=[])).member_epoch
    again = full(epoch, subscribed_topic_names=[])
    for _ in range(3):
        assert connection.ask(again).member_epoch == epoch
    assert (connection.decoded, connection.again) == (2, 2)
    for _ in range(3):
        connection.send(again)
    assert [each.member_epoch for each in connection.coordinate()] == [epoch] * 3
    assert (connection.decoded, connection.again) == (2, 5)


def test_a_join_never_does(connection: Connection) -> None:
    for _ in range(3):
        assert connection.ask(full(subscribed_topic_names=[])).error_code == 0
    assert (connection.decoded, connection.again) == (3, 0)


def test_full_heartbeats_that_are_pipelined_are_all_read(connection: Connection) -> None:
    epoch = connection.ask(full(subscribed_topic_names=[])).member_epoch
    again = full(epoch, subscribed_topic_names=[])
    for _ in range(4):
        connection.send(again)
    assert len(connection.coordinate()) == 4
    assert (connection.decoded, connection.again) == (5, 0)


@pytest.mark.parametrize(
    "between",
    [
        alive(1),
        alive(1, "n"),
        alive(-1, "n"),
        HeartbeatRequest(version=4, group_id="orders", generation_id=1, member_id="n"),
    ],
)
def test_a_full_one_with_another_heartbeat_in_between_is_read_again(
    connection: Connection, between: Any
) -> None:
    epoch = connection.ask(full(subscribed_topic_names=[])).member_epoch
    assert epoch == 1
    again = full(epoch, subscribed_topic_names=[])
    connection.send(again)
    # The answer to the first comes after this one was read.
    connection.send(between)
    connection.gateway.local.flush(0)
    connection.gateway.coordinate()
    connection.talk.told()
    before = connection.decoded
    connection.send(again)
    assert connection.decoded == before + 1
    connection.send(between)
    assert connection.decoded == before + 2
    connection.gateway.local.flush(0)
    connection.gateway.coordinate()
    connection.talk.loop.run()
    assert len(connection.talk.told()) == 2


def test_after_an_error_a_full_one_is_read_again(connection: Connection, gateway: Gateway) -> None:
    epoch = connection.ask(full(subscribed_topic_names=[])).member_epoch
    again = full(epoch, subscribed_topic_names=[])
    connection.ask(again)
    connection.send(again)
    gateway.local.flush(gateway.now_s)
    gateway.local.refused([each.request_id for each in gateway.log])
    connection.talk.loop.run()
    (frame,) = connection.talk.told()
    assert codec.decode_response(68, 1, frame).error_code == AWAY
    gateway.log.clear()
    assert (connection.decoded, connection.again) == (2, 1)
    # Its client says all, in the same bytes: as a sign of life it would not be told all.
    assert connection.ask(again).assignment is not None
    assert (connection.decoded, connection.again) == (3, 1)


def test_only_signs_of_life_are_not_counted_as_requests(connection: Connection) -> None:
    epoch = connection.ask(full(subscribed_topic_names=[])).member_epoch
    requests = connection.talk.gateway.hosts.of("/10.0.0.7").requests
    while not requests.wait_s(connection.talk.loop.now_s):
        requests.take(connection.talk.loop.now_s)
    for _ in range(2):
        assert connection.ask(alive(epoch)).throttle_time_ms == 0
    assert connection.talk.wires.is_read
    # As many as it likes: each is a record of its own.
    again = full(epoch, subscribed_topic_names=[])
    connection.send(again)
    connection.send(again)
    assert (connection.decoded, connection.talk.wires.is_read) == (3, False)
    connection.talk.pass_time(1)
    assert (connection.decoded, connection.talk.wires.is_read) == (4, True)
    first, second = connection.coordinate()
    assert (first.error_code, second.error_code) == (0, 0)
    assert first.throttle_time_ms > 0


def test_client_ids_of_any_length_are_taken_and_cut_off(gateway: Gateway) -> None:
    gateway.ask(full(subscribed_topic_names=[]), client_id="c" * 30_000)
    (asked,) = gateway.log
    assert asked.client_id == "c" * CONFIG.max_id_length
    gateway.ask(full(member_id="n", subscribed_topic_names=[]), client_id=None)
    assert gateway.log[-1].client_id == ""


# -- patterns on a connection --------------------------------------------------------------------------

BY_PATTERN: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "a.*"}


def test_a_pattern_is_matched_before_the_stream_is_asked(connection: Connection) -> None:
    talk = connection.talk
    connection.send(full(**BY_PATTERN))
    ((pattern, then),) = talk.gateway.matched
    assert (pattern, connection.decoded) == ("a.*", 0)
    # What comes next waits, as at a broker.
    connection.send(alive(-1))
    assert connection.decoded == 0
    then(Matched({"a": TopicFacts("a", 4, str(IDS["a"]))}))
    talk.loop.run()
    assert connection.decoded == 2
    join, _ = connection.gateway.log
    assert isinstance(join, Asked)
    assert (join.resolved, join.topics) == (
        Resolved(topics=["a"], user=""),
        [TopicFacts("a", 4, str(IDS["a"]))],
    )


def test_the_topics_of_a_pattern_count_while_their_heartbeat_waits(connection: Connection) -> None:
    talk, pending = connection.talk, connection.talk.gateway.pending
    connection.send(full(**BY_PATTERN))
    before = pending.bytes
    many = {f"a{number:05}": TopicFacts(f"a{number:05}", 4, str(IDS["a"])) for number in range(5_000)}
    talk.gateway.matched.pop()[1](Matched(many))
    talk.loop.run()
    (join,) = connection.gateway.log
    assert pending.bytes - before == pytest.approx(len(msgspec.json.encode(join)), rel=0.3)
    connection.coordinate()
    assert (pending.bytes, pending.count) == (0, 0)


def test_a_pattern_that_does_not_compile_never_comes_to_the_stream(connection: Connection) -> None:
    talk = connection.talk
    connection.send(full(**BY_PATTERN))
    talk.gateway.matched.pop()[1](Matched({}, "it is wrong"))
    talk.loop.run()
    (frame,) = talk.told()
    response = codec.decode_response(68, 1, frame)
    assert (response.error_code, response.error_message) == (Errors.INVALID_REGULAR_EXPRESSION, "it is wrong")
    connection.send(full(**BY_PATTERN))
    talk.gateway.matched.pop()[1](None)
    talk.loop.run()
    (frame,) = talk.told()
    assert codec.decode_response(68, 1, frame).error_code == AWAY
    assert (connection.decoded, connection.gateway.log) == (0, [])


def test_a_client_that_goes_while_its_pattern_is_matched_asks_for_nothing(connection: Connection) -> None:
    talk = connection.talk
    connection.send(full(**BY_PATTERN))
    talk.conversation.abort("client")
    talk.loop.run()
    talk.gateway.matched.pop()[1](Matched({}))
    talk.loop.run()
    assert connection.decoded == 0


def test_a_full_one_with_a_pattern_that_comes_again_is_a_sign_of_life(connection: Connection) -> None:
    talk, found = connection.talk, Matched({"a": TopicFacts("a", 4, str(IDS["a"]))})
    connection.send(full(**BY_PATTERN))
    talk.gateway.matched.pop()[1](found)
    connection.gateway.coordinate()
    talk.loop.run()
    epoch = codec.decode_response(68, 1, talk.told()[0]).member_epoch
    again = full(epoch, **BY_PATTERN)
    connection.send(again)
    talk.gateway.matched.pop()[1](found)
    connection.gateway.coordinate()
    talk.loop.run()
    connection.send(again)
    assert talk.gateway.matched == [], "what its pattern matches now is asked for by the clock"
    assert connection.again == 1


@pytest.mark.parametrize("epoch", [-1, -2])
def test_heartbeats_hurry_after_a_member_has_left(gateway: Gateway, epoch: int) -> None:
    gateway.ask(alive(3))
    gateway.local.flush_hurried(gateway.now_s)
    assert gateway.log == []
    gateway.ask(alive(epoch, "another", instance_id="i1"))
    gateway.log.clear()
    for after_s, records in ((0, 1), (5.9, 1), (0.1, 0)):
        gateway.passes(after_s)
        gateway.ask(alive(3))
        gateway.local.flush_hurried(gateway.now_s)
        assert [type(each).__name__ for each in gateway.log] == ["ConsumerGroupHeartbeatRequest"] * records
        gateway.log.clear()
