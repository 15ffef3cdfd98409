"""The port that Prometheus and Kubernetes' probes look at."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from prometheus_client import make_wsgi_app

from group_coordinator.jobs.hosts import host_of, written
from group_coordinator.jobs.serving import CannotListenError, serve_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

    from group_coordinator.jobs.health import Verdict

_MOST_SCRAPES = 4
"""At once. Each takes the time and the memory of all figures, and probes need a place as well."""


class Probed(Protocol):
    """The answers to probes."""

    def is_live(self) -> Verdict:
        """Whether all that should move moves: if not, only a restart helps."""

    def is_ready(self) -> Verdict:
        """Whether it does what it is there for."""


def serve(
    host: str, port: int, registry: CollectorRegistry, health: Probed, setting: str = "metrics.port"
) -> tuple[int, Callable[[], None]]:
    """Serve /metrics, /healthz and /readyz on `port` (0: any free one), which is that of `setting`.

    `host` is `metrics.host`: an address or name of this machine, or empty for all of them. Returns the port
    and a function that ends it. Raises `CannotListenError` if the port cannot be had.
    """
    try:
        return serve_app(host, port, _app(registry, health), "metrics")
    except ValueError as error:
        raise CannotListenError(f"metrics.host cannot be {host!r}: {error}") from None
    except OSError as error:
        where = f" of metrics.host {host}" if host else ""
        raise CannotListenError(
            f"cannot listen on {setting} {port}{where}: {error.strerror}; "
            "choose another, 0 for any, or -1 for none"
        ) from None


@contextmanager
def serving(
    host: str,
    port: int,
    registry: CollectorRegistry,
    health: Probed,
    say: Callable[[str], None],
    setting: str = "metrics.port",
) -> Iterator[None]:
    """Serve as `serve` does while the context is open, unless `port` is -1. `say` is told where."""
    if port < 0:
        yield
        return
    port, close = serve(host, port, registry, health, setting)
    say(f"metrics are at http://{written(host_of(host) or 'localhost')}:{port}/metrics")
    try:
        yield
    finally:
        close()


def _app(registry: CollectorRegistry, health: Probed) -> WSGIApplication:
    pages = {
        "/metrics": _few_at_once(make_wsgi_app(registry)),
        "/healthz": _probe(health.is_live),
        "/readyz": _probe(health.is_ready),
    }

    def not_found(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return _answer(environ, start_response, HTTPStatus.NOT_FOUND, f"there is {', '.join(pages)}")

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return pages.get(environ["PATH_INFO"], not_found)(environ, start_response)

    return app


def _few_at_once(scrape: WSGIApplication) -> WSGIApplication:
    free = threading.Semaphore(_MOST_SCRAPES)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not free.acquire(blocking=False):
            line = f"{_MOST_SCRAPES} others are being answered: ask again"
            return _answer(environ, start_response, HTTPStatus.SERVICE_UNAVAILABLE, line)
        try:
            return scrape(environ, start_response)
        finally:
            free.release()

    return app


def _probe(question: Callable[[], Verdict]) -> WSGIApplication:
    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        good, why = question()
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        return _answer(environ, start_response, status, why)

    return app


def _answer(
    environ: WSGIEnvironment, start_response: StartResponse, status: HTTPStatus, line: str
) -> Iterable[bytes]:
    body = f"{line}\n".encode()
    start_response(
        f"{status.value} {status.phrase}",
        [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            # It is true now, and not later.
            ("Cache-Control", "no-store"),
        ],
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
