"""`group-coordinator demo`: the story, told once, and whether it went as it should."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from group_coordinator.terminal import fail, need_java, need_spark

if TYPE_CHECKING:
    from group_coordinator.demo.checks import History
    from group_coordinator.demo.screen import Screen

__all__ = ["demo"]

_INTERRUPTED = 130
_FILE_WIDTH = 200


@click.command()
@click.option("--keep", is_flag=True, help="Keep all files: Kafka's, the checkpoint, the orders, the logs.")
def demo(*, keep: bool) -> None:
    """Workers share a topic; some of them die, then the coordinator: see what becomes of the work.

    Starts everything on this machine, in a temporary directory: a real Kafka broker, the coordinator
    as it runs in production, and workers as processes of their own. Takes about a minute and a half.
    Exit code 0 if all went as it should.
    """
    start = time.monotonic()
    need_spark()
    os.environ["JAVA_HOME"] = str(need_java().parent.parent)
    from deploy.jars import JarError, fetch

    try:
        fetch("broker", "spark", "local", progress=True)
    except JarError as error:
        fail(error)
    stopping = _on_stop_signals()
    directory = Path(tempfile.mkdtemp(prefix="group-coordinator-demo-"))
    exit_code = 1
    try:
        exit_code = _play(directory, stopping, start)
    finally:
        # What went wrong can only be found out with the files.
        if keep or exit_code == 1:
            click.echo(f"All files are in {directory}")
        else:
            shutil.rmtree(directory)
    sys.exit(exit_code)


def _play(directory: Path, stopping: threading.Event, start: float) -> int:
    from kafka.errors import KafkaError
    from rich.console import Console

    from deploy.broker import BrokerError
    from group_coordinator.demo.processes import end_of
    from group_coordinator.demo.screen import Screen
    from group_coordinator.demo.stage import Interrupted, Stage, StoryError
    from group_coordinator.demo.story import tell_story

    console = Console()
    if not console.is_interactive:
        console.width = _FILE_WIDTH
    with Screen(console, start) as screen:
        stage = Stage(directory, screen, stopping)
        try:
            with stage:
                history = tell_story(stage)
        except Interrupted:
            screen.step("Interrupted; everything that was started has ended.")
            return _INTERRUPTED
        except StoryError as error:
            screen.failure(str(error), end_of(error.log) if error.log else "")
            return 1
        except BrokerError as error:  # quotes its log itself
            screen.failure(str(error))
            return 1
        except KafkaError as error:
            screen.failure(f"Kafka: {error}", end_of(stage.broker_log))
            return 1
        return _judge(history, screen, start)


def _judge(history: History, screen: Screen, start: float) -> int:
    from group_coordinator.demo.checks import run_checks

    checks = run_checks(history)
    screen.results(checks)
    took = time.monotonic() - start
    begun_ms = (time.time() - took) * 1000
    first_s = (min(told.at_ms for told in history.ownership) - begun_ms) / 1000
    screen.step(f"First assignment {first_s:.1f} s after the start of this command; {took:.0f} s in all.")
    return 0 if all(check.held for check in checks) else 1


def _on_stop_signals() -> threading.Event:
    """Return an event that SIGINT, SIGTERM and SIGHUP set from now on, to the end of this process."""
    # An event, not an exception, so that nothing is lost halfway through being started or ended.
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
