"""The server of the metrics, the probes and the page."""

from __future__ import annotations

import resource
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from wsgiref.types import WSGIApplication

import pytest

from group_coordinator.jobs import serving
from group_coordinator.jobs.serving import serve_app
from tests.patience import PATIENCE_S, wait_for


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

    monkeypatch.setattr(serving, "_WAIT_S", 0.2)
    port, close = serve_app("127.0.0.1", 0, endless, "under-test")
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert ended.wait(PATIENCE_S)
    finally:
        close()
    assert capsys.readouterr().err == ""


def test_a_client_that_never_ends_its_head_has_to_go_without_a_word(
    serve: Callable[[str], int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """However steadily its bytes come: the time is that of the whole head."""
    monkeypatch.setattr(serving, "_WAIT_S", 0.5)
    with socket.create_connection(("127.0.0.1", serve("127.0.0.1")), timeout=0.1) as client:
        client.send(b"GET / HTTP/1.1\r\nX: ")
        wait_for(lambda: is_closed(client, b"a"))

    assert capfd.readouterr() == ("", "")


def is_closed(client: socket.socket, more: bytes) -> bool:
    """Whether the server has closed the connection; if not, send it more."""
    try:
        client.send(more)
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_slow_clients_have_their_places_until_others_want_them() -> None:
    with served(app, places=2) as port, ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.1)) for _ in "abc"
        ]
        for each in slow:
            each.send(b"GET /")
        for path in ("/a", "/b", "/c"):
            assert ask("127.0.0.1", port, path) == path.encode()
        wait_for(lambda: all(is_closed(each, b"x") for each in slow[:2]))


def test_somebody_who_takes_no_answer_has_a_place_until_others_want_it() -> None:
    sends = threading.Event()

    def endless(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/a":
            return app(environ, start_response)
        start_response("200 OK", [("Content-Type", "text/plain")])
        sends.set()
        return iter(lambda: b"x" * 65_536, b"")

    with served(endless, places=1) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /endless HTTP/1.0\r\n\r\n")
        assert sends.wait(PATIENCE_S)

        def is_answered() -> bool:
            # Before it has sent what fits, the other one does not wait for its client.
            with suppress(OSError):
                return ask("127.0.0.1", port) == b"/a"
            return False

        wait_for(is_answered)


def test_one_more_than_can_be_answered_is_told_so() -> None:
    is_asked, may_end = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_asked.set()
        may_end.wait(PATIENCE_S)
        return app(environ, start_response)

    with served(slow, places=1) as port, ThreadPoolExecutor(1) as threads:
        first = threads.submit(ask, "127.0.0.1", port)
        assert is_asked.wait(PATIENCE_S)
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            assert client.recv(65_536).startswith(b"HTTP/1.0 503 Service Unavailable\r\n")
        may_end.set()
        assert first.result(PATIENCE_S) == b"/a"


def test_a_process_with_few_files_has_fewer_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    with served(app, places=3) as port, ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=0.1)) for _ in "abc"
        ]
        wait_for(lambda: is_closed(clients[0], b"x"))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"a" * 70_000, 414),
        (b"GET / HTTP/1.1\r\n" + b"X: aaaaaaaa\r\n" * 99 + b"Y: " + b"b" * 70_000, 431),
        (b"GET / HTTP/1.1\r\n" + (b"X: " + b"b" * 1_000 + b"\r\n") * 80, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: b\r\n" * 200, 431),
        (b"\xff\r\n", 400),
        (b"GET / HTTP/9999\r\n", 400),
    ],
)
def test_a_head_that_is_wrong_or_too_large_is_refused(
    serve: Callable[[str], int], head: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", serve("127.0.0.1")), timeout=PATIENCE_S) as client:
        client.sendall(head)
        assert f" {status} ".encode() in client.recv(65_536)
    assert capfd.readouterr() == ("", "")


def test_a_fault_of_the_application_is_logged_and_the_client_told(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def faulty(_: dict[str, Any], _start_response: Any) -> Iterable[bytes]:
        raise ZeroDivisionError

    with served(faulty) as port, pytest.raises(urllib.error.HTTPError, match="500"):
        ask("127.0.0.1", port)

    assert [each.getMessage() for each in caplog.records] == ["answering over HTTP failed"]
    assert capfd.readouterr() == ("", "")


@contextmanager
def served(app: WSGIApplication, places: int = serving.PLACES) -> Iterator[int]:
    port, close = serve_app("127.0.0.1", 0, app, "under-test", places)
    try:
        yield port
    finally:
        close()
