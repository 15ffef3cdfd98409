"""Groups whose story the tests of the history tell: the real core writes the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.client.assignors import to_assignment
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.history.rows import read_event
from tests.coordinator_state.scenario import Scenario

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.events import AnyEvent

TOPIC = "orders"
GROUP = "orders"


def share(*partitions: int, topic: str = TOPIC) -> bytes:
    """What a leader gives a member: partitions of a topic."""
    return to_assignment((topic, each) for each in partitions).encode()


def bodies(s: Scenario) -> list[bytes]:
    """The events, as they are in the topic."""
    return [output.value or b"" for output in s.outputs if output.channel is Channel.EVENTS]


def events(s: Scenario) -> list[AnyEvent]:
    return [event for body in bodies(s) if (event := read_event(body)) is not None]


def a_day() -> Scenario:
    """c1 and c2 share two partitions from 1 s on. c2 dies; c1 has both from 13 s on, and leaves at 20 s."""
    s = Scenario()
    s.at(1_000)
    s.form("c1", "c2")
    s.sync("c1", {"c1": share(0), "c2": share(1)})
    s.sync("c2")
    for now in (4_000, 8_000, 11_000):
        s.at(now)
        s.heartbeat("c1")
    s.at(13_000)
    s.join("c1")
    s.sync("c1", {"c1": share(0, 1)})
    s.at(20_000)
    s.commit("c1", {TOPIC: {0: 7, 1: 9}}, principal="alice")
    s.leave("c1")
    return s


def a_night() -> Scenario:
    """c1, c2 and the static c3 share six partitions; c2 keeps the others waiting, and c3 starts again."""
    s = Scenario()
    s.static("c3")
    s.at(500)
    s.form("c1", "c2", "c3")
    shares = {"c1": share(0, 1), "c2": share(2, 3), "c3": share(4, 5)}
    s.sync("c1", shares)
    for round_ in range(1, 4):
        s.at(round_ * 5_000)
        for client in ("c1", "c2", "c3"):
            s.heartbeat(client)
        s.join("c1", reason="topics have changed")
        s.wait(100)
        s.join("c3")
        s.wait(1_000 * round_)
        s.join("c2")
        s.sync("c1", shares)
    s.at(20_000)
    s.commit("c1", {TOPIC: {0: 7, 1: 9}})
    s.ids["c3 before"] = s.ids["c3"]
    s.restart("c3")
    s.at(25_000)
    s.commit("c1", {TOPIC: {0: 5}}, principal="bob")
    s.leave("c2", principal="carol")
    return s


def renamed(records: list[bytes], group_id: str) -> list[bytes]:
    """The same events of another group."""
    events = [msgspec.json.decode(body) for body in records]
    for event in events:
        event["event_id"], event["group_id"] = f"{group_id}/{event['event_id']}", group_id
    return [msgspec.json.encode(event) for event in events]
