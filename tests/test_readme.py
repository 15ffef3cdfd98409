"""The README, walked through as a newcomer does it: each command and each program as it stands there.

Everything that uses a usual port (9092, 9464, 9465) is in this file, since files of tests run side by side.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from group_coordinator.deploy.broker import EmbeddedBroker, is_free
from tests.commands.job import Process
from tests.patience import PATIENCE_S, wait_for
from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

README = (ROOT / "README.md").read_text()
FENCED = re.compile(
    r"```(?P<language>\w*)\n(?P<program>.*?)```|^    (?P<line>\S[^\n]*)$", re.DOTALL | re.MULTILINE
)

# What goes on until it is told to stop, and what it has said when it works.
GOES_ON = {
    "make run": "the coordinator is running",
    "group-coordinator member": "assigned [unit-0, ",
    # Nobody uses the broker's own groups there.
    "group-coordinator observe": "the brokers have no topic of groups yet",
    "group-coordinator run": "the coordinator is running",
    "from group_coordinator import GroupConsumer": "b'",
    "from group_coordinator import GroupMember": "mine: ['asia', 'eu', 'us']",
}
# What a newcomer stops before going on: only a group without members can be reset.
STOPPED_AT_ONCE = "from group_coordinator import GroupConsumer"
NOT_WALKED = {"make test"}
# "Install the client in your program's environment", and the coordinator in that of a server.
ENVIRONMENT_OF_THEIR_OWN = {"Consume a topic", "Share any work", "Run it"}


class Step(NamedTuple):
    """A command, or a program, below a heading."""

    section: str
    language: str
    text: str

    @property
    def said(self) -> str | None:
        """What it says once it works, if it goes on after that."""
        return next((said for begin, said in GOES_ON.items() if self.text.startswith(begin)), None)


def steps(readme: str) -> Iterator[Step]:
    for section in readme.split("\n## "):
        heading = section.partition("\n")[0]
        for found in FENCED.finditer(section):
            text = found["program"] or found["line"].partition("  #")[0].strip()
            language = found["language"] if found["program"] else "bash"
            if language and not text.startswith("#"):
                yield Step(heading, language, text)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 130
    assert len(README.split()) <= 900


def test_steps_are_found() -> None:
    readme = """# A

## B

    a  # no
    b

text

```python
c
    d
```

```
no
```

## C

    # no
    e
"""
    found = list(steps(readme))

    assert found == [
        Step("B", "bash", "a"),
        Step("B", "bash", "b"),
        Step("B", "python", "c\n    d\n"),
        Step("C", "bash", "e"),
    ]


def test_what_goes_on_is_in_it() -> None:
    texts = [step.text for step in steps(README)]
    for begin in (*GOES_ON, *NOT_WALKED, STOPPED_AT_ONCE):
        assert len([text for text in texts if text.startswith(begin)]) == 1, begin
    assert {step.section for step in steps(README)} > ENVIRONMENT_OF_THEIR_OWN


class Newcomer:
    """Somebody with a clone, and a terminal for each command that goes on."""

    def __init__(self, directory: Path) -> None:
        self.clone = directory / "clone"
        self._directory = directory
        self._preambles: dict[str, str] = {}
        self._running: list[tuple[Step, subprocess.Popen[bytes], Path]] = []
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        self.clone.mkdir()
        files = subprocess.run(
            ["tar", "--create", "--null", "--no-recursion", "--ignore-failed-read", "--files-from=-"],
            cwd=ROOT,
            input=names,
            capture_output=True,
            check=True,
        ).stdout
        subprocess.run(["tar", "--extract"], cwd=self.clone, input=files, check=True)

    def take(self, step: Step) -> None:
        """Type it, and wait until it works."""
        if step.text.startswith(". "):
            self._preambles[""] = step.text
            return
        log = self._directory / f"step{len(list(self._directory.glob('step*')))}"
        typed = step.text
        if step.language == "python":
            program = log.with_suffix(".py")
            program.write_text(step.text)
            typed = f"python -u {program}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                # As a terminal has it: what starts these tests may have signals ignored.
                ["env", "--default-signal=INT", "bash", "-c", f"{self._preamble(step)}\n{typed}"],
                cwd=self.clone,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append((step, process, log))

        def is_over() -> bool:
            # `make run` says before that what to do "when the coordinator is running:".
            said = None if step.said is None else re.compile(re.escape(step.said) + "(?!:)")
            return process.poll() is not None or (
                said is not None and said.search(log.read_text(errors="replace")) is not None
            )

        patience = 10 if step.text.startswith(("make", "pip")) else 1
        for _ in range(patience):
            try:
                wait_for(is_over)
                break
            except AssertionError:
                continue
        told = f"{step.text}\n{log.read_text(errors='replace')}"
        if step.said is None:
            assert process.poll() == 0, told
        else:
            assert process.poll() is None, told

    def _preamble(self, step: Step) -> str:
        if step.section not in ENVIRONMENT_OF_THEIR_OWN:
            return self._preambles.get("", "")
        if step.section not in self._preambles:
            environment = (
                self._directory / "program" if step.section != "Run it" else self._directory / "server"
            )
            if not environment.exists():
                subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            self._preambles[step.section] = f". {environment}/bin/activate"
        return self._preambles[step.section]

    def _environment(self) -> dict[str, str]:
        own = str(Path(sys.executable).parent)
        path = [each for each in os.environ["PATH"].split(os.pathsep) if each != own]
        hidden = ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")
        kept = {name: it for name, it in os.environ.items() if name not in hidden}
        return kept | {"PATH": os.pathsep.join(path), "TMPDIR": str(self._directory)}

    def stop(self, begin: str = "") -> None:
        """Press Ctrl-C where a command that begins so still runs."""
        for step, process, log in self._running[::-1]:
            if step.text.startswith(begin) and process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(PATIENCE_S)
                assert "Traceback" not in log.read_text() or step.language == "python", log.read_text()

    def kill(self) -> None:
        for _, process, _ in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.spark
@pytest.mark.verify
@pytest.mark.timeout(3_600)
def test_every_command_works_as_it_is_written(tmp_path: Path) -> None:
    for port in (9092, 9464, 9465):
        assert is_free(port, host=""), f"port {port} is taken: end what has it, and start again"
    newcomer = Newcomer(tmp_path)
    with ExitStack() as stack:
        stack.callback(newcomer.kill)
        for step in steps(README):
            if step.text in NOT_WALKED:
                continue
            if step.text.startswith("group-coordinator run"):
                # From here on it is about a Kafka that is there already.
                newcomer.stop()
                broker = EmbeddedBroker(tmp_path / "kafka", port=9092)
                stack.enter_context(broker)
            newcomer.take(step)
            if step.text.startswith(STOPPED_AT_ONCE):
                newcomer.stop(step.text)
        newcomer.stop()


@pytest.mark.spark
@pytest.mark.verify
def test_somebody_who_plays_may_do_so_twice(tmp_path: Path) -> None:
    """Each has ports of its own, and the page."""
    with ExitStack() as stack:
        games = []
        for _ in range(2):
            games.append(Process(tmp_path, "run", "--embedded"))
            stack.callback(games[-1].kill)
            games[-1].wait_for("the coordinator is running")
        for line in ("Kafka is at ", "metrics are at ", "the page is at "):
            first, second = (game.wait_for(line) for game in games)
            assert first != second
        for game in games:
            page = game.wait_for("the page is at ")
            with urllib.request.urlopen(page, timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            game.terminate()
            assert game.exit_code() == 0
