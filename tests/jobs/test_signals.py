"""Being told to stop at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from group_coordinator.jobs.signals import StopEvent, stop_event
from tests.patience import PATIENCE_S

NUMBER = signal.SIGUSR1


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, before)


# It waits again and again; each time the signal comes one instruction later, until the wait is over before.
INTERRUPTED = """
import itertools, signal, sys
from group_coordinator.jobs.signals import stop_event

for step in itertools.count():
    event = stop_event(signal.SIGUSR1)
    instructions = itertools.count()

    def trace(frame, what, _):
        frame.f_trace_opcodes = True
        if what == "opcode" and next(instructions) == step:
            signal.raise_signal(signal.SIGUSR1)
        return trace

    sys.settrace(trace)
    event.wait(0.001)
    sys.settrace(None)
    if not event.is_set():
        break
print(step)
"""


def test_a_signal_may_come_at_any_instruction() -> None:
    # In a process of its own: with `threading.Event` in its place it hangs, at the first with the lock held.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True
    )

    assert int(done.stdout) > 20


def test_a_signal_that_another_thread_gets_wakes_the_one_that_waits() -> None:
    event = stop_event(NUMBER)
    threading.Timer(0.05, signal.raise_signal, [NUMBER]).start()

    assert event.wait()
    assert event.wait(), "and for good"


def test_it_waits_no_longer_than_it_is_told_to() -> None:
    event = StopEvent()

    assert not event.wait(0.01)
    assert not event.is_set()


def test_a_signal_may_come_twice() -> None:
    event = stop_event(NUMBER)
    signal.raise_signal(NUMBER)
    signal.raise_signal(NUMBER)

    assert event.is_set()
    assert event.wait(0)
