"""Commits and fetches of offsets: what to ask, what the answers mean, and which are still to come.

A part of `Membership` and sans-IO like it. Each call has a `token` that its outcome is handed back with. The
outcome is plain data as well, so that no callback runs in here.

A commit that was sent is never sent again. It is in the log and will be read, and a repeat could undo a newer
commit. It waits for its answer, however long the coordinator is away; only who waits for it may lose
patience. A fetch has a time by which it ends. It is asked again if the coordinator puts it off.

Source: ConsumerCoordinator.java of Apache Kafka 4 (OffsetCommitResponseHandler, OffsetFetchResponseHandler).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.errors import commit_error, fatal_error, oversized_commit, unanswered
from group_coordinator.client.member_settings import AnySettings
from group_coordinator.client.offset_lists import by_topic, committed, to_commit_one
from group_coordinator.client.outgoing import Outgoing
from group_coordinator.client.work import Unit, partition_of
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from group_coordinator.coordinator_state.responses import (
    InvalidRequestResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
)

Offsets = dict[Unit, OffsetAndMetadata]
"""unit -> how far it has been worked on: the offset of the next record, not of the last."""

# The default limit of a coordinator, and about that of Kafka. A larger request would be an error of the way
# to the coordinator, which ends the membership.
_MAX_BYTES = GroupConfig().max_request_bytes

OFFSETS = "offsets-"
"""A mark in the ids of commits and fetches: a repeated refusal of one must not be taken for a heartbeat's."""

OffsetAnswer = OffsetCommitResponse | OffsetFetchResponse | InvalidRequestResponse


@dataclass(frozen=True)
class Outcome:
    """The end of a call. `offsets`: what a fetch was told, None for a unit of which nothing is committed."""

    token: Any
    offsets: dict[Unit, OffsetAndMetadata | None] | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class _Call:
    """A call that waits for its answer. `expires_at`: a fetch's end, None for a commit."""

    token: Any
    units: dict[TopicPartition, Unit]
    expires_at: int | None = None
    request: AnyRequest | None = None


# Those of a fetch that pass: a member of the consumer protocol may be an epoch behind, or about to rejoin.
_PUT_OFF = frozenset(
    {Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.STALE_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID}
)


class OffsetCalls:
    """The calls of one member, which are sent with its other requests.

    `asker`: the member id and epoch that a fetch is to name at the moment, in groups that look at them.
    """

    def __init__(
        self, settings: AnySettings, requests: Outgoing, asker: Callable[[], tuple[str | None, int]]
    ) -> None:
        self._group_id = settings.group_id
        self._requests = requests
        self._asker = asker
        # By request id.
        self._calls: dict[str, _Call] = {}
        self._outcomes: list[Outcome] = []
        self._retry_backoff_ms = settings.retry_backoff_ms
        self._put_off: list[tuple[int, _Call]] = []
        """Fetches that the coordinator has put off, and when they are asked again."""

    # -- calls -----------------------------------------------------------------------------------------

    def commit(
        self, offsets: Offsets, token: Any, *, generation_id: int, member_id: str, instance_id: str | None
    ) -> None:
        """Commit as a member of a generation."""
        units = {partition_of(unit): unit for unit in offsets}
        entries = ((each, to_commit_one(each, offsets[unit])) for each, unit in units.items())
        request = OffsetCommitRequest(
            **self._requests.envelope(OFFSETS),
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=by_topic(entries, OffsetCommitTopic),
        )
        size = len(msgspec.json.encode(request))
        if size > _MAX_BYTES:
            self.refuse(token, oversized_commit(self._group_id, size, _MAX_BYTES))
            return
        self._calls[request.request_id] = _Call(token, units, request=request)
        self._requests.put(request)

    def fetch(self, units: Iterable[Unit], token: Any, expires_at: int) -> None:
        """Ask what is committed for `units`; an answer after `expires_at` (ms) comes too late."""
        self._fetch(_Call(token, {partition_of(unit): unit for unit in units}, expires_at))

    def _fetch(self, call: _Call) -> None:
        member_id, member_epoch = self._asker()
        request = OffsetFetchRequest(
            **self._requests.envelope(OFFSETS),
            topics=by_topic(((each, each.partition) for each in call.units), OffsetFetchTopic),
            member_id=member_id,
            member_epoch=member_epoch,
        )
        self._calls[request.request_id] = replace(call, request=request)
        self._requests.put(request)

    def refuse(self, token: Any, error: Exception) -> None:
        """End a call that need not be sent."""
        self._outcomes.append(Outcome(token, error=error))

    def end(self, error: Exception) -> None:
        """End all calls: no answer is going to be read any more."""
        for call in (*self._calls.values(), *(call for _, call in self._put_off)):
            self.refuse(call.token, error)
        self._calls.clear()
        self._put_off.clear()

    # -- answers ---------------------------------------------------------------------------------------

    def awaits(self, request_id: str) -> bool:
        """Whether an answer to this request is to come."""
        return request_id in self._calls

    def _fits(self, answer: OffsetAnswer) -> bool:
        request = self._calls[answer.request_id].request
        return request is not None and fits(request, answer, may_lack=True)

    @property
    def awaits_commits(self) -> bool:
        """Whether an answer to any commit is to come."""
        return any(call.expires_at is None for call in self._calls.values())

    def receive(self, answer: OffsetAnswer, now_ms: int) -> bool:
        """Take an answer that was to come; returns whether it fits, and is not somebody else's."""
        if not self._fits(answer):
            return False
        call = self._calls.pop(answer.request_id)
        if isinstance(answer, OffsetFetchResponse) and answer.error_code in _PUT_OFF:
            self._put_off.append((now_ms + self._retry_backoff_ms, call))
            return True
        error = self._error(answer, call)
        if isinstance(answer, OffsetFetchResponse) and error is None:
            found = committed(answer)
            told = {unit: found.get(partition) for partition, unit in call.units.items()}
            self._outcomes.append(Outcome(call.token, told))
        else:
            self._outcomes.append(Outcome(call.token, error=error))
        return True

    def take_outcomes(self) -> list[Outcome]:
        """Return the outcomes of calls. Each outcome is returned once."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _error(self, answer: OffsetAnswer, call: _Call) -> Exception | None:
        """What the request was refused for; if that differs by unit, an error for the first tells of all."""
        group_id = self._group_id
        if isinstance(answer, InvalidRequestResponse):
            return fatal_error(answer.error_code, answer.error, answer.error_message, group_id)
        error_of = commit_error if isinstance(answer, OffsetCommitResponse) else fatal_error
        if answer.error_code != Errors.NONE:
            return error_of(answer.error_code, answer.error, answer.error_message, group_id)
        refused = defaultdict(list)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code != Errors.NONE:
                    unit = call.units[TopicPartition(topic.name, each.partition_index)]
                    refused[each.error_code].append(unit)
        if not refused:
            return None
        (code, units), *others = refused.items()
        details = [f"for {_listed(units)}", *(f"{_name(each)} for {_listed(its)}" for each, its in others)]
        return error_of(code, _name(code), "; ".join(details), group_id)

    # -- time ------------------------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """The time at which the next fetch times out, or is asked again."""
        ends = [call.expires_at for call in self._calls.values() if call.expires_at is not None]
        return min([*ends, *(at_ms for at_ms, _ in self._put_off)], default=None)

    def handle_timer(self, now_ms: int) -> None:
        """End the fetches whose time is over, and ask again what was put off."""
        due = [call for at_ms, call in self._put_off if at_ms <= now_ms]
        self._put_off = [each for each in self._put_off if each[0] > now_ms]
        for call in due:
            self._fetch(call)
        for request_id, call in list(self._calls.items()):
            if call.expires_at is not None and now_ms >= call.expires_at:
                del self._calls[request_id]
                advice = "Ask again; is the coordinator running?"
                self.refuse(call.token, unanswered(self._group_id, "a fetch of offsets", advice))


def checked_offsets(offsets: Mapping[Unit, int | OffsetAndMetadata]) -> Offsets:
    """Read an offset that a program gives to be committed; TypeError or ValueError if it is none."""
    checked = {}
    for unit, given in offsets.items():
        offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
        if not isinstance(offset.offset, int):
            raise TypeError(f"{offset.offset!r} is no offset of {unit!r}: give an int or OffsetAndMetadata")
        if not isinstance(offset.metadata, str | None):
            raise TypeError(f"{offset.metadata!r} is no metadata of {unit!r}: give a string")
        if offset.offset < 0:
            raise ValueError(f"{offset.offset} is no offset of {unit!r}: offsets are not negative")
        partition_of(unit)
        checked[unit] = offset
    return checked


def checked_units(units: Collection[Unit]) -> tuple[Unit, ...]:
    """Read the units whose offsets a program asks for; TypeError if those are no units."""
    # A str is also a collection of str, but never what is meant.
    if isinstance(units, str):
        raise TypeError("units must be a list of TopicPartitions or names of units")
    for unit in units:
        partition_of(unit)
    return tuple(units)


def _listed(units: Iterable[Unit]) -> str:
    return ", ".join(it if isinstance(it, str) else f"{it.topic}-{it.partition}" for it in units)


def _name(code: int) -> str:
    return next((each.name for each in Errors if each == code), "an error unknown here")
