"""Runs clients that need another toolchain than Python and Java against a gateway, each as its users run it.

python -m tests.foreign               # all that this machine can run
python -m tests.foreign kafkajs kcat  # some
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic, OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job, Process
from tests.gateway.clients import Program, kafka_python, polling
from tests.gateway.conftest import Running, start_gateway
from tests.gateway.ports import ports_in_a_row
from tests.patience import PATIENCE_S, wait_for

HERE = Path(__file__).parent
TOPIC = "foreign-orders"
SECOND = "foreign-refunds"
PARTITIONS = 4
RECORDS = 40
EVERY = set(range(PARTITIONS))

Command = Callable[[str, str], list[str]]
"""The command of a member, from the gateway's address and the group."""


class Missing(Exception):  # noqa: N818 - a reason to skip, not an error
    """What is not on this machine; the message says what to install."""


class Client(NamedTuple):
    """A client, how it is made ready in a directory, and the strategies that it divides partitions by."""

    name: str
    prepare: Callable[[Path], Callable[[str], Command]]
    strategies: tuple[str, ...]


class Member(Program):
    """A process that is a member."""

    @property
    def owns(self) -> set[int]:
        """What it owns. kcat has words of its own."""
        found: set[int] = set()
        for line in self.said.splitlines():
            if line.startswith("owns"):
                found = {int(each) for each in line.split()[1:]}
            elif kcat := re.search(r"rebalanced \(.*\): (assigned|revoked): (.*)", line):
                moved = {int(each) for each in re.findall(r"\[(\d+)\]", kcat[2])}
                found = found | moved if kcat[1] == "assigned" else found - moved
        return found

    @property
    def read(self) -> int:
        """How many records it has read."""
        return int((re.findall(r"^committed (\d+)$", self.said, re.MULTILINE) or ["0"])[-1])

    @property
    def values(self) -> list[bytes]:
        """What it has read; only franz-go's says that."""
        return [each.encode() for each in re.findall(r"^read (.*)$", self.said, re.MULTILINE)]

    def leave(self) -> None:
        exit_code = self.terminate()
        assert exit_code in (0, 128 + signal.SIGTERM), f"exit code {exit_code}\n{self.said}"


def go(client: str) -> Callable[[Path], Callable[[str], Command]]:
    """Build tests/foreign/go."""

    def prepare(directory: Path) -> Callable[[str], Command]:
        binary = build_go(directory)
        return lambda strategy: lambda address, group: [binary, client, address, TOPIC, group, strategy]

    return prepare


def build_go(directory: Path) -> str:
    need("go", "Go 1.26 or newer")
    binary = directory / "member"
    if not binary.exists():
        subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE / "go", check=True)
    return str(binary)


def node(directory: Path) -> Callable[[str], Command]:
    """Install tests/foreign/js."""
    need("node", "Node.js 18 or newer")
    need("npm", "npm, which comes with Node.js")
    shutil.copytree(HERE / "js", directory / "js", dirs_exist_ok=True)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=directory / "js", check=True)
    script = str(directory / "js" / "kafkajs.js")
    return lambda _: lambda address, group: ["node", script, address, TOPIC, group]


def kcat(_: Path) -> Callable[[str], Command]:
    """Use Debian's."""
    need("kcat", "Debian's package kcat")

    def command(strategy: str) -> Command:
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "auto.commit.interval.ms": 200,
            "partition.assignment.strategy": strategy,
        }
        options = [word for name, it in settings.items() for word in ("-X", f"{name}={it}")]
        return lambda address, group: ["kcat", "-b", address, "-u", *options, "-G", group, TOPIC]

    return command


def need(program: str, what: str) -> None:
    if shutil.which(program) is None:
        raise Missing(f"install {what}: there is no {program} in the PATH")


CLIENTS = (
    Client("franz-go", go("franz-go"), ("range", "roundrobin", "sticky", "cooperative-sticky")),
    Client("sarama", go("sarama"), ("range", "roundrobin", "sticky")),
    Client("kafkajs", node, ("roundrobin",)),
    Client("kcat", kcat, ("range", "roundrobin")),
)


def tell(command: Command, address: str, group: str, directory: Path) -> None:
    """Two members share a group; one is killed, comes back and leaves; what was read is committed."""

    def start(name: str) -> Member:
        return Member(directory / f"{group}-{name}", command(address, group), again=True)

    def until(condition: Callable[[], object]) -> None:
        wait_for(condition, said=lambda: "\n".join(each.said[-2000:] for each in (first, second) if each))

    second: Member | None = None
    with start("first") as first:
        until(lambda: first.owns == EVERY)
        with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
            until(lambda: committed(admin, group) == RECORDS)
        for end in ("killed", "leaves"):
            with start(end) as second:
                until(lambda: len(first.owns) == len(second.owns) == PARTITIONS // 2)
                assert first.owns | second.owns == EVERY
                if end == "killed":
                    second.kill()
                else:
                    second.leave()
                until(lambda: first.owns == EVERY)
        assert first.read in (0, RECORDS), "it has read a record twice"
        first.leave()
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        until(lambda: "Empty" in str(admin.describe_groups([group])))
        assert committed(admin, group) == RECORDS


def committed(admin: KafkaAdminClient, group: str) -> int:
    """The sum of the group's offsets."""
    told = admin.list_group_offsets([group])[group]
    return sum(each.offset for each in told.values() if each.offset > 0)


def ask_lag(address: str, group: str, directory: Path) -> None:
    """Ask for the lag as exporters do."""
    done = subprocess.run(
        [build_go(directory), "lag", address, group], capture_output=True, text=True, check=True
    )
    assert done.stdout == "lag Empty 0\n", done.stdout


class Exporter(NamedTuple):
    """An exporter that others wrote: how it is started, and its metric of the lag with the labels' names."""

    command: list[str]
    environment: dict[str, str]
    port: int
    metric: str
    labels: tuple[str, str, str]


def kminion(address: str) -> Exporter:
    """KMinion; its settings come from the environment."""
    port = ports_in_a_row(1)
    settings = {"KAFKA_BROKERS": address, "EXPORTER_PORT": str(port), "EXPORTER_HOST": "127.0.0.1"}
    labels = ("group_id", "topic_name", "partition_id")
    return Exporter(["kminion"], settings, port, "kminion_kafka_consumer_group_topic_partition_lag", labels)


def kafka_exporter(address: str) -> Exporter:
    """danielqsj's exporter, likewise."""
    port = ports_in_a_row(1)
    command = ["kafka_exporter", f"--kafka.server={address}", f"--web.listen-address=127.0.0.1:{port}"]
    return Exporter(command, {}, port, "kafka_consumergroup_lag", ("consumergroup", "topic", "partition"))


EXPORTERS = {"kminion": kminion, "kafka_exporter": kafka_exporter}
REPOSITORIES = {"kminion": "redpanda-data/kminion", "kafka_exporter": "danielqsj/kafka_exporter"}
"""Of the exporters, at GitHub."""
OURS = ("kafka_consumergroup_group_lag", ("group", "topic", "partition"))
"""The metric of `measure-lag`, likewise."""

Lags = dict[tuple[str, str, int], int]
"""Lag by group, topic and partition."""


def lags_told(url: str, metric: str, labels: tuple[str, ...]) -> Lags:
    """What an exporter says now; nothing if it does not listen yet."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    except OSError:
        return {}
    lags = {}
    for sample in (each for family in families for each in family.samples if each.name == metric):
        group, topic, partition = (sample.labels[label] for label in labels)
        if sample.value >= 0:  # less is kafka_exporter's word for a partition without a commit
            lags[group, topic, int(partition)] = round(sample.value)
    return lags


class Measured(NamedTuple):
    """The gateway's address, what `measure-lag` tells of the lag, and what `groups --describe` does."""

    address: str
    measured: Callable[[], Lags]
    described: Callable[[str], Lags]


def compare_lag(name: str, here: Measured, directory: Path) -> None:
    """Have an exporter and both of our own tell the lag of two groups, at the same time.

    One has a member, and one has none, and reads two topics. Then one commits, and records come.
    """
    exporter = EXPORTERS[name](here.address)
    url = f"http://127.0.0.1:{exporter.port}/metrics"
    group, simple = f"lag-{name}", f"lag-{name}-simple"
    lags = {(group, TOPIC, partition): lag for partition, lag in enumerate((7, 0, 10, 1))}
    lags |= {(simple, TOPIC, 3): 2, (simple, SECOND, 0): 5, (simple, SECOND, 1): 0}

    def told(of: Lags) -> Lags:
        return {where: lag for where, lag in of.items() if where[0] in (group, simple)}

    def check(program: Program) -> None:
        def seen() -> list[Lags]:
            theirs = lags_told(url, exporter.metric, exporter.labels)
            return [told(theirs), told(here.measured()), here.described(group) | here.described(simple)]

        wait_for(lambda: seen() == [lags] * 3, said=lambda: (lags, seen(), program.said[-2000:]))

    with ExitStack() as stack:
        member = stack.enter_context(
            closing(kafka_python(here.address, [TOPIC], group, enable_auto_commit=False))
        )
        polling(member)(lambda: len(member.assignment()) == PARTITIONS)
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=here.address)))
        producer = stack.enter_context(closing(KafkaProducer(bootstrap_servers=here.address, acks="all")))
        asked = {TopicPartition(*where[1:]): OffsetSpec.LATEST for where in lags}
        ends = {where: each.offset for where, each in admin.list_partition_offsets(asked).items()}

        def offsets(of: str) -> dict[TopicPartition, OffsetAndMetadata]:
            each = {TopicPartition(topic, it): lag for (its, topic, it), lag in lags.items() if its == of}
            return {where: OffsetAndMetadata(ends[where] - lag, "", -1) for where, lag in each.items()}

        member.commit(offsets(group))
        admin.alter_group_offsets(simple, offsets(simple))
        program = stack.enter_context(
            Program(directory / name, exporter.command, environment=exporter.environment)
        )
        check(program)
        # The member catches up with one partition, and falls behind in another, as the other group does.
        lags[group, TOPIC, 0] = 0
        member.commit(offsets(group))
        producer.send(TOPIC, b"x", partition=3).get(PATIENCE_S)
        lags[group, TOPIC, 3] += 1
        lags[simple, TOPIC, 3] += 1
        check(program)


def main() -> int:
    """Run the clients that the arguments name; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__.splitlines()[0])
    names = [*(client.name for client in CLIENTS), *EXPORTERS]
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"of {', '.join(names)} (default: all)")
    chosen = set(parser.parse_args().clients) or set(names)
    if unknown := chosen - set(names):
        parser.error(f"no such client: {', '.join(sorted(unknown))}. Choose from: {', '.join(names)}.")
    # So that nothing is left running: by default Python ends without a word.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results = []
    with tempfile.TemporaryDirectory(prefix="foreign-") as temporary:
        directory = Path(temporary)
        ready: list[tuple[Client, Callable[[str], Command]]] = []
        for client in (each for each in CLIENTS if each.name in chosen):
            try:
                ready.append((client, client.prepare(directory)))
            except Missing as missing:
                results.append(f"{client.name}: skipped; {missing}")
        exporters: list[str] = []
        for name in (each for each in EXPORTERS if each in chosen):
            try:
                need(name, f"{name} from github.com/{REPOSITORIES[name]} (go build)")
                exporters.append(name)
            except Missing as missing:
                results.append(f"{name}: skipped; {missing}")
        if ready or exporters:
            results += run(ready, exporters, directory)
    print("\n".join(["", *results]))
    return int(any("FAILED" in result for result in results))


def run(
    clients: list[tuple[Client, Callable[[str], Command]]], exporters: list[str], directory: Path
) -> list[str]:
    """Run these at a gateway; how each of them went."""
    results = []
    with _gateway(directory) as here:
        address = here.address
        for client, command in clients:
            for strategy in client.strategies:
                group = f"{client.name}-{strategy}"
                results.append(result(group, partial(tell, command(strategy), address, group, directory)))
            if client.name == "franz-go":
                results.append(result("lag", partial(ask_lag, address, group, directory)))
        results += [result(name, partial(compare_lag, name, here, directory)) for name in exporters]
    return results


def result(name: str, story: Callable[[], None]) -> str:
    """Run a story, and say how it went."""
    try:
        story()
    except (AssertionError, subprocess.CalledProcessError) as error:
        said = f"{name}: FAILED\n{error}"
    else:
        said = f"{name}: passed"
    print(said, flush=True)
    return said


@contextmanager
def _gateway(directory: Path) -> Iterator[Measured]:
    """A gateway before a broker with two filled topics, and `measure-lag` beside it."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka")).bootstrap_servers
        job = Job(broker, directory, "foreign")
        stack.callback(job.kill)
        with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
            admin.create_topics(
                [
                    NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1),
                    NewTopic(SECOND, num_partitions=2, replication_factor=1),
                ]
            )
        with closing(KafkaProducer(bootstrap_servers=broker, acks="all")) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                producer.send(SECOND, b"%d" % number, partition=number % 2)
            producer.flush()
        job.wait_for("the coordinator is running")
        gateway = start_gateway(directory, broker, job.topics)
        stack.callback(gateway.kill)
        address = gateway.wait_for("clients find the gateway at ")
        measuring = Process(
            directory,
            *("measure-lag", "--bootstrap-server", broker, "--groups", "lag-*", "--metrics-port", "0"),
            *("--set", f"topics.offsets={job.topics['offsets']}", "--set", "lag.interval.ms=500"),
        )
        stack.callback(measuring.kill)
        url = measuring.wait_for("metrics are at ")
        running = Running(broker, address, job, gateway, directory)

        def described(group: str) -> Lags:
            return {(group, row["topic"], row["partition"]): row["lag"] for row in running.describe(group)}

        yield Measured(address, partial(lags_told, url, *OURS), described)


if __name__ == "__main__":
    sys.exit(main())
