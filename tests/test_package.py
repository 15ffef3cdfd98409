"""What is installed has one import name, `group_coordinator`, and all of it is there."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest

import group_coordinator
from tests.patience import PATIENCE_S
from tests.rooms import AT_THE_TOP, HOUSE, ROOMS, ROOT

NAME = "group_coordinator"
# In a program that is a string of another one.
PROGRAM_IMPORT = re.compile(r"(?:^|[;\n])[ \t]*(?:from|import)[ \t]+([\w.]+)")
# Functions that import what the name in their first argument begins with.
BY_NAME = {"delattr", "find_spec", "import_module", "patch", "run_module", "setattr"}
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


def bare_names(source: str) -> Iterator[str]:
    """What a file imports, has Python run or patches below a room's name without `group_coordinator`."""
    for node in ast.walk(ast.parse(source)):
        asked: list[str | None] = []
        match node:
            case ast.Import(names=names):
                asked = [name.name for name in names]
            case ast.ImportFrom(module=module, level=0):
                asked = [module]
            case ast.Constant(value=str(text)):
                asked = PROGRAM_IMPORT.findall(text)
            case ast.Call(
                func=ast.Attribute(attr=called) | ast.Name(id=called),
                args=[ast.Constant(value=str(name)), *_],
            ):
                asked = [name] if called in BY_NAME else []
            case ast.List(elts=words) | ast.Tuple(elts=words):
                texts = [word.value if isinstance(word, ast.Constant) else None for word in words]
                asked = [module for option, module in pairwise(texts) if option == "-m"]
        yield from (name for name in asked if isinstance(name, str) and name.split(".")[0] in AT_THE_TOP)


def test_the_house_has_a_link_to_each_room_at_the_top_and_to_nothing_else() -> None:
    links = {entry.name: str(entry.readlink()) for entry in HOUSE.iterdir() if entry.is_symlink()}
    assert links == {room: f"../../{room}" for room in AT_THE_TOP}


def test_the_package_has_what_it_names() -> None:
    assert [getattr(group_coordinator, name).__name__ for name in group_coordinator.__all__] == (
        group_coordinator.__all__
    )
    with pytest.raises(AttributeError, match="module 'group_coordinator' has no attribute 'streams'"):
        group_coordinator.streams  # noqa: B018


@pytest.mark.parametrize("package", [NAME, f"{NAME}.history", f"{NAME}.spark"])
def test_a_type_checker_sees_each_public_name(package: str) -> None:
    """One that `__getattr__` imports has a type only if it is imported under TYPE_CHECKING as well."""
    module = import_module(package)
    nodes = ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
    imported = {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
    assert set(module.__all__) - imported == set()


def test_every_folder_at_the_top_with_packages_is_a_room() -> None:
    tops = {name.split("/")[0] for name in tracked() if name.endswith("/__init__.py")}
    assert tops - {"src", "tests", "benchmarks", "examples"} == set(AT_THE_TOP)


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
    assert {name for name in loaded if name.split(".")[0] in AT_THE_TOP} == set()


def test_nothing_asks_for_a_bare_name() -> None:
    """Neither a file nor a program in a string of one, nor a name of a module that something is to import."""
    scanned = [name for name in tracked() if name.endswith(".py")]
    asking = {(name, bare) for name in scanned for bare in bare_names((ROOT / name).read_text())}
    assert asking == set()


@pytest.mark.parametrize(
    "source",
    [
        "import os, {room}",
        "def f():\n    from {room}.query import start",
        "import sys; import {room}.query as query",
        "command = ['-c', 'import sys; from {room}.query import start']",
        "command = ['-m', '{room}.daemon']",
        "monkeypatch.setattr('{room}.query.start', None)",
        "patch.setattr('{room}.query.start', None)",
        "import_module('{room}.query')",
    ],
)
def test_a_bare_name_is_found(source: str) -> None:
    assert [bare.split(".")[0] for bare in bare_names(source.format(room=AT_THE_TOP[0]))] == [AT_THE_TOP[0]]


@pytest.mark.parametrize(
    "source",
    [
        "from group_coordinator.{room} import query",
        "from group_coordinator import {room}",
        "from . import {room}",
        "command = ['-m', 'group_coordinator.{room}.daemon']",
        "settings = dict([('history.metrics.port', 0)])",
        "monkeypatch.setattr({room}, 'query', None)",
    ],
)
def test_other_names_are_none_of_them(source: str) -> None:
    assert list(bare_names(source.format(room=AT_THE_TOP[0]))) == []


def copy_to(source: Path, *, has_links: bool) -> None:
    """Copy the repository's files."""
    for name in tracked():
        if (ROOT / name).is_symlink() and not has_links:
            continue
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)


def assert_wheel_has_the_rooms(source: Path, directory: Path) -> None:
    """Build a wheel from a folder or an archive, and look at what is in it."""
    options = ["--quiet", "--no-deps", "--wheel-dir", directory]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, timeout=PATIENCE_S)

    (wheel,) = directory.glob("*.whl")
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {name.removeprefix("src/") for name in tracked() if name.startswith(f"src/{NAME}/")}
    files -= {f"{NAME}/{room}" for room in AT_THE_TOP}
    files |= {f"{NAME}/{name}" for name in tracked() if name.split("/")[0] in AT_THE_TOP}
    assert packed == {name for name in files if not name.endswith(".dockerignore")}


@pytest.mark.parametrize("has_links", [pytest.param(True, marks=pytest.mark.verify), False])
def test_the_wheel_is_what_the_rooms_are(tmp_path: Path, has_links: bool) -> None:
    """Also where links cannot be, as in an archive that was unpacked on a system without them."""
    copy_to(tmp_path / "source", has_links=has_links)
    assert_wheel_has_the_rooms(tmp_path / "source", tmp_path)


@pytest.mark.verify
def test_the_source_archive_has_all_files_once(tmp_path: Path) -> None:
    source, tools = tmp_path / "source", tmp_path / "tools"
    copy_to(source, has_links=True)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, *build]
    subprocess.run(install, check=True, timeout=PATIENCE_S)
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    environment = os.environ | {"PYTHONPATH": str(tools)}
    done = [sys.executable, "-c", program]
    subprocess.run(done, cwd=source, env=environment, check=True, capture_output=True, timeout=PATIENCE_S)

    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    links = {f"src/{NAME}/{room}" for room in AT_THE_TOP}
    assert names - made == {name for name in tracked() if not name.startswith(".")} - links
    assert_wheel_has_the_rooms(archive, tmp_path)
