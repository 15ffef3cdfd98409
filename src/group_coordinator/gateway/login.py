"""A client's login at its broker (SASL), as far as the gateway takes part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.sasl import SaslHandshakeRequest

from group_coordinator.gateway.principals import MECHANISMS

if TYPE_CHECKING:
    from group_coordinator.gateway.principals import Mechanism


class Login:
    """A client's login at its broker, as far as the gateway knows.

    A client that stays connected logs in again before its session ends (KIP-368). A second login that the
    broker refuses changes nothing of the first one.
    """

    __slots__ = ("_claimed", "_ends_s", "_mechanism", "_rounds", "is_done", "may_be_done", "principal")

    def __init__(self) -> None:
        self.may_be_done = False
        """Whether the broker has answered a SaslAuthenticate without an error."""
        self.is_done = False
        """Whether the broker has answered something that it answers to nobody else."""
        self.principal: str | None = None
        """The name that the broker has accepted; None if there is none, or if it is not known."""
        self._mechanism: Mechanism | None = None
        self._claimed: str | None = None
        """The name in the login that is under way."""
        self._rounds = 0
        """How many messages the client has sent in it."""
        self._ends_s: float | None = None

    def asked(self, request: Any) -> None:
        """The client has sent a SaslHandshake or a SaslAuthenticate."""
        if isinstance(request, SaslHandshakeRequest):
            self._mechanism = MECHANISMS.get(request.mechanism)
            self._rounds = 0
            return
        self._rounds += 1
        if self._rounds == 1:
            self._claimed = self._mechanism.name_in(request.auth_bytes) if self._mechanism else None

    def answered(self, response: Any, now_s: float) -> bool:
        """The broker has answered a SaslAuthenticate; returns whether it has accepted a name by that."""
        if response.error_code:
            # Later messages are no login before the next handshake.
            self._mechanism = None
            return False
        self.may_be_done = True
        if response.session_lifetime_ms:
            # The broker says so when it accepts a login, and at no other time.
            self._ends_s = now_s + response.session_lifetime_ms / 1000
        if self._mechanism is None or not self._mechanism.is_accepted(self._rounds, response.auth_bytes):
            return False
        self.principal = self._claimed
        return True

    def is_over(self, now_s: float) -> bool:
        """Whether the client should have logged in again (KIP-368)."""
        return self._ends_s is not None and now_s > self._ends_s
