"""The protocol core alone, on one core, without Spark or Kafka.

Heartbeats per second, in groups of several sizes:

* `one per call`: each heartbeat is a call of `step` of its own, as for a group that is in each batch with one
  record. Reading and writing the stored group is in it, and grows with the group.
* `all per call`: one call has a heartbeat of each member, as for a group in a batch of several seconds.
* `not stored`: the same heartbeats, but the group stays in memory and answers are not encoded: the rules and
  the decoding of the requests.

Join phase: milliseconds per member, flat if nothing is quadratic in the members.

* `form`: from the first join to the last assignment, in three calls (joins, each of them twice, for an id and
  with it; the deadline that ends the phase; syncs).
* `rebalance`: the leader of that group joins again, all others follow, and all sync, in two calls.

Stored group: its size, and what reading and writing it costs each call.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import show, write
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.coordinator import GroupCoordinator
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from group_coordinator.coordinator_state.turn import Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request

HEARTBEAT_GROUPS = (1, 100, 3000)
JOIN_GROUPS = (300, 3000, 7000)  # the latter two broke other coordinators: KAFKA-7142, redpanda#4327
KEY = b"group"
SECRET = b"secret"
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=3_000)
_RUN_S = 1.0
_ROUNDS = 5
_PHASES = ("form", "rebalance")
_SUBSCRIPTION = "AAEAAAABAAZvcmRlcnMAAAAA"
_ASSIGNMENT = "AAAAAAABAAZvcmRlcnMAAAABAAAAAAAAAAA="


def run(file: Path | None) -> None:
    """Measure, print and write."""
    heartbeats = {members: _heartbeats(members) for members in HEARTBEAT_GROUPS}
    joins = {members: _join_phases(members) for members in JOIN_GROUPS}
    stored = {members: _stored(members) for members in HEARTBEAT_GROUPS}
    ways = ["one per call", "all per call", "not stored"]
    show(
        "Heartbeats per second",
        ["members in the group", *ways],
        [[str(members), *(f"{found[way]:,.0f}" for way in ways)] for members, found in heartbeats.items()],
    )
    show(
        "Join phase",
        ["members in the group", *(f"{phase}, {unit}" for phase in _PHASES for unit in ("ms/member", "ms"))],
        [
            [str(members), *(text for ms in found.values() for text in (f"{ms:.3f}", f"{ms * members:,.0f}"))]
            for members, found in joins.items()
        ],
    )
    show(
        "Stored group",
        ["members in the group", "bytes", "encode, ms", "decode, ms"],
        [
            [str(members), f"{found['bytes']:,.0f}", f"{found['encode']:.3f}", f"{found['decode']:.3f}"]
            for members, found in stored.items()
        ],
    )
    write(
        file,
        {"heartbeats_per_s": heartbeats, "join_phase_ms_per_member": joins, "stored_group_ms": stored},
    )


def _heartbeats(members: int) -> dict[str, float]:
    state, ids = form_group(members)
    generation = decode_group(state).generation_id
    records = [
        record_of(number, 44_000, "heartbeat", f"c{number}", member_id=it, generation_id=generation)
        for number, it in enumerate(ids)
    ]
    one = records[:1]

    def in_memory() -> None:
        for record in records:
            request = read_request(record, CONFIG)
            assert not isinstance(request, Rejection)
            coordinator.advance(record)
            coordinator.handle(request, record)
        turn.replies.clear()

    turn = Turn(KEY.decode(), decode_group(state), CONFIG)
    coordinator = GroupCoordinator(turn, SECRET)
    return {
        "one per call": per_second(lambda: step_of(state, one), 1),
        "all per call": per_second(lambda: step_of(state, records), members),
        "not stored": per_second(in_memory, members),
    }


def per_second(work: Any, units: int) -> float:
    work()
    calls, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < _RUN_S:
        work()
        calls += 1
    return calls * units / passed


def _stored(members: int) -> dict[str, float]:
    """Size in bytes, and the time to write and to read it in ms."""
    state, _ = form_group(members)
    group = decode_group(state)
    return {
        "bytes": len(state),
        "encode": 1000 / per_second(lambda: encode_group(group), 1),
        "decode": 1000 / per_second(lambda: decode_group(state), 1),
    }


def _join_phases(members: int) -> dict[str, float]:
    """Milliseconds per member, the medians of some rounds."""
    times: dict[str, list[float]] = {phase: [] for phase in _PHASES}
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        state, ids = form_group(members)
        formed = time.perf_counter()
        rebalance_of(state, ids)
        times["form"].append(formed - begun)
        times["rebalance"].append(time.perf_counter() - formed)
    return {phase: statistics.median(taken) * 1000 / members for phase, taken in times.items()}


def form_group(members: int) -> tuple[bytes, list[str]]:
    """A stable group: its state, and its member ids in the order of their joins."""
    asked = step_of(None, [join_of(number, 1_000, number) for number in range(members)])
    ids = [answer["member_id"] for answer in responses(asked)]
    joins = [join_of(members + number, 2_000, number, member_id=it) for number, it in enumerate(ids)]
    joining = step_of(asked.state, joins)
    # The initial delay ends, however often members that came during it have made it longer.
    joined = step_of(joining.state, [], watermark_ms=40_000)
    return _sync(joined, ids, 41_000).state or b"", ids


def rebalance_of(state: bytes, ids: list[str]) -> int:
    """All join again, the leader first, and sync; the bytes that are written for it."""
    joins = [join_of(3 * len(ids) + number, 42_000, number, member_id=it) for number, it in enumerate(ids)]
    joined = step_of(state, joins)
    return sum(map(written, (joined, _sync(joined, ids, 43_000))))


def written(result: StepResult) -> int:
    """Bytes of all outputs."""
    return sum(len(output.value or b"") for output in result.outputs)


def _sync(joined: StepResult, ids: list[str], at_ms: int) -> StepResult:
    """All sync."""
    answer = responses(joined)[-1]
    assignments = [{"member_id": it, "assignment": _ASSIGNMENT} for it in ids]
    syncs = [
        record_of(
            2 * len(ids) + number,
            at_ms,
            "sync_group",
            f"c{number}",
            member_id=it,
            generation_id=answer["generation_id"],
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments if it == answer["leader"] else [],
        )
        for number, it in enumerate(ids)
    ]
    synced = step_of(joined.state, syncs)
    assert synced.state is not None
    group = decode_group(synced.state)
    assert (str(group.state), len(group.members)) == ("Stable", len(ids))
    return synced


def join_of(offset: int, at_ms: int, number: int, member_id: str = "") -> Record:
    return record_of(
        offset,
        at_ms,
        "join_group",
        f"c{number}",
        member_id=member_id,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": _SUBSCRIPTION}],
    )


def step_of(state: bytes | None, records: list[Record], watermark_ms: int = 0) -> StepResult:
    return step(KEY, state, records, watermark_ms, CONFIG, SECRET)


def responses(result: StepResult) -> list[dict[str, Any]]:
    return [
        msgspec.json.decode(output.value)
        for output in result.outputs
        if output.channel is Channel.RESPONSES and output.value is not None
    ]


def record_of(offset: int, timestamp_ms: int, api: str, client_id: str, **fields: Any) -> Record:
    request = {"api": api, "request_id": f"{offset}", "client_id": client_id, "group_id": KEY.decode()}
    return Record("requests", 0, offset, timestamp_ms, KEY, msgspec.json.encode(request | fields))
