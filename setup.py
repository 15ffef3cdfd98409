"""Which folders of the repository are which packages: those at its top are named in pyproject.toml, once."""

import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
HOUSE = HERE / "src" / "group_coordinator"
ROOMS = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["rooms"]

FOLDERS = {}
# Links to those at the top are not followed here, since there may be none.
for top, below in [(HOUSE, HOUSE), *((HERE, HERE / name) for name in ROOMS["at-the-top"])]:
    for file in below.rglob("__init__.py"):
        package = ".".join((HOUSE.name, *file.parent.relative_to(top).parts))
        FOLDERS[package] = file.parent.relative_to(HERE).as_posix()

setup(packages=sorted(FOLDERS), package_dir=FOLDERS)
