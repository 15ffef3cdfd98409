"""The demo as its audience starts it: the whole story, and an audience that leaves early."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, wait_for
from tests.rooms import ROOT

pytestmark = pytest.mark.spark

COMMAND = [sys.executable, "-m", "group_coordinator", "demo"]


class Audience:
    """A demo, and a mark in the environment by which everything that it starts is found."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory / "output.txt"
        self._mark = f"DEMO_TEST={directory}".encode()
        environment = os.environ | {"DEMO_TEST": str(directory), "TMPDIR": str(directory)}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                COMMAND, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
            )

    def wait_to_read(self, text: str) -> None:
        def is_read() -> bool:
            said = self.output.read_text()
            assert self.process.poll() is None or text in said, said
            return text in said

        wait_for(is_read, said=self.output.read_text)

    def survivors(self) -> list[str]:
        """Command lines of everything that was started and still runs."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:  # it has ended, or is somebody else's
                continue
        return found

    def left_files(self) -> set[str]:
        return {entry.name for entry in self.directory.iterdir()} - {self.output.name}


@pytest.fixture
def audience(tmp_path: Path) -> Iterator[Audience]:
    audience = Audience(tmp_path)
    yield audience
    audience.process.kill()
    audience.process.wait()


def test_the_story_ends_well(audience: Audience) -> None:
    # On a busy machine it takes three times as long.
    exit_code = audience.process.wait(timeout=3 * PATIENCE_S)

    told = audience.output.read_text()
    assert exit_code == 0, told
    for line in (
        "Kafka is at 127.0.0.1:",
        "coordinator: catching up with the log",
        "Stable -> PreparingRebalance: session of java-2 expired",
        "Stable -> PreparingRebalance: worker-3 left",
        "Stable -> PreparingRebalance: java-4 joined",
        "Stable -> PreparingRebalance: worker-5 joined",
        "PreparingRebalance -> Empty: no members are left",
        "at the broker: java-6 has joined",
        "at the broker: java-6 has gone: the broker's log does not say why",
        "went: java-6, cause unknown",
        "0 missing",
        "  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CLIENT-ID\n",
        "no lag",
    ):
        assert line in told
    # The outage changes nothing. On a busy machine a member may have joined twice before it.
    outage = re.search(
        r"the group before: (Stable, generation \d+, java-4, worker-1)\n.*the group now: +(.*)\n", told
    )
    assert outage is not None
    assert outage[1] == outage[2]
    assert told.count("coordinator: Spark 4.") == 2
    assert told.count(" held ") == 11
    assert "Next: `make run`" in told
    assert "FAILED" not in told
    assert re.search(r"First assignment \d+\.\d s after the start", told)
    assert audience.survivors() == []
    # But for the picture, which it says where to find.
    (picture,) = audience.left_files()
    assert str(audience.directory / picture) in told.replace("\n", "")
    drawn = (audience.directory / picture).read_text()
    for name in ("worker-1", "java-2", "worker-3", "java-4", "worker-5", "no coordinator for"):
        assert name in drawn


@pytest.mark.verify
@pytest.mark.parametrize(
    ("scene", "number"),
    [
        ("Kafka starts", signal.SIGINT),
        ("waiting for Spark to start", signal.SIGTERM),
    ],
)
def test_whoever_leaves_early_leaves_nothing_behind(
    audience: Audience, scene: str, number: signal.Signals
) -> None:
    audience.wait_to_read(scene)
    assert len(audience.survivors()) > 1 or scene == "Kafka starts"

    audience.process.send_signal(number)

    assert audience.process.wait(timeout=PATIENCE_S) == 130
    assert "Interrupted; everything that was started has ended." in audience.output.read_text()
    assert audience.survivors() == []
    assert audience.left_files() == set()
