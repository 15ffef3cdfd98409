"""Logs as a handful of clients would write them, with some that no sane client would write.

A log is made from a list of `Move`s, which hypothesis or a seeded generator may draw. Clients follow the
protocol (join, sync, commit, heartbeat, join again when told to), so that the group gets somewhere; each move
may bend that. Clients are told what the coordinator answered, so the log is played while it is made.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record, in_log_order
from group_coordinator.coordinator_state.step import Channel, step
from tests.coordinator_state.subscription import subscription

GROUP = b"orders"
SECRET = b"secret"
START_MS = 1_000_000

ACTIONS = (
    *["next"] * 32,
    *["restart", "commit", "commit of a tool"] * 2,
    *("beat", "join", "sync", "leave", "leave both", "remove", "ask", "describe", "garbage"),
    *("fetch", "fetch all", "delete offsets", "delete group", "find"),
)
WAITS_MS = (
    *[0, 1, 100, 500, 700] * 10,
    *(999, 1_000, 2_000, 2_999, 3_000, 5_000, 6_000, 10_000, 30_000, 60_000),
)
# A broker's clock that was set back.
SETBACKS_MS = (-1, -2_000, -20_000)
# Which topics are read is known under the one protocol, and not under the other.
PROTOCOLS = [{"name": "range", "metadata": subscription("orders")}, {"name": "sticky", "metadata": b""}]
PARTITIONS = {"orders": [0, 1, 2], "gone": [0, 1]}
JOIN_BENDS = {
    "other protocols": {"protocols": PROTOCOLS[::-1]},
    "more metadata": {"protocols": [{"name": "range", "metadata": b"x" * 900}]},
    "other type": {"protocol_type": "connect"},
    "no time to rebalance": {"rebalance_timeout_ms": -(2**31)},
    "long session": {"session_timeout_ms": 60_000},
    "bad session": {"session_timeout_ms": 1},
}
COMMIT_BENDS = {
    "no generation": {"generation_id": -1},
    "no partitions": {"topics": []},
    "for a while": {"api_version": 4, "retention_time_ms": 2_000},
    "for no time": {"api_version": 2, "retention_time_ms": 0},
    "large metadata": {
        "topics": [
            {
                "name": "gone",
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5_000},
                    {"partition_index": 1, "committed_offset": 2, "committed_metadata": "x" * 900},
                ],
            }
        ]
    },
}
BENDS_OF_ALL = {
    "other id": {"member_id": "nobody"},
    "other generation": {"generation_id": 1},
    "other instance": {"group_instance_id": "i1"},
    "old version": {"api_version": 3},
    "older version": {"api_version": 0},
}
BENDS = (*[None] * 60, "other client's id", *JOIN_BENDS, *COMMIT_BENDS, *BENDS_OF_ALL)


class Move(NamedTuple):
    """One record: who, what, how long after the one before, and how it is bent."""

    client: int
    action: str
    wait_ms: int
    bend: str | None


class Client:
    """What one client remembers."""

    def __init__(self, number: int) -> None:
        self.name = f"c{number}"
        # Some are patient, so that there is a group in which offsets get old.
        self.session_timeout_ms = 10_000 if number < 2 else 100_000
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
                self.next = "commit"
            case "offset_commit", "NONE" if self.next == "commit":
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
    clients = [Client(i) for i in range(4)]
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
                for client in clients:
                    if client.name == reply["client_id"]:
                        client.hear(reply)
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
    request = _request(client, action, offset)
    request |= {"request_id": f"r{offset}", "group_id": GROUP.decode()}
    request.setdefault("client_id", client.name)
    if action == "leave both":
        other = clients[(move.client + 1) % 4]
        request["members"].append({"member_id": other.member_id, "group_instance_id": other.instance_id})
    _bend(request, move.bend, clients)
    return msgspec.json.encode(request)


def _request(client: Client, action: str, number: int) -> dict[str, Any]:
    ids = {"member_id": client.member_id, "group_instance_id": client.instance_id}
    match action:
        case "join" | "ask":
            return {
                "api": "join_group",
                "member_id": client.member_id if action == "join" else "",
                "group_instance_id": client.instance_id if action == "join" else None,
                "session_timeout_ms": client.session_timeout_ms,
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
        case "leave" | "leave both" | "remove":
            leaving = ids | ({"member_id": ""} if action == "remove" else {})
            return {"api": "leave_group", "members": [leaving]}
        case "commit":
            topics = _commits(number)
            return {"api": "offset_commit", **ids, "generation_id": client.generation, "topics": topics}
        case _:
            return {"client_id": "tool", **_tool_request(action, number)}


def _tool_request(action: str, number: int) -> dict[str, Any]:
    match action:
        case "commit of a tool":
            version, retention_ms = [(9, -1), (4, 30_000), (2, 1_000)][number % 3]
            asked = {"api_version": version, "retention_time_ms": retention_ms}
            return {"api": "offset_commit", "topics": _commits(number), **asked}
        case "fetch":
            topics = [{"name": name, "partition_indexes": it} for name, it in PARTITIONS.items()]
            return {"api": "offset_fetch", "topics": topics}
        case "fetch all":
            return {"api": "offset_fetch"}
        case "delete offsets":
            topics = [
                {"name": name, "partitions": [{"partition_index": each} for each in indexes]}
                for name, indexes in PARTITIONS.items()
            ]
            return {"api": "offset_delete", "topics": topics}
        case _:
            api = {"describe": "describe_group", "delete group": "delete_group", "find": "find_coordinator"}
            return {"api": api[action]}


def _commits(number: int) -> list[dict[str, Any]]:
    """One partition of each topic: which, and how far, is told by the number of the request."""
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": indexes[number % len(indexes)],
                    "committed_offset": number,
                    "committed_leader_epoch": number % 3 - 1,
                    "committed_metadata": "m" * (number % 6) or None,
                }
            ],
        }
        for name, indexes in PARTITIONS.items()
    ]


def _bend(request: dict[str, Any], bend: str | None, clients: list[Client]) -> None:
    if bend == "other client's id":
        request["member_id"] = clients[0].member_id
    elif request["api"] == "join_group":
        request |= JOIN_BENDS.get(bend, {})
    elif request["api"] == "offset_commit":
        request |= COMMIT_BENDS.get(bend, {})
    request |= BENDS_OF_ALL.get(bend, {})
