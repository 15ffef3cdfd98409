"""A history as the core writes it, request by request, without Spark: the checker must find nothing in it."""

from __future__ import annotations

from typing import Any

import msgspec

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel
from tests.coordinator_state.scenario import SECRET, Scenario, errors
from tests.faults.history import History, Written
from tests.faults.notes import AnyNote, Ended, GaveUp, Owned, Sent
from tests.faults.told import expected_tables

__all__ = ["SESSION_MS", "Script", "right_history"]

SESSION_MS = 6_000


class Script(Scenario):
    """A scenario with a request each second, and with the notes of those who send."""

    def __init__(self) -> None:
        super().__init__(group_min_session_timeout_ms=1_000)
        self.now = 1_000_000
        self._is_judged = False  # that is for the checker to do
        self.written: dict[Channel, list[Written]] = {channel: [] for channel in Channel}
        self.notes: list[AnyNote] = []

    def _step(self, records: list[Record]) -> list[AnyResponse]:
        before = len(self.outputs)
        replies = super()._step(records)
        for channel, key, value, partition, _ in self.outputs[before:]:
            topic = self.written[channel]
            topic.append(Written(partition or 0, len(topic), self.now, key, value))
        return replies

    # -- what members do ---------------------------------------------------------------------------------

    def send(self, api: str, client: str, **fields: Any) -> list[AnyResponse]:
        self.now += 1_000
        sent = {"request_id": f"{client}-{len(self.log)}", "member_id": fields.get("member_id", "")}
        self.notes.append(Sent(at_ms=self.now, client_id=client, api=api, **sent))
        return super().send(api, client, **fields)

    def ask(self, client: str, **fields: Any) -> list[AnyResponse]:
        usual = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 20_000, "protocol_type": "units"}
        return super().ask(client, **(usual | fields))

    def share(self, leader: str, **units: str) -> list[AnyResponse]:
        """Sync; of the leader it is heard which client gets which units."""
        shares = {client: msgspec.json.encode({"units": it.split()}) for client, it in units.items()}
        return self.sync(leader, shares, protocol_type="units")

    def owns(self, client: str, *units: str) -> None:
        self.notes.append(
            Owned(
                at_ms=self.now,
                client_id=client,
                group_id=self.group.group_id,
                member_id=self.ids[client],
                generation_id=self.generations[client],
                units=list(units),
            )
        )

    def gives_up(self, client: str) -> None:
        self.notes.append(GaveUp(at_ms=self.now, client_id=client, lost=False))

    def dies(self, client: str) -> None:
        self.notes.append(Ended(at_ms=self.now, client_id=client, how="crashed"))

    def history(self) -> History:
        history = History(
            requests=self.log,
            responses=self.written[Channel.RESPONSES],
            events=self.written[Channel.EVENTS],
            groups=self.written[Channel.GROUPS],
            offsets=self.written[Channel.OFFSETS],
            rejected=self.written[Channel.REJECTED],
            notes=self.notes,
            watermark_ms=self.now,
            outages=[],
            config=self.config,
            secret=SECRET,
        )
        history.tables = expected_tables(history)
        return history


def right_history() -> History:
    """Two members share, commit and are repeated; one dies; the other waits for a third, who is parked."""
    s = Script()
    s.join("a")
    s.share("a", a="u1 u2")
    s.owns("a", "u1", "u2")
    s.commit("a", {"u1": {0: 10}})

    s.join("b")
    assert errors(s.heartbeat("a")) == {"a": "REBALANCE_IN_PROGRESS"}
    s.gives_up("a")
    assert errors(s.join("a")) == {"a": "NONE", "b": "NONE"}
    assert s.share("b") == [], "it waits for the leader"
    s.share("b")
    s.share("a", a="u1", b="u2")
    s.owns("b", "u2")
    s.now += 100
    s.owns("a", "u1")
    assert errors(s.commit("a", {"u1": {0: 5}}, generation_id=1)) == {"a": "ILLEGAL_GENERATION"}
    s.commit("a", {"u1": {0: 20}})
    s.fetch()
    s.put(b"this is no request")

    s.dies("b")
    while errors(s.heartbeat("a")) == {"a": "NONE"}:
        pass
    s.gives_up("a")
    s.join("a")
    s.share("a", a="u1 u2")
    s.owns("a", "u1", "u2")
    s.join("c")

    history = s.history()
    # After a crash the last batch runs again.
    history.responses.append(_again(history.responses[-1]))
    history.events.append(_again(history.events[-1]))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(history), type=History)


def _again(written: Written) -> Written:
    return written._replace(offset=written.offset + 1)
