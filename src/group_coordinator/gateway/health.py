"""The health of a gateway, for probes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from group_coordinator.jobs.health import Verdict, moving

if TYPE_CHECKING:
    from group_coordinator.gateway.local import Local

_FAILING_S = 5.0
"""How long a failure counts: reading is tried again twice a second, and not each time does it fail."""


class GatewayHealth:
    """Whether the event loop moves, and whether clients can be served."""

    def __init__(self) -> None:
        self._moved_s = time.monotonic()
        self._state = "starting"
        self._local: Local | None = None
        self._unreadable: tuple[str, float] | None = None
        """Why and when answers could not be read last."""

    def unreadable(self, reason: str) -> None:
        """Answers cannot be read just now."""
        self._unreadable = reason, time.monotonic()

    def moves(self) -> None:
        """The event loop has come round."""
        self._moved_s = time.monotonic()

    def serves(self, local: Local) -> None:
        """Clients can connect."""
        self._state, self._local = "serving clients", local

    def stops(self) -> None:
        """No more clients are accepted."""
        self._state, self._local = "stopping", None

    def is_live(self) -> Verdict:
        """Whether all that should move moves: if not, only a restart helps."""
        return moving(time.monotonic() - self._moved_s, self._state)

    def is_ready(self) -> Verdict:
        """Whether clients can be served. While the coordinator is away they are: they wait."""
        # Another thread asks, and the gateway may stop meanwhile.
        local = self._local
        if local is None:
            return Verdict(False, self._state)
        if self._unreadable is not None and time.monotonic() - self._unreadable[1] < _FAILING_S:
            return Verdict(False, f"answers cannot be read: {self._unreadable[0]}")
        silent_s = local.silent_s(time.monotonic())
        if silent_s > 0:
            return Verdict(True, f"{self._state}; the coordinator has not answered for {silent_s:.0f} s")
        return Verdict(True, self._state)
