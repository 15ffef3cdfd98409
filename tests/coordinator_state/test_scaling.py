"""A rebalance must cost as much for each member in a large group as in a small one.

Two other coordinators broke where each joiner made them look at all members (KAFKA-7142, redpanda#4327). Time
is for the benchmark; here it is counted how often all members are looked at.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator_state.config import GroupConfig
from coordinator_state.coordinator import GroupCoordinator
from coordinator_state.group import Group
from coordinator_state.log import Record
from coordinator_state.turn import Turn
from coordinator_state.wire import Rejection, read_request


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
        group = Group(group_id="g", now_ms=0, state_timestamp_ms=0, members=CountedMembers())
        self.turn = Turn("g", group, GroupConfig())
        self.coordinator = GroupCoordinator(self.turn, b"secret")
        self.now = 0
        self.offset = 0

    @property
    def walks(self) -> int:
        return self.turn.group.members.walks

    def advance(self, to_ms: int) -> None:
        self.now = to_ms
        self.coordinator.advance(to_ms)

    def send(self, api: str, **fields: Any) -> list[Any]:
        """The replies to one request, whoever they are for."""
        body = {"api": api, "request_id": "r", "client_id": "c", "group_id": "g"} | fields
        record = Record("requests", 0, self.offset, self.now, b"g", msgspec.json.encode(body))
        self.offset += 1
        request = read_request(record, self.turn.config)
        assert not isinstance(request, Rejection), request.reason
        self.turn.replies.clear()
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
