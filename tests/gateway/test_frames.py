from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import REQUEST_HEAD_BYTES, Frames, Piece, RequestHead, read_request_head

HEAD = bytes.fromhex("000b 0009 00000007".replace(" ", ""))
bodies = st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=6)


def framed(body: bytes) -> bytes:
    return len(HEAD + body).to_bytes(4) + HEAD + body


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(ends)]


@given(bodies, st.lists(st.integers(0, 1_000), max_size=12))
def test_frames_are_the_same_however_they_arrive(sent: list[tuple[bytes, bool]], places: list[int]) -> None:
    wanted = iter([is_whole for _, is_whole in sent])
    frames = Frames(REQUEST_HEAD_BYTES, lambda _head, _length: next(wanted))
    pieces: list[Piece] = []
    for data in cut(b"".join(framed(body) for body, _ in sent), places):
        pieces += [piece._replace(data=bytes(piece.data)) for piece in frames.receive(data)]

    received: list[list[Piece]] = []
    for piece in pieces:
        if piece.is_first:
            received.append([])
        received[-1].append(piece)
    assert [b"".join(bytes(piece.data) for piece in each) for each in received] == [
        framed(body) for body, _ in sent
    ]
    for each, (_, is_whole) in zip(received, sent, strict=True):
        assert [piece.is_last for piece in each] == [False] * (len(each) - 1) + [True]
        assert not is_whole or len(each) == 1
    assert (frames.is_between, frames.bytes_held) == (True, 0)


def test_a_frame_that_is_passed_is_not_kept() -> None:
    frames = Frames(REQUEST_HEAD_BYTES, lambda _head, _length: False)
    data = framed(bytes(1_000))
    assert list(frames.receive(data[:5])) == []
    assert frames.bytes_held == 5
    assert [len(piece.data) for piece in frames.receive(data[5:500])] == [500]
    assert (frames.bytes_held, frames.is_between) == (0, False)


def test_the_head_tells_what_it_is() -> None:
    told: list[tuple[RequestHead, int]] = []

    def begin(head: bytes, length: int) -> bool:
        told.append((read_request_head(head), length))
        return True

    list(Frames(REQUEST_HEAD_BYTES, begin).receive(framed(b"body")))
    assert told == [(RequestHead(11, 9, 7), 12)]


@pytest.mark.parametrize("length", [-1, 0, 7, -(2**31)])
def test_a_frame_that_is_too_short_for_its_head(length: int) -> None:
    frames = Frames(REQUEST_HEAD_BYTES, lambda _head, _length: True)
    with pytest.raises(FrameError, match=f"a frame of {length} bytes"):
        list(frames.receive(length.to_bytes(4, signed=True) + HEAD))
