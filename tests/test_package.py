"""What is installed has one import name, `group_coordinator`, and all of it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
NAME = "group_coordinator"
PLATE = ROOT / "src" / NAME
ROOMS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rooms"]["names"]
# Imports all modules that the commands need, as somebody does who starts them in the repository.
PROGRAM = f"""
import pkgutil, sys
import {NAME}
for module in pkgutil.walk_packages({NAME}.__path__, "{NAME}."):
    if not module.name.endswith("__main__"):
        __import__(module.name)
print(*sys.modules)
"""


def tracked() -> list[str]:
    """Files of the repository, those that are to be committed next included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_symlink() or (ROOT / name).exists()]


def test_the_plate_has_a_link_to_each_room_and_to_nothing_else() -> None:
    links = {entry.name: str(entry.readlink()) for entry in PLATE.iterdir() if entry.is_symlink()}
    assert links == {room: f"../../{room}" for room in ROOMS}
    own = {entry.name for entry in PLATE.iterdir()} - links.keys() - {"__pycache__"}
    assert own == {"__init__.py", "__main__.py", "py.typed"}


def test_every_folder_with_packages_is_a_room() -> None:
    tops = {name.split("/")[0] for name in tracked() if name.endswith("/__init__.py")}
    assert tops - {"src", "tests", "benchmarks", "examples"} == set(ROOMS)


def test_no_room_is_imported_by_its_bare_name() -> None:
    """Under two names a module would be there twice, and its classes would not be each other's."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert {f"{NAME}.{room}" for room in ROOMS} <= set(loaded)
    assert {name for name in loaded if name.split(".")[0] in ROOMS} == set()


def test_nothing_asks_for_a_bare_name() -> None:
    bare = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(ROOMS)})\b", re.MULTILINE)
    asking = {name for name in tracked() if name.endswith(".py") and bare.search((ROOT / name).read_text())}
    assert asking == set()


@pytest.mark.parametrize("has_links", [pytest.param(True, marks=pytest.mark.verify), False])
def test_the_wheel_is_what_the_rooms_are(tmp_path: Path, has_links: bool) -> None:
    """Also where links cannot be, as in an archive that was unpacked on a system without them."""
    source = tmp_path / "source"
    for name in tracked():
        if (ROOT / name).is_symlink() and not has_links:
            continue
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source]
    subprocess.run(command, check=True, timeout=PATIENCE_S)

    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    code = {f"{NAME}/{name}" for name in tracked() if name.split("/")[0] in ROOMS and name.endswith(".py")}
    assert {name for name in packed if name.endswith(".py")} == code | {
        f"{NAME}/__init__.py",
        f"{NAME}/__main__.py",
    }
    data = {f"{NAME}/py.typed", f"{NAME}/jobs/log4j2.properties", f"{NAME}/deploy/jars.lock"}
    assert data <= packed
    assert any(name.startswith(f"{NAME}/page/static/") for name in packed)
    assert {name.split("/")[0] for name in packed} == {NAME}
