"""Which folders of the repository are which packages: the list of rooms is in pyproject.toml, once."""

import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
NAME = "group_coordinator"
ROOMS = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["rooms"]["names"]
FOLDERS = {NAME: f"src/{NAME}"}
for room in ROOMS:
    for file in (HERE / room).rglob("__init__.py"):
        folder = file.parent.relative_to(HERE).as_posix()
        FOLDERS[f"{NAME}.{folder.replace('/', '.')}"] = folder

setup(packages=sorted(FOLDERS), package_dir=FOLDERS)
