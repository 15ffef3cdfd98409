"""The archive of classes: made by its command, and used by each session from then on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.jobs.test_session import run

pytestmark = [pytest.mark.spark, pytest.mark.verify]

IN = "import sys; sys.prefix = {prefix!r}\n"
USES_ARCHIVE = """
from pathlib import Path
from group_coordinator.jobs.session import create_session
from group_coordinator.streaming.settings import CoordinatorSettings
settings = CoordinatorSettings.load(None, {}, {"bootstrap.servers": "unused:9092", "checkpoint": "unused"})
spark = create_session(settings, settings.checkpoint)
jvm = spark.sparkContext._jvm.ProcessHandle.current().pid()
print("spark.jsa" in Path(f"/proc/{jvm}/maps").read_text())
spark.stop()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no /proc")
def test_a_session_maps_the_archive_that_was_made(tmp_path: Path) -> None:
    def python(program: str) -> list[str]:
        return [sys.executable, "-c", IN.format(prefix=str(tmp_path)) + program]

    session = python(USES_ARCHIVE)
    assert run(session).stdout.splitlines()[-1] == "False"
    run(python("from group_coordinator.jobs.archive import make_archive; make_archive()"))
    assert run(session).stdout.splitlines()[-1] == "True"

    # What Java cannot use it does without, and says nothing of it.
    archive = tmp_path / "spark.jsa"
    archive.unlink()
    archive.write_bytes(b"no archive")
    without = run(session)
    assert without.stdout.splitlines() == ["False"]
    assert "archive" not in without.stderr
