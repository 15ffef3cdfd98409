from __future__ import annotations

import urllib.request
from collections.abc import Iterable
from typing import Any

import pytest

from group_coordinator.jobs.serving import CannotListenError
from group_coordinator.page.server import hosts_of, listen
from tests.patience import PATIENCE_S


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]


def test_it_listens_as_long_as_the_context_is_open() -> None:
    with (
        listen("127.0.0.1", 0, app) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/a", timeout=PATIENCE_S) as answer,
    ):
        assert answer.read() == b"/a"
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S)


def test_a_port_that_is_taken() -> None:
    with (
        listen("127.0.0.1", 0, app) as port,
        pytest.raises(
            CannotListenError,
            match=rf"port {port}: Address already in use; choose another with --port or ui\.port",
        ),
        listen("127.0.0.1", port, app),
    ):
        pass


def test_an_address_that_is_not_this_machines() -> None:
    with (
        pytest.raises(CannotListenError, match=r"^cannot listen on 192\.0\.2\.1, port 0: "),
        listen("192.0.2.1", 0, app),
    ):
        pass


def test_a_host_with_a_port_is_none() -> None:
    with (
        pytest.raises(CannotListenError, match=r"^ui.host: '\[::1\]:80' is no host"),
        listen("[::1]:80", 0, app),
    ):
        pass


def test_brackets_are_no_part_of_the_names_that_browsers_ask_for() -> None:
    assert hosts_of("[::1]") == hosts_of("::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_who_listens_to_this_machine_only_knows_its_names(host: str) -> None:
    hosts = hosts_of(host)

    assert hosts is not None
    assert {host, "localhost"} <= hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "ui.example"])
def test_who_listens_to_others_answers_to_any_name(host: str) -> None:
    assert hosts_of(host) is None
