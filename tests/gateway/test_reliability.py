"""Two gateways behind one address under a load of unmodified members, while parts are killed or paused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job
from tests.gateway.conftest import start_gateway
from tests.gateway.ports import ports_in_a_row
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = [pytest.mark.spark, pytest.mark.verify]

MEMBERS = 24
TOPIC, GROUP = "reliable", "reliable"
RECORDS = 20_000
IDLE_MS = 5_000
PAUSE_S = 90
HOSTS = ["127.0.0.1", "127.0.0.2"]
BALANCER = "127.0.0.3"


class Balancer(threading.Thread):
    """Forwards each connection to one of the hosts that can be reached, at the same port, in turn."""

    def __init__(self, hosts: list[str], ports: list[int]) -> None:
        super().__init__(daemon=True)
        self._hosts, self._ports = hosts, ports
        self._ready = threading.Event()

    def __enter__(self) -> None:
        self.start()
        assert self._ready.wait(10)

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        servers = [
            await asyncio.start_server(partial(self._forward, port), BALANCER, port) for port in self._ports
        ]
        self._ready.set()
        await self._stopping.wait()
        for each in servers:
            each.close()

    async def _forward(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hosts.append(self._hosts.pop(0))
        for host in list(self._hosts):
            with suppress(OSError):
                upstream = await asyncio.open_connection(host, port)
                await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
                return
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


class Member(threading.Thread):
    """An unmodified consumer that commits each record."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.stopping = threading.Event()
        self.acknowledged: dict[TopicPartition, int] = {}
        self.commits = 0

    def run(self) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self._address,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=1,
            session_timeout_ms=20_000,
            heartbeat_interval_ms=2_000,
            reconnect_backoff_max_ms=1_000,
        )
        with closing(consumer):
            while not self.stopping.is_set():
                consumer.poll(timeout_ms=200)
                offsets = {each: consumer.position(each) or 0 for each in consumer.assignment()}
                with suppress(KafkaError):  # it was not acknowledged, and is tried again
                    consumer.commit()
                    self.acknowledged |= offsets
                    self.commits += 1
                self.stopping.wait(0.5)


@contextmanager
def members(address: str) -> Iterator[list[Member]]:
    those = [Member(address) for _ in range(MEMBERS)]
    for each in those:
        each.start()
    try:
        yield those
    finally:
        for each in those:
            each.stopping.set()
        for each in those:
            each.join()


def all_commit(those: list[Member]) -> None:
    """Wait until each has committed twice from now on: the first may have been under way."""
    before = [each.commits for each in those]
    wait_for(lambda: all(each.commits >= begun + 2 for each, begun in zip(those, before, strict=True)))


def during(events: Reader, act: Callable[[], None], since: int | None = None) -> set[str]:
    """What happens while something is done, or has happened since."""
    begin = len(events.read_to_end()) if since is None else since
    act()
    events.read_to_end()
    return {each["event"] for each in events.values()[begin:]}


def test_members_survive_a_killed_gateway_a_paused_coordinator_and_a_restarted_broker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        overrides = {"connections.max.idle.ms": str(IDLE_MS)}
        kafka = stack.enter_context(EmbeddedBroker(tmp_path / "kafka", overrides=overrides))
        broker = kafka.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=MEMBERS, replication_factor=1)])
        with closing(KafkaProducer(bootstrap_servers=broker)) as producer:
            for number in range(RECORDS):
                producer.send(TOPIC, b"%d" % number, partition=number % MEMBERS)
        job = Job(broker, tmp_path, "reliable")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        port = ports_in_a_row(3)  # the node id of the broker is 1
        gateways = [
            start_gateway(tmp_path, broker, job, listen=f"{host}:{port}", advertised=BALANCER)
            for host in HOSTS
        ]
        for each in gateways:
            stack.callback(each.kill)
            each.wait_for("clients find the gateway at ")
        stack.enter_context(Balancer([*HOSTS], [port, port + 2]))
        events = stack.enter_context(Reader({"bootstrap_servers": broker}, job.topics["events"]))

        with members(f"{BALANCER}:{port}") as those:
            events.first(lambda it: len(it.get("assignments", ())) == MEMBERS)
            # kafka-python's leader may join once more when it has heard of the topic.
            wait_for(lambda: during(events, partial(all_commit, those)) == {"offsets_committed"})
            before = len(events.records)

            gateways[0].kill()
            all_commit(those)

            job.pause()
            paused_s = time.monotonic()
            wait_for(lambda: time.monotonic() - paused_s > PAUSE_S)
            job.resume()
            all_commit(those)

            assert during(events, partial(all_commit, those), before) == {"offsets_committed"}, (
                "nobody was expired, nothing revoked"
            )
            counted = gateways[1].metrics()
            assert counted["group_coordinator_gateway_upstream_errors_total",] > 0, "idle ones were closed"
            assert ("group_coordinator_gateway_connections_closed_total", "broker") not in counted

            kafka.stop()
            kafka.start()
            all_commit(those)
        acknowledged = {
            each: max(it.acknowledged.get(each, 0) for it in those)
            for it in those
            for each in it.acknowledged
        }
        with closing(KafkaAdminClient(bootstrap_servers=f"{HOSTS[1]}:{port}")) as admin:
            committed = admin.list_group_offsets(GROUP)[GROUP]
        lost = {each for each, offset in acknowledged.items() if committed[each].offset < offset}
        assert len(acknowledged) == MEMBERS
        assert not lost
