"""Threads that work beside the main one, and the end of a process one of whose threads has failed.

A thread catches what may happen to it, and goes on. A fault that nobody expected ends it. Then the clock
stands, say, or the page shows the past, and nobody is told. So the process tells it, and ends as if it were
told to stop. Its supervisor starts another one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

_PATIENCE_S = 60.0
"""A process that has not ended in order by then ends at once: the thread may be one that it waits for."""


class Background:
    """A thread while the context is open, which does what `_run` says until `_stopping` is set.

    `end_s`: how long the end of the context waits for it; None: until it has ended.
    """

    def __init__(self, name: str, *, end_s: float | None = None) -> None:
        self._end_s = end_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        # None has begun where nothing is to be done.
        if self._thread.ident is not None:
            self._thread.join(self._end_s)

    def _run(self) -> None:
        raise NotImplementedError


class ThreadError(Exception):
    """A thread of this process has failed; the message is one line."""


@contextmanager
def ending_with_threads(say: Callable[[str], None]) -> Iterator[None]:
    """While the context is open, let this process end by SIGTERM when a thread fails, and `say` so.

    Must be entered in the main thread, and SIGTERM has to have a handler. Raises `ThreadError` at the end
    then, unless there is another error.
    """
    failed: list[str] = []
    before = threading.excepthook
    at_once = threading.Timer(_PATIENCE_S, os._exit, (1,))
    at_once.daemon = True

    def fail(args: Any) -> None:
        if args.exc_type is SystemExit:
            return
        name = args.thread.name if args.thread else "of the event loop"
        log.error("thread %s has failed", name, exc_info=(args.exc_type, args.exc_value, args.exc_traceback))
        failed.append(f"thread {name} has failed: {args.exc_type.__name__}: {args.exc_value}".splitlines()[0])
        if len(failed) == 1:
            say(f"stopping, because {failed[0]}")
            at_once.start()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.excepthook = fail
    try:
        yield
    except SystemExit:
        if not failed:
            raise
    finally:
        threading.excepthook = before
        at_once.cancel()
    if failed:
        raise ThreadError(failed[0])


def look_at(work: Any) -> None:
    """Take what has ended a task or a future, if it has failed, for what has ended a thread."""
    work.add_done_callback(_ended)


def _ended(work: Any) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))
