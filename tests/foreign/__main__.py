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
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job
from tests.gateway.clients import Program, kafka_python, polling
from tests.gateway.conftest import Running, start_gateway
from tests.gateway.ports import ports_in_a_row
from tests.patience import PATIENCE_S, wait_for

HERE = Path(__file__).parent
TOPIC = "foreign-orders"
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


def kminion(address: str) -> tuple[list[str], dict[str, str], str]:
    """KMinion, with its metric of the lag; its settings come from the environment."""
    port = str(ports_in_a_row(1))
    settings = {"KAFKA_BROKERS": address, "EXPORTER_PORT": port, "EXPORTER_HOST": "127.0.0.1"}
    return ["kminion"], settings, f"{port} kminion_kafka_consumer_group_topic_partition_lag"


def kafka_exporter(address: str) -> tuple[list[str], dict[str, str], str]:
    """danielqsj's exporter, likewise."""
    port = str(ports_in_a_row(1))
    command = ["kafka_exporter", f"--kafka.server={address}", f"--web.listen-address=127.0.0.1:{port}"]
    return command, {}, f"{port} kafka_consumergroup_lag"


EXPORTERS = {"kminion": kminion, "kafka_exporter": kafka_exporter}
REPOSITORIES = {"kminion": "redpanda-data/kminion", "kafka_exporter": "danielqsj/kafka_exporter"}
"""Of the exporters, at GitHub."""
LAGS = {0: 7, 1: 0, 2: 10, 3: 1}
"""Of each partition, in the group that exporters are asked about."""


def lags_told(url: str, metric: str, group: str) -> dict[int, int]:
    """What an exporter says of a group, by partition."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                int(sample.labels.get("partition", sample.labels.get("partition_id", -1))): round(
                    sample.value
                )
                for family in families
                for sample in family.samples
                if sample.name == metric and group in sample.labels.values()
            }
    except OSError:
        return {}  # it does not listen yet


def compare_lag(name: str, address: str, directory: Path, describe: Callable[[str], dict[int, int]]) -> None:
    """Have an exporter that others wrote tell the lag of a group with a member, beside our own command."""
    command, settings, where = EXPORTERS[name](address)
    port, metric = where.split()
    group = f"lag-{name}"
    with closing(kafka_python(address, [TOPIC], group, enable_auto_commit=False)) as member:
        polling(member)(lambda: len(member.assignment()) == PARTITIONS)
        each = RECORDS // PARTITIONS
        member.commit(
            {TopicPartition(TOPIC, it): OffsetAndMetadata(each - lag, "", -1) for it, lag in LAGS.items()}
        )
        assert describe(group) == LAGS
        with Program(directory / name, command, environment=settings) as program:
            url = f"http://127.0.0.1:{port}/metrics"
            wait_for(lambda: lags_told(url, metric, group) == LAGS, said=lambda: program.said[-2000:])


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
    with _gateway(directory) as (address, describe):
        for client, command in clients:
            for strategy in client.strategies:
                group = f"{client.name}-{strategy}"
                results.append(result(group, partial(tell, command(strategy), address, group, directory)))
            if client.name == "franz-go":
                results.append(result("lag", partial(ask_lag, address, group, directory)))
        results += [
            result(name, partial(compare_lag, name, address, directory, describe)) for name in exporters
        ]
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
def _gateway(directory: Path) -> Iterator[tuple[str, Callable[[str], dict[int, int]]]]:
    """A gateway before a broker with a filled topic; the address, and the lag that our command tells."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka")).bootstrap_servers
        job = Job(broker, directory, "foreign")
        stack.callback(job.kill)
        with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])
        with closing(KafkaProducer(bootstrap_servers=broker, acks="all")) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            producer.flush()
        job.wait_for("the coordinator is running")
        gateway = start_gateway(directory, broker, job.topics)
        stack.callback(gateway.kill)
        address = gateway.wait_for("clients find the gateway at ")
        running = Running(broker, address, job, gateway, directory)
        yield address, lambda group: {row["partition"]: row["lag"] for row in running.describe(group)}


if __name__ == "__main__":
    sys.exit(main())
