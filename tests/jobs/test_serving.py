"""The server of the metrics, the probes and the page."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from group_coordinator.jobs import serving
from group_coordinator.jobs.serving import serve_app
from tests.patience import PATIENCE_S

# Shorter than somebody may be connected and say nothing.


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]


@pytest.fixture
def serve() -> Iterator[Callable[[str], int]]:
    """Serve at an address; return the port."""
    closing: list[Callable[[], None]] = []

    def serve(host: str) -> int:
        port, close = serve_app(host, 0, app, "under-test")
        closing.append(close)
        return port

    yield serve
    for close in closing:
        close()


def ask(host: str, port: int, path: str = "/a") -> bytes:
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=PATIENCE_S) as answer:
        body: bytes = answer.read()
    return body


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("::", "127.0.0.1"),
        ("", "[::1]"),
        ("", "127.0.0.1"),
    ],
)
def test_it_answers_where_it_listens(serve: Callable[[str], int], host: str, asked: str) -> None:
    assert ask(asked, serve(host)) == b"/a"


def test_a_machine_without_ipv6_listens_too(
    serve: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    port = serve("")

    assert ask("127.0.0.1", port) == b"/a"
    with pytest.raises(OSError, match="refused"):
        ask("[::1]", port)


def test_nobody_is_asked_what_this_machine_is_called(
    serve: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(socket, "getfqdn", lambda name="": asked.append(name))

    assert ask("127.0.0.1", serve("")) == b"/a"
    assert asked == []


def test_somebody_who_says_nothing_does_not_keep_others_waiting(serve: Callable[[str], int]) -> None:
    port = serve("127.0.0.1")
    with socket.create_connection(("127.0.0.1", port)):
        assert ask("127.0.0.1", port, "/b") == b"/b"


def test_nothing_is_written_for_each_request(
    serve: Callable[[str], int], capfd: pytest.CaptureFixture[str]
) -> None:
    ask("127.0.0.1", serve("127.0.0.1"))

    assert capfd.readouterr() == ("", "")


def test_closed_it_is_gone() -> None:
    port, close = serve_app("", 0, app, "under-test")
    assert "under-test" in {thread.name for thread in threading.enumerate()}
    close()

    assert "under-test" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(OSError, match="refused"):
        ask("127.0.0.1", port)


def test_a_port_that_is_taken(serve: Callable[[str], int]) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        serve_app("", serve("127.0.0.1"), app, "another")


def test_a_port_can_be_had_again_at_once() -> None:
    """The server closes its connections first, so they are in TIME_WAIT when the next process starts."""
    port, close = serve_app("127.0.0.1", 0, app, "under-test")
    assert ask("127.0.0.1", port) == b"/a"
    close()

    again, close = serve_app("127.0.0.1", port, app, "under-test")
    close()
    assert again == port


def test_a_client_that_takes_nothing_is_left_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = threading.Event()

    class Endless:
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b"x" * 65_536

        def close(self) -> None:
            ended.set()

    def endless(_: dict[str, Any], start_response: Any) -> Endless:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return Endless()

    monkeypatch.setattr(serving._Handler, "timeout", 0.2)
    port, close = serve_app("127.0.0.1", 0, endless, "under-test")
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert ended.wait(PATIENCE_S)
    finally:
        close()
    assert capsys.readouterr().err == ""
