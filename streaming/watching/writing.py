"""The records of topic metadata, written to the request topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError

from group_coordinator.client.channel import settings_of
from group_coordinator.client.messages import message_of
from group_coordinator.coordinator_state.requests.consumer import TopicMetadataRequest
from group_coordinator.jobs.producers import close_producer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from group_coordinator.streaming.watching.watch import Record

CLIENT_ID = "topic-watcher"
"""The `client_id` of the records. Nobody is answered."""
_BLOCK_MS = 3_000
_DELIVERY_MS = 10_000
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    # A record that is written twice counts once.
    "enable_idempotence": False,
    "allow_auto_create_topics": False,
    "linger_ms": 5,
    "bootstrap_timeout_ms": _BLOCK_MS,
    "max_block_ms": _BLOCK_MS,
    "request_timeout_ms": _DELIVERY_MS // 2,
    "delivery_timeout_ms": _DELIVERY_MS,
}


class Writing:
    """Writes to `topic`. A record that is lost is written again when its group has not followed.

    `largest`: bytes of a record at most.
    """

    def __init__(self, topic: str, client_config: Mapping[str, Any], largest: int) -> None:
        self._topic = topic
        self._producer = KafkaProducer(
            **settings_of(KafkaProducer, client_config) | _SETTINGS | {"max_request_size": largest}
        )
        self._sent: list[Any] = []
        self._number = 0
        self.problem: str | None = None
        """The reason why the newest record that is decided was not written; None if it was."""

    def write(self, records: Sequence[Record]) -> None:
        """Send them. If Kafka is away, it is waited for once, for some seconds.

        One that is too large says nothing of the others.
        """
        for record in records:
            self._number += 1
            request = TopicMetadataRequest(
                request_id=f"{CLIENT_ID}-{self._number}",
                client_id=CLIENT_ID,
                group_id=record.group_id,
                based_on=record.based_on,
                topics=list(record.tells.topics),
                gone=list(record.tells.gone),
                patterns=list(record.tells.patterns),
            )
            key, value = record.group_id.encode(), msgspec.json.encode(request)
            try:
                self._sent.append(self._producer.send(self._topic, key=key, value=value))
            except MessageSizeTooLargeError as error:
                self.problem = message_of(error)
            except KafkaError as error:
                self.problem = message_of(error)
                return

    def written(self) -> int:
        """Look what has become of what was sent; return how many were written since the last look."""
        done = [each for each in self._sent if each.is_done]
        self._sent = [each for each in self._sent if not each.is_done]
        for each in done:
            self.problem = None if each.succeeded() else message_of(each.exception)
        return sum(each.succeeded() for each in done)

    def close(self) -> None:
        """Disconnect."""
        close_producer(self._producer)
