"""Guests, which are clients, and parties: guests of one host, or of one user, who share what they may have.

A guest belongs to the party of its host, and from its login on to that of its user as well. The event loop's
time that is worked for it is its own, its party's, and that of the turn (`turns.py`):

    guest.do(go)        `go` is called now
    guest.in_turn(go)   `go` is called now, or in a later turn if this one is over
    guest.look()        the time since the last look is counted, within `go`
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.limits import Holding, Limits, Rate
from group_coordinator.gateway.turns import Account

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.conversation import Conversation
    from group_coordinator.gateway.turns import Turns


_LOOK_S = 0.1
"""A look at all of 10,000 hosts takes 0.6 ms, and thousands of clients may be refused at once."""
_LOOKED_AT = 100
"""A look at all of 10,000 connections of a host takes 4 ms, for each client that gets one's place."""


def shown_host(address: str) -> str:
    """The name of the party of clients at this address, as Kafka shows a host: "/10.0.0.7"."""
    # A port for both kinds of addresses shows those of IPv4 so.
    return f"/{address.removeprefix('::ffff:')}"


class Party:
    """One of them, with what it has taken."""

    def __init__(self, request_rate: float, connection_rate: float) -> None:
        self.connections: dict[Any, None] = {}
        """Conversations, and clients in a TLS handshake, the oldest first."""
        self.account = Account(Limits.party_s + Limits.behind_s)
        self.holding = Holding()
        self.requests, self.arrivals = Rate(request_rate), Rate(connection_rate)

    def quietest(self) -> Any:
        """The quietest of its oldest connections. One without a login comes before all that have one."""
        return min(islice(self.connections, _LOOKED_AT), key=lambda each: (each.is_known, each.heard_s))


class Parties:
    """All of one kind. `most`: connections that a party may have.

    `request_rate`: requests of groups, without signs of life, that a party may send in a second.
    `connection_rate`: connections that it may make in a second. 0 is any number of each.
    """

    def __init__(self, most: int, request_rate: float = 0, connection_rate: float = 0) -> None:
        self._most, self._request_rate, self._connection_rate = most, request_rate, connection_rate
        self._parties: dict[str, Party] = {}
        self._largest: Party | None = None
        self._look_s = 0.0

    def of(self, name: str) -> Party:
        """The party with this name."""
        if (party := self._parties.get(name)) is None:
            party = self._parties[name] = Party(self._request_rate, self._connection_rate)
        return party

    def refuses(self, name: str, now_s: float, connection: Conversation | None = None) -> bool:
        """Whether a party may have no more connections now. It may keep a `connection` that is its own."""
        party = self.of(name)
        if connection in party.connections:
            return False
        has_enough = bool(self._most) and len(party.connections) >= self._most
        return has_enough or party.arrivals.wait_s(now_s) > 0

    def enter(self, name: str, connection: Any, now_s: float) -> Party:
        """Count one more connection of a party."""
        party = self.of(name)
        party.arrivals.take(now_s)
        party.connections[connection] = None
        return party

    def largest(self, now_s: float) -> Party | None:
        """The party that had most connections a tenth of a second ago at most; None if there was none."""
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            self._largest = max(self._parties.values(), key=lambda each: len(each.connections), default=None)
        return self._largest

    def forget(self, now_s: float) -> None:
        """Forget those that have gone, and of which nothing need be remembered."""
        for name, party in list(self._parties.items()):
            is_used = party.arrivals.is_used(now_s) or party.requests.is_used(now_s)
            is_quiet = not (is_used or party.account.taken_s(now_s))
            if is_quiet and not (party.connections or party.holding.count):
                del self._parties[name]


class Guest:
    """A client, with the parties that it belongs to, and the work for it in the `turns` of the event loop."""

    __slots__ = ("_account", "_host", "_since_s", "_turns", "_user", "holding")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._since_s: float | None = None
        """Since when there is work for it; None while there is none."""
        self._account = Account(Limits.behind_s)
        self._host: Party | None = None
        self._user: Party | None = None
        self.holding = Holding()
        """The requests that wait for this client, or for all of its user."""

    def joins(self, host: Party) -> None:
        """It has come from this host."""
        self._host = host

    def joins_user(self, user: Party, connection: Conversation) -> None:
        """It has logged in as this user, perhaps as another one before."""
        if self._user not in (None, user):
            self._user.connections.pop(connection, None)
        self._user = user
        self.holding = user.holding

    def leaves(self, connection: Conversation) -> None:
        """It has gone."""
        for party in (self._host, self._user):
            if party is not None:
                party.connections.pop(connection, None)

    @property
    def party(self) -> Party | None:
        """Its user's party, or its host's as long as its user is not known."""
        return self._user or self._host

    def together_s(self, now_s: float) -> float:
        """Return how far its party is behind others: only once it has taken much."""
        party = self.party
        return 0.0 if party is None else max(0.0, party.account.taken_s(now_s) - Limits.party_s)

    def taken_s(self, now_s: float) -> float:
        """Return how far it is behind the others of its party."""
        return self._account.taken_s(now_s)

    def asks(self, now_s: float) -> float:
        """Count a request of it; returns for how many seconds it is not to be read then."""
        party = self.party
        return 0.0 if party is None else party.requests.take(now_s)

    # -- the work for it -------------------------------------------------------------------------------

    def do(self, go: Callable[[], None]) -> None:
        """Call `go`, perhaps within other work."""
        is_inner = self._since_s is not None
        if not is_inner:
            self._since_s = self._turns.clock()
        try:
            go()
        finally:
            self.look()
            if not is_inner:
                self._since_s = None

    def in_turn(self, go: Callable[[], None]) -> None:
        """Call `go` at once, or in a later turn if this one is over."""
        self.look()
        if self._turns.are_free:
            self.do(go)
        else:
            # An answer may take more than to read a small request, and nobody knows how much.
            self._turns.wait(self, Limits.late_bytes, lambda: self.do(go))

    def look(self) -> None:
        """Count the time since the last look, unless it is next to nothing."""
        if self._since_s is not None:
            now_s = self._turns.clock()
            seconds = now_s - self._since_s
            if seconds >= Limits.least_s:
                self._since_s = now_s
                self._turns.took(seconds)
                self.took(seconds, now_s)

    def took(self, seconds: float, now_s: float) -> None:
        """So much of the event loop's time was taken for it."""
        self._account.add(seconds, now_s)
        if (party := self.party) is not None:
            party.account.add(seconds, now_s)
