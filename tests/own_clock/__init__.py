"""A Kafka broker with a clock of its own, which a test can set.

All that Kafka knows of the time comes from its class `SystemTime`. A Java agent puts another class in its
place, whose milliseconds are so much ahead as a file says. Needs a JDK.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from group_coordinator.deploy.broker import SHORT_LIVED, EmbeddedBroker
from group_coordinator.deploy.jars import fetch
from tests.jdk import find_javac

_SOURCES = sorted(Path(__file__).parent.glob("*.java"))
_JAR = "own-clock.jar"
_MANIFEST = "Manifest-Version: 1.0\nPremain-Class: OwnClock\n"


class BrokerWithOwnClock(EmbeddedBroker):
    """An embedded broker whose clock is right until `set_clock`."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        heap_mb: int = 512,
        overrides: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        directory.mkdir()
        self._ahead = directory / "ahead-ms"
        self.set_clock(0)
        agent = f"-javaagent:{Path(_agent().name, _JAR)}={self._ahead}"
        super().__init__(
            directory,
            port=port,
            heap_mb=heap_mb,
            jvm_flags=(*SHORT_LIVED, agent),
            overrides=overrides,
            cluster_id=cluster_id,
        )

    def set_clock(self, ahead_ms: int) -> None:
        """Have the broker's clock jump. It is so much ahead of this machine's within a tenth of a second."""
        new = self._ahead.with_suffix(".new")
        new.write_text(str(ahead_ms))
        new.replace(self._ahead)


@cache
def _agent() -> tempfile.TemporaryDirectory[str]:
    """The directory with the agent, which is there until this process ends: the compiler takes seconds."""
    directory = tempfile.TemporaryDirectory(prefix="own-clock-")
    classes = Path(directory.name, "classes")
    classpath = os.pathsep.join(map(str, fetch("broker")))
    subprocess.run([find_javac(), "--release", "17", "-cp", classpath, "-d", classes, *_SOURCES], check=True)
    with zipfile.ZipFile(Path(directory.name, _JAR), "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", _MANIFEST)
        for each in classes.rglob("*.class"):
            jar.write(each, each.relative_to(classes))
    return directory
