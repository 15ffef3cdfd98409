"""Partitions of a group's topics, and the bytes that they are stored as.

A topic goes by the number that the group has given it. A member's target and its partitions stay bytes until
a request needs them. The bytes are a msgpack array of runs: consecutive partitions of one topic. The topic of
a run, and its epoch, is stored as the difference to the run before, which mostly takes one byte. The same
partitions always make the same bytes, and no partitions make none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Partitions: TypeAlias = dict[int, set[int]]
"""Partitions by the number of their topic. No set is empty."""

Held: TypeAlias = dict[int, dict[int, int]]
"""The partitions that a member has, by the number of their topic: partition -> the member epoch since which
it has that one (KIP-1251). No inner dict is empty."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[int])


def pack(partitions: Partitions) -> bytes:
    """Bytes that `unpack` makes the same partitions of."""
    numbers: list[int] = []
    before = 0
    for topic in sorted(partitions):
        for first, count, _ in _runs((partition, 0) for partition in sorted(partitions[topic])):
            numbers += (topic - before, first, count)
            before = topic
    return _encoder.encode(numbers) if numbers else b""


def unpack(packed: bytes) -> Partitions:
    """Read what `pack` wrote."""
    partitions: Partitions = {}
    if not packed:
        return partitions
    topic = 0
    numbers = iter(_decoder.decode(packed))
    for step, first, count in zip(numbers, numbers, numbers, strict=True):
        topic += step
        partitions.setdefault(topic, set()).update(range(first, first + count))
    return partitions


def pack_held(held: Held) -> bytes:
    """Bytes that `unpack_held` makes the same partitions and epochs of."""
    numbers: list[int] = []
    before = epoch_before = 0
    for topic in sorted(held):
        for first, count, epoch in _runs(sorted(held[topic].items())):
            numbers += (topic - before, first, count, epoch - epoch_before)
            before, epoch_before = topic, epoch
    return _encoder.encode(numbers) if numbers else b""


def unpack_held(packed: bytes) -> Held:
    """Read what `pack_held` wrote."""
    held: Held = {}
    for topic, partitions, epoch in held_runs(packed) if packed else ():
        held.setdefault(topic, {}).update(dict.fromkeys(partitions, epoch))
    return held


def held_runs(packed: bytes) -> Iterator[tuple[int, range, int]]:
    """The runs in what `pack_held` wrote: a topic, partitions of it, and since which epoch it has them."""
    topic = epoch = 0
    numbers = iter(_decoder.decode(packed) if packed else ())
    for step, first, count, epoch_step in zip(numbers, numbers, numbers, numbers, strict=True):
        topic += step
        epoch += epoch_step
        yield topic, range(first, first + count), epoch


def _runs(partitions: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Join neighbours of one epoch: (partition, epoch) in rising order to (first, count, epoch)."""
    first = count = epoch = 0
    for partition, since in partitions:
        if count and partition == first + count and since == epoch:
            count += 1
        else:
            if count:
                yield first, count, epoch
            first, count, epoch = partition, 1, since
    if count:
        yield first, count, epoch
