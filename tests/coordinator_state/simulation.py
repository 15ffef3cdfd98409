"""Logs as a handful of clients would write them, with some that no sane client would write.

A log is made from a list of `Move`s, which hypothesis or a seeded generator may draw. Clients follow the
protocol (join, sync, heartbeat, join again when told to), so that the group gets somewhere; each move may
bend that. Clients are told what the coordinator answered, so the log is played while it is made.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from coordinator_state.config import GroupConfig
from coordinator_state.log import Record, in_log_order
from coordinator_state.step import Channel, step

GROUP = b"orders"
SECRET = b"secret"
START_MS = 1_000_000

ACTIONS = (
    *["next"] * 22,
    *["restart"] * 2,
    *("beat", "join", "sync", "leave", "leave both", "remove", "ask", "describe", "garbage"),
)
WAITS_MS = (*[0, 1, 100, 500, 700] * 10, 999, 1_000, 2_000, 2_999, 3_000, 5_000, 6_000, 10_000, 30_000)
# A broker's clock that was set back.
SETBACKS_MS = (-1, -2_000, -20_000)
PROTOCOLS = [{"name": "range", "metadata": b"t"}, {"name": "sticky", "metadata": b""}]
JOIN_BENDS = {
    "other protocols": {"protocols": PROTOCOLS[::-1]},
    "more metadata": {"protocols": [{"name": "range", "metadata": b"x" * 900}]},
    "other type": {"protocol_type": "connect"},
    "no time to rebalance": {"rebalance_timeout_ms": -(2**31)},
    "long session": {"session_timeout_ms": 60_000},
    "bad session": {"session_timeout_ms": 1},
}
BENDS_OF_ALL = {
    "other id": {"member_id": "nobody"},
    "other generation": {"generation_id": 1},
    "other instance": {"group_instance_id": "i1"},
    "old version": {"api_version": 3},
    "older version": {"api_version": 0},
}
BENDS = (*[None] * 60, "other client's id", *JOIN_BENDS, *BENDS_OF_ALL)


class Move(NamedTuple):
    """One record: who, what, how long after the one before, and how it is bent."""

    client: int
    action: str
    wait_ms: int
    bend: str | None


class Client:
    """What one client remembers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance_id: str | None = None
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.next = "join"

    def hear(self, reply: dict[str, Any]) -> None:
        match reply["api"], reply["error"]:
            case "join_group", "MEMBER_ID_REQUIRED":
                self.member_id, self.next = reply["member_id"], "join"
            case "join_group", "NONE":
                self.member_id, self.generation = reply["member_id"], reply["generation_id"]
                self.members = [member["member_id"] for member in reply["members"]]
                self.next = "sync"
            case "sync_group", "NONE":
                self.next = "beat"
            case _, "REBALANCE_IN_PROGRESS" | "ILLEGAL_GENERATION":
                self.next = "join"
            case _, "FENCED_INSTANCE_ID":
                # Its name is taken: it ends, and another program without a name comes.
                self.instance_id, self.member_id, self.generation, self.next = None, "", -1, "join"
            case _, "UNKNOWN_MEMBER_ID" | "GROUP_MAX_SIZE_REACHED":
                self.member_id, self.generation, self.next = "", -1, "join"


def random_moves(rng: random.Random, count: int) -> list[Move]:
    """Draw moves without hypothesis."""
    waits = (*WAITS_MS, *SETBACKS_MS)
    return [
        Move(rng.randrange(4), rng.choice(ACTIONS), rng.choice(waits), rng.choice(BENDS))
        for _ in range(count)
    ]


def play(moves: list[Move], config: GroupConfig, partitions: int = 1) -> list[Record]:
    """Make the log of `moves`, in its order."""
    clients = [Client(f"c{i}") for i in range(4)]
    log: list[Record] = []
    state = None
    now = START_MS
    for offset, move in enumerate(moves):
        now += move.wait_ms
        value = _value(clients, move, offset)
        # A client's partitioner is its own: two of one group may disagree about where it lives.
        record = Record("requests", move.client % partitions, offset, now, GROUP, value)
        log.append(record)
        result = step(GROUP, state, [record], 0, config, SECRET)
        state = result.state
        for output in result.outputs:
            if output.channel is Channel.RESPONSES:
                reply = msgspec.json.decode(output.value or b"")
                clients[int(reply["client_id"][1:])].hear(reply)
    return in_log_order(log)


def _value(clients: list[Client], move: Move, offset: int) -> bytes:
    client = clients[move.client]
    action = client.next if move.action == "next" else move.action
    if action == "restart":
        # Two of the clients share a name, so they throw each other out.
        client.instance_id = f"i{move.client // 2}"
        client.member_id, action = "", "join"
    if action == "join" and (client.member_id or client.instance_id):
        # Parked, perhaps: it will hear of that, and beats until then.
        client.next = "beat"
    if action == "garbage":
        return [b"", b"{", b'{"request_id":"r","client_id":"c0","surprise":1}', b"\xff"][offset % 4]
    request = _request(client, action) | {
        "request_id": f"r{offset}",
        "client_id": client.name,
        "group_id": GROUP.decode(),
    }
    if action == "leave both":
        other = clients[(move.client + 1) % 4]
        request["members"].append({"member_id": other.member_id, "group_instance_id": other.instance_id})
    _bend(request, move.bend, clients)
    return msgspec.json.encode(request)


def _request(client: Client, action: str) -> dict[str, Any]:
    ids = {"member_id": client.member_id, "group_instance_id": client.instance_id}
    match action:
        case "join" | "ask":
            return {
                "api": "join_group",
                "member_id": client.member_id if action == "join" else "",
                "group_instance_id": client.instance_id if action == "join" else None,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 12_000,
                "protocol_type": "consumer",
                "protocols": PROTOCOLS,
            }
        case "sync":
            return {
                "api": "sync_group",
                **ids,
                "generation_id": client.generation,
                "protocol_type": "consumer",
                "protocol_name": None,
                "api_version": 4,
                "assignments": [{"member_id": it, "assignment": it.encode()} for it in client.members],
            }
        case "beat":
            return {"api": "heartbeat", **ids, "generation_id": client.generation}
        case "describe":
            return {"api": "describe_group"}
        case "remove":
            return {"api": "leave_group", "members": [ids | {"member_id": ""}]}
        case _:
            return {"api": "leave_group", "members": [ids]}


def _bend(request: dict[str, Any], bend: str | None, clients: list[Client]) -> None:
    if bend == "other client's id":
        request["member_id"] = clients[0].member_id
    elif request["api"] == "join_group":
        request |= JOIN_BENDS.get(bend, {})
    request |= BENDS_OF_ALL.get(bend, {})
