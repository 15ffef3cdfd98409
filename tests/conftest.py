"""What all tests share: one broker and one Spark session, each started when the first test needs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize

import pytest
from hypothesis import HealthCheck, settings
from kafka import KafkaConsumer
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from xdist.scheduler import LoadFileScheduling

from group_coordinator.deploy.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket

    from pyspark.sql import SparkSession

# How long an example takes depends on what else the machine does, and histories are large.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("patient")


_CORE = ("coordinator_state", "client")
_TOGETHER = ("history", "gateway", "security", "conformance")
"""Folders whose files share what takes long to start: tables, a coordinator with a gateway, brokers."""
_LONG_FIRST = (*_TOGETHER, "demo", "faults", "storage", "cluster", "examples", "commands", "streaming")
"""Folders whose files are long: one that is begun last would keep the other worker waiting."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by where they are, before they are selected, and have the long files begin."""
    for item in items:
        folder = _folder(item.nodeid)
        if folder == "conformance":
            item.add_marker("conformance")
        elif folder in _CORE and item.get_closest_marker("spark") is None:
            item.add_marker("core")
    items.sort(key=_place)


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives a worker a file at a time, or a folder of which all files share something."""

    def _split_scope(self, nodeid: str) -> str:
        folder = _folder(nodeid)
        return folder if folder in _TOGETHER else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Where tests run side by side."""
    return _Scheduling(config, log)


def _place(item: pytest.Item) -> int:
    folder = _folder(item.nodeid)
    return _LONG_FIRST.index(folder) if folder in _LONG_FIRST else len(_LONG_FIRST)


def _folder(nodeid: str) -> str:
    """The folder of tests that a test is in; "" at the top."""
    below = Path(nodeid.partition("::")[0]).relative_to(Path(__file__).parent.name)
    return below.parts[0] if len(below.parts) > 1 else ""


@pytest.fixture(scope="session", autouse=True)
def _closed_sockets() -> Iterator[None]:
    """Close what kafka-python 3.0.12 leaves to the garbage collector, which warns in some other test.

    That is the socket of a connection that does not come about, as when a client is closed that is still
    connecting, of one that is closed with something still to be sent, and of one that comes about when its
    client is closed already.
    """
    connect, close, made = KafkaNetSocket.sock_connect, NetworkSelector.close, KafkaTCPTransport.__init__
    sockets: WeakKeyDictionary[NetworkSelector, list[socket]] = WeakKeyDictionary()

    async def sock_connect(self: KafkaNetSocket, net: Any, sock: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await connect(self, net, sock, *args, **kwargs)
        except BaseException:
            sock.close()
            raise

    def init_transport(self: KafkaTCPTransport, net: NetworkSelector, sock: socket, **kwargs: Any) -> None:
        sockets.setdefault(net, []).append(sock)
        finalize(net, sock.close)
        made(self, net, sock, **kwargs)

    def close_all(self: NetworkSelector) -> None:
        close(self)
        for sock in sockets.pop(self, ()):
            sock.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaNetSocket, "sock_connect", sock_connect)
        patch.setattr(KafkaTCPTransport, "__init__", init_transport)
        patch.setattr(NetworkSelector, "close", close_all)
        yield


@pytest.fixture(scope="session", autouse=True)
def _metadata_soon() -> Iterator[None]:
    """Let consumers of kafka-python 3.0.12 look at metadata again in time for a test.

    One asks for metadata of no topics when it is made. If it is slow to subscribe, it takes the answer to
    that for the topics' own. So it knows none of them until metadata is five minutes old.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KafkaConsumer.DEFAULT_CONFIG, "metadata_max_age_ms", 5_000)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_lived_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spark's JVMs live for a minute here, in which the better compiler costs more than it saves.

    One lives for all tests, though, and has more to compile than the 48 MiB that go with the quick compiler
    hold: it would throw code away and compile it again all the time. With the heap and the room for classes
    that it has by default it collects garbage a hundred times before it has grown.
    """
    directory = tmp_path_factory.mktemp("spark-conf")
    options = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Xms512m -XX:MetaspaceSize=256m"
    (directory / "spark-defaults.conf").write_text(
        f"spark.driver.defaultJavaOptions {options}\nspark.executor.defaultJavaOptions {options}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(directory))
        yield


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A real Apache Kafka broker."""
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    """Where the broker is."""
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the long-lived job, as it runs on one machine."""
    # Not above: most tests need no pyspark, and it takes its time.
    from pyspark import SparkContext

    from group_coordinator.history.storage import DELTA_DEFAULTS
    from group_coordinator.jobs.session import create_session
    from group_coordinator.streaming.daemon import session_defaults
    from group_coordinator.streaming.settings import CoordinatorSettings

    settings = CoordinatorSettings.load(
        None,
        {},
        {
            "bootstrap.servers": bootstrap_servers,
            "checkpoint": str(tmp_path_factory.mktemp("unused")),
            "state.partitions": 2,
            # For the history, whose own session has them, too; the coordinator does not care.
            **DELTA_DEFAULTS,
            # Of many queries each runs once or twice, and would have code compiled for it.
            "spark.sql.codegen.wholeStage": "false",
        },
    )
    assert SparkContext._gateway is None, "a test has started a JVM, whose properties would win over these"
    spark = create_session(settings, settings.checkpoint, defaults=session_defaults(settings))
    yield spark
    spark.stop()
