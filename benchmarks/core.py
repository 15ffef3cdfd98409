"""The protocol core alone, on one core, without Spark or Kafka.

Heartbeats per second, in groups of several sizes:

* `one per call`: each heartbeat is a call of `step` of its own, as for a group that is in each batch with one
  record. Reading and writing the stored group is in it, and grows with the group.
* `all per call`: one call has a heartbeat of each member, as for a group in a batch of several seconds.
* `not stored`: the same heartbeats, but the group stays in memory and answers are not encoded: the rules and
  the decoding of the requests.

Join phase: milliseconds per member for a group to form, from the first join to the last assignment, in three
calls (joins; the deadline that ends the phase; syncs). It is flat if nothing is quadratic in the members.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import show, write
from coordinator_state.config import GroupConfig
from coordinator_state.coordinator import GroupCoordinator
from coordinator_state.log import Record
from coordinator_state.step import Channel, StepResult, decode_group, step
from coordinator_state.turn import Turn
from coordinator_state.wire import Rejection, read_request

HEARTBEAT_GROUPS = (1, 100, 3000)
JOIN_GROUPS = (300, 3000)
KEY = b"group"
SECRET = b"secret"
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=3_000)
_RUN_S = 1.0


def run(file: Path | None) -> None:
    """Measure, print and write."""
    heartbeats = {members: _heartbeats(members) for members in HEARTBEAT_GROUPS}
    joins = {members: min(_join_phase(members) for _ in range(3)) for members in JOIN_GROUPS}
    ways = ["one per call", "all per call", "not stored"]
    show(
        "Heartbeats per second",
        ["members in the group", *ways],
        [[str(members), *(f"{found[way]:,.0f}" for way in ways)] for members, found in heartbeats.items()],
    )
    show(
        "Join phase",
        ["members in the group", "ms per member", "ms in all"],
        [[str(members), f"{ms:.3f}", f"{ms * members:,.0f}"] for members, ms in joins.items()],
    )
    write(file, {"heartbeats_per_s": heartbeats, "join_phase_ms_per_member": joins})


def _heartbeats(members: int) -> dict[str, float]:
    state, ids = _form_group(members)
    generation = decode_group(state).generation_id
    records = [
        _record(number, 10_000, "heartbeat", f"c{number}", member_id=it, generation_id=generation)
        for number, it in enumerate(ids)
    ]
    one = records[:1]

    def in_memory() -> None:
        for record in records:
            request = read_request(record, CONFIG)
            assert not isinstance(request, Rejection)
            coordinator.advance(record.timestamp_ms)
            coordinator.handle(request, record)
        turn.replies.clear()

    turn = Turn(KEY.decode(), decode_group(state), CONFIG)
    coordinator = GroupCoordinator(turn, SECRET)
    return {
        "one per call": _per_second(lambda: _step(state, one), 1),
        "all per call": _per_second(lambda: _step(state, records), members),
        "not stored": _per_second(in_memory, members),
    }


def _per_second(work: Any, units: int) -> float:
    work()
    calls, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < _RUN_S:
        work()
        calls += 1
    return calls * units / passed


def _join_phase(members: int) -> float:
    """Milliseconds per member."""
    begun = time.perf_counter()
    _form_group(members)
    return (time.perf_counter() - begun) * 1000 / members


def _form_group(members: int) -> tuple[bytes, list[str]]:
    """A stable group: its state, and its member ids in the order of their joins."""
    joins = [
        _record(
            number,
            1_000,
            "join_group",
            f"c{number}",
            api_version=3,  # a member at once, without a second request
            session_timeout_ms=60_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": "AAEAAAABAAZvcmRlcnMAAAAA"}],
        )
        for number in range(members)
    ]
    joining = _step(None, joins)
    # The initial delay ends, however often members that came during it have made it longer.
    joined = _step(joining.state, [], watermark_ms=1_000 + 40_000)
    answers = _responses(joining) + _responses(joined)
    ids = {answer["client_id"]: answer["member_id"] for answer in answers if answer["error"] == "NONE"}
    generation = answers[-1]["generation_id"]
    leader = answers[-1]["leader"]
    assignments = [
        {"member_id": it, "assignment": "AAAAAAABAAZvcmRlcnMAAAABAAAAAAAAAAA="} for it in ids.values()
    ]
    syncs = [
        _record(
            members + number,
            42_000,
            "sync_group",
            client,
            member_id=it,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments if it == leader else [],
        )
        for number, (client, it) in enumerate(ids.items())
    ]
    synced = _step(joined.state, syncs)
    assert synced.state is not None
    group = decode_group(synced.state)
    assert (str(group.state), len(group.members)) == ("Stable", members)
    return synced.state, list(ids.values())


def _step(state: bytes | None, records: list[Record], watermark_ms: int = 0) -> StepResult:
    return step(KEY, state, records, watermark_ms, CONFIG, SECRET)


def _responses(result: StepResult) -> list[dict[str, Any]]:
    return [
        msgspec.json.decode(output.value)
        for output in result.outputs
        if output.channel is Channel.RESPONSES and output.value is not None
    ]


def _record(offset: int, timestamp_ms: int, api: str, client_id: str, **fields: Any) -> Record:
    request = {"api": api, "request_id": f"{offset}", "client_id": client_id, "group_id": KEY.decode()}
    return Record("requests", 0, offset, timestamp_ms, KEY, msgspec.json.encode(request | fields))
