"""Where commands write: outputs that lack letters, are closed or full; and arguments that are no text."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka.structs import TopicPartition

from group_coordinator.commands.groups.plan import Planned, read_plan, written_plan
from group_coordinator.commands.output import open_streams
from group_coordinator.commands.tables import Column, Failure, File, Report, Table
from group_coordinator.commands.terminal import show

NAMES = [
    "grüß",
    "日本",
    "🙂",
    "esc",
    "esc\x1b[0m",
    're\x1b[2Kd\r\n"x",y',
    " blank ",
    "z\u200b",
    "\u202e",
    "x" * 300,
]
COMMAND = (sys.executable, "-m", "group_coordinator")
FULL = Path("/dev/full")


def report() -> Report:
    return Report([Table((Column("GROUP", grows=True),), [(name,) for name in NAMES])])


def in_latin_1(monkeypatch: pytest.MonkeyPatch, report: Report, form: str = "table") -> bytes:
    """What is written to a stdout in Latin-1."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", newline="")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        open_streams()
        show(report, form)
    out.seek(0)
    return out.buffer.read()


def test_letters_that_an_output_lacks_are_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = in_latin_1(monkeypatch, report()).decode("latin-1").splitlines()
    assert lines[2:5] == ["grüß", r"\u65e5\u672c", r"\ud83d\ude42"]
    assert len(lines) == len(NAMES) + 2


def test_json_is_the_same_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    written = in_latin_1(monkeypatch, report(), "json")

    assert written.isascii()
    assert json.loads(written) == [{"group": name} for name in NAMES]


def test_an_export_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offsets = {name: {TopicPartition(f"t{name}", 1): 7} for name in NAMES}
    written = in_latin_1(monkeypatch, Report([File(written_plan(offsets, with_groups=True))]))

    (tmp_path / "plan.csv").write_bytes(written)
    planned = [Planned(name, TopicPartition(f"t{name}", 1), 7) for name in NAMES]
    assert read_plan(str(tmp_path / "plan.csv")) == planned


def test_a_message_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    show(Report([Failure("no g\nerror: all \u202eis lost\x1b[2J")]), "csv")

    assert capfd.readouterr() == ("", "error: no g\\nerror: all \\u202eis lost\\x1b[2J\n")


def run(*arguments: str | bytes, out: int | None = None, **environment: str) -> tuple[int, bytes]:
    """The exit code of a command, and what it writes to stderr."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdout=subprocess.DEVNULL if out is None else out,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("history", "g", "--sql"), ("groups", "--help")])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        assert run(*arguments, out=full.fileno()) == (
            1,
            b"error: cannot write the output: No space left on device\n",
        )


def test_a_reader_that_goes_is_no_error_to_tell() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert run("history", "g", "--sql", out=writer) == (1, b"")
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        (">&-", (1, b"error: cannot write the output: Bad file descriptor\n")),
        (">&- 2>&-", (1, b"")),
        ("<&- 2>&-", (0, b"")),
    ],
)
def test_streams_that_are_closed(closed: str, expected: tuple[int, bytes]) -> None:
    line = f'"$@" history g --sql {closed}'
    done = subprocess.run(["sh", "-c", line, "sh", *COMMAND], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == expected


def test_what_is_opened_does_not_take_the_place_of_a_closed_stream() -> None:
    code = (
        "from group_coordinator.commands.output import open_streams; import os; open_streams();"
        "assert os.open('/dev/null', os.O_RDONLY) > 2"
    )
    line = '"$@" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", line, "sh", sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("groups", "--describe", "--group", b"B\xfcro"),
        ("history", b"\xff", "--sql"),
        ("checkpoint", "inspect", b"/tmp/\xff"),
        ("groups", "--list", "--command-config", b"\xff.properties"),
    ],
)
def test_an_argument_that_is_no_text_is_wrong_usage(arguments: tuple[str | bytes, ...]) -> None:
    code, told = run(*arguments, PYTHONUTF8="1")

    assert code == 2
    (line,) = told.decode().splitlines()
    assert line.startswith("error: argument '")
    assert "is not text in UTF-8" in line


def test_a_setting_of_the_environment_that_is_no_text_is_wrong_usage() -> None:
    code, told = run("groups", "--list", PYTHONUTF8="1", GROUP_COORDINATOR_BOOTSTRAP_SERVERS="\udcff")

    assert (code, told.splitlines()[-1].partition(b":")[0]) == (2, b"error")
