"""Responses come in the order of the requests, whatever fills them first."""

from __future__ import annotations

import random

import pytest

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import RESPONSE_HEAD_BYTES, Frames
from group_coordinator.gateway.slots import LocalSlot, Slots
from tests.depth import cases


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4) + correlation_id.to_bytes(4) + body


class Connection:
    """A client's slots, and a broker that answers what it is asked in order."""

    def __init__(self) -> None:
        self.slots = Slots(lambda: None)
        self.upstream = Frames(RESPONSE_HEAD_BYTES, lambda head, _length: self.slots.upstream_begins(head))
        self.written = b""

    def answer(self, data: bytes) -> None:
        memory = bytearray(data)
        for piece in self.upstream.receive(memoryview(memory)):
            self.slots.upstream_piece(piece)
        self.flush()
        self.slots.keep()
        # The next response comes to the same place.
        memory[:] = b"?" * len(memory)

    def flush(self) -> None:
        self.written += b"".join(self.slots.take())


def test_a_response_of_upstream_is_written_as_it_comes() -> None:
    connection = Connection()
    connection.slots.await_upstream(1)
    data = response(1, b"records")
    connection.answer(data[:9])
    assert connection.written == data[:9]
    connection.answer(data[9:])
    assert (connection.written, len(connection.slots)) == (data, 0)


def test_a_local_response_holds_back_what_comes_after_it() -> None:
    connection = Connection()
    connection.slots.await_upstream(1)
    local = connection.slots.await_local()
    connection.slots.await_upstream(3)
    assert connection.slots.may_read_upstream
    connection.answer(response(1))
    assert not connection.slots.may_read_upstream, "what comes now cannot be written"
    connection.answer(response(3))
    assert connection.written == response(1)
    local.fill(response(2))
    connection.flush()
    assert connection.written == response(1) + response(2) + response(3)
    assert connection.slots.may_read_upstream, "to notice that it goes"


def test_local_responses_do_not_wait_for_each_other() -> None:
    connection = Connection()
    first, second = connection.slots.await_local(), connection.slots.await_local()
    second.fill(response(2))
    connection.flush()
    assert connection.written == b""
    first.fill(response(1))
    connection.flush()
    assert connection.written == response(1) + response(2)


def test_a_response_can_be_rewritten() -> None:
    connection = Connection()
    connection.slots.await_upstream(1, lambda frame: frame.replace(b"broker", b"gateway"))
    data = response(1, b"broker:9092")
    connection.answer(data[:10])
    assert connection.written == b""
    connection.answer(data[10:])
    assert connection.written == data.replace(b"broker", b"gateway")


def test_what_the_gateway_asks_is_not_the_clients() -> None:
    connection, told = Connection(), []
    local = connection.slots.await_local()
    connection.slots.ask_upstream(9, told.append)
    connection.slots.await_upstream(2)
    assert connection.slots.may_read_upstream, "or a right could never be asked for"
    connection.answer(response(9, b"denied") + response(2))
    assert told == [response(9, b"denied")]
    local.fill(response(1))
    connection.flush()
    assert connection.written == response(1) + response(2)


@pytest.mark.parametrize("correlation_id", [2, -1])
def test_a_response_to_something_else_is_refused(correlation_id: int) -> None:
    connection = Connection()
    connection.slots.await_upstream(1)
    with pytest.raises(FrameError, match=f"a response to {correlation_id} instead of 1"):
        connection.answer((4).to_bytes(4) + correlation_id.to_bytes(4, signed=True))


def test_a_response_that_nobody_has_asked_for_is_refused() -> None:
    with pytest.raises(FrameError, match="nobody has asked for"):
        Connection().answer(response(1))


def test_what_comes_before_a_lost_response_is_answered_and_nothing_after_it() -> None:
    connection = Connection()
    before = connection.slots.await_local()
    connection.slots.ask_upstream(9, lambda _: None)
    connection.slots.await_upstream(2)
    after = connection.slots.await_local()
    connection.slots.await_upstream(4)
    connection.slots.await_local().fill(response(5))
    connection.slots.break_off()
    assert (len(connection.slots), connection.slots.expects_upstream) == (1, False)
    after.fill(response(3))
    assert connection.slots.bytes_held == 0
    before.fill(response(1))
    assert connection.slots.bytes_held == len(response(1))
    connection.flush()
    assert (connection.written, len(connection.slots)) == (response(1), 0)
    assert connection.slots.bytes_held == 0


def test_upstream_that_owes_nothing_can_go() -> None:
    connection = Connection()
    local = connection.slots.await_local()
    connection.slots.break_off()
    local.fill(response(1))
    connection.flush()
    assert connection.written == response(1)


@pytest.mark.drawn
def test_order_holds_for_every_mix() -> None:
    for seed in range(cases(200, deep=20_000)):
        _play(random.Random(seed))


def _play(dice: random.Random) -> None:
    connection = Connection()
    asked: list[bytes] = []
    owed: list[bytes] = []
    local: list[tuple[LocalSlot, bytes]] = []
    for number in range(dice.randrange(1, 30)):
        match dice.choice(("local", "passed", "whole", "own", "fill", "answer")):
            case "local":
                local.append((connection.slots.await_local(), response(number, b"l")))
                asked.append(local[-1][1])
            case "passed":
                connection.slots.await_upstream(number)
                owed.append(response(number, bytes(dice.randrange(40))))
                asked.append(owed[-1])
            case "whole":
                connection.slots.await_upstream(number, lambda frame: frame + b"!")
                owed.append(response(number, b"w"))
                asked.append(owed[-1] + b"!")
            case "own":
                connection.slots.ask_upstream(number, lambda _: None)
                owed.append(response(number, b"o"))
            case "fill" if local:
                slot, frame = local.pop(dice.randrange(len(local)))
                slot.fill(frame)
            case "answer" if owed:
                connection.answer(owed.pop(0))
            case _:
                pass
        connection.flush()
        assert b"".join(asked).startswith(connection.written)
    for slot, frame in local:
        slot.fill(frame)
    connection.answer(b"".join(owed))
    assert (connection.written, len(connection.slots)) == (b"".join(asked), 0)
