"""Groups with much to tell, for pictures of them: the real core writes the events."""

from __future__ import annotations

from datetime import datetime, timedelta

from group_coordinator.history.rows import GenerationMember, Row, Transition
from group_coordinator.history.spans import Assignment, Membership
from group_coordinator.history.story import Story
from tests.coordinator_state.scenario import Scenario, clock
from tests.history.scripts import GROUP, TOPIC, events, share

BEGIN_MS = 1_795_000_000_000 // 86_400_000 * 86_400_000
"""Midnight of some day (UTC)."""
SESSION_MS = 30_000


class Fleet:
    """Clients that share partitions of two topics, and do what clients do."""

    def __init__(self, start: str, partitions: int = 12, **config: int) -> None:
        self.s = Scenario(**config)
        self.partitions = partitions
        self.dead: set[str] = set()
        self.at(start)

    def at(self, time: str | int) -> None:
        """Go on to a time of that day; meanwhile those that are alive beat."""
        until = BEGIN_MS + clock(time) if isinstance(time, str) else time
        while self.s.state is not None and self.s.group.members and until - self.s.now > SESSION_MS // 3:
            self.beat(self.s.now + SESSION_MS // 3)
        self.s.at(until)

    def beat(self, at: int) -> None:
        self.s.at(at)
        for client in self.alive():
            self.s.heartbeat(client)

    def alive(self) -> list[str]:
        return [each for each in self.s.ids if each not in self.dead and self.s.member(each) is not None]

    def dies(self, client: str) -> None:
        """It is not heard of from now on."""
        self.dead.add(client)

    def joins(self, client: str, **fields: object) -> None:
        self.dead.discard(client)
        if client in self.s.ids and self.s.member(client) is None:
            del self.s.ids[client]
        self.s.join(client, **{"session_timeout_ms": SESSION_MS, **fields})

    def rejoin(self, *late: str, after_ms: int = 400) -> None:
        """All that are alive join again, `late` ones last, `after_ms` after each other; then they sync."""
        s = self.s
        others = [each for each in self.alive() if each not in late]
        for client in (*others, *late):
            if s.group.state == "PreparingRebalance" and s.member(client).awaiting_join is None:
                s.wait(after_ms if client in late else 35)
                self.joins(client)

    def syncs(self, *missing: str, after_ms: int = 60) -> None:
        """The leader divides, and all but `missing` sync."""
        s = self.s
        clients = [each for each in self.alive() if each not in missing]
        leader = next(each for each in clients if s.ids[each] == s.group.leader)
        members = self.alive()
        shares = {
            each: share(*range(number, self.partitions, len(members))) for number, each in enumerate(members)
        }
        s.wait(after_ms)
        for client in (*(each for each in clients if each != leader), leader):
            s.sync(client, shares)

    def settles(self, *late: str, after_ms: int = 400) -> None:
        """A whole rebalance, to its end."""
        self.rejoin(*late, after_ms=after_ms)
        self.syncs()
        assert self.s.group.state == "Stable"

    def story(self) -> Story:
        return Story.of_events(GROUP, enumerate(events(self.s)))


def an_hour() -> Fleet:
    """Three workers and a static one: they fall silent, are slow, restart, do not sync, leave."""
    f = Fleet("14:02:10", group_initial_rebalance_delay_ms=3_000)
    f.s.static("store-1")
    for client in ("billing-a", "billing-b", "store-1"):
        f.joins(client, rebalance_timeout_ms=60_000)
    f.s.wait(6_000)
    f.syncs()
    f.at("14:10:00")
    f.joins("billing-c", reason="scaled out")
    f.settles("billing-b", after_ms=9_000)
    f.at("14:18:30")
    f.dies("billing-b")
    f.at("14:19:10")
    f.settles()
    f.at("14:26:00")
    f.s.restart("store-1", session_timeout_ms=SESSION_MS)
    f.at("14:31:00")
    f.joins("billing-d", rebalance_timeout_ms=60_000)
    f.rejoin()
    f.dies("billing-d")
    f.syncs("billing-d")
    f.at("14:32:20")
    f.settles()
    f.at("14:40:00")
    f.s.leave(
        "billing-a", members=[{"member_id": f.s.ids["billing-a"], "reason": "the consumer is being closed"}]
    )
    f.dies("billing-a")
    f.settles()
    f.at("14:47:00")
    f.joins("billing-e", reason="scaled out")
    f.dies("billing-c")
    f.at("14:48:30")
    f.settles()
    f.at("14:55:00")
    return f


def a_crowd(members: int, generations: int, since: datetime, step: timedelta) -> Story:
    """A generation begins each `step`: each time another member has fallen silent, and a new one has come.

    Made of rows, as the core would take a while.
    """
    rows: list[Row] = []
    names = [f"worker-{number:03}" for number in range(members)]
    came = {f"{name}-0": since for name in names}
    for number in range(generations):
        at, end = since + number * step, since + (number + 1) * step
        common = {"at": at, "log_offset": number, "group_id": GROUP, "generation_id": number + 1}
        for state, before in (("PreparingRebalance", "Stable"), ("Stable", "CompletingRebalance")):
            cause = "session_expired" if state != "Stable" or number else None
            rows.append(
                Transition(
                    event_id=f"{number}-{state}",
                    **common,
                    from_state=before,
                    to_state=state,
                    reason="a reason",
                    cause=cause,
                    rebalance_ms=40,
                )
            )
        present = list(came)
        for place, member_id in enumerate(present):
            rows += [
                GenerationMember(
                    event_id=f"g{number}",
                    **common,
                    member_id=member_id,
                    is_leader=place == 0,
                    protocol_type="consumer",
                    protocol_name="range",
                ),
                *(
                    Assignment(
                        group_id=GROUP,
                        generation_id=number + 1,
                        member_id=member_id,
                        topic=TOPIC,
                        partition=place + members * each,
                        since=at,
                        until=end,
                        begun_by=f"g{number}",
                    )
                    for each in range(2)
                ),
            ]
        gone = present[number % members]
        rows.append(_member(gone, came.pop(gone), end, "session_expired"))
        name, run = gone.rsplit("-", 1)
        came[f"{name}-{int(run) + 1}"] = end
    rows += [_member(member_id, begun, None, None) for member_id, begun in came.items()]
    return Story.of_rows(GROUP, rows)


def _member(member_id: str, since: datetime, until: datetime | None, reason: str | None) -> Membership:
    return Membership(
        group_id=GROUP,
        member_id=member_id,
        client_id=member_id.rsplit("-", 1)[0],
        since=since,
        until=until,
        begun_by="b",
        reason=reason,
    )
