"""A thread that fails ends its process, which says so."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from group_coordinator.jobs import threads
from group_coordinator.jobs.signals import StopEvent, exiting_on_sigterm, stop_event
from group_coordinator.jobs.threads import ThreadError, ending_with_threads, look_at
from tests.patience import PATIENCE_S, wait_for

LOOP = "thread of the event loop has failed: ZeroDivisionError: integer division or modulo by zero"
WHY = "thread clock has failed: ZeroDivisionError: integer division or modulo by zero"


def fails() -> None:
    _ = 1 // 0


def run(target: Callable[[], object] = fails) -> None:
    thread = threading.Thread(target=target, name="clock")
    thread.start()
    thread.join()


def ended(stopping: StopEvent, *works: Callable[[], object], say: Callable[[str], object] = str) -> str:
    """How a process ends that does this, and waits until it is told to stop."""
    try:
        with ending_with_threads(say):
            for work in works:
                work()
            assert stopping.wait(PATIENCE_S)
    except ThreadError as error:
        return str(error)
    return "in order"


@pytest.fixture
def stopping() -> Iterator[StopEvent]:
    """What SIGTERM sets."""
    before = signal.getsignal(signal.SIGTERM)
    yield stop_event(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def test_the_process_is_told_to_stop_and_ends_with_an_error(
    stopping: StopEvent, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    hook = threading.excepthook
    assert ended(stopping, run, say=said.append) == WHY

    assert said == [f"stopping, because {WHY}"]
    (logged,) = caplog.records
    assert logged.getMessage() == "thread clock has failed"
    assert logged.exc_info
    assert threading.excepthook is hook


def test_of_several_the_first_is_told(stopping: StopEvent) -> None:
    said: list[str] = []
    assert ended(stopping, run, lambda: run(lambda: int("x")), say=said.append) == WHY
    assert len(said) == 1


def test_while_the_process_starts(stopping: StopEvent) -> None:
    with exiting_on_sigterm():
        assert ended(stopping, run) == WHY
    assert not stopping.is_set()


def test_what_comes_of_it_is_told_as_it_is(stopping: StopEvent) -> None:
    """It is the better known error."""
    with pytest.raises(ValueError, match="known"):
        ended(stopping, run, lambda: int("known"))


def test_threads_that_end_as_they_should(stopping: StopEvent) -> None:
    assert ended(stopping, lambda: run(str), lambda: run(sys.exit), stopping.set) == "in order"
    with pytest.raises(SystemExit):
        ended(stopping, sys.exit)


def test_a_future_that_fails_is_a_thread_that_fails(stopping: StopEvent) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert ended(stopping, lambda: look_at(pool.submit(fails))) == WHY.replace(
            "clock", "of the event loop"
        )


def test_a_task_that_fails_is_a_thread_that_fails(stopping: StopEvent) -> None:
    async def task_fails() -> None:
        fails()

    async def run_tasks() -> None:
        tasks = [asyncio.ensure_future(each) for each in (asyncio.sleep(PATIENCE_S), task_fails())]
        for each in tasks:
            look_at(each)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # One that is cancelled has not failed.
        tasks[0].cancel()
        await asyncio.wait(tasks)

    assert ended(stopping, lambda: asyncio.run(run_tasks())) == LOOP


def test_a_process_that_does_not_end_in_order_ends_at_once(
    stopping: StopEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(threads, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(os, "_exit", codes.append)
    assert ended(stopping, run, lambda: wait_for(lambda: codes == [1])) == WHY
