"""Packs the coordinator for spark-submit: `python -m group_coordinator.deploy.submit --output dist`.

It packs what is installed here, so the same code runs here and there. Executors get it as an archive and not
by `--py-files`: those stay zipped, and Python cannot import native code from a zip file.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from group_coordinator.deploy.jars import JarError, fetch

_NAME = "group-coordinator"
_EXTRAS = ("delta", "spark")
_PACKAGE = "group_coordinator"
# Spark brings its own; another one, first on the path, would be of another version sooner or later.
_OF_SPARK = frozenset({"pyspark", "py4j"})

# As far as PEP 508 has to be read: the name a requirement begins with, and the extra it is for.
_REQUIREMENT = re.compile(r"""(?P<name>[A-Za-z0-9._-]+)(?:.*\bextra == ['"](?P<extra>[^'"]+)['"])?""")


class PackError(Exception):
    """The coordinator cannot be packed; the message is one line that says what to do."""


def pack(output: Path) -> None:
    """Write into the folder `output` what spark-submit needs, in place of what is there from before.

    * `group-coordinator/`: the coordinator and the packages it needs, for the driver; `main.py` in it is the
      command `group-coordinator`;
    * `group-coordinator.zip`: the same for the executors;
    * `jars/`: the jars of jars.lock.

    Native code in the packages fits this machine's operating system, processor and version of Python, and no
    other. Raises `PackError` if a package is not installed, `JarError`, and `OSError`.
    """
    project = _installed(_NAME)
    needed = _needed(project)
    jars = fetch("spark", progress=True)
    folder = output / _NAME
    for old in (folder, output / "jars"):
        if old.exists():
            shutil.rmtree(old)
        old.mkdir(parents=True)
    _copy_project(project, folder)
    for installed in needed:
        _copy(installed, folder)
    # Python searches the folder of the program it runs first, so the driver needs no path.
    shutil.copy(folder / _PACKAGE / "__main__.py", main_program(output))
    # Less compression than zip's default takes a third of the time and a tenth more space.
    with ZipFile(f"{folder}.zip", "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    for jar in jars:
        shutil.copy(jar, output / "jars")


def spark_options(output: Path) -> list[str]:
    """Return the options of spark-submit for a folder that `pack` has written, as words of a command line."""
    folder = output / _NAME
    return [
        # spark-submit would otherwise call it after the program, which is main.py.
        *("--name", _NAME),
        *("--jars", ",".join(str(jar) for jar in sorted((output / "jars").iterdir()))),
        *("--archives", f"{folder}.zip#{_NAME}"),
        # Executors unpack archives in the folder they run in.
        *("--conf", f"spark.executorEnv.PYTHONPATH={_NAME}"),
        *("--conf", f"spark.pyspark.python=python{sys.version_info.major}.{sys.version_info.minor}"),
        # The driver's JVM runs before the coordinator can say how it is to log.
        *(
            "--driver-java-options",
            f"-Dlog4j2.configurationFile={folder / _PACKAGE / 'jobs' / 'log4j2.properties'}",
        ),
    ]


def main_program(output: Path) -> Path:
    """The program of a folder that `pack` has written: the command `group-coordinator`."""
    return output / _NAME / "main.py"


def _needed(by: Distribution) -> list[Distribution]:
    """What the project needs and what that needs, without Spark."""
    found = {name: _installed(name) for name in _required(by, *_EXTRAS)}
    unseen = list(found)
    while unseen:
        for name in _required(found[unseen.pop()]) - found.keys():
            # A package that pip has not installed is for another platform or an older Python.
            with suppress(PackageNotFoundError):
                found[name] = distribution(name)
                unseen.append(name)
    return list(found.values())


def _required(by: Distribution, *extras: str) -> set[str]:
    """Normalized names (PEP 503) of what `by` requires, always and with `extras`."""
    matches = [match for line in by.requires or () if (match := _REQUIREMENT.match(line))]
    names = (match["name"] for match in matches if match["extra"] in (None, *extras))
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names} - _OF_SPARK


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise PackError(f"{name} is not installed here. Run: pip install '.[{','.join(_EXTRAS)}]'") from None


def _copy(installed: Distribution, folder: Path) -> None:
    for file in installed.files or ():
        # Not the scripts (../../../bin), nor byte code, which Python makes again.
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(installed.locate_file(file)), target)


def _copy_project(project: Distribution, folder: Path) -> None:
    """Its sources, which may be installed as a link only, and what `--version` reads."""
    source = Path(*import_module(_PACKAGE).__path__)
    # In a checkout its folders are links, which copytree follows.
    shutil.copytree(source, folder / _PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / f"group_coordinator-{project.version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {project.version}\n")


def main() -> int:
    """Run the command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m group_coordinator.deploy.submit")
    parser.add_argument(
        "--output", type=Path, default=Path("dist"), help="folder to write to (default: dist)"
    )
    output = parser.parse_args().output
    try:
        pack(output)
    except (PackError, JarError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Packed into {output}. To run it, with the master and the settings you have:\n")
    print("spark-submit --master spark://HOST:7077", shlex.join(spark_options(output)), "\\")
    print(f"  {shlex.quote(str(main_program(output)))} run --config coordinator.toml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
