"""Questions to brokers about topics. An answer comes as the bytes that it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.metadata import MetadataRequest

from group_coordinator.client.ask_offsets import raise_if_final, send_to
from group_coordinator.client.channel import settings_of
from group_coordinator.jobs.connection import connected_admin
from group_coordinator.jobs.topic_answers import NEWEST_VERSION, OLDEST_VERSION, topics_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TRY_MS = 3_000
"""How long one broker is waited for."""
_SHUNNED_S = 30.0
"""A broker that has not answered is asked last for so long."""
_MOST_BYTES = 64 << 20


class Asking:
    """Asks about topics. `client_config`: kafka-python's settings. Raises as `connected_admin` does."""

    def __init__(self, client_config: Mapping[str, Any]) -> None:
        self._admin = connected_admin(
            {
                **settings_of(KafkaAdminClient, client_config),
                "bootstrap_timeout_ms": _TRY_MS,
                "receive_message_max_bytes": _MOST_BYTES,
                "request_timeout_ms": _TRY_MS,
            }
        )
        # There are no public names for the requests of a client.
        self._manager: Any = self._admin._manager  # noqa: SLF001
        self._round = 0
        self._shunned: dict[int, float] = {}
        """Until when brokers are asked last."""

    def next_round(self) -> None:
        """Ask another broker from now on: one that lags behind is not to be believed twice."""
        self._round += 1

    def ask(self, names: Sequence[str] | None) -> bytes:
        """Ask about topics by name, at least one; None: about all topics. Return what `topics_in` does.

        Raises a KafkaError, or `MalformedAnswerError`. A broker that does not answer is followed by others.
        """
        body: bytes = self._manager.run(self._ask, names)
        return topics_in(body)

    def close(self) -> None:
        """Disconnect."""
        self._admin.close()

    async def _ask(self, names: Sequence[str] | None) -> bytes:
        last: KafkaError | None = None
        for node in self._nodes():
            try:
                answer = self._manager.call_soon(send_to, self._manager, node, _request(names))
                response = await self._manager.wait_for(answer, _TRY_MS)
            except KafkaError as error:
                raise_if_final(error)
                self._shunned[node] = time.monotonic() + _SHUNNED_S
                last = error
                continue
            self._shunned.pop(node, None)
            return bytes(response.body)
        raise last or KafkaTimeoutError("no broker is known")

    def _nodes(self) -> Iterator[int]:
        nodes = sorted(each.node_id for each in self._manager.cluster.brokers())
        first = self._round % len(nodes) if nodes else 0
        nodes = nodes[first:] + nodes[:first]
        now_s = time.monotonic()
        yield from sorted(nodes, key=lambda node: self._shunned.get(node, 0.0) > now_s)


def _request(names: Sequence[str] | None) -> Any:
    kind = MetadataRequest.MetadataRequestTopic
    # One for each broker: kafka-python notes in it which version that broker knows.
    return _RawRequest(
        topics=None if names is None else [kind(name=name) for name in names],
        allow_auto_topic_creation=False,
        min_version=OLDEST_VERSION,
        max_version=NEWEST_VERSION,
    )


class _RawResponse:
    """A response as kafka-python makes one for each API, but of which nothing is read."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.throttle_time_ms = int.from_bytes(body[:4], signed=True)


class _RawKind:
    """The class of such responses, to kafka-python."""

    def __init__(self, kind: Any) -> None:
        self.parse_header = kind.parse_header

    def decode(self, data: Any) -> _RawResponse:
        return _RawResponse(data.read())


class _RawHeader(RequestHeader, init=False):  # type: ignore[call-arg,misc]
    def get_response_class(self) -> Any:
        return _RawKind(super().get_response_class())


class _RawRequest(MetadataRequest, init=False):  # type: ignore[call-arg,misc]
    """A Metadata request whose answer is not decoded."""

    header_class = _RawHeader
