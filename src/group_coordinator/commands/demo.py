"""`group-coordinator demo`: the story, told once, and whether it went as it should."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from group_coordinator.commands.output import put
from group_coordinator.commands.terminal import fail, need_spark
from group_coordinator.jobs.signals import stop_event

if TYPE_CHECKING:
    from group_coordinator.demo.checks import History
    from group_coordinator.demo.screen import Screen
    from group_coordinator.jobs.signals import StopEvent

_INTERRUPTED = 130
_FILE_WIDTH = 200
_AROUND_MS = 1_000
_ROOM = 0.06


@click.command()
@click.option("--keep", is_flag=True, help="Keep all files: Kafka's, the checkpoint, the orders, the logs.")
def demo(*, keep: bool) -> None:
    """Kill workers and the coordinator, and see the work go on.

    The demo starts a real Kafka broker, the coordinator as it runs in production, and workers as processes of
    their own. Some of them are Kafka's own console consumers, behind the gateway. One more group stays at the
    broker, where `observe` watches it. Everything is in a temporary directory on this machine. The demo takes
    two minutes, and longer on a busy machine. The exit code is 0 if all promises were kept.
    """
    start = time.monotonic()
    need_spark()
    from group_coordinator.deploy.jars import JarError, fetch

    try:
        fetch("broker", "tools", "spark", "local", progress=True)
    except JarError as error:
        fail(error)
    # An event, not an exception, so that nothing is lost halfway through being started or ended.
    stopping = stop_event(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    directory = Path(tempfile.mkdtemp(prefix="group-coordinator-demo-"))
    exit_code = 1
    try:
        exit_code = _play(directory, stopping, start)
    finally:
        # One can only find out with the files what went wrong.
        if keep or exit_code == 1:
            put(f"All files are in {directory}\n")
        else:
            shutil.rmtree(directory)
    sys.exit(exit_code)


def _play(directory: Path, stopping: StopEvent, start: float) -> int:
    from kafka.errors import KafkaError
    from rich.console import Console

    from group_coordinator.demo.processes import end_of
    from group_coordinator.demo.screen import Screen
    from group_coordinator.demo.stage import Interrupted, Stage, StoryError
    from group_coordinator.demo.story import tell_story
    from group_coordinator.deploy.broker import BrokerError

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
    screen.step(f"The story as a picture, to open in a browser: {_draw(history)}")
    screen.step("Next: `make run` starts a broker, a coordinator and its page, for members of your own.")
    return 0 if all(check.held for check in checks) else 1


def _draw(history: History) -> Path:
    """The timeline of the group, in a file that stays."""
    from group_coordinator.history.rows import time_of
    from group_coordinator.history.story import Outage, Story
    from group_coordinator.history.timeline import timeline_html

    events, outage = history.events, history.outage
    story = Story.of_events(events[0].group_id, enumerate(events))
    story.outages = [Outage(time_of(outage.from_ms), time_of(outage.answered_ms))]
    begin_ms, end_ms = events[0].at_ms, events[-1].at_ms
    # Behind the end there is room for what is written beside the last marks.
    room_ms = round((end_ms - begin_ms) * _ROOM)
    since, until = time_of(begin_ms - _AROUND_MS), time_of(end_ms + room_ms)
    with tempfile.NamedTemporaryFile(
        "w", prefix="group-coordinator-demo-", suffix=".html", encoding="utf-8", delete=False
    ) as file:
        file.write(timeline_html(story, since, until))
    return Path(file.name)
