"""A history made readable: requests by place, answers by request, each group's events in order."""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.wire import Rejection, read_request

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.requests import AnyRequest
    from tests.faults.history import History

__all__ = ["Asked", "Event", "Replayed", "View", "Violation"]

Event = dict[str, Any]


class Violation(NamedTuple):
    """Something that must not be: which rule, in which group, and the records that show it."""

    rule: str
    group_id: str
    detail: str


class Asked(NamedTuple):
    """A record of the request topic. `place` is its name in event ids; `request` None: it is no request."""

    place: str
    record: Record
    request: AnyRequest | None


class Replayed(NamedTuple):
    """What the core decides about a whole log in one step; responses are (key, value, partition)."""

    responses: list[tuple[bytes | None, bytes | None, int | None]]
    events: dict[str, list[bytes]]
    groups: dict[bytes | None, bytes | None]
    offsets: dict[bytes | None, bytes | None]
    rejected: set[bytes | None]
    decided: dict[str, tuple[list[Record], StepResult]]
    """Group id -> its records, and all that was decided about them."""


class View:
    """The parts of a history, decoded once, as several rules need them."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def config(self) -> GroupConfig:
        """That of the coordinator, but that nothing is put off in the one step of a replay."""
        return msgspec.structs.replace(self.history.config, max_read_bytes=sys.maxsize)

    @cached_property
    def asked(self) -> dict[str, list[Asked]]:
        """Group id (as the record key has it) -> its records in log order."""
        asked = defaultdict(list)
        for record in sorted(self.history.requests, key=lambda it: (it.partition, it.offset)):
            request = read_request(record, self.history.config, self.history.layout)
            place = f"{record.topic}-{record.partition}-{record.offset}"
            readable = None if isinstance(request, Rejection) else request
            asked[_text(record.key)].append(Asked(place, record, readable))
        return dict(asked)

    @cached_property
    def times_asked(self) -> dict[str, int]:
        """Request id -> how often it is in the log."""
        times: dict[str, int] = defaultdict(int)
        for asked in self.asked.values():
            for it in asked:
                if it.request is not None:
                    times[it.request.request_id] += 1
        return times

    @cached_property
    def answers(self) -> dict[str, list[tuple[bytes | None, bytes | None, int]]]:
        """Request id -> the different answers to it, as (key, value, partition)."""
        answers: dict[str, list[tuple[bytes | None, bytes | None, int]]] = defaultdict(list)
        for it in self.history.responses:
            request_id = msgspec.json.decode(it.value or b"{}")["request_id"]
            answer = (it.key, it.value, it.partition)
            if answer not in answers[request_id]:
                answers[request_id].append(answer)
        return answers

    @cached_property
    def events(self) -> dict[str, list[Event]]:
        """Group id -> its events, each once, in order.

        An event that is repeated counts where it comes last: a batch that broke off may have written some of
        its events, the one that was finished has written all of them in order.
        """
        last: dict[str, tuple[tuple[int, int], Event]] = {}
        for it in self.history.events:
            event = msgspec.json.decode(it.value or b"{}")
            last[event["event_id"]] = ((it.partition, it.offset), event)
        in_order = sorted(last.values(), key=lambda it: (it[1]["group_id"], it[0]))
        by_group = groupby((event for _, event in in_order), key=lambda event: event["group_id"])
        return {group_id: list(events) for group_id, events in by_group}

    @cached_property
    def replayed(self) -> Replayed:
        """What an undisturbed coordinator would have decided about the same log."""
        history = self.history
        by_key: dict[bytes | None, list[Record]] = defaultdict(list)
        for record in history.requests:
            by_key[record.key].append(record)
        known = PartitionOutages(history.outages, history.standstills, history.layout.request_partitions)
        replayed = Replayed([], {}, {}, {}, set(), {})
        for key, records in by_key.items():
            end_ms, config, layout = history.watermark_ms, self.config, history.layout
            reached_ms = known.reached_ms(key, end_ms)
            result = step(key, None, records, reached_ms, config, history.secret, known.of(key), layout)
            for output in result.outputs:
                match output.channel:
                    case Channel.RESPONSES:
                        replayed.responses.append((output.key, output.value, output.partition))
                    case Channel.EVENTS:
                        replayed.events.setdefault(_text(key), []).append(output.value or b"")
                    case Channel.GROUPS:
                        replayed.groups[output.key] = output.value
                    case Channel.OFFSETS:
                        replayed.offsets[output.key] = output.value
                    case Channel.REJECTED:
                        replayed.rejected.add(output.value)
            replayed.decided[_text(key)] = records, result
        return replayed


def _text(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")
