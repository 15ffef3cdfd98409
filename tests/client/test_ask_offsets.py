"""Where logs begin and end, while brokers are away or partitions have no leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.admin import OffsetSpec
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotLeaderForPartitionError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownBrokerIdError,
    UnsupportedForMessageFormatError,
)
from kafka.structs import TopicPartition

from group_coordinator.client import ask_offsets as asking
from group_coordinator.client.ask_offsets import (
    UnansweredError,
    ask_offsets,
    begins_of,
    ends_of,
    leaders_of,
    offsets_of,
)
from group_coordinator.client.since import offsets_since
from tests.client.brokers import Brokers

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
GONE = TopicPartition("gone", 0)
LATEST = dict.fromkeys([A0, A1, B0], OffsetSpec.LATEST)
SHORT_MS = 3_000


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers({A0: (0, 5), A1: (10, 30), B0: (0, 0)})
    monkeypatch.setattr(asking, "time", SimpleNamespace(monotonic=lambda: brokers.now_s))
    return brokers


def client(brokers: Brokers, **config: Any) -> Any:
    return SimpleNamespace(_manager=brokers, config={"request_timeout_ms": 30_000, **config})


def found(brokers: Brokers, timeout_ms: float = 30_000) -> dict[TopicPartition, int]:
    return {each: it.offset for each, it in ask_offsets(client(brokers), LATEST, timeout_ms).items()}


def test_all_leaders_are_asked_at_once(brokers: Brokers) -> None:
    brokers.leaders = {A1: 2}
    assert found(brokers) == {A0: 5, A1: 30, B0: 0}
    assert brokers.asked[0] == ("MetadataRequest", 2)
    assert sorted(brokers.asked[1:]) == [("ListOffsetsRequest", 1), ("ListOffsetsRequest", 2)]
    assert begins_of(client(brokers), [A0, A1]) == {A0: 0, A1: 10}
    assert ends_of(client(brokers), iter([A1])) == {A1: 30}
    assert leaders_of(client(brokers), {"a", "gone"}) == {A0: 1, A1: 2}


def test_nothing_is_asked_about_nothing(brokers: Brokers) -> None:
    assert ask_offsets(client(brokers), {}) == {} == ends_of(client(brokers), [])
    assert brokers.asked == []


def test_only_what_is_there_is_waited_for(brokers: Brokers) -> None:
    brokers.leaders = {A1: -1}
    assert found(brokers) == {A0: 5, B0: 0}
    assert ask_offsets(client(brokers), {GONE: OffsetSpec.LATEST}) == {}
    # The first has no leader, and the broker of the second hangs.
    brokers.leaders, brokers.failing = {A1: -1, A0: 2}, {2: None}
    brokers.nodes = [2, 1]
    assert found(brokers, SHORT_MS) == {B0: 0}
    assert brokers.now_s == SHORT_MS / 1_000


@pytest.mark.parametrize(
    "error", [KafkaConnectionError(), NodeNotReadyError(), UnknownBrokerIdError(), KafkaTimeoutError()]
)
def test_another_broker_is_asked_for_leaders(brokers: Brokers, error: KafkaError) -> None:
    brokers.failing = {2: error}
    assert found(brokers) == {A0: 5, A1: 30, B0: 0}
    assert [node for kind, node in brokers.asked if kind == "MetadataRequest"] == [2, 1]


def test_what_is_to_be_complete_says_what_is_not_there(brokers: Brokers) -> None:
    brokers.leaders = {A1: -1}
    with pytest.raises(UnansweredError, match=r"no leader has told of a-1 within 3 s$") as caught:
        ends_of(client(brokers), [A0, A1], SHORT_MS)
    assert caught.value.partitions == {A1}
    # Clients that wait for a broker wait for a leader as well.
    assert isinstance(caught.value, KafkaTimeoutError)
    with pytest.raises(UnansweredError, match="gone-0"):
        begins_of(client(brokers, request_timeout_ms=SHORT_MS), [GONE])
    assert "a-0, a-1, b-0 and 1 more" in str(UnansweredError([GONE, *LATEST], 1))


def test_it_asks_again_until_there_is_a_leader(brokers: Brokers) -> None:
    brokers.leaders = {A1: -1}
    brokers.meanwhile = brokers.leaders.clear
    assert ends_of(client(brokers), [A0, A1]) == {A0: 5, A1: 30}


@pytest.mark.parametrize("error", [NotLeaderForPartitionError, LeaderNotAvailableError])
def test_a_leader_that_is_none_any_more_is_looked_up_again(brokers: Brokers, error: type[KafkaError]) -> None:
    brokers.codes = {A1: error.errno}
    brokers.meanwhile = brokers.codes.clear
    assert found(brokers) == {A0: 5, A1: 30, B0: 0}


def test_the_leader_that_cannot_be_reached_is_looked_up_again(brokers: Brokers) -> None:
    brokers.leaders, brokers.failing = {A1: 3}, {3: UnknownBrokerIdError(3)}
    brokers.meanwhile = brokers.failing.clear
    assert found(brokers) == {A0: 5, A1: 30, B0: 0}
    assert brokers.updates == 1


def test_an_error_that_stays_is_raised_at_once(brokers: Brokers) -> None:
    brokers.failing = {1: SaslAuthenticationFailedError(), 2: SaslAuthenticationFailedError()}
    with pytest.raises(SaslAuthenticationFailedError):
        found(brokers)
    brokers.failing = {}
    brokers.codes = {A0: UnsupportedForMessageFormatError.errno}
    with pytest.raises(UnsupportedForMessageFormatError, match="a-0"):
        found(brokers)


@pytest.mark.parametrize("refused", ["a", A0])
def test_a_topic_that_may_not_be_seen_is_left_out_or_an_error(brokers: Brokers, refused: Any) -> None:
    brokers.codes = {refused: TopicAuthorizationFailedError.errno}
    assert A0 not in found(brokers)
    assert found(brokers)[B0] == 0
    with pytest.raises(TopicAuthorizationFailedError) as caught:
        ends_of(client(brokers), [A0, B0])
    assert caught.value.args == ({"a"},)


def test_nobody_says_who_leads(brokers: Brokers) -> None:
    brokers.failing = {1: None, 2: NodeNotReadyError()}
    for ask in (found, lambda it, ms: ends_of(client(it), [A0], ms)):
        with pytest.raises(UnansweredError):
            ask(brokers, SHORT_MS)


def test_a_time_that_no_leader_tells_of_is_not_the_end(brokers: Brokers) -> None:
    ends = {A0: 5, A1: 30}
    assert offsets_since(client(brokers), ends, 1003) == {A0: 3, A1: 10}
    assert offsets_since(client(brokers), ends, 1029) == {A0: 5, A1: 29}
    brokers.leaders = {A0: -1}
    with pytest.raises(UnansweredError):
        offsets_since(client(brokers, request_timeout_ms=SHORT_MS), ends, 1003)


def test_the_end_is_that_for_the_clients_isolation_level(brokers: Brokers) -> None:
    offsets_of(client(brokers, isolation_level="read_committed"), LATEST)
    assert brokers.isolation_levels == {1}
