"""A history as the core writes it, request by request, without Spark: the checker must find nothing in it."""

from __future__ import annotations

import json
from base64 import b64encode
from itertools import count
from typing import Any

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import NO_OUTAGES
from group_coordinator.coordinator_state.step import Channel, step
from tests.faults.history import History, Written
from tests.faults.notes import AnyNote, Ended, GaveUp, Owned, Sent
from tests.faults.told import expected_tables

__all__ = ["Script", "right_history"]

SECRET = b"a secret of the tests"
SESSION_MS = 6_000
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1_000)


class Script:
    """A log of one group `g`, each request a batch of its own, and the notes of those who send."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.requests: list[Record] = []
        self.written: dict[Channel, list[Written]] = {channel: [] for channel in Channel}
        self.notes: list[AnyNote] = []
        self._state: bytes | None = None
        self._offsets = count()
        self._ids = count()

    def ask(self, api: str, client_id: str, **fields: Any) -> dict[str, Any]:
        """Send a request a second after the last; its answer, {} if there is none yet."""
        self.now_ms += 1_000
        request_id = f"r{next(self._ids)}"
        envelope = {"api": api, "request_id": request_id, "client_id": client_id, "group_id": "g"}
        note = Sent(
            at_ms=self.now_ms,
            client_id=client_id,
            request_id=request_id,
            api=api,
            member_id=fields.get("member_id", ""),
        )
        self.notes.append(note)
        self.append(json.dumps(envelope | fields).encode())
        answers = (json.loads(it.value or b"{}") for it in self.written[Channel.RESPONSES])
        return next((it for it in answers if it["request_id"] == request_id), {})

    def append(self, value: bytes) -> None:
        record = Record("requests", 0, next(self._offsets), self.now_ms, b"g", value)
        self.requests.append(record)
        self._step([record])

    def pass_time(self, ms: int) -> None:
        """Only the clock ticks."""
        self.now_ms += ms
        self._step([])

    def _step(self, records: list[Record]) -> None:
        # The watermark is a little behind, as that of the query.
        result = step(b"g", self._state, records, self.now_ms - 500, CONFIG, SECRET, NO_OUTAGES)
        self._state = result.state
        for channel, key, value, partition in result.outputs:
            topic = self.written[channel]
            topic.append(Written(partition or 0, len(topic), self.now_ms, key, value))

    # -- what members do ---------------------------------------------------------------------------------

    def join(self, client_id: str, member_id: str = "", **fields: Any) -> dict[str, Any]:
        protocol = {"protocol_type": "units", "protocols": [{"name": "range", "metadata": ""}]}
        timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 20_000}
        return self.ask("join_group", client_id, member_id=member_id, **(timeouts | protocol | fields))

    def enter(self, client_id: str, **timeouts: Any) -> str:
        """Get an id and join with it; the id."""
        member_id = str(self.join(client_id, **timeouts)["member_id"])
        self.join(client_id, member_id, **timeouts)
        return member_id

    def sync(
        self, client_id: str, member_id: str, generation_id: int, shares: dict[str, list[str]] | None = None
    ) -> dict[str, Any]:
        assignments = [
            {"member_id": owner, "assignment": b64encode(json.dumps({"units": units}).encode()).decode()}
            for owner, units in (shares or {}).items()
        ]
        names = {"protocol_type": "units", "protocol_name": "range"}
        who = {"member_id": member_id, "generation_id": generation_id}
        return self.ask("sync_group", client_id, **who, **names, assignments=assignments)

    def beat(self, client_id: str, member_id: str, generation_id: int) -> dict[str, Any]:
        return self.ask("heartbeat", client_id, member_id=member_id, generation_id=generation_id)

    def commit(self, client_id: str, member_id: str, generation_id: int, offset: int) -> dict[str, Any]:
        topics = [{"name": "u1", "partitions": [{"partition_index": 0, "committed_offset": offset}]}]
        who = {"member_id": member_id, "generation_id": generation_id}
        return self.ask("offset_commit", client_id, topics=topics, **who)

    def owns(self, client_id: str, member_id: str, generation_id: int, *units: str) -> None:
        self.notes.append(
            Owned(
                at_ms=self.now_ms,
                client_id=client_id,
                group_id="g",
                member_id=member_id,
                generation_id=generation_id,
                units=list(units),
            )
        )

    def gives_up(self, client_id: str) -> None:
        self.notes.append(GaveUp(at_ms=self.now_ms, client_id=client_id, lost=False))

    def dies(self, client_id: str) -> None:
        self.notes.append(Ended(at_ms=self.now_ms, client_id=client_id, how="crashed"))

    def history(self) -> History:
        history = History(
            requests=self.requests,
            responses=self.written[Channel.RESPONSES],
            events=self.written[Channel.EVENTS],
            groups=self.written[Channel.GROUPS],
            offsets=self.written[Channel.OFFSETS],
            rejected=self.written[Channel.REJECTED],
            notes=self.notes,
            watermark_ms=self.now_ms - 500,
            outages=[],
            config=CONFIG,
            secret=SECRET,
        )
        history.tables = expected_tables(history)
        return history


def right_history() -> History:
    """Two members share, commit and are repeated; one dies; the other waits for a third, who is parked."""
    script = Script()
    a = script.enter("a")
    script.sync("a", a, 1, {a: ["u1", "u2"]})
    script.owns("a", a, 1, "u1", "u2")
    script.commit("a", a, 1, 10)

    b = script.enter("b")
    assert script.beat("a", a, 1)["error"] == "REBALANCE_IN_PROGRESS"
    script.gives_up("a")
    assert script.join("a", a)["generation_id"] == 2
    assert script.sync("b", b, 2) == {}, "it waits for the leader"
    script.sync("b", b, 2)
    script.sync("a", a, 2, {a: ["u1"], b: ["u2"]})
    script.owns("b", b, 2, "u2")
    script.now_ms += 100
    script.owns("a", a, 2, "u1")
    assert script.commit("a", a, 1, 5)["error"] == "ILLEGAL_GENERATION"
    script.commit("a", a, 2, 20)
    script.ask("offset_fetch", "tool")
    script.append(b"this is no request")

    script.dies("b")
    while script.beat("a", a, 2)["error"] == "NONE":
        pass
    script.gives_up("a")
    assert script.join("a", a)["generation_id"] == 3
    script.sync("a", a, 3, {a: ["u1", "u2"]})
    script.owns("a", a, 3, "u1", "u2")
    script.enter("c")

    history = script.history()
    # After a crash the last batch runs again.
    history.responses.append(_again(history.responses[-1]))
    history.events.append(_again(history.events[-1]))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(history), type=History)


def _again(written: Written) -> Written:
    return written._replace(offset=written.offset + 1)
