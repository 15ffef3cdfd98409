"""Coordinators that are wrong, to see whether the oracles notice.

Each is the real `step` with one thing bent, so that all else is right: what is noticed is the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import NO_OUTAGES, Outages
from group_coordinator.coordinator_state.requests import AnyRequest, SyncGroupRequest
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group, encode_group

_read_request = msgspec.json.Decoder(AnyRequest).decode

ALL_UNITS = b"0 1 2 3 4 5 6 7 8"


def counts_outages(*args: Any) -> StepResult:
    """Time passes for it while there is no coordinator."""
    outages = args.index(next(it for it in args if isinstance(it, Outages)))
    return step(*args[:outages], NO_OUTAGES, *args[outages + 1 :])


# -- the group -----------------------------------------------------------------------------------------


def forgets_a_member(*args: Any) -> StepResult:
    """Of a Stable group of several one is gone, and nobody is told."""
    result = step(*args)
    if result.state is None:
        return result
    group = decode_group(result.state)
    if group.state is GroupState.STABLE and len(group.members) > 1:
        group.remove_member(list(group.members.values())[-1])
        picture = msgspec.json.encode(group.picture(GroupConfig()))
        outputs = [
            output._replace(value=picture) if output.channel is Channel.GROUPS else output
            for output in result.outputs
        ]
        return result._replace(state=encode_group(group), outputs=outputs)
    return result


def gives_units_twice(key: bytes, state: bytes | None, records: list[Record], *args: Any) -> StepResult:
    """What the leader gives to anybody is given to everybody. All that is written agrees with that."""
    return step(key, state, [_give_to_all(record) for record in records], *args)


def _give_to_all(record: Record) -> Record:
    request = _read_request(record.value or b"")
    if not isinstance(request, SyncGroupRequest):
        return record
    shares = [msgspec.structs.replace(each, assignment=ALL_UNITS) for each in request.assignments]
    return record._replace(value=msgspec.json.encode(msgspec.structs.replace(request, assignments=shares)))


class CountsItsCalls:
    """What it decides depends on something else than its arguments: how often it was called."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, *args: Any) -> StepResult:
        self._calls += 1
        return step(*args[:5], b"secret %d" % self._calls, *args[6:])


# -- time ----------------------------------------------------------------------------------------------


def lets_time_pass_first(
    key: bytes, state: bytes | None, records: list[Record], watermark: int, *args: Any
) -> StepResult:
    """Deadlines fire before the records of the batch are read: an outage puts everybody out."""
    first = step(key, state, [], max((record.timestamp_ms for record in records), default=0), *args)
    then = step(key, first.state, records, watermark, *args)
    return then._replace(outputs=first.outputs + then.outputs)


def never_expires(
    key: bytes, state: bytes | None, records: list[Record], watermark: int, *args: Any
) -> StepResult:
    """Time passes with records only, so that who is silent stays if nobody else says anything."""
    result = step(key, state, records, 0, *args)
    if result.deadline_ms is None:
        return result
    return result._replace(deadline_ms=max(result.deadline_ms, watermark + 1))


# -- offsets -------------------------------------------------------------------------------------------


def forgets_offsets(key: bytes, state: bytes | None, records: list[Record], *args: Any) -> StepResult:
    """A rebalance costs a group its offsets, and nobody is told."""
    result = step(key, state, records, *args)
    if result.state is None:
        return result
    group = decode_group(result.state)
    if group.state is GroupState.PREPARING_REBALANCE:
        group.offsets = b""
    outputs = [output for output in result.outputs if output.channel is not Channel.OFFSETS]
    return result._replace(state=encode_group(group), outputs=outputs)


# -- answers -------------------------------------------------------------------------------------------

Answer = dict[str, Any]


def tells_other_assignments(*args: Any) -> StepResult:
    """Members are told that they own everything, which was not decided."""
    return _bent(args, lambda answer: [answer | {"assignment": ALL_UNITS} if _is_sync(answer) else answer])


def answers_joins_twice(*args: Any) -> StepResult:
    """Every answer to a join is written twice in one run."""
    return _bent(args, lambda answer: [answer] * (2 if answer["api"] == "join_group" else 1))


def never_answers_syncs(*args: Any) -> StepResult:
    """No sync that was granted is answered."""
    return _bent(args, lambda answer: [] if _is_sync(answer) else [answer])


def answers_somebody_else(*args: Any) -> StepResult:
    """Answers go to a client that did not ask."""
    return _bent(args, lambda answer: [answer | {"client_id": "c5"}])


def grants_all_commits(*args: Any) -> StepResult:
    """Whoever commits is told that it is kept."""
    granted = {"error_code": 0, "error": "NONE"}
    return _bent(args, lambda answer: [answer | granted if answer["api"] == "offset_commit" else answer])


def tells_no_offsets(*args: Any) -> StepResult:
    """Whoever asks is told that nothing is committed."""
    return _bent(
        args, lambda answer: [answer | {"topics": []} if answer["api"] == "offset_fetch" else answer]
    )


def _is_sync(answer: Answer) -> bool:
    return answer["api"] == "sync_group" and answer["error_code"] == 0


def _bent(args: Any, bend: Callable[[Answer], list[Answer]]) -> StepResult:
    result = step(*args)
    outputs = []
    for output in result.outputs:
        if output.channel is Channel.RESPONSES:
            bent = bend(msgspec.json.decode(output.value or b""))
            outputs += [output._replace(value=msgspec.json.encode(answer)) for answer in bent]
        else:
            outputs.append(output)
    return result._replace(outputs=outputs)
