"""Events of the coordinator in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    GenerationCompleted,
    MemberAdded,
    MemberAway,
    MemberReconciled,
    MemberRemoved,
    StateChanged,
    TargetAssigned,
)
from group_coordinator.demo.observer import partitions_in

_REMOVED = {
    "left": "has left",
    "session_expired": "has expired: it sent no heartbeat in time",
    "not_rejoined": "was removed: it did not join again in time",
    "not_synced": "was removed: it did not sync in time",
    "not_revoked": "was removed: it did not give up in time what another one is to have",
    "unknown": "has gone: the broker's log does not say why",
}


class Narration:
    """Turns events into lines; knows members by the names that they joined with."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._told = 0

    def lines(self, events: Sequence[AnyEvent]) -> Iterator[str]:
        """Say what happened since the last time. `events`: all so far."""
        new, self._told = events[self._told :], len(events)
        yield from (line for event in new if (line := self.tell(event)) is not None)

    def tell(self, event: AnyEvent) -> str | None:  # noqa: PLR0911 - one for each kind of event
        """Say what happened; None for what is not worth a line."""
        match event:
            case MemberAdded():
                self._names[event.member_id] = event.client_id
                return f"{event.client_id} has joined"
            case MemberRemoved():
                return f"{event.client_id} {_REMOVED.get(event.reason, f'was removed: {event.reason}')}"
            case StateChanged():
                return f"{event.from_} -> {event.to}: {self._readable(event.reason)}"
            case GenerationCompleted():
                return (
                    f"generation {event.generation_id}: {self._name(event.leader)} leads and divides the work"
                )
            case AssignmentPropagated():
                return "; ".join(
                    f"{name} owns {_numbers(assignment) or 'nothing'}"
                    for name, assignment in sorted(
                        (self._name(each.member_id), each.assignment) for each in event.assignments
                    )
                )
            case TargetAssigned():
                names = ", ".join(sorted(self._name(each.member_id) for each in event.assignments))
                return f"epoch {event.assignment_epoch}: the coordinator divides the work anew for {names}"
            case MemberReconciled():
                held, given_up = _numbers(event.assignment), _numbers(event.revoking)
                yet = f", and is to give up {given_up}" if given_up else ""
                return f"{self._name(event.member_id)} owns {held or 'nothing'}{yet}"
            case MemberAway():
                return f"{event.client_id} has left for a while"
            case _:
                return None

    def _readable(self, reason: str) -> str:
        # After the colon is what the client says about itself.
        reason = reason.partition(": ")[0]
        for member_id, name in self._names.items():
            reason = reason.replace(member_id, name)
        return reason

    def _name(self, member_id: str) -> str:
        return self._names.get(member_id, member_id)


def _numbers(assignment: bytes) -> str:
    return " ".join(map(str, sorted(partitions_in(assignment))))
