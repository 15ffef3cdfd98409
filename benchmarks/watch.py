"""Memory and CPU time of a stream while something else goes on."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.streams import Stream

_LOOK_S = 0.5


class Sample(NamedTuple):
    """What the stream's processes have at a moment."""

    cpu_s: float
    workers_mb: float
    jvm_mb: float


@contextmanager
def watched(stream: Stream) -> Iterator[list[Sample]]:
    """Look twice a second, as long as this lasts, from the moment on in which there is a Python worker."""
    samples: list[Sample] = []
    is_over = threading.Event()
    watch = threading.Thread(target=_look, args=(stream, samples, is_over))
    watch.start()
    try:
        yield samples
    finally:
        is_over.set()
        watch.join()


def _look(stream: Stream, samples: list[Sample], is_over: threading.Event) -> None:
    while not is_over.wait(_LOOK_S):
        try:
            found, cpu_s = stream.memory_bytes(), stream.cpu_seconds()
        except psutil.NoSuchProcess:
            # The one before has ended, and the next is not there yet.
            continue
        if found["workers"]:
            samples.append(Sample(cpu_s, found["workers"] / 1e6, found["jvm"] / 1e6))
