"""What anybody may write into the topics that a gateway reads ends no thread of its."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import msgspec
import pytest
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.responses import HeartbeatResponse
from group_coordinator.gateway import stream
from group_coordinator.gateway.groups import ListedGroup
from group_coordinator.gateway.stream import Listener, Reader
from tests.client.brokers import Brokers
from tests.patience import wait_for

GROUPS = TopicPartition("groups", 0)
HOSTILE = [
    *(None, b"", b"{", b"[]", b"\xff", b'{"api":"\xff"}', b'{"api":"heartbeat","a":' + b"[" * 100_000),
    *(
        b'{"api":"heartbeat","request_id":"r","client_id":"c","group_id":"g","error_code":"x"}',
        b"[" * 100_000,
    ),
]
HEADERS = [[], [("place", None)], [("place", b"\xff")], [("place", b"9" * 5_000)], [("place", b"")]]
ANSWER = HeartbeatResponse(request_id="r", client_id="c", group_id="g")
PICTURE = b'{"group_id":"g","state":"Stable","protocol_type":"consumer"}'


def record(
    topic: str, value: bytes | None, key: bytes | None = b"g", headers: object = ()
) -> SimpleNamespace:
    return SimpleNamespace(topic=topic, partition=0, offset=1, key=key, value=value, headers=headers)


class Consumer:
    """Has all of that to read, once."""

    config: ClassVar = {"request_timeout_ms": 1_000}

    def __init__(self, **_: Any) -> None:
        hostile = [
            record(topic, value, key, headers)
            for topic in ("responses", "groups")
            for value in HOSTILE
            for key in (None, b"\xff", b"other")
            for headers in HEADERS
        ]
        self._manager = Brokers({GROUPS: (0, 1), TopicPartition("responses", 0): (0, 1)})
        self.unread = [*hostile, record("responses", msgspec.json.encode(ANSWER)), record("groups", PICTURE)]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        unread, self.unread = self.unread, []
        return {GROUPS: unread}

    def position(self, _: TopicPartition) -> int:
        return 1

    def assign(self, _: object) -> None: ...

    def seek(self, *_: object) -> None: ...

    def close(self, **_: object) -> None: ...


class Loop:
    """Calls at once."""

    def call_soon_threadsafe(self, function: Callable[..., Any], *arguments: Any) -> None:
        function(*arguments)


def test_what_anybody_may_write_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KafkaConsumer", Consumer)
    monkeypatch.setattr(stream, "settings_of", lambda *_: {})
    answers: list[Any] = []
    groups: list[tuple[str, ListedGroup | None]] = []
    listener = Listener(
        pytest.fail,
        pytest.fail,
        lambda told, _: answers.extend(told),
        lambda told, _: groups.extend((group_id, group) for group_id, group, _ in told),
        pytest.fail,
    )
    reader = Reader(cast("Any", Loop()), listener, ["responses"], 0, [GROUPS], {})
    try:
        wait_for(lambda: ("g", ListedGroup("Stable", "consumer")) in groups)
    finally:
        reader.close()

    assert answers == [ANSWER]
    assert [each for each in groups if each[1] is not None] == [("g", ListedGroup("Stable", "consumer"))]
