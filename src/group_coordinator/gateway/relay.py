"""The way to a client's broker: what is passed on to it, what the gateway asks it, and what it sends.

There is no connection before something has to go there, and none after it was lost while nothing was owed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import RESPONSE_HEAD_BYTES, Frames
from group_coordinator.gateway.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.addresses import Serving
    from group_coordinator.gateway.needs import Effects
    from group_coordinator.gateway.slots import LocalSlot, Slots

_OWN_ID, _OWN_NAME = 0, "group-coordinator-gateway"
"""Correlation id and client id of what the gateway asks a broker on its own account."""


class Relay:
    """The way to one client's broker. Responses go to `slots`.

    `serving` tells which brokers can serve the client now. `clock` tells seconds and does not go back.
    """

    __slots__ = (
        "_clock",
        "_effects",
        "_frames",
        "_is_connected",
        "_served_by",
        "_serving",
        "_slots",
        "heard_s",
        "is_read",
        "is_writable",
    )

    def __init__(
        self, effects: Effects, slots: Slots, serving: Callable[[], Serving], clock: Callable[[], float]
    ) -> None:
        self._effects, self._slots, self._serving, self._clock = effects, slots, serving, clock
        self._frames: Frames | None = None
        """None while nobody connects, or is connected."""
        self._is_connected = False
        self.is_read = True
        """Whether what the broker sends comes in."""
        self._served_by: int | None = None
        """The broker that has served the client; None if none has."""
        self.is_writable = True
        """Whether what is passed on goes out, as far as is known."""
        self.heard_s = 0.0
        """The time at which the broker last sent something, or was asked for a sign of life."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, or will be."""
        return self._frames is not None

    def pass_on(self, data: bytes | bytearray | memoryview) -> None:
        """Send something to the broker."""
        if self._frames is None:
            self._open()
        self._effects.send_to_broker(data)

    def _open(self) -> None:
        self._frames = Frames(RESPONSE_HEAD_BYTES, self._begin)
        self._is_connected, self.is_read, self.is_writable = False, True, False
        self.heard_s = self._clock()
        serving = self._serving()
        if self._served_by is not None:
            # The client has been told the versions of that one.
            serving = [each for each in serving if each[0] == self._served_by]
        self._effects.connect_broker(serving)

    def ask(self, message: Any, read: Callable[[Any, float], None], needed_by: LocalSlot | None) -> None:
        """Ask the broker something on the client's connection, of which the client learns nothing.

        `read` gets the response and the time then. The slot that it is `needed_by` cannot be filled without.
        """

        def answered(frame: bytes) -> None:
            read(codec.decode_response(message.API_KEY, message.version, frame), self.heard_s)

        self._slots.ask_upstream(_OWN_ID, answered, needed_by)
        self.pass_on(codec.encode_request(message, _OWN_ID, _OWN_NAME))

    def connected(self, node_id: int) -> None:
        """This broker is connected."""
        self._served_by = node_id
        self._is_connected = self.is_writable = True

    def receive(self, data: bytes | memoryview, now_s: float) -> None:
        """The broker has sent something. Raises `FrameError`."""
        self.heard_s = now_s
        assert self._frames is not None  # noqa: S101 - nothing comes without a connection
        for piece in self._frames.receive(data):
            self._slots.upstream_piece(piece)

    def _begin(self, head: bytes, length: int) -> bool:
        is_whole = self._slots.upstream_begins(head)
        if length > Limits.passed_frame:
            raise FrameError(f"has {length} bytes, of at most {Limits.passed_frame}")
        return is_whole

    def lost(self) -> None:
        """The broker has gone."""
        self._frames = None
        self.is_read = self.is_writable = True

    def read(self, *, is_reading: bool) -> None:
        """Read from the broker, or let it wait."""
        if self._is_connected and is_reading is not self.is_read and self._frames is not None:
            self.is_read = is_reading
            self._effects.read_broker(is_reading=is_reading)
