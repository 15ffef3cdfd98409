"""The responses that are owed to a client, in the order in which it asked.

A broker works on one request of a connection at a time (Kafka's SocketServer mutes the channel meanwhile). So
its responses come in the order of the requests, and clients count on that. Here some responses come from a
broker and others from the stream, so each request has a slot in a queue. Only what fills the first slot is
written.

    slots.await_upstream(...)     a request was passed on: a response of the broker fills the slot
    slots.await_local()           the stream, or the gateway itself, answers a request
    slots.ask_upstream(...)       the gateway has asked the broker something on its own account

    slots.upstream_begins(...)    the head of a response has come: whose is it, and is it wanted whole?
    slots.upstream_piece(...)     a piece of it has come
    slots.take()                  what may be written to the client now
    slots.keep()                  the rest has to stay until later
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.rewriting import Begin

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.frames import Piece


class _Slot:
    """The response to one request of the client."""

    __slots__ = ("held", "is_done", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        """The part of it that has come and is not written yet."""
        self.held = 0
        """Bytes of that, if they do not come from upstream."""
        self.is_done = False
        """Whether all of it has come."""


class LocalSlot(_Slot):
    """A response that does not come from upstream. Fill it once."""

    __slots__ = ("_on_filled",)

    def __init__(self, on_filled: Callable[[int], Any]) -> None:
        super().__init__()
        self._on_filled = on_filled

    def fill(self, frame: bytes) -> None:
        """Answer with `frame`, its length included."""
        assert not self.is_done, "a request is answered once"  # noqa: S101 - a bug of ours if it is not
        self.pieces.append(frame)
        self.held = len(frame)
        self.is_done = True
        self._on_filled(self.held)

    def forget(self) -> None:
        """Let nobody know when it is filled."""
        self._on_filled = lambda _count: None


class _Expected:
    """A response that upstream owes: to the client (`slot`), or to the gateway.

    `read`: a `Begin` takes it piece by piece, a function whole. `needed_by`: the response to the client that
    cannot be given without it.
    """

    __slots__ = ("correlation_id", "needed_by", "read", "slot")

    def __init__(
        self,
        correlation_id: int,
        slot: _Slot | None,
        read: Begin | Callable[[bytes], bytes] | None,
        needed_by: _Slot | None,
    ) -> None:
        self.correlation_id, self.slot, self.read, self.needed_by = correlation_id, slot, read, needed_by


class Slots:
    """The slots of one connection. `on_filled` is called when a local slot has been filled."""

    __slots__ = ("_expected", "_on_filled", "_owed", "bytes_held")

    def __init__(self, on_filled: Callable[[], Any]) -> None:
        self._on_filled = on_filled
        # Lists: an empty deque takes 760 bytes, and there are `Limits.slots` at most.
        self._owed: list[_Slot] = []
        """To the client, in its order."""
        self.bytes_held = 0
        """Bytes of responses that do not come from upstream and are not written yet."""
        self._expected: list[_Expected] = []
        """From upstream, in its order."""

    def __len__(self) -> int:
        """How many responses are owed to the client."""
        return len(self._owed)

    # -- the client asks ---------------------------------------------------------------------------

    def await_local(self) -> LocalSlot:
        """A slot for a response that does not come from upstream."""
        slot = LocalSlot(self._filled)
        self._owed.append(slot)
        return slot

    def _filled(self, count: int) -> None:
        self.bytes_held += count
        self._on_filled()

    def await_upstream(
        self, correlation_id: int, rewrite: Begin | Callable[[bytes], bytes] | None = None
    ) -> None:
        """A slot for a response of upstream.

        It goes through `rewrite` if that is given: piece by piece if it is a `Begin`, else whole.
        """
        slot = _Slot()
        self._owed.append(slot)
        self._expected.append(_Expected(correlation_id, slot, rewrite, slot))

    def ask_upstream(
        self, correlation_id: int, read: Callable[[bytes], Any], needed_by: LocalSlot | None = None
    ) -> None:
        """Upstream was asked something that the client does not know of; `read` gets the response.

        The slot that it is `needed_by` cannot be filled without it.
        """
        self._expected.append(_Expected(correlation_id, None, read, needed_by))

    # -- upstream answers --------------------------------------------------------------------------

    @property
    def expects_upstream(self) -> bool:
        """Whether upstream owes a response."""
        return bool(self._expected)

    @property
    def may_read_upstream(self) -> bool:
        """Whether the next response of upstream can be taken without piling up.

        That is so if the client is to have it next, or it is the gateway's own. While upstream owes nothing
        it is read as well, to notice that it goes.
        """
        if not self._expected or self._expected[0].slot is None:
            return True
        return self._expected[0].slot is self._owed[0]

    def upstream_begins(self, head: bytes) -> bool:
        """Take the head of a response; returns whether it is wanted whole. Raises `FrameError`."""
        if not self._expected:
            raise FrameError("a response that nobody has asked for")
        expected, correlation_id = self._expected[0], int.from_bytes(head, signed=True)
        if correlation_id != expected.correlation_id:
            raise FrameError(f"a response to {correlation_id} instead of {expected.correlation_id}")
        return expected.read is not None and not isinstance(expected.read, Begin)

    def upstream_piece(self, piece: Piece) -> None:
        """Take a piece of the response whose head came last."""
        expected = self._expected[0]
        if piece.is_last:
            del self._expected[0]
        data, read, slot = piece.data, expected.read, expected.slot
        if read is not None:
            data = read.take(piece) if isinstance(read, Begin) else read(bytes(data))
        if slot is not None:
            slot.pieces.append(data)
            slot.is_done = piece.is_last

    # -- the client is answered --------------------------------------------------------------------

    def take(self) -> list[bytes | memoryview]:
        """Take out what may be written to the client now."""
        taken: list[bytes | memoryview] = []
        while self._owed and (first := self._owed[0]).pieces:
            taken += first.pieces
            self.bytes_held -= first.held
            first.pieces, first.held = [], 0
            if not first.is_done:
                break
            del self._owed[0]
        return taken

    def keep(self) -> None:
        """Copy the pieces that could not be taken, because the memory that they are in is used again."""
        for slot in self._owed:
            if slot.pieces:
                slot.pieces = [bytes(each) for each in slot.pieces]

    def break_off(self) -> None:
        """Upstream is gone: forget the first response that cannot be given without it, and all after it.

        A client takes a response for the next request that it has sent, so none may be left out.
        """
        lost = {each.needed_by for each in self._expected}
        self._expected.clear()
        kept = list(takewhile(lambda each: each not in lost, self._owed))
        for each in islice(self._owed, len(kept), None):
            self.bytes_held -= each.held
            if isinstance(each, LocalSlot):
                each.forget()
        self._owed = kept
