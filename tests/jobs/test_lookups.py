"""Looking something up while a broker hangs, with consumers that do as the test says."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import AuthorizationError, KafkaError, KafkaTimeoutError

from group_coordinator.jobs import lookups
from group_coordinator.jobs.lookups import SOON, consumer_of

PARTITION = TopicPartition("t", 0)


class Consumers:
    """Makes consumers, each of which raises the next of `errors`; the one after the last of them answers."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = list(errors)
        self.open = 0

    def __call__(self, **_: Any) -> Any:
        self.open += 1
        return self

    def begins(self, _client: Any, partitions: list[TopicPartition], _timeout_ms: int) -> dict[Any, int]:
        if self._errors:
            raise self._errors.pop(0)
        return dict.fromkeys(partitions, 7)

    def close(self) -> None:
        self.open -= 1


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([], None),
        ([KafkaTimeoutError()] * 9, None),
        ([KafkaTimeoutError()] * 10, KafkaTimeoutError),
        ([AuthorizationError()], AuthorizationError),
    ],
)
def test_another_consumer_asks_when_one_is_not_answered(
    monkeypatch: pytest.MonkeyPatch, errors: list[KafkaError], expected: type[KafkaError] | None
) -> None:
    consumers = Consumers(*errors)
    monkeypatch.setattr(lookups, "KafkaConsumer", consumers)
    monkeypatch.setattr(lookups, "begins_of", consumers.begins)
    if expected is None:
        assert consumer_of({}, [PARTITION]) == (consumers, {PARTITION: 7})
        assert consumers.open == 1
    else:
        with pytest.raises(expected):
            consumer_of({}, [PARTITION])
        assert consumers.open == 0


def test_a_client_that_is_waited_for_asks_for_its_topics_at_once() -> None:
    """With kafka-python's own it waits for 100 ms after it has asked for the brokers."""
    with closing(SOON["kafka_client"](bootstrap_servers=["127.0.0.1:1"], retry_backoff_ms=100)) as client:
        assert client.cluster.refresh_backoff() <= 20
