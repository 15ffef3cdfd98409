"""A rebalance must cost as much for each member in a large group as in a small one, and so must offsets.

Two other coordinators broke where each joiner made them look at all members (KAFKA-7142, redpanda#4327). Time
is for the benchmark; here it is counted how often all members are looked at, or how many functions called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import msgspec
import pytest

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.coordinator import GroupCoordinator
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.coordinator_state.turn import Turn
from group_coordinator.coordinator_state.wire import Rejection, read_request
from tests.coordinator_state.scenario import Scenario


class CountedMembers(dict):
    """Members that count how often somebody goes through them all."""

    walks = 0

    def values(self):
        self.walks += 1
        return super().values()

    def items(self):
        self.walks += 1
        return super().items()

    def keys(self):
        self.walks += 1
        return super().keys()


class Run:
    """A group in memory, to which requests are sent."""

    def __init__(self) -> None:
        group = ClassicGroup(group_id="g", now_ms=0, state_timestamp_ms=0, members=CountedMembers())
        self.turn = Turn("g", group, GroupConfig())
        self.coordinator = GroupCoordinator(self.turn, b"secret")
        self.now = 0
        self.offset = 0

    @property
    def walks(self) -> int:
        return self.turn.group.members.walks

    def advance(self, to_ms: int) -> None:
        self.now = to_ms
        self.coordinator.let_pass(to_ms)

    def send(self, api: str, **fields: Any) -> list[Any]:
        """The replies to one request, whoever they are for."""
        body = {"api": api, "request_id": "r", "client_id": "c", "group_id": "g"} | fields
        record = Record("requests", 0, self.offset, self.now, b"g", msgspec.json.encode(body))
        self.offset += 1
        request = read_request(record, self.turn.config)
        assert not isinstance(request, Rejection), request.reason
        self.turn.replies.clear()
        self.coordinator.advance(record)
        self.coordinator.handle(request, record)
        return [reply.response for reply in self.turn.replies]

    def join(self, member_id: str, **fields: Any) -> list[Any]:
        defaults = {
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 300_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": ""}, {"name": "sticky", "metadata": ""}],
        }
        return self.send("join_group", member_id=member_id, **(defaults | fields))

    def sync(self, member_id: str) -> None:
        generation = self.turn.group.generation_id
        names = {"protocol_type": "consumer", "protocol_name": "range"}
        self.send("sync_group", member_id=member_id, generation_id=generation, **names)

    def sync_all(self) -> None:
        for member_id in list(self.turn.group.members):
            self.sync(member_id)
        assert self.turn.group.state == "Stable"


def walks_of_a_life(members: int) -> int:
    """Form a group, rebalance it, and let a member go."""
    run = Run()
    for _ in range(members):
        (reply,) = run.join("")
        run.join(reply.member_id)
    run.advance(60_000)
    run.sync_all()
    for member_id in list(run.turn.group.members):
        run.join(member_id)
    run.sync_all()
    run.send("leave_group", members=[{"member_id": next(iter(run.turn.group.members))}])
    for member_id in list(run.turn.group.members):
        run.send("heartbeat", member_id=member_id, generation_id=run.turn.group.generation_id)
        run.join(member_id)
    run.sync_all()
    assert len(run.turn.group.members) == members - 1
    return run.walks


def test_members_are_walked_through_per_phase_and_not_per_member():
    few = walks_of_a_life(20)
    assert few > 0
    assert walks_of_a_life(40) == few


@pytest.mark.parametrize("version", [5, 9])
def test_restarts_of_static_members_walk_through_nobody_else(version):
    run = Run()
    for number in range(10):
        run.join("", group_instance_id=f"i{number}")
    run.advance(60_000)
    run.sync_all()
    leader = run.turn.group.leader
    before = run.walks
    for member in list(run.turn.group.members.copy().values()):
        if member.member_id != leader:
            run.join("", group_instance_id=member.group_instance_id, api_version=version)
    assert run.turn.group.state == "Stable"
    # The one walk is this test's.
    assert run.walks == before


def test_session_expiry_of_all_members_is_one_rebalance():
    run = Run()
    for _ in range(30):
        (reply,) = run.join("")
        run.join(reply.member_id)
    run.advance(60_000)
    run.sync_all()
    run.turn.events.clear()
    before = run.walks
    run.advance(200_000)
    # The first expiry begins a rebalance and the last one ends it.
    assert run.walks - before < 15


# -- offsets ---------------------------------------------------------------------------------------


class Calls:
    """Counts the calls of functions, of Python's and of C's, as long as it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, _frame: FrameType, event: str, _function: object) -> None:
        self.count += event in ("call", "c_call")


def ask(state: bytes | None, at_ms: int, api: str, **fields: Any) -> tuple[int, StepResult]:
    """How many calls it takes to answer a request, and what comes of it; with api "", to let time pass."""
    body = msgspec.json.encode({"api": api, "request_id": "r", "client_id": "c", "group_id": "g"} | fields)
    records = [Record("requests", 0, 0, at_ms, b"g", body)] if api else []
    with Calls() as calls:
        result = step(b"g", state, records, at_ms, GroupConfig(), b"secret")
    return calls.count, result


Sizes = dict[str, int]
"""How many partitions each topic has."""


def commits(sizes: Sizes) -> list[dict[str, Any]]:
    return _topics("partitions", sizes, lambda index: {"partition_index": index, "committed_offset": 1})


def fetches(sizes: Sizes) -> list[dict[str, Any]]:
    return _topics("partition_indexes", sizes, int)


def deletes(sizes: Sizes) -> list[dict[str, Any]]:
    return _topics("partitions", sizes, lambda index: {"partition_index": index})


def _topics(field: str, sizes: Sizes, partition: Callable[[int], object]) -> list[dict[str, Any]]:
    return [
        {"name": name, field: [partition(index) for index in range(size)]} for name, size in sizes.items()
    ]


def topics_of(offsets: int) -> Sizes:
    """One large topic and many small ones."""
    return {"t": offsets // 2} | {f"t{number}": 1 for number in range(offsets // 2)}


def calls_of_a_life(offsets: int) -> dict[str, int]:
    """What it takes to commit so many offsets, to commit them again, to read and to lose them."""
    calls, sizes = {}, topics_of(offsets)
    calls["commit"], result = ask(None, 0, "offset_commit", topics=commits(sizes))
    state = result.state
    calls["commit again"], _ = ask(state, 0, "offset_commit", topics=commits(sizes))
    calls["fetch all"], _ = ask(state, 0, "offset_fetch")
    calls["fetch"], _ = ask(state, 0, "offset_fetch", topics=fetches(sizes))
    calls["delete"], result = ask(state, 0, "offset_delete", topics=deletes(sizes))
    assert decode_group(result.state or b"").offsets == b""
    calls["delete the group"], result = ask(state, 0, "delete_group")
    assert decode_group(result.state or b"").is_dead
    calls["look for what is over"], result = ask(state, 600_000, "")
    assert decode_group(result.state or b"").offsets == decode_group(state or b"").offsets
    calls["expire"], result = ask(state, 10**10, "")
    assert result.state is None
    return calls


def test_offsets_cost_as_much_for_each_in_a_large_group():
    few, many = calls_of_a_life(200), calls_of_a_life(400)
    assert few["commit"] > 200
    assert {what: count for what, count in many.items() if count > 2.1 * few[what]} == {}


@pytest.mark.parametrize(("api", "topics"), [("offset_commit", commits), ("offset_fetch", fetches)])
def test_offsets_of_other_topics_cost_nothing(api, topics):
    def calls(others: int) -> int:
        _, result = ask(None, 0, "offset_commit", topics=commits(topics_of(others) | {"t": 3}))
        return ask(result.state, 0, api, topics=topics({"t": 3}))[0]

    assert calls(400) == calls(40)


def test_who_is_not_interested_in_offsets_does_not_read_them(monkeypatch):
    s = Scenario()
    s.stabilise("c1", "c2")
    s.commit("c1", {f"t{number}": dict.fromkeys(range(50), 7) for number in range(20)})
    stored = s.group.offsets
    assert len(stored) > 5_000
    with monkeypatch.context() as patched:
        patched.delattr(CommittedOffsets, "_read")
        for api, fields in {
            "heartbeat": {"member_id": s.ids["c1"], "generation_id": 1},
            "describe_group": {},
            "find_coordinator": {},
            "leave_group": {"members": [{"member_id": s.ids["c2"]}]},
            "join_group": {"session_timeout_ms": 9_000, "protocol_type": "consumer", "protocols": []},
        }.items():
            request = {"api": api, "request_id": "r", "client_id": "c", "group_id": "orders"} | fields
            record = Record("requests", 1, 0, 0, b"orders", msgspec.json.encode(request))
            result = step(b"orders", s.state, [record], 0, s.config, b"secret")
            assert stored == decode_group(result.state or b"").offsets
    group = s.group
    assert Turn("orders", group, s.config).stored_group().offsets is group.offsets
