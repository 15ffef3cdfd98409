"""The page and its API over many groups, in this process: without Kafka, a network or a browser.

All groups have a picture, a measurement of its lag, and events of rebalances over the last day. An answer is
asked for through WSGI, as the server does, and read to its end. Each kind is asked once in each round.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from benchmarks.report import medians_of, show, write
from group_coordinator.client.assignors import to_assignment
from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement
from group_coordinator.coordinator_state.events import MemberRemoved, RebalanceCause, StateChanged
from group_coordinator.coordinator_state.responses import GroupPicture, PicturedMember
from group_coordinator.page.app import App
from group_coordinator.page.lags import Measured
from group_coordinator.page.measurements import Measurements
from group_coordinator.page.memory import Memory
from group_coordinator.page.pulse import Pulse
from group_coordinator.page.questions import Questions, Sources
from group_coordinator.page.sides import Sides

ASKED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "the list": ("/", {}),
    "the list, by lag": ("/", {"sort": "records", "order": "desc"}),
    "the list, a member searched for": ("/", {"q": "worker-4711"}),
    "the list, by cause": ("/", {"cause": "session_expired"}),
    "the list, by a member of the last day": ("/", {"member": "worker-4711"}),
    "the list, by topic": ("/", {"topic": "orders"}),
    "a group": ("/group", {"group_id": "group-00042"}),
    "API: 100 groups": ("/api/v1/groups", {}),
    "API: 1,000 groups": ("/api/v1/groups", {"limit": 1_000}),
    "API: a group": ("/api/v1/group", {"group_id": "group-00042"}),
}


class Plan(NamedTuple):
    """The measurement: groups, and members of each."""

    rounds: int
    groups: int
    members: int
    events: int


class _Live(NamedTuple):
    memory: Memory
    pulse: Pulse
    problem: str | None = None


class _Lags:
    """The coordinator and the brokers have answered that they know nothing more."""

    def newest(self, _: str | None = None) -> Measured:
        return Measured(datetime.now(UTC))

    ask = newest


def run(plan: Plan, file: Path | None) -> None:
    """Measure, print and write."""
    begun = time.perf_counter()
    memory, measurements = Memory(), Measurements()
    for number in range(plan.groups):
        picture = _picture(number, plan.members)
        memory.take_picture(picture.group_id.encode(), msgspec.json.encode(picture))
        measured = msgspec.json.encode(_measurement(picture.group_id, number))
        measurements.take(SimpleNamespace(value=measured))
    for number in range(plan.events):
        memory.take_event(number, _event(number, plan))
    filled_s = time.perf_counter() - begun
    app = App(Sides(Questions(Sources(_Live(memory, Pulse()), _Lags(), measurements=lambda: measurements))))
    rounds = [{name: _ask(app, *asked) for name, asked in ASKED.items()} for _ in range(plan.rounds)]
    figures = medians_of(rounds)
    show(
        f"{plan.groups:,} groups of {plan.members} members, {plan.events:,} events, "
        f"medians of {plan.rounds} rounds",
        ["answer", "ms", "kB"],
        [[name, f"{each['ms']:,.0f}", f"{each['kB']:,.0f}"] for name, each in figures.items()],
    )
    show("To take them in", ["", "s"], [["pictures, measurements and events", f"{filled_s:.1f}"]])
    write(file, {"plan": plan._asdict(), "answers": figures, "filled_s": filled_s})


def _ask(app: App, path: str, query: Mapping[str, Any]) -> dict[str, float]:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": urlencode(query)}
    status: list[str] = []
    begun = time.perf_counter()
    body = b"".join(app(environ, lambda line, _, __=None: status.append(line) or print))
    took_s = time.perf_counter() - begun
    if status != ["200 OK"]:
        raise RuntimeError(f"{path} was answered with {status}")
    return {"ms": took_s * 1_000, "kB": len(body) / 1_000}


def _picture(number: int, members: int) -> GroupPicture:
    return GroupPicture(
        group_id=f"group-{number:05}",
        state="Stable",
        generation_id=number % 97,
        protocol_type="consumer",
        protocol_name="range",
        leader="0",
        members=[
            PicturedMember(
                member_id=f"worker-{number * members + each}-0f9c6d2e-4b5a-4f0e-9a3b-7d1c2e3f4a5b",
                group_instance_id=None,
                client_id=f"worker-{number * members + each}",
                client_host="10.0.0.7",
                member_metadata=bytes(60),
                member_assignment=to_assignment(("orders", 12 * each + it) for it in range(12)).encode(),
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
            )
            for each in range(members)
        ],
        state_timestamp_ms=round(time.time() * 1_000) - 1_000 * number,
    )


def _event(number: int, plan: Plan) -> bytes:
    """An event of the last day. Of a group a member goes, then come join phase, sync phase and end."""
    round_, step = divmod(number // plan.groups, 4)
    each = number % plan.groups
    common: dict[str, Any] = {
        "event_id": f"coordinator.requests-3-{number}-0",
        "at_ms": round(time.time() * 1_000) - 80_000_000 + number * 80_000_000 // plan.events,
        "group_id": f"group-{each:05}",
        "generation_id": round_,
    }
    cause = RebalanceCause.SESSION_EXPIRED if (each + round_) % 3 else RebalanceCause.MEMBER_LEFT
    if step == 0:
        name = f"worker-{each * plan.members}"
        return msgspec.json.encode(
            MemberRemoved(**common, member_id=f"{name}-gone", client_id=name, reason="session_expired")
        )
    states = ["", "PreparingRebalance", "CompletingRebalance", "Stable"]
    return msgspec.json.encode(
        StateChanged(
            **common,
            from_=states[step - 1] or "Stable",
            to=states[step],
            reason="a reason of some length, with the id of a member in it",
            cause=None if states[step] == "CompletingRebalance" else cause,
            rebalance_ms=4_000 + each if step == 3 else None,
        )
    )


def _measurement(group_id: str, number: int) -> Measurement:
    partition = MeasuredPartition(
        partition_index=0,
        committed_offset=0,
        log_end_offset=number,
        age_ms=number,
        error_ms=0,
        at_least=False,
        status="ok",
    )
    return Measurement(
        group_id=group_id,
        measured_timestamp_ms=round(time.time() * 1_000),
        interval_ms=3_600_000,
        records=number,
        age_ms=number,
        error_ms=0,
        at_least=False,
        trend="steady",
        clear_in_ms=None,
        topics=[MeasuredTopic("orders", [partition])],
    )
