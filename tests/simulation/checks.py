"""What must be true all the time: seen by an observer who reads the log and everything that is written.

The observer's clock stands still while there is no coordinator: by it nothing is put off by an outage.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.log import in_log_order
from group_coordinator.coordinator_state.outages import Outages
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel
from tests.coordinator_state import invariants
from tests.simulation.answers import Answers
from tests.simulation.history import History
from tests.simulation.phases import Phases
from tests.simulation.progress import Progress
from tests.simulation.sessions import Sessions

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.step import StepResult
    from tests.simulation.network import Entry
    from tests.simulation.world import World

_read_response = msgspec.json.Decoder(AnyResponse).decode
_read_event = msgspec.json.Decoder(dict[str, Any]).decode


class Violation(AssertionError):  # noqa: N818 - not an error to be handled
    """Something happened that must not."""


class Answer(NamedTuple):
    """A response as it was written. `partition` is that of the response topic."""

    partition: int | None
    response: AnyResponse


class Checks:
    """The observer. It is told of every batch once, in order, and of everything that members come to own."""

    def __init__(self, world: World) -> None:
        self._world = world
        conditions = world.conditions
        self.group: ClassicGroup | None = None
        """The group after the last batch."""
        self.has_picture = False
        """Whether the newest picture of the group is one, and not a tombstone."""
        self.history = History()
        self._answers = Answers()
        self._phases = Phases(self.history)
        self._sessions = Sessions(
            self.history, self._phases, conditions.config, conditions.slowest.rebalance_ms
        )
        self.progress = Progress(self.history, self._phases, conditions)
        self._now = 0
        # (life, generation, unit) -> member id
        self._owners: dict[tuple[int, int, int], str] = {}

    # -- the coordinator -----------------------------------------------------------------------------

    def stepped(
        self, state: bytes | None, entries: list[Entry], watermark: int, result: StepResult
    ) -> list[Answer]:
        """A batch was run for the first time, from `state`; its answers are returned."""
        self.group = invariants.check(
            state, result, watermark, self._world.conditions.config, Outages(self._world.outages)
        )
        answers, events = [], []
        for channel, _, value, partition in result.outputs:
            match channel:
                case Channel.RESPONSES:
                    answers.append(Answer(partition, _read_response(value or b"")))
                case Channel.EVENTS:
                    events.append(_read_event(value or b""))
                case Channel.GROUPS:
                    self._check_picture(value)
                case Channel.REJECTED:
                    raise Violation(f"a request was not read: {value!r}")
        self.progress.answered(answer.response for answer in answers)
        self._replay(entries, events)
        if self.history.exists:
            self._now = max(self._now, self._up(watermark))
        self.history.check(self.group)
        self.progress.check(self.group)
        in_order = {entry.record: entry for entry in entries}
        self._answers.check(
            (in_order[record] for record in in_log_order(in_order)),
            answers,
            self.group,
        )
        self._sessions.look(self.group, self._now, is_asked=bool(entries))
        return answers

    def idled(self, watermark: int) -> None:
        """Nothing came, and there was nothing to do: rightly so?"""
        self._sessions.check(self._up(watermark))

    def _check_picture(self, value: bytes | None) -> None:
        self.has_picture = value is not None
        expected = None if self.group is None else msgspec.json.encode(self.group.picture())
        assert value == expected, "the picture is not the group"

    def _replay(self, entries: list[Entry], events: list[dict[str, Any]]) -> None:
        """Go through records and events in the order in which they count."""
        in_order = {entry.record: entry for entry in entries}
        unread = in_log_order(in_order)
        unread.reverse()
        place = ""

        def read() -> str:
            record = unread.pop()
            self._now = self._time_of(record.timestamp_ms)
            self._phases.hear(in_order[record], self._now)
            self._sessions.hear(in_order[record], self._now)
            self.progress.hear(in_order[record])
            return f"{record.topic}-{record.partition}-{record.offset}"

        for event in events:
            cause = event["event_id"].rpartition("-")[0]
            _, is_deadline, fired_ms = cause.rpartition("@")
            if is_deadline:
                at_ms = self._up(int(fired_ms))
                while unread and self._time_of(unread[-1].timestamp_ms) < at_ms:
                    place = read()
                assert self._now <= at_ms, f"time goes back from {self._now}: {event}"
                self._now = at_ms
            else:
                while place != cause:
                    assert unread, f"nothing caused this: {event}"
                    place = read()
            assert self._up(event["at_ms"]) == self._now, f"it is {self._now}: {event}"
            self._tell(event)
        while unread:
            read()

    def _time_of(self, timestamp_ms: int) -> int:
        # A group's time does not go back, and it takes a group to have one.
        time = self._up(timestamp_ms)
        return max(self._now, time) if self.history.exists else time

    def _up(self, log_ms: int) -> int:
        """What the observer's clock says at that log time: how long there has been a coordinator."""
        down = (
            min(log_ms, end_ms) - start_ms for start_ms, end_ms, _ in self._world.outages if start_ms < log_ms
        )
        return log_ms - sum(down)

    def _tell(self, logged: dict[str, Any]) -> None:
        times = {name: self._up(logged[name]) for name in ("at_ms", "until_ms") if name in logged}
        event = logged | times | {"log_ms": logged["at_ms"]}
        self._phases.tell(event)
        self.history.add(event)
        self._sessions.tell(event)
        self.progress.tell(logged)
        self._world.note("coordinator", "{}", logged)
        if event["event"] == "member_removed":
            self._world.removed(logged)

    # -- the members ---------------------------------------------------------------------------------

    def owns(self, member_id: str, generation: int, assignment: bytes) -> None:
        """A member was told what it owns, and takes it over."""
        decided = self.history.assignments.get((member_id, generation))
        if decided is None:
            raise Violation(f"{member_id} was told of an assignment that generation {generation} never had")
        life, bytes64 = decided
        if bytes64 != b64encode(assignment).decode():
            raise Violation(f"{member_id} was told {assignment!r} in generation {generation}, not {decided}")
        owner = self.history.first_ids.get(member_id, member_id)
        for unit in msgspec.json.decode(assignment) if assignment else ():
            other = self._owners.setdefault((life, generation, unit), owner)
            if other != owner:
                raise Violation(f"unit {unit} has two owners in generation {generation}: {other}, {owner}")
