"""A real Apache Kafka broker (KRaft, broker and controller in one process) for demos and tests."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java

_HOST = "127.0.0.1"
_PORT_TRIES = 5
_POLL_S = 0.05
_REQUEST_TIMEOUT_S = 2.0
_STOP_TIMEOUT_S = 20.0
_METADATA_VERSION = 9
_CLUSTER_ID = "cluster.id="
_ADDRESS_IN_USE = "Address already in use"

# Most of a short life is starting up: without the optimising compiler that takes a third less on one core.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)

# One small node: nothing is replicated, nothing waits for others.
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",  # 128 MB by default: a quarter of the heap
    "num.network.threads": "2",
    "num.io.threads": "4",
}

_LOG4J = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


class BrokerError(Exception):
    """The broker did not start; the message quotes the end of its log."""


class PortInUseError(BrokerError):
    """Another process has the port that was chosen."""


class _PortTaken(Exception):  # noqa: N818 - never leaves this module
    """Somebody else took a port between our choosing and Kafka's binding it."""


class EmbeddedBroker:
    """Kafka on 127.0.0.1 with all its files in one directory.

    A directory can be started again: topics and offsets stay as they were, and so does the port when it is
    the same object. The broker is killed when this process ends, however it ends.

    Args:
        directory: where settings, log and data go; made if it is not there.
        port: of the broker; 0 chooses a free one.
        heap_mb: the Java heap in MB.
        jvm_flags: by default those of a broker that lives for some minutes, with the quick compiler only.
        overrides: broker settings that win over the built-in ones.
        cluster_id: of the cluster that it joins; by default it begins one of its own. A directory that was
            started before keeps the id that it has.
        jars: the section of jars.lock with the broker, such as that of another version.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        heap_mb: int = 512,
        jvm_flags: Sequence[str] = SHORT_LIVED,
        overrides: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        jars: str = "broker",
    ) -> None:
        self._chosen_cluster_id = cluster_id
        self._jars = jars
        self._directory = directory.resolve()
        self._chosen_port = port
        self._port = port
        self._heap_mb = heap_mb
        self._jvm_flags = jvm_flags
        self._overrides = dict(overrides or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def bootstrap_servers(self) -> str:
        """The address clients connect to: 127.0.0.1:PORT. Known once started."""
        return f"{_HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id of the broker, None while it is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def log_file(self) -> Path:
        """Kafka's log file, of all starts in this directory."""
        return self._directory / "broker.log"

    @property
    def cluster_id(self) -> str:
        """The id of its cluster. Known once started."""
        lines = self._meta.read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(_CLUSTER_ID)).removeprefix(_CLUSTER_ID)

    @property
    def _meta(self) -> Path:
        """Written when the storage is formatted; holds the cluster's id."""
        return self._directory / "data" / "meta.properties"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self, timeout_s: float = 60) -> None:
        """Start Kafka and return once it answers requests; without effect if it runs.

        Jars that are not yet in the cache are fetched first and do not count towards `timeout_s`.
        Raises BrokerError (PortInUseError if the chosen port is taken, even by a process that starts at the
        same time), deploy.jars.JarError or deploy.java.JavaNotFound.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        self._check_port()
        java = self._java_command()
        deadline = time.monotonic() + timeout_s
        for _ in range(_PORT_TRIES):
            try:
                self._await_answer(self._launch(java, deadline), deadline)
            except _PortTaken:
                self.stop()
                self._check_port()
                self._port = self._chosen_port
            except BaseException:
                self.stop()
                raise
            else:
                return
        raise BrokerError(f"Kafka's ports were taken by others in {_PORT_TRIES} tries. Start it again.")

    def stop(self) -> None:
        """Stop Kafka, in order if it obeys within 20 seconds; without effect if it is stopped."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.kill()
            watcher.communicate()

    def _check_port(self) -> None:
        if self._chosen_port and not is_free(self._chosen_port):
            raise PortInUseError(f"Port {self._chosen_port} is in use. Choose another one, or 0 for any.")

    def _java_command(self) -> list[str]:
        self._directory.mkdir(parents=True, exist_ok=True)
        log4j = self._directory / "log4j2.properties"
        log4j.write_text(_LOG4J, encoding="utf-8")
        classpath = os.pathsep.join(map(str, fetch(self._jars, progress=True)))
        return [
            str(find_java()),
            f"-Xmx{self._heap_mb}m",
            *self._jvm_flags,
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            classpath,
        ]

    def _launch(self, java: list[str], deadline: float) -> subprocess.Popen[bytes]:
        self._port = self._port or _free_port()
        settings = self._write_settings()
        if not self._meta.exists():
            self._format(java, settings, deadline)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we stop Kafka in our own time
            )
        # Its standard input closes when we end, even by SIGKILL; then nobody is left to stop Kafka.
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -s KILL -- "-$1"', "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return self._process

    def _write_settings(self) -> Path:
        controller = _free_port()
        settings = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{_HOST}:{self._port},CONTROLLER://{_HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self._port}",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "log.dirs": str(self._meta.parent),
            **self._overrides,
        }
        path = self._directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return path

    def _format(self, java: list[str], settings: Path, deadline: float) -> None:
        tool = ["kafka.tools.StorageTool", "format", "--config", str(settings)]
        try:
            subprocess.run(
                [*java, *tool, f"--cluster-id={self._chosen_cluster_id or _cluster_id()}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=max(deadline - time.monotonic(), 0),
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerError(f"Kafka's storage in {self._directory} was not formatted in time.") from error
        except subprocess.CalledProcessError as error:
            raise BrokerError(f"Kafka's storage was not formatted:\n{error.stdout}{error.stderr}") from error

    def _await_answer(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        while process.poll() is None:
            # The cluster's id tells our broker from another one that was quicker to take the port.
            if _cluster_with_broker(self._port) == self.cluster_id:
                return
            if time.monotonic() > deadline:
                raise BrokerError(f"Kafka did not answer in time; {self._end_of_log()}")
            time.sleep(_POLL_S)
        if _ADDRESS_IN_USE in self._log():
            raise _PortTaken
        raise BrokerError(f"Kafka ended with exit code {process.returncode}; {self._end_of_log()}")

    def _log(self) -> str:
        """Return what was logged since the last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _end_of_log(self, lines: int = 20) -> str:
        return f"the end of {self.log_file}:\n" + "\n".join(self._log().splitlines()[-lines:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int, host: str = _HOST) -> bool:
    """Whether a server could listen there now; `host` "" is all addresses of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _cluster_with_broker(port: int) -> str | None:
    """Ask for metadata; return the cluster's id once it has a broker that takes part, else None."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    request = MetadataRequest[_METADATA_VERSION](topics=[])
    request.with_header(correlation_id=1, client_id="embedded-broker")
    with suppress(OSError), socket.create_connection((_HOST, port), _REQUEST_TIMEOUT_S) as connection:
        connection.sendall(request.encode(header=True, framed=True))
        with connection.makefile("rb") as stream:
            length = stream.read(4)
            body = stream.read(int.from_bytes(length))
        if length and len(body) == int.from_bytes(length):
            answer = MetadataResponse.decode(
                length + body, version=_METADATA_VERSION, header=True, framed=True
            )
            return str(answer.cluster_id) if answer.brokers else None
    return None
