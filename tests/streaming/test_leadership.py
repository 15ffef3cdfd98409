"""Whose turn it is after a coordinator that was killed on the same machine."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError

from group_coordinator.jobs.health import Activity
from group_coordinator.streaming.clock import ClockStoppedError
from group_coordinator.streaming.leadership import Leadership
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.ticks import Tick

HERE = "127.0.0.1"


class Ticks:
    """The newest tick of somebody who has been silent for some seconds, and goes on being so."""

    is_live = False
    position = 0

    def __init__(self, newest: Tick, silent_s: float) -> None:
        self.newest, self.silent_s = newest, silent_s
        self.polls = 0

    def poll(self, timeout_s: float) -> None:
        self.polls += 1
        self.silent_s += timeout_s

    def running(self, quiet_s: float) -> Tick | None:
        return None if self.silent_s > quiet_s else self.newest


def silence_it_waits_for(
    alive_at: str | None, silent_s: float = 0.0, own_name: str = "host:2", *, standby: bool = False
) -> float:
    """Start a coordinator after one that has said in its last tick where it listens; in s."""
    settings = CoordinatorSettings.load(
        None,
        {},
        {"bootstrap.servers": "b:9092", "checkpoint": "c", "standby": standby, "clock.slack.ms": 500},
    )
    ticks: Any = Ticks(Tick(tick=7, coordinator="host:1", alive_at=alive_at), silent_s)
    warmth: Any = SimpleNamespace(end=lambda: None)
    stopping: Any = threading.Event()
    watch: Any = SimpleNamespace()
    leadership = Leadership(
        settings, own_name, watch, lambda: None, warmth, f"{HERE}:1", lambda _: None, stopping
    )
    leadership.await_turn(ticks)
    return float(ticks.silent_s)


class Away(Ticks):
    """Kafka is away after some looks at ticks that go on, and then they are over."""

    is_live = True

    def __init__(self, newest: Tick, error: KafkaError) -> None:
        super().__init__(newest, 0.0)
        self._answers: list[Tick | KafkaError | None] = [newest, error, error, newest, None]

    def running(self, quiet_s: float) -> Tick | None:
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


def stand_by(error: KafkaError) -> tuple[list[str], list[Activity]]:
    """What a standby says and does while Kafka is away."""
    settings = CoordinatorSettings.load(
        None, {}, {"bootstrap.servers": "b:9092", "checkpoint": "c", "standby": True}
    )
    said: list[str] = []
    done: list[Activity] = []
    metrics = SimpleNamespace(standby=SimpleNamespace(set=lambda _: None))
    vitals: Any = SimpleNamespace(health=SimpleNamespace(does=done.append), metrics=metrics)
    warmth: Any = SimpleNamespace(begin=lambda _: None, end=lambda: None, is_warm=False)
    stopping: Any = threading.Event()
    ticks: Any = Away(Tick(tick=7, coordinator="host:1"), error)
    leadership = Leadership(settings, "host:2", vitals, lambda: None, warmth, None, said.append, stopping)
    leadership.await_turn(ticks)
    return said, done


def test_a_standby_waits_for_kafka_as_a_coordinator_does() -> None:
    said, done = stand_by(KafkaTimeoutError("nobody answers"))
    assert said == [
        "standing by: host:1 is the coordinator of these topics",
        *["waiting for Kafka at b:9092: KafkaTimeoutError: nobody answers"] * 2,
        "host:1 has ended: taking over",
    ]
    waiting = [Activity.WAITING_FOR_KAFKA] * 2
    assert done == [Activity.STANDING_BY, *waiting, Activity.STANDING_BY, Activity.STARTING]


def test_a_standby_that_may_not_read_ticks_any_more_ends() -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        stand_by(TopicAuthorizationFailedError("coordinator.clock"))


def test_a_coordinator_is_the_active_one_while_its_clock_ticks() -> None:
    nothing: Any = None
    settings = CoordinatorSettings.load(None, {}, {"bootstrap.servers": "b:9092", "checkpoint": "c"})
    leadership = Leadership(settings, "host:2", nothing, nothing, nothing, None, nothing, nothing)
    clock: Any = SimpleNamespace(failure=None)
    assert not leadership.is_active()
    with leadership.leading(clock):
        assert leadership.is_active()
        clock.failure = ClockStoppedError("another coordinator of these topics has begun")
        assert not leadership.is_active()
        clock.failure = None
    assert not leadership.is_active()


@pytest.fixture
def closed() -> str:
    with socket.create_server((HERE, 0)) as server:
        return f"{HERE}:{server.getsockname()[1]}"


@pytest.mark.parametrize("standby", [False, True])
def test_a_process_of_this_machine_that_has_died_is_waited_for_for_two_seconds(
    closed: str, *, standby: bool
) -> None:
    assert 2.0 < silence_it_waits_for(closed, standby=standby) < 2.5
    # Spark has taken longer to start.
    assert silence_it_waits_for(closed, silent_s=2.1) == 2.1


def test_one_that_may_live_is_waited_for_for_longer(closed: str) -> None:
    longer_s = 3.5
    with socket.create_server((HERE, 0)) as server:
        assert silence_it_waits_for(f"{HERE}:{server.getsockname()[1]}") > longer_s
    # Containers on two machines may have one address, and nobody listens there in this one.
    assert silence_it_waits_for(closed, own_name="another:2") > longer_s
    assert silence_it_waits_for("127.0.0.2:1") > longer_s
    assert silence_it_waits_for(None) > longer_s
