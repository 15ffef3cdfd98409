"""Plays the story of docs/day-two.md, and puts what was said and shown into it: python -m tests.day_two.

A worker gets slow, for two and a half of ten minutes. All is real: broker, coordinator, `measure-lag`,
`write-history`, the page, and Prometheus with the rules that are shipped. Only measurements and looks of
Prometheus come more often than by default.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from playwright.sync_api import Browser

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import COMMAND, Process
from tests.deploy.prometheus import Prometheus, configured, promtool
from tests.page.browser import browser
from tests.patience import PATIENCE_S, wait_for
from tests.repeating import repeating
from tests.rooms import ROOT

TEXT, IMAGES = ROOT / "docs" / "day-two.md", ROOT / "docs" / "images"
PARTITIONS = 4
PER_SECOND = 40
CALM_S = 60
"""For how long all is well before it begins; and half as long in the end."""
ALERT = "GroupStalled"
TOGETHER = 'group_coordinator_members == 2 and on() group_coordinator_groups{state="Stable"} == 1'
STATUS = 'group_coordinator_lag_partitions{group="orders",'
LAG = 'kafka_consumergroup_group_sum_lag{group="orders"}'
AGE = 'kafka_consumergroup_group_max_lag_seconds{group="orders"}'
BLOCK = re.compile(r"(<!-- said: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH, HEIGHT = 1120, 700


class Story:
    """The processes, and what is put into the text: what a reader would type, and what came."""

    def __init__(self, directory: Path, servers: str, stack: ExitStack) -> None:
        self.said: dict[str, str] = {}
        self._directory, self.servers = directory, servers
        self._history = str(directory / "groups-history")
        self._names = {servers: "localhost:9092", self._history: "groups-history"}

        def start(*words: str) -> Process:
            process = Process(directory, *words, "--bootstrap-server", servers)
            stack.callback(process.kill)
            return process

        where = ("--checkpoint", str(directory / "checkpoint"), "--create-topics", "--metrics-port", "0")
        coordinator = start("run", *where, "--set", "ui.port=-1")
        coordinator.wait_for("the coordinator is running")
        lag = start(
            *("measure-lag", "--groups", "orders", "--create-topics", "--metrics-port", "0"),
            *("--set", "lag.interval.ms=2000"),
        )
        ui = start("ui", "--port", "0")
        self.page = ui.wait_for("the page is at ")
        jobs = {"": coordinator, "-lag": lag}
        ports = {
            f"group-coordinator{job}": each.wait_for("metrics are at http://localhost:").split("/")[0]
            for job, each in jobs.items()
        }
        # As in the configuration that is shipped.
        self._names[f"127.0.0.1:{ports['group-coordinator-lag']}"] = "lag:9464"
        looks = directory / "prometheus"
        looks.mkdir()
        self.prometheus = stack.enter_context(Prometheus(looks, configured(looks, ports, "2s")))
        self.prometheus_url = self.prometheus._url
        self._names[self.prometheus_url] = "http://localhost:9090"

    def member(self, name: str, stack: ExitStack) -> Path:
        """Start a worker; where it logs to."""
        log = self._directory / f"{name}.log"
        words = (Path(__file__).with_name("worker.py"), name, self.servers, self.slows(name))
        with log.open("wb") as output:
            worker = subprocess.Popen([sys.executable, *map(str, words)], stdout=output, stderr=output)
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        return log

    def slows(self, name: str) -> Path:
        """The file that makes a worker slow."""
        return self._directory / f"{name}.slow"

    def asks(self, name: str, *words: str, hidden: tuple[str, ...] = (), last: int = 0) -> None:
        """Have the text say what a command says, or its `last` lines.

        `hidden`: options that a reader does not need.
        """
        done = subprocess.run(
            [*COMMAND, *words, *hidden], capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        said = (done.stdout + done.stderr).splitlines()[-last:]
        self.says(name, f"$ group-coordinator {shlex.join(words)}", "\n".join(said))

    def describes(self, name: str) -> None:
        self.asks(
            name, "groups", "--describe", "--group", "orders", hidden=("--bootstrap-server", self.servers)
        )

    def writes_history(self, name: str) -> None:
        hidden = ("--bootstrap-server", self.servers, "--history-path", self._history)
        # Before its last lines it tells of the start of Spark, which may say something as well.
        self.asks(name, "write-history", "--once", hidden=hidden, last=2)

    def asks_history(self, name: str, *words: str) -> None:
        self.asks(name, "history", "orders", *words, hidden=("--history-path", self._history))

    def asks_prometheus(self, name: str, expression: str, since: datetime) -> None:
        """Have the text say what Prometheus has of the time since then."""
        times = ("--start", f"{since:%Y-%m-%dT%H:%M:%SZ}", "--end", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        words = ("query", "range", *times, "--step", "20s", self.prometheus_url, expression)
        done = promtool(*words)
        assert done.returncode == 0, done.stdout
        self.says(name, f"$ promtool {shlex.join(words)}", done.stdout)

    def says(self, name: str, *texts: str) -> None:
        lines = "\n".join(text.rstrip() for text in texts).splitlines()
        text = "\n".join(f"    {line.rstrip()}".rstrip() for line in lines)
        for real, shown in self._names.items():
            text = text.replace(real, shown)
        self.said[name] = "\n\n".join(filter(None, (self.said.get(name), text)))

    def figure(self, expression: str) -> float:
        """What Prometheus has; -1 if it has nothing."""
        found = self.prometheus.query(expression)
        return found[0][1] if found else -1.0

    def alert(self) -> dict[str, Any] | None:
        """The alert, if it fires."""
        found = self.prometheus.get("alerts")["alerts"]
        its = [each for each in found if each["labels"]["alertname"] == ALERT and each["state"] == "firing"]
        return its[0] if its else None


@contextmanager
def orders(servers: str) -> Iterator[None]:
    """Records come all the time."""
    numbers = itertools.count()
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:

        def produce() -> None:
            number = next(numbers)
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS)

        with repeating(produce, 1 / PER_SECOND):
            yield


def take(started: Browser, url: str, file: str, element: str | None = None) -> None:
    """Make a picture of a page, or of an element of it."""
    context = started.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", locale="en-GB", timezone_id="UTC"
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    shown = page if element is None else page.locator(element)
    shown.screenshot(path=IMAGES / file)
    context.close()


def tell(story: Story, started: Browser, stack: ExitStack) -> None:
    """The story, from its calm begin to its question."""
    page = f"{story.page}group?id=orders&last=300"
    story.member("worker-1", stack)
    log = story.member("worker-2", stack)
    wait_for(lambda: story.prometheus.query(TOGETHER))
    stack.enter_context(orders(story.servers))
    wait_for(lambda: story.figure(f'{STATUS}status="ok"}}') == PARTITIONS)
    time.sleep(CALM_S)
    story.describes("calm")

    slow_since = datetime.now(UTC)
    story.slows("worker-2").touch()
    wait_for(lambda: story.figure(f'sum({STATUS}status=~"stopped|stalled"}})') >= PARTITIONS / 2)
    story.describes("behind")
    story.says("alert", json.dumps(wait_for(story.alert), indent=2))
    for expression in (LAG, AGE):
        story.asks_prometheus("prometheus", expression, slow_since)
    take(started, page, "day-two-behind.png")

    wait_for(log.read_text)
    left = datetime.now(UTC)
    story.says("left", log.read_text())
    wait_for(lambda: 0 <= story.figure(LAG) < PER_SECOND * 5 and story.alert() is None)
    story.describes("taken")
    time.sleep(CALM_S / 2)
    take(started, page, "day-two-after.png", "svg.gc-timeline")

    story.writes_history("written")
    story.asks_history("question", "--at", f"{left:%H:%M}")


def written(text: str, said: Mapping[str, str]) -> str:
    """The text with what was said in its places."""
    places = [name for _, name, _ in BLOCK.findall(text)]
    assert sorted(places) == sorted(said), (places, sorted(said))
    return BLOCK.sub(lambda found: f"{found[1]}\n{said[found[2]]}\n\n{found[3]}", text)


def main() -> None:
    """Play it once."""
    with tempfile.TemporaryDirectory(prefix="day-two-") as name, ExitStack() as stack:
        directory = Path(name)
        servers = stack.enter_context(EmbeddedBroker(directory / "kafka")).bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            admin.create_topics([NewTopic("orders", PARTITIONS, 1)])
        story = Story(directory, servers, stack)
        tell(story, stack.enter_context(browser()), stack)
        TEXT.write_text(written(TEXT.read_text(), story.said))


if __name__ == "__main__":
    main()
