"""A client of the gateway, as those who answer it see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from group_coordinator.gateway.beat_kinds import Beat
    from group_coordinator.gateway.frames import Request

_MEMBER = "\0"
"""Stands before the id of a member. No name of a user has it."""


def _may_describe_all(topics: Iterable[str], then: Callable[[frozenset[str]], None]) -> None:
    then(frozenset(topics))


def _tell_nothing(_topics: Iterable[str], _then: Callable[[frozenset[str]], None]) -> None:
    """Nobody is there any more whose rights could be asked for."""


@dataclass(eq=False)
class Client:
    """A client's connection: its host as Kafka shows it ("/10.0.0.7"), and the node whose port it is at."""

    host: str
    node_id: int
    in_turn: Callable[[Callable[[], None]], None]
    """Does something for the client when its turn has come."""
    principal: str | None = None
    """The name that the broker has accepted, for the log; None if it is not known."""
    accepted: Beat | None = None
    """The heartbeat that was read last; None if the coordinator cannot read it."""
    asked: Request | None = None
    """The heartbeat that was read last, if it says more than that its member is alive and is not answered."""
    is_judged: bool = False
    """Whether its broker is asked what it may do, so that others may see other topics."""
    may_describe: Callable[[Iterable[str], Callable[[frozenset[str]], None]], None] = _may_describe_all
    """Tells which topics of some the client may see, in a moment."""

    def user_as(self, member_id: str) -> str:
        """The name under which groups keep the topics that it may see.

        Clients whose names are not known have each its own, by the member that it is. No user of Kafka's has
        one, or a client could choose a member id by which it is taken for somebody else.
        """
        if not self.is_judged:
            return ""
        return _MEMBER + member_id if self.principal is None else self.principal

    @property
    def name(self) -> str:
        """The name that its share of groups and requests goes by: its user's, or its host's."""
        return self.host if self.principal is None else self.principal

    def later(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        """`then` for the client, when its turn has come."""
        return lambda it: self.in_turn(lambda: then(it))

    def gone(self) -> None:
        """Hold its connection no longer: nobody can be asked there any more."""
        self.may_describe = _tell_nothing
