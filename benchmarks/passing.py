"""How much the gateway costs a client whose requests it passes on, beside a proxy that does next to nothing.

The same requests go to the broker directly, through a TCP forwarder that looks at the head of each frame, and
through the gateway, in plaintext and with TLS. The forwarder is the floor of a proxy in Python. So they do
through Kroxylicious, a proxy in Java.

All proxies have the last core, and take turns. Client and broker have the other ones. What counts is the CPU
time of the proxy itself. One client on one connection asks for the same records again and again, which the
broker sends from the page cache.

A client that shares its core with the broker does not wake another one. Most clients share none with their
broker. So one goes to the broker directly from the last core as well.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import psutil
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from benchmarks.gateways import FOUND, interpreter_of
from benchmarks.gateways import command as gateway_command
from benchmarks.kroxylicious import KroxyliciousError
from benchmarks.kroxylicious import command as kroxylicious
from benchmarks.produce import produce
from benchmarks.report import medians_of, percentile, ratios_to, show, tell, write
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.gateway import codec
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import prepare_topics
from tests.gateway.ports import ports_in_a_row

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECT, DIRECT_ACROSS = "direct", "direct, from another core"
FORWARDER, KROXYLICIOUS = "forwarder", "Kroxylicious"
GATEWAY, GATEWAY_TLS, BESIDE = "gateway", "gateway with TLS", "gateway of the other checkout"
_TOPIC, _SMALL, _LARGE = "passing", "passing-small", "passing-large"
_PRODUCE_VERSION = 12
"""Kafka 4's. From 10 on a response may name the addresses of brokers."""
_RECORDS = 8
_RECORD_BYTES = 900_000
_FETCH_BYTES = 4_000_000
_ASKED = 3_000
_PRODUCED = 100
"""Records of `_RECORD_BYTES` that are written in each round."""
_WARM_UP_S = 6.0
"""For each way: the JVM's compiler has its time then."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    seconds: float
    """Of fetches, for each way."""
    beside: Path | None = None
    """Another checkout, whose gateway is measured as well."""


class _Way(NamedTuple):
    """A way to the broker: an address, and the process of the proxy, if there is one.

    `core`: the client's, if not one of the broker's.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    proxy: psutil.Process | None = None
    core: int | None = None


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, float]]:
    """Measure, print and write; return the medians by way."""
    with tempfile.TemporaryDirectory(prefix="group-coordinator-") as name, ExitStack() as stack:
        cores = sorted(os.sched_getaffinity(0))
        stack.callback(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, cores[:-1] or cores)
        ways = _ways(Path(name), cores[-1], plan.beside, stack)
        for way in ways.values():
            _measure(way, _WARM_UP_S)
        rounds = []
        for _ in range(plan.rounds):
            rounds.append({which: _measure(way, plan.seconds) for which, way in ways.items()})
            tell("round", rounds[-1])
    medians: dict[str, dict[str, float]] = medians_of(rounds)
    ratios, to_direct = ratios_to(FORWARDER, rounds), ratios_to(DIRECT, rounds)
    show(
        f"What passing costs (medians of {plan.rounds} rounds)",
        [
            "way",
            "MB a CPU second",
            "to the forwarder",
            "MB a second",
            "to the forwarder",
            "to direct",
            "Produce, MB a second",
            "to the forwarder",
            "to direct",
            "small Produce, p50 in ms",
            "p99",
            "CPU, µs",
            "memory, MB",
        ],
        [
            [
                which,
                f"{each['mb_a_cpu_second']:,.0f}" if each["mb_a_cpu_second"] else "",
                f"{ratios[which]['mb_a_cpu_second']:.2f}" if each["mb_a_cpu_second"] else "",
                *_compared("mb_a_second", which, medians, ratios, to_direct),
                *_compared("mb_produced_a_second", which, medians, ratios, to_direct),
                f"{each['p50_ms']:.3f}",
                f"{each['p99_ms']:.3f}",
                f"{each['us_a_produce']:.0f}" if each["us_a_produce"] else "",
                f"{each['rss_mb']:.0f}" if each["rss_mb"] else "",
            ]
            for which, each in medians.items()
        ],
    )
    if plan.beside is not None:
        to_it = ratios_to(BESIDE, rounds)[GATEWAY]
        names = [name for name, ratio in to_it.items() if ratio]
        show("The gateway to that of the other checkout", names, [[f"{to_it[name]:.3f}" for name in names]])
    write(
        file,
        {
            "plan": {**plan._asdict(), "beside": str(plan.beside)},
            "medians": medians,
            "ratios": ratios,
            "rounds": rounds,
        },
    )
    return medians


def _compared(name: str, which: str, *tables: dict[str, dict[str, float]]) -> list[str]:
    """A figure, and what it is to the forwarder's and to the direct one."""
    figure, *ratios = (each[which][name] for each in tables)
    return [f"{figure:,.0f}", *(f"{each:.2f}" for each in ratios)]


def _ways(directory: Path, core: int, beside: Path | None, stack: ExitStack) -> dict[str, _Way]:
    broker = stack.enter_context(
        EmbeddedBroker(
            directory / "kafka", heap_mb=1024, overrides={"log.retention.check.interval.ms": "1000"}
        )
    )
    settings = CoordinatorSettings.load(
        None,
        {},
        {"bootstrap.servers": broker.bootstrap_servers, "checkpoint": str(directory), "create.topics": True},
    )
    config = python_client_config(broker.bootstrap_servers, {})
    prepare_topics(settings, config)
    _fill(broker.bootstrap_servers, config)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    forwarder = [sys.executable, "-c", "from benchmarks.forwarder import main; main()", host, port]
    certificate, key = _certificate(directory)
    tls = (f"gateway.tls.certificate={certificate}", f"gateway.tls.key={key}")
    trusting = ssl.create_default_context(cafile=str(certificate))
    gateway, with_tls = (
        _to_the_broker(
            stack.enter_context(_proxy(gateway_command(broker.bootstrap_servers, *more), core, trusted))
        )
        for more, trusted in (((), None), (tls, trusting))
    )
    ways = {
        DIRECT: _Way(host, int(port)),
        DIRECT_ACROSS: _Way(host, int(port), core=core),
        FORWARDER: stack.enter_context(_proxy(forwarder, core)),
    }
    address = f"localhost:{ports_in_a_row(4)}"
    try:
        neighbour = kroxylicious(directory, broker.bootstrap_servers, address, f"{FOUND}{address}")
        ways[KROXYLICIOUS] = _to_the_broker(stack.enter_context(_proxy(neighbour, core)))
    except KroxyliciousError as error:
        tell("without Kroxylicious", error)
    ways |= {GATEWAY: gateway, GATEWAY_TLS: with_tls}
    if beside is not None:
        other = gateway_command(broker.bootstrap_servers, interpreter=interpreter_of(beside))
        ways[BESIDE] = _to_the_broker(stack.enter_context(_proxy(other, core, cwd=beside)))
    return ways


def _fill(bootstrap_servers: str, config: dict[str, object]) -> None:
    admin = KafkaAdminClient(**config)
    # Of the large records the broker keeps the last ones only, else they would fill the disk.
    short = {"retention.bytes": "100000000", "segment.bytes": "50000000", "file.delete.delay.ms": "0"}
    admin.create_topics(
        [NewTopic(_TOPIC, 1, 1), NewTopic(_SMALL, 1, 1), NewTopic(_LARGE, 1, 1, topic_configs=short)]
    )
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, max_request_size=2 * _RECORD_BYTES)
    for _ in range(_RECORDS):
        producer.send(_TOPIC, bytes(_RECORD_BYTES))
    producer.close()


def _certificate(directory: Path) -> tuple[Path, Path]:
    certificate, key = directory / "tls.crt", directory / "tls.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return certificate, key


@contextmanager
def _proxy(
    command: list[str], core: int, tls: ssl.SSLContext | None = None, cwd: Path | None = None
) -> Iterator[_Way]:
    # It has the core from its first thread on.
    with _on(core):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(FOUND):
                host, _, port = line.removeprefix(FOUND).strip().rpartition(":")
                yield _Way(host, int(port), tls, psutil.Process(process.pid))
                break
        else:
            raise RuntimeError(f"{command} has ended")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _on(core: int | None) -> Iterator[None]:
    """Let this thread run on that core, if one is given."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ours if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


# -- the client ------------------------------------------------------------------------------------------


class _Client:
    def __init__(self, way: _Way) -> None:
        self._socket = socket.create_connection((way.host, way.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if way.tls is not None:
            self._socket = way.tls.wrap_socket(self._socket, server_hostname="localhost")
        self._buffer = memoryview(bytearray(2 * _FETCH_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> memoryview:
        """Send the request and return its response, without the length, as long as no other one is asked."""
        self._socket.sendall(request)
        length = int.from_bytes(self._read(4))
        return self._read(length)

    def _read(self, count: int) -> memoryview:
        read = 0
        while read < count:
            got = self._socket.recv_into(self._buffer[read:count])
            if not got:
                raise ConnectionError("the connection was closed")
            read += got
        return self._buffer[:count]


def _to_the_broker(way: _Way) -> _Way:
    """The gateway's port that stands for the broker, instead of the one that clients begin with."""
    version = 8
    with _Client(way) as client:
        response = client.ask(codec.encode_request(MetadataRequest(version=version, topics=[]), 1, "passing"))
        told = codec.decode_response(3, version, (len(response)).to_bytes(4) + bytes(response))
    return way._replace(port=told.brokers[0].port)


def _fetch() -> bytes:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=_FETCH_BYTES
    )
    request = FetchRequest(
        version=11,
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=_TOPIC, partitions=[partition])],
    )
    return codec.encode_request(request, 2, "passing")


def _measure(way: _Way, seconds: float) -> dict[str, float]:
    fetch = _fetch()
    small = codec.encode_request(produce(_PRODUCE_VERSION, _SMALL), 3, "passing")
    large = codec.encode_request(produce(_PRODUCE_VERSION, _LARGE, bytes(_RECORD_BYTES)), 4, "passing")
    with _on(way.core), _Client(way) as client:
        before_s, begin = _cpu_s(way), time.perf_counter()
        count = 0
        while time.perf_counter() < begin + seconds:
            count += len(client.ask(fetch))
        took, spent = time.perf_counter() - begin, _cpu_s(way) - before_s
        assert count > _RECORD_BYTES, "nothing was fetched"
        trips, before_s = [], _cpu_s(way)
        for _ in range(_ASKED):
            sent = time.perf_counter()
            client.ask(small)
            trips.append((time.perf_counter() - sent) * 1000)
        spent_on_small = _cpu_s(way) - before_s
        begin = time.perf_counter()
        for _ in range(_PRODUCED):
            client.ask(large)
        took_to_produce = time.perf_counter() - begin
    return {
        "mb_a_cpu_second": count / 1e6 / spent if spent else 0.0,
        "mb_a_second": count / 1e6 / took,
        "mb_produced_a_second": _PRODUCED * _RECORD_BYTES / 1e6 / took_to_produce,
        "p50_ms": percentile(trips, 50),
        "p99_ms": percentile(trips, 99),
        "us_a_produce": spent_on_small / _ASKED * 1e6,
        "rss_mb": way.proxy.memory_info().rss / 1e6 if way.proxy else 0.0,
    }


def _cpu_s(way: _Way) -> float:
    if way.proxy is None:
        return 0.0
    times = way.proxy.cpu_times()
    return times.user + times.system
