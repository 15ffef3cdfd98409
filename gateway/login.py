"""A client's login at its broker (SASL), as far as the gateway takes part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from group_coordinator.gateway.frames import RequestHead

__all__ = ["Login"]


class Login:
    """A client's login at its broker, as far as the gateway knows."""

    def __init__(self) -> None:
        self.is_under_way = False
        """Whether the client's last request was a part of it: a broker takes nothing else then."""
        self.is_done = False
        """Whether the broker has answered something that it answers to nobody else."""
        self.waiting: tuple[RequestHead, bytes] | None = None
        """A request of it that waits for its turn."""
        self._ends_s: float | None = None

    def answered(self, response: Any, now_s: float) -> None:
        """The broker has answered a SaslAuthenticate."""
        lifetime_ms = response.session_lifetime_ms
        self._ends_s = now_s + lifetime_ms / 1000 if lifetime_ms else None

    def is_over(self, now_s: float) -> bool:
        """Whether the client should have logged in again (KIP-368)."""
        return self._ends_s is not None and now_s > self._ends_s

    def may_be_kept(self, now_s: float) -> bool:
        """Whether the broker may be asked for a sign of life, so that it does not forget the login."""
        return self.is_done and not (self.is_under_way or self.is_over(now_s))
