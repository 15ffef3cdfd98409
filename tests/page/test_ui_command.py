from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from group_coordinator.commands import ui as command
from group_coordinator.commands.cli import main
from group_coordinator.deploy import extras
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.page import service
from group_coordinator.page.live import Live
from group_coordinator.page.server import listen
from group_coordinator.page.settings import PageSettings
from tests.commands.job import Process
from tests.page.filled import Filled
from tests.patience import PATIENCE_S

NOBODY = "127.0.0.1:1"


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    config = tmp_path / "coordinator.toml"
    # The page of `run` is not to be where that of `ui` is.
    config.write_text(f'bootstrap.servers = "{NOBODY}"\nui.host = "localhost"\nui.port = 1\n')
    words = [sys.executable, "-m", "group_coordinator", "ui", "--config", str(config), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("the page is at http://localhost:")
            with urllib.request.urlopen(line.split()[-1], timeout=PATIENCE_S) as answer:
                assert b"<h1>Groups</h1>" in answer.read()
            assert process.stderr.readline() == f"connecting to Kafka at {NOBODY}\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_without_a_broker_it_ends_after_a_while_and_says_why(
    handlers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_DEADLINE_S", 0.5)
    code, said = invoke("--bootstrap-server", NOBODY, "--port", "0")

    page, connecting, error = said.splitlines()
    assert code == 1
    assert page.startswith("the page is at ")
    assert connecting == f"connecting to Kafka at {NOBODY}"
    assert error.startswith(f"error: Kafka at {NOBODY} has not answered for 0.5 s: ")


def test_it_ends_with_a_thread_that_fails(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Live) -> None:
        raise KeyError("orders")

    monkeypatch.setattr(Live, "_read", fails)
    code, said = invoke("--bootstrap-server", NOBODY, "--port", "0")

    assert code == 1
    assert "stopping, because thread ui-live has failed: KeyError: 'orders'\n" in said
    assert said.endswith("error: thread ui-live has failed: KeyError: 'orders'\n")


@pytest.mark.spark
def test_it_says_what_it_waits_for(bootstrap_servers: str, tmp_path: Path) -> None:
    names = {"topics.groups": "told.groups", "topics.events": "told.events"}
    words = [word for name, it in names.items() for word in ("--set", f"{name}={it}")]
    ui = Process(tmp_path, "ui", "--bootstrap-server", bootstrap_servers, "--port", "0", *words)
    try:
        ui.wait_for("there is no topic told.groups: ")
        Filled(round(time.time() * 1000)).write_topics(bootstrap_servers, "told")
        ui.wait_for("the page shows all groups")
        ui.terminate()
        assert ui.exit_code() == 0
    finally:
        ui.kill()


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["ui", *arguments], env={"GROUP_COORDINATOR_BOOTSTRAP_SERVERS": None})
    return result.exit_code, result.output


def test_without_brokers_there_is_nothing_to_show(handlers: None) -> None:
    code, said = invoke("--bootstrap-server", "")

    assert code == 1
    assert said.startswith("error: bootstrap.servers is not set: give --bootstrap-server, ")


def test_a_port_that_is_taken_is_one_line(handlers: None) -> None:
    with listen("127.0.0.1", 0, lambda *_: []) as port:
        code, said = invoke("--bootstrap-server", NOBODY, "--port", str(port))

    assert code == 1
    assert said == (
        f"error: cannot listen on 127.0.0.1, port {port}: Address already in use; "
        "choose another with --port or ui.port\n"
    )


def test_a_history_needs_what_reads_it(handlers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    code, said = invoke("--bootstrap-server", NOBODY, "--history-path", "/somewhere", "--port", "0")

    assert code == 1
    assert said == (
        "error: history.path cannot be read: deltalake, pyarrow are not installed. In the clone that "
        "group-coordinator comes from, run: pip install '.[history]'; or unset history.path\n"
    )


@pytest.fixture
def handlers() -> Any:
    """The command has handlers of its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_run_has_no_page_unless_it_is_given_a_port() -> None:
    said: list[str] = []
    with service.serving(PageSettings.load(None, {}, {}, needed=()), said.append):
        pass

    assert said == []


@pytest.mark.spark
def test_run_has_the_page_beside_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def run_coordinator(settings: Any, say: Callable[[str], None], *, progress: bool) -> None:
        assert settings.checkpoint == "c"
        (line,) = said
        with urllib.request.urlopen(f"{line.split()[-1]}static/page.css", timeout=PATIENCE_S) as answer:
            seen.append(answer.read())

    said: list[str] = []
    monkeypatch.setattr("group_coordinator.streaming.service.run_coordinator", run_coordinator)
    monkeypatch.setattr("group_coordinator.commands.settings.say", said.append)
    options = ["--bootstrap-server", NOBODY, "--checkpoint", "c", "--set", "ui.port=0"]
    result = CliRunner().invoke(main, ["run", *options], catch_exceptions=False)

    assert result.exit_code == 0
    assert len(seen) == 1


def test_settings_that_cannot_be() -> None:
    with pytest.raises(SettingsError, match=r"ui\.port"):
        PageSettings.load(None, {}, {"ui.port": -2}, needed=())
