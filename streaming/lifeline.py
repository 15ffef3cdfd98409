"""The sign of life of a coordinator's Java process: an open port, which its operating system closes.

Ticks show that a coordinator lives, and a standby has to wait for several that do not come. A process that
was killed can be known at once. So its JVM listens on a port, which its ticks tell (`Tick.alive_at`), and a
standby stays connected. A connection may break for other reasons, and so the standby tries again. The process
has ended only if the machine then refuses, because nobody listens any more. In all other cases the ticks
tell: a machine without power, a network that is cut, a process that stands still.

It is the JVM's port and not Python's, because the JVM writes. It may live for a moment after Python was
killed.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JError, Py4JJavaError

from group_coordinator.jobs.java_errors import first_line
from group_coordinator.jobs.serving import CannotListenError
from group_coordinator.jobs.session import is_one_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BACKLOG = 16
_CONNECT_S = 0.5
_MOST = 16
"""Connections that are kept; then the oldest is closed, and may come again."""


class Lifeline:
    """The coordinator's side, while the context is open: it listens on `port`, where it speaks to `kafka`.

    `port` 0 is any free one, and -1 none. `kafka`: a broker's host and port. Raises `CannotListenError` if
    the port cannot be had. It listens only where Spark runs in one process: executors elsewhere may go on for
    a while when the driver has died.
    """

    def __init__(self, spark: SparkSession, port: int, kafka: str) -> None:
        self._spark: Any = spark
        self._port = port
        self._kafka = kafka
        self._server: Any = None
        self.address: str | None = None
        """The host and the port; None without one."""

    def __enter__(self) -> Self:
        listens = self._port >= 0 and is_one_process(str(self._spark.sparkContext.master))
        host = _own_address(self._kafka) if listens else None
        if host is not None:
            java = self._spark._jvm.java.net  # noqa: SLF001 - as pyspark's
            try:
                self._server = java.ServerSocket(self._port, _BACKLOG, java.InetAddress.getByName(host))
            except Py4JJavaError as error:
                raise CannotListenError(
                    f"cannot listen on alive.port {self._port}: {first_line(error)}; choose another, "
                    "0 for any, or -1 for none"
                ) from None
            self.address = f"{host}:{self._server.getLocalPort()}"
            threading.Thread(target=self._accept, name="lifeline", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            # With a JVM that has died its port is closed.
            with suppress(Py4JError, ConnectionError):
                self._server.close()

    def _accept(self) -> None:
        kept: deque[Any] = deque()
        # Until the port is closed, or the JVM has died.
        with suppress(Py4JError, ConnectionError):
            while True:
                kept.append(self._server.accept())
                if len(kept) > _MOST:
                    kept.popleft().close()


def _own_address(kafka: str) -> str | None:
    """The address by which this machine speaks to that one; None if there is no way."""
    host, _, port = kafka.rpartition(":")
    try:
        family, kind, _, _, there = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            # Sends nothing.
            probe.connect(there)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return None


class Watcher:
    """The standby's side: watches the process at the address that it is given."""

    def __init__(self) -> None:
        self._address: str | None = None
        self._connection: socket.socket | None = None

    def has_ended(self, address: str) -> bool:
        """Whether the process there has ended for sure. It has to have been there before."""
        if address != self._address:
            self.close()
            self._address = address
            with suppress(ConnectionRefusedError):
                self._connection = _connect(address)
        if self._connection is None or _is_open(self._connection):
            return False
        self._connection.close()
        try:
            self._connection = _connect(address)
        except ConnectionRefusedError:
            self._connection = None
            return True
        return False

    def close(self) -> None:
        """Watch nothing any more."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._address = None


def refuses(address: str) -> bool:
    """Whether nobody listens there."""
    try:
        connection = _connect(address)
    except ConnectionRefusedError:
        return True
    if connection is not None:
        connection.close()
    return False


def _connect(address: str) -> socket.socket | None:
    """A connection; None if there is no way. Raises `ConnectionRefusedError` if nobody listens there."""
    host, _, port = address.rpartition(":")
    try:
        return socket.create_connection((host, int(port)), _CONNECT_S)
    except ConnectionRefusedError:
        raise
    except (OSError, OverflowError, ValueError):
        # Such as an address or a port that none can be: anybody may have written the tick.
        return None


def _is_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed it. Nothing is ever said there."""
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
