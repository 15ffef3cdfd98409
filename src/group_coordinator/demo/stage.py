"""The stage of the plot: a broker, a coordinator, workers, a shop, and an observer of them."""

from __future__ import annotations

import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic, OffsetSpec

from group_coordinator.coordinator_state.events import AnyEvent, MemberRemoved
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.coordinator_state.topics import BROKERS_EVENTS, BROKERS_GROUPS, RESPONSES
from group_coordinator.demo.console import ConsoleOutput, console_command
from group_coordinator.demo.narration import Narration
from group_coordinator.demo.observer import Observer, partitions_in
from group_coordinator.demo.orders import Orders
from group_coordinator.demo.probe import Probe
from group_coordinator.demo.processes import Child, Tail, end_all
from group_coordinator.demo.screen import Screen
from group_coordinator.demo.store import OrderStore
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.jobs.signals import StopEvent

_GROUP = "order-workers"
_BROKERS_GROUP = "auditors"
_TOPIC = "orders"
_PARTITIONS = 6
_ORDERS_PER_S = 50
_SCENE_ORDERS = 3 * _ORDERS_PER_S
_SESSION_TIMEOUT_MS = 6_000  # the least that the coordinator allows

_DESCRIBED = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CLIENT-ID")
_GATEWAY_LISTENS = "clients find the gateway at "
_JAVA_OBEYED = 128 + signal.SIGTERM
_JAVA = "JAVA_TOOL_OPTIONS"
_TICK_S = 0.1
_START_TIMEOUT_S = 120
_REBALANCE_TIMEOUT_S = 60
_END_TIMEOUT_S = 5


class StoryError(Exception):
    """The story cannot go on; `log` is where the reason may be found."""

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class Interrupted(Exception):  # noqa: N818 - not an error
    """The audience has left."""


class Stage:
    """Everything that runs, with all its files in `directory`. As a context it ends what it started.

    Every method that waits raises Interrupted soon after `stopping` is set. It raises StoryError when it
    waits in vain, or when a process ends that should not.
    """

    def __init__(self, directory: Path, screen: Screen, stopping: StopEvent) -> None:
        self.screen = screen
        self.workers: dict[str, Child] = {}
        self._directory = directory
        self._stopping = stopping
        self._children: list[Child] = []
        self._narration, self._brokers_narration = Narration(), Narration()
        self._orders: Orders | None = None
        self._observer: Observer | None = None
        self._brokers_observer: Observer | None = None
        self._observe_says: Tail | None = None
        self._coordinator: Child | None = None
        self._coordinator_says: Tail | None = None
        self._gateway = ""
        self._consoles: list[ConsoleOutput] = []
        self._probe: Probe | None = None
        # Ended in the opposite order: processes first, then the broker that they need.
        self._stack = ExitStack()
        self._broker = EmbeddedBroker(directory / "kafka")
        self.store = OrderStore(directory / "orders.sqlite")
        self._stack.callback(self.store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.screen.note("ending what still runs")
        status = self.screen.status
        status.waiting_for, status.waiting_since = "everything to end", time.monotonic()
        self._stack.close()
        status.waiting_for = None

    # -- the broker and the shop -----------------------------------------------------------------------

    def start_broker(self) -> None:
        """Start Kafka and create the topic."""
        # In a thread, because nothing could be shown meanwhile, and nobody could interrupt it.
        pool = ThreadPoolExecutor(max_workers=1)
        starting = pool.submit(self._broker.start)
        pool.shutdown(wait=False)
        self._stack.callback(_stop_broker, self._broker, starting)
        self.wait_for("Kafka to start", starting.done, _START_TIMEOUT_S)
        starting.result()
        self._stack.callback(lambda: end_all(self._children, _END_TIMEOUT_S))
        self._admin = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap_servers)
        self._stack.callback(self._admin.close)
        self._admin.create_topics([NewTopic(_TOPIC, num_partitions=_PARTITIONS, replication_factor=1)])
        self.screen.note(f"Kafka is at {self._broker.bootstrap_servers}")

    def open_shop(self) -> None:
        """Begin to write orders."""
        shop = Orders(self._broker.bootstrap_servers, _TOPIC, _ORDERS_PER_S)
        self._orders = self._stack.enter_context(shop)

    def close_shop(self) -> None:
        """Write no more orders."""
        if self._orders is not None:
            self._orders.stop()

    @property
    def broker_log(self) -> Path:
        """Kafka's log file."""
        return self._broker.log_file

    @property
    def written(self) -> list[int]:
        """Numbers of all orders that are in Kafka."""
        return self._orders.written if self._orders is not None else []

    # -- the coordinator -------------------------------------------------------------------------------

    def start_coordinator(self) -> None:
        """Start the real command line, and return when it answers."""
        self.screen.status.coordinator = "starting"
        # A second one writes to the same file.
        written = self._coordinator.log.stat().st_size if self._coordinator else 0
        self._coordinator = self._start(
            "coordinator",
            *("group_coordinator", "run", "--create-topics", "--metrics-port", "0"),
            *("--bootstrap-server", self._broker.bootstrap_servers),
            *("--checkpoint", str(self._directory / "checkpoint")),
            # As JSON, because programs can tell its lines for people from all other lines.
            *("--set", "requests.partitions=2", "--set", "log.format=json"),
            # Twice the default: on a busy machine the first workers start more than three seconds apart.
            # All of them are to be in the first generation.
            *("--set", "group.initial.rebalance.delay.ms=6000"),
            environment=self._scratch(),
        )
        self._coordinator_says = Tail(self._coordinator.log, written)
        self.wait_for("the coordinator's topics", self._topics_exist, _START_TIMEOUT_S)
        if self._probe is None:
            self._probe = Probe(self._broker.bootstrap_servers, _GROUP)
            self._stack.callback(self._probe.close)
        self._probe.ask()
        self.wait_for("Spark to start and the coordinator to answer", self._probe.answered, _START_TIMEOUT_S)
        if self._observer is None:
            observer = Observer(self._broker.bootstrap_servers, _GROUP)
            self._observer = self._stack.enter_context(observer)
        self.screen.status.coordinator = "running"
        self.screen.note("the coordinator answers")

    def start_gateway(self) -> None:
        """Start the real command line, and return when clients of Kafka's can use it."""
        gateway = self._start(
            "gateway",
            *("group_coordinator", "gateway", "--bootstrap-server", self._broker.bootstrap_servers),
            *("--listen", "127.0.0.1:0", "--advertised-host", "127.0.0.1", "--metrics-port", "-1"),
        )
        says = Tail(gateway.log)

        def address() -> str:
            found = (line.partition(_GATEWAY_LISTENS) for line in says.lines())
            self._gateway = next((address for _, mark, address in found if mark), "")
            return self._gateway

        self.wait_for("the gateway to listen", address, _START_TIMEOUT_S)
        self.screen.note(f"the gateway is at {self._gateway}")

    def _scratch(self) -> dict[str, str]:
        """A Spark that is killed cannot remove its temporary files: ours are removed anyway."""
        scratch = self._directory / "scratch"
        scratch.mkdir(exist_ok=True)
        java = f"{os.environ.get(_JAVA, '')} -Djava.io.tmpdir={scratch} -XX:-UsePerfData"
        return {"TMPDIR": str(scratch), _JAVA: java}

    def kill_coordinator(self) -> None:
        """Kill it, with Spark and everything else it started."""
        if self._coordinator is not None:
            self._coordinator.kill()
        self.screen.status.coordinator = "dead"

    def _topics_exist(self) -> bool:
        return RESPONSES in self._admin.list_topics()

    # -- the workers -----------------------------------------------------------------------------------

    def start_workers(self, *names: str) -> None:
        """Start workers, each a process of its own."""
        for name in names:
            self.workers[name] = self._start(
                name,
                *("group_coordinator.demo.worker", "--name", name, "--group", _GROUP, "--topic", _TOPIC),
                *("--bootstrap-server", self._broker.bootstrap_servers),
                *("--session-timeout-ms", str(_SESSION_TIMEOUT_MS)),
                *("--store", str(self._directory / "orders.sqlite")),
            )

    def start_console(self, name: str) -> None:
        """Start Kafka's own console consumer as a worker, behind the gateway."""
        self.workers[name] = child = self._run(name, self._console_command(name, _GROUP, self._gateway))
        self._consoles.append(ConsoleOutput(name, child.log, self.store))

    def _console_command(self, name: str, group: str, bootstrap_servers: str) -> list[str]:
        return console_command(
            self._directory,
            name=name,
            group=group,
            topic=_TOPIC,
            bootstrap_servers=bootstrap_servers,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
        )

    def end_workers(self, *names: str) -> None:
        """Ask workers to end, and return when they have left."""
        leaving = [self.workers.pop(name) for name in names]
        for child in leaving:
            child.terminate()
        self.wait_for(
            f"{', '.join(names)} to leave",
            lambda: all(child.exit_code is not None for child in leaving),
            _REBALANCE_TIMEOUT_S,
        )
        for child in leaving:
            if child.exit_code not in (0, _JAVA_OBEYED):
                raise StoryError(
                    f"{child.name} did not leave in order: exit code {child.exit_code}", child.log
                )
            child.kill()

    def kill_worker(self, name: str) -> None:
        """Kill a worker, and return when the coordinator has noticed."""
        self.workers.pop(name).kill()
        self.wait_for(f"{name}'s session to expire", lambda: _is_out(name, self.events), _REBALANCE_TIMEOUT_S)

    def wait_for_work(self) -> None:
        """Return when the workers that run share all partitions evenly and have worked for a while."""
        self.wait_for("the workers to share the partitions", self._all_work, _REBALANCE_TIMEOUT_S)
        self.watch_work()

    def watch_work(self) -> None:
        """Return when as many new orders were processed as come in in a few seconds."""
        target = len(self.written) + _SCENE_ORDERS
        self.wait_for(
            f"{_SCENE_ORDERS} more orders to be processed",
            lambda: self.store.totals().orders >= target,
            _REBALANCE_TIMEOUT_S,
        )

    def _all_work(self) -> bool:
        picture = self.picture
        if picture is None or picture.state != "Stable":
            return False
        shares = {m.client_id: len(partitions_in(m.member_assignment)) for m in picture.members}
        fair = dict.fromkeys(self.workers, _PARTITIONS // len(self.workers))
        return shares == fair and self.store.active_workers(picture.generation_id) == fair.keys()

    def describe_group(self) -> None:
        """Show what the command line says of the group, without the columns that do not fit 80 characters."""
        describe = self._start(
            "describe",
            *("group_coordinator", "groups", "--bootstrap-server", self._broker.bootstrap_servers),
            *("--describe", "--group", _GROUP, "--output", "csv"),
        )
        describe.ending = True
        self.wait_for("the description", lambda: describe.exit_code is not None, _REBALANCE_TIMEOUT_S)
        describe.kill()
        lines = describe.log.read_text().splitlines()
        if describe.exit_code:
            raise StoryError(f"the group could not be described: {lines[-1:]}", describe.log)
        for row in ({name: name for name in _DESCRIBED}, *csv.DictReader(lines)):
            self.screen.note(" ".join(row[name].ljust(len(name) + 1) for name in _DESCRIBED).rstrip())

    def log_end(self) -> dict[int, int]:
        """The end of the topic: partition -> offset."""
        partitions = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
        ends = self._admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return {partition.partition: end.offset for partition, end in ends.items()}

    # -- a group at the broker -------------------------------------------------------------------------

    def start_observe(self) -> None:
        """Start the real command line. It has Spark to start as well."""
        observe = self._start(
            "observe",
            *("group_coordinator", "observe", "--create-topics", "--metrics-port", "-1"),
            *("--bootstrap-server", self._broker.bootstrap_servers),
            *("--checkpoint", str(self._directory / "observe"), "--set", "log.format=json"),
            environment=self._scratch(),
        )
        self._observe_says = Tail(observe.log)

    def start_at_broker(self, name: str) -> None:
        """Start a console consumer of a group that the broker coordinates; return when it is seen to work."""
        command = self._console_command(name, _BROKERS_GROUP, self._broker.bootstrap_servers)
        self._at_broker = self._run(name, command)
        self.wait_for("observe to watch", self._is_watching, _START_TIMEOUT_S)
        self._brokers_observer = seen = self._stack.enter_context(
            Observer(self._broker.bootstrap_servers, _BROKERS_GROUP, BROKERS_GROUPS, BROKERS_EVENTS)
        )
        self.wait_for(
            f"{name} to be seen",
            lambda: seen.picture is not None and seen.picture.state == "Stable",
            _START_TIMEOUT_S,
        )

    def kill_at_broker(self) -> None:
        """Kill it, and return when the broker has noticed and `observe` has told of it."""
        self._at_broker.kill()
        name = self._at_broker.name
        self.wait_for(
            f"the broker to expire {name}", lambda: _is_out(name, self.brokers_events), _REBALANCE_TIMEOUT_S
        )

    def _is_watching(self) -> bool:
        said = self._observe_says.lines() if self._observe_says else ()
        return any("watching the groups at" in line for line in said)

    @property
    def brokers_events(self) -> list[AnyEvent]:
        """All events of the group at the broker so far."""
        return self._brokers_observer.events if self._brokers_observer is not None else []

    # -- what can be seen ------------------------------------------------------------------------------

    @property
    def events(self) -> list[AnyEvent]:
        """All events of the group so far."""
        return self._observer.events if self._observer is not None else []

    @property
    def picture(self) -> GroupPicture | None:
        """The group as it is now."""
        return self._observer.picture if self._observer is not None else None

    def wait_for(self, what: str, condition: Callable[[], object], timeout_s: float) -> None:
        """Return once `condition` holds; show what happens meanwhile."""
        status = self.screen.status
        status.waiting_for, status.waiting_since = what, time.monotonic()
        while not condition():
            if time.monotonic() - status.waiting_since > timeout_s:
                log = self._coordinator.log if self._coordinator else None
                raise StoryError(f"waited {timeout_s:.0f} s for {what}, in vain", log)
            self._look()
            self._stopping.wait(_TICK_S)
        self._look()
        status.waiting_for = None

    def _look(self) -> None:
        if self._stopping.is_set():
            raise Interrupted
        for child in self._children:
            if child.exit_code is not None and not child.ending:
                raise StoryError(f"{child.name} ended by itself, with exit code {child.exit_code}", child.log)
        for console in self._consoles:
            console.take()
        for observer in filter(None, (self._observer, self._brokers_observer)):
            observer.look()
        if self.screen.status.coordinator == "starting":
            self._hear_coordinator()
        status, totals = self.screen.status, self.store.totals()
        status.picture, status.written = self.picture, len(self.written)
        status.processed, status.twice = totals.orders, totals.rows - totals.orders
        status.by_worker = totals.by_worker
        for line in self._narration.lines(self.events):
            self.screen.note(line)
        for line in self._brokers_narration.lines(self.brokers_events):
            self.screen.note(f"at the broker: {line}")
        self.screen.refresh()

    def _hear_coordinator(self) -> None:
        """Tell what the coordinator says of its start, which takes it long."""
        for line in self._coordinator_says.lines() if self._coordinator_says else ():
            # Other lines are Java's, or have a logger or a group: those are for operators.
            with suppress(msgspec.DecodeError):
                told = msgspec.json.decode(line, type=dict[str, Any])
                if not {"logger", "group"} & told.keys():
                    self.screen.note(f"coordinator: {told['event']}", "dim")

    def _start(
        self, name: str, *module_and_arguments: str, environment: dict[str, str] | None = None
    ) -> Child:
        return self._run(name, [sys.executable, "-m", *module_and_arguments], environment)

    def _run(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> Child:
        child = Child(name, command, self._directory / f"{name}.log", environment)
        self._children.append(child)
        return child


def _is_out(name: str, events: Iterable[AnyEvent]) -> bool:
    return any(isinstance(event, MemberRemoved) and event.client_id == name for event in events)


def _stop_broker(broker: EmbeddedBroker, starting: Future[None]) -> None:
    # While it starts, there may be nothing to stop yet.
    while not wait([starting], _TICK_S).done:
        broker.stop()
    broker.stop()
