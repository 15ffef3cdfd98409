"""The locks install what they say, also once there are newer releases."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parents[1]


def pip(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "pip", *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def wheel(folder: Path, name: str, version: str, *needs: str) -> str:
    """Write a wheel of nothing but its metadata; returns its line of a lock."""
    file = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: more"]
    metadata += [f"Requires-Dist: {need}" for need in needs]
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join(metadata))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


def test_a_newer_release_does_not_break_the_installation(tmp_path: Path) -> None:
    """As coverage 7.17.4 did, which pytest-cov wants as `coverage[toml]`: the lock had 7.17.3."""
    lock = wheel(tmp_path, "plugin", "1.0", "library[more]>=1") + wheel(tmp_path, "library", "1.0")
    wheel(tmp_path, "library", "1.1")
    (tmp_path / "lock").write_text(lock)
    shown = subprocess.run(
        ("make", "--no-print-directory", "--eval", "shown: ; @echo $(INSTALL_LOCKED)", "shown"),
        cwd=HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    install = (*shown.stdout.split(), "--dry-run", "--requirement", str(tmp_path / "lock"))
    done = pip(*install, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Would install library-1.0 plugin-1.0" in done.stdout


def versions(lock: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==\S+", (HERE / lock).read_text(), re.MULTILINE))


def test_programs_and_tests_have_the_same_versions() -> None:
    assert versions("requirements.lock") < versions("requirements-dev.lock")


def test_the_lock_names_every_package_that_is_needed() -> None:
    done = pip("check")
    assert done.returncode == 0, done.stdout
