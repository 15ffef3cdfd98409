from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from group_coordinator.deploy.java import JavaNotFound, find_java, java_version
from tests.rooms import ROOT


def fake_java(folder: Path, script: str) -> Path:
    java = folder / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def saying(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-04-15' >&2"""


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("1.8.0_392", 8),
        ("9", 9),
        ("11.0.22", 11),
        ("17.0.15", 17),
        ("21", 21),
        ("25-ea", 25),
        ("17.0.15+6-LTS", 17),
    ],
)
def test_reads_the_major_version(tmp_path: Path, text: str, major: int) -> None:
    assert java_version(fake_java(tmp_path, saying(text))) == major


def test_noise_before_the_version_does_not_matter(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; " + saying("21.0.3"))

    assert java_version(java) == 21


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "home" / "bin", saying("21.0.3"))
    on_path = fake_java(tmp_path / "path", saying("17.0.15"))
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))

    assert find_java() == home

    monkeypatch.delenv("JAVA_HOME")

    assert find_java() == on_path


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (saying("11.0.22"), "found Java 11 at "),
        (saying("1.8.0_392"), "found Java 8 at "),
        ("exit 1", "does not run"),
        ("echo hello", "does not say its version"),
    ],
)
def test_an_unusable_java_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    java = fake_java(tmp_path / "bin", script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFound) as raised:
        find_java()

    message = str(raised.value)
    assert message.startswith("Java 17 or newer is needed; ")
    assert problem in message
    assert str(java) in message
    assert "JAVA_HOME" in message
    assert "\n" not in message


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaNotFound, match="none is on PATH and JAVA_HOME is not set"):
        find_java()


def run_module(java_home: Path) -> subprocess.CompletedProcess[str]:
    # -S: without site-packages, as make runs it before anything is installed
    return subprocess.run(
        [sys.executable, "-S", "deploy/java.py"],
        cwd=ROOT,
        env={"JAVA_HOME": str(java_home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_module_prints_the_java_in_use(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "bin", saying("17.0.15"))

    done = run_module(tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"Java 17 at {java}\n", "")


def test_the_module_fails_with_that_one_line(tmp_path: Path) -> None:
    fake_java(tmp_path / "bin", saying("11.0.22"))

    done = run_module(tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "found Java 11" in done.stderr
