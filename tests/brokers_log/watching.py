"""The step for a group at the brokers, over any number of batches."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from group_coordinator.brokers_log.records import topic_ids
from group_coordinator.brokers_log.step import Observed, step
from group_coordinator.coordinator_state.consumer_protocol import partitions_of
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, Output
from tests.brokers_log.consumers import NAMES
from tests.brokers_log.kafka import GROUP

__all__ = ["ALL", "Watching", "kinds", "partitions", "without_commits"]

ALL = 0
"""Events tell of each commit."""


class Watching:
    """One group that is watched: its state, and all that was written about it."""

    def __init__(self, interval_ms: int = ALL, group: str = GROUP, names: Mapping[str, str] = NAMES) -> None:
        self.interval_ms, self.group, self.names = interval_ms, group, names
        self.state: bytes | None = None
        self.deadline_ms: int | None = None
        self.outputs: list[Output] = []
        self.skipped: Counter[int] = Counter()
        self.results: list[Observed] = []

    def read(self, records: Iterable[Record], batch_ms: int = 0) -> list[dict[str, Any]]:
        """Take a batch, with the names that can be found out of its topics; returns its events.

        `batch_ms`: its time, which only goes on where a test lets it.
        """
        batch = list(records)
        names = {each: self.names[each] for each in topic_ids(batch) if each in self.names}
        result = step(self.group.encode(), self.state, batch, batch_ms, self.interval_ms, names)
        self.state, self.deadline_ms = result.state, result.deadline_ms
        self.outputs += result.outputs
        self.skipped += result.skipped
        self.results.append(result)
        return [json.loads(each.value or b"") for each in result.outputs if each.channel is Channel.EVENTS]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(each.value or b"") for each in self.outputs if each.channel is Channel.EVENTS]

    def newest(self, channel: Channel) -> dict[bytes | None, Any]:
        """The newest picture of each key; None for a tombstone."""
        found: dict[bytes | None, Any] = {}
        places: dict[bytes | None, int] = {}
        for each in self.outputs:
            if each.channel is channel:
                assert each.place is not None
                assert each.place > places.get(each.key, -1), "places go up"
                places[each.key] = each.place
                found[each.key] = None if each.value is None else json.loads(each.value)
        return found

    @property
    def picture(self) -> Any:
        """The newest picture of the group; None: there is none, or a tombstone."""
        return self.newest(Channel.GROUPS).get(self.group.encode())


def without_commits(records: Iterable[Record]) -> list[Record]:
    """The records that there are with `observe.offsets = false`."""
    return [each for each in records if each.key is None or each.key[:2] > b"\0\1"]


def partitions(assignment: str) -> str:
    """The partitions in an assignment of an event or a picture, in short."""
    return " ".join(f"{topic}{each}" for topic, each in partitions_of(base64.b64decode(assignment)))


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:  # noqa: C901 - one for each kind of event
    """The events in short."""
    told = []
    for event in events:
        match event["event"]:
            case "state_changed":
                told.append(f"{event['from']}>{event['to']}")
            case "member_added" | "member_removed":
                told.append(f"{event['event'][7:]} {event['member_id']}")
            case "member_fenced":
                told.append(f"fenced {event['member_id']} by {event['replaced_by']}")
            case "target_assigned":
                told.append(f"targets of {' '.join(each['member_id'] for each in event['assignments'])}")
            case "member_reconciled":
                revoking = partitions(event["revoking"])
                told.append(
                    f"{event['member_id']} has {partitions(event['assignment'])}"
                    + (f" and gives up {revoking}" if revoking else "")
                )
            case "subscription_changed":
                told.append(f"{event['member_id']} reads {' '.join(event['topics'])}")
            case "topics_changed":
                told += [f"{each['pattern']} matches {each['topics']}" for each in event["patterns"]]
            case "group_type_changed":
                told.append(f"{event['from']} to {event['to']}")
            case "member_away":
                told.append(f"away {event['member_id']}")
            case "generation_completed":
                told.append(f"generation {event['generation_id']} of {' '.join(event['members'])}")
            case kind:
                told.append(kind)
    return told
