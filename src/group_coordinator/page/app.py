"""The page and its API as a WSGI application. It answers GET and HEAD, and changes nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from group_coordinator.history.timeline.style import STYLE
from group_coordinator.page.api import PREFIX, Api, problem
from group_coordinator.page.openapi import description
from group_coordinator.page.sides import Sides
from group_coordinator.page.site import Site, failed
from group_coordinator.page.stream import Streams
from group_coordinator.page.web import Answer, parse

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# No script but the one file, and no address but this server's. So a name that strangers give themselves could
# do nothing, even if it were not escaped. Pictures bring their style; its hash tells it from anybody else's.
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    f"style-src 'self' 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
]


class App:
    """The application. `hosts`: the only names it answers to.

    A page of somebody else's could otherwise have its own name point here and read along (DNS rebinding).
    """

    def __init__(self, sides: Sides, hosts: Iterable[str] | None = None) -> None:
        self._site = Site(sides)
        self._streams = Streams()
        self._api = Api(sides, self._streams, description())
        self._hosts = None if hosts is None else frozenset(hosts)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Streams of events go on while the context is open."""
        with self._streams.open():
            yield

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        answer = self._answer(environ)
        headers = [("Content-Type", answer.kind), *_HEADERS, *answer.headers]
        if isinstance(answer.body, bytes):
            headers.append(("Content-Length", str(len(answer.body))))
        start_response(f"{answer.status.value} {answer.status.phrase}", headers)
        if environ["REQUEST_METHOD"] == "HEAD":
            _close(answer)
            return []
        return [answer.body] if isinstance(answer.body, bytes) else answer.body

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        path = environ.get("PATH_INFO", "")
        is_api = path == PREFIX or path.startswith(f"{PREFIX}/")
        fail = problem if is_api else failed
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return fail(
                HTTPStatus.METHOD_NOT_ALLOWED, "This page only shows things.", (("Allow", "GET, HEAD"),)
            )
        if self._hosts is not None and _host(environ.get("HTTP_HOST", "")) not in self._hosts:
            return fail(HTTPStatus.MISDIRECTED_REQUEST, "Ask for this page by the name it was started with.")
        query = partial(parse, environ.get("QUERY_STRING", ""))
        if is_api:
            return self._api.answer(path.removeprefix(PREFIX), query, environ.get("HTTP_LAST_EVENT_ID", ""))
        return self._site.answer(path, query)


def _close(answer: Answer) -> None:
    close = getattr(answer.body, "close", None)
    if close is not None:
        close()


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0].removeprefix("[")
    return header.partition(":")[0].lower()
