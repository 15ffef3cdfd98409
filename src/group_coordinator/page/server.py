"""The server of the page."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from group_coordinator.jobs.hosts import host_of
from group_coordinator.jobs.serving import PLACES, CannotListenError, serve_app
from group_coordinator.page.stream import MOST_STREAMS

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


@contextmanager
def listen(host: str, port: int, app: WSGIApplication) -> Iterator[int]:
    """Serve while the context is open; `port` 0 is any free one, and it is given back.

    Raises `CannotListenError`.
    """
    try:
        port, close = serve_app(host, port, app, "ui", PLACES + MOST_STREAMS)
    except ValueError as error:
        raise CannotListenError(f"ui.host: {error}") from None
    except OSError as error:
        raise CannotListenError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with --port or ui.port"
        ) from None
    try:
        yield port
    finally:
        close()


def hosts_of(host: str) -> frozenset[str] | None:
    """The names by which this machine's browsers ask for `host`; None if others may ask, by any name."""
    try:
        host = host_of(host)
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    return frozenset({host, "localhost", "127.0.0.1", "::1"}) if is_here else None
