"""Whether the coordinator answers: a heartbeat of somebody it does not know, which changes nothing."""

from __future__ import annotations

from group_coordinator.client.channel import KafkaChannel
from group_coordinator.coordinator_state.requests import HeartbeatRequest
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES

_NAME = "demo-probe"


class Probe:
    """It asks in the partition of `group_id`. An answer means that everything before it is handled."""

    def __init__(self, bootstrap_servers: str, group_id: str) -> None:
        self._group_id = group_id
        self._asked = 0
        self._channel = KafkaChannel(
            client_id=_NAME,
            instance=_NAME,
            request_topic=REQUESTS,
            response_topic=RESPONSES,
            bootstrap_servers=bootstrap_servers,
        )

    def ask(self) -> None:
        """Send one request."""
        self._asked += 1
        self._channel.send(
            HeartbeatRequest(
                request_id=self._request_id,
                client_id=_NAME,
                reply_partition=self._channel.reply_partition,
                group_id=self._group_id,
                generation_id=-1,
                member_id=_NAME,
            )
        )

    def answered(self) -> bool:
        """Whether the answer to the last request has come."""
        return any(answer.request_id == self._request_id for answer in self._channel.receive(timeout_ms=0))

    def close(self) -> None:
        """Disconnect."""
        self._channel.close(timeout_ms=2_000)

    @property
    def _request_id(self) -> str:
        return f"{_NAME}-{self._asked}"
