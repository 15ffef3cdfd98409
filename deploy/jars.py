"""The jars Spark and the embedded broker run on: pinned in jars.lock, kept in a cache, verified at every use.

`python -m group_coordinator.deploy.jars fetch [section ...]` fills the cache, with all sections by default;
`python -m group_coordinator.deploy.jars lock` resolves jars.lock anew from ROOTS.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from group_coordinator.deploy.extras import how_to_install

LOCK = Path(__file__).with_name("jars.lock")

# What jars.lock is made from. Spark's list is complete as it stands (Spark itself brings the rest);
# the broker's is closed over its runtime dependencies, which are also what Kafka's own tools need.
ROOTS = {
    "spark": (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    ),
    "broker": (
        "org.apache.kafka:kafka_2.13:4.2.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",  # without a binding the broker logs nothing
    ),
    "local": ("com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",),
    "tools": ("org.apache.kafka:kafka-tools:4.2.0",),
}
_CLOSED = ("broker",)

_THREADS = 8
_TRIES = 2
_TIMEOUT_S = 30
_ADVICE = "Check the network (HTTPS_PROXY is honoured) and run the command again; fetched jars are kept."


class JarError(Exception):
    """A jar cannot be had as locked; the message is one line that names the jar and says what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of jars.lock; `sha256` is in lower-case hex."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """Maven's name for it: group:artifact:version."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def filename(self) -> str:
        """Its name in the cache; with the group, since artifact names repeat."""
        return f"{self.group}_{self.artifact}-{self.version}.jar"


def read_lock(section: str) -> list[Jar]:
    """Return the jars of one section of jars.lock, in the order they are written.

    Raises JarError if there is no such section.
    """
    sections = _parse(LOCK.read_text(encoding="utf-8"))
    if section not in sections:
        raise JarError(f"jars.lock has no section [{section}]. Choose from: {', '.join(sections)}.")
    return sections[section]


def cache_dir() -> Path:
    """Return the folder of the jars: below $GROUP_COORDINATOR_CACHE, else the user's cache folder."""
    if own := os.environ.get("GROUP_COORDINATOR_CACHE"):
        return Path(own, "jars")
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(users, "group-coordinator", "jars")


def fetch(*sections: str, progress: bool = False) -> list[Path]:
    """Return the verified jars of the sections, in lock order, fetching those the cache does not have.

    With `progress`, what is being fetched shows on stderr: a bar on a terminal, else a line. Safe to run
    in several processes at once. Raises JarError if a jar cannot be fetched or is not the locked one.
    """
    jars = [jar for section in sections for jar in read_lock(section)]
    cache = cache_dir()
    missing = [jar for jar in dict.fromkeys(jars) if not _is_cached(cache / jar.filename, jar)]
    if missing:
        _download(missing, cache, progress=progress)
    return [cache / jar.filename for jar in jars]


def _is_cached(path: Path, jar: Jar) -> bool:
    try:
        return _sha256(path) == jar.sha256
    except OSError:  # not there, or not to be read: fetching it says what is wrong, if anything is
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(jars: list[Jar], cache: Path, *, progress: bool) -> None:
    # Into a folder of our own on the same disk, then renamed one by one: a kill half-way or another
    # process doing the same never leaves half a jar under a final name.
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache)
    except OSError as error:
        raise JarError(
            f"Cannot write to the jar cache: {error}. Set GROUP_COORDINATOR_CACHE to a folder of yours."
        ) from error
    with scratch as folder, _shown(len(jars), cache, visible=progress) as fetched:
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jars")
        try:
            for done in as_completed([pool.submit(_fetch_one, jar, cache, Path(folder)) for jar in jars]):
                fetched(done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _fetch_one(jar: Jar, cache: Path, scratch: Path) -> int:
    """Put one verified jar in the cache and return its size in bytes."""
    problem = ""
    for attempt in range(_TRIES):
        try:
            path = _resolve(jar, scratch / f"{attempt}")
        except (OSError, RuntimeError) as error:  # jgo's own, and those of the HTTP library below it
            problem = f"Cannot fetch {jar.coordinate} ({type(error).__name__}). {_ADVICE}"
            continue
        found = _sha256(path)
        if found == jar.sha256:
            size = path.stat().st_size
            path.replace(cache / jar.filename)
            return size
        problem = (
            f"{jar.coordinate} is not the locked jar: expected SHA-256 {jar.sha256}, found {found}. "
            "Do not use it; look for a proxy or mirror that changes files."
        )
    raise JarError(problem)


def _resolve(jar: Jar, repository: Path) -> Path:
    """Let jgo download a jar into a Maven repository folder."""
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise JarError(
            f"Fetching jars needs jgo, which is not installed. {how_to_install('spark')}"
        ) from error
    context = MavenContext(repo_cache=repository, timeout=_TIMEOUT_S)
    return Path(context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve())


@contextmanager
def _shown(total: int, cache: Path, *, visible: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the size in bytes of each fetched jar."""
    # Not above: what is fetched already can be used, and packed, without it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, quiet=not visible, soft_wrap=True)
    megabytes = 0.0
    if not console.is_terminal:
        console.print(f"Fetching {total} jars into {cache}", highlight=False)
    bar = Progress(
        TextColumn("Fetching jars"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[megabytes]:.1f} MB"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal or not visible,
    )
    with bar:
        task = bar.add_task("", total=total, megabytes=megabytes)

        def fetched(size: int) -> None:
            nonlocal megabytes
            megabytes += size / 1e6
            bar.update(task, advance=1, megabytes=megabytes)

        yield fetched
    if not console.is_terminal:
        console.print(f"Fetched {total} jars, {megabytes:.1f} MB", highlight=False)


def _parse(text: str) -> dict[str, list[Jar]]:
    sections: dict[str, list[Jar]] = {}
    current: list[Jar] = []
    for line in (raw.partition("#")[0].strip() for raw in text.splitlines()):
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line:
            coordinate, sha256 = line.split()
            current.append(Jar(*_split(coordinate), sha256))
    return sections


def _split(coordinate: str) -> tuple[str, str, str]:
    group, artifact, version = coordinate.split(":")
    return group, artifact, version


def _lock() -> str:
    """Resolve ROOTS and return the text of jars.lock."""
    lines = ["# Made by `make lock` from the roots in jars.py; coordinate, SHA-256"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_THREADS) as pool:
        for section, roots in ROOTS.items():
            coordinates = sorted(_closure(roots, Path(folder)) if section in _CLOSED else roots)
            jars = [Jar(*_split(coordinate), sha256="") for coordinate in coordinates]
            sums = pool.map(lambda jar: _sha256(_resolve(jar, Path(folder))), jars)
            lines += ["", f"[{section}]"]
            lines += [f"{coordinate} {sha256}" for coordinate, sha256 in zip(coordinates, sums, strict=True)]
    return "\n".join(lines) + "\n"


def _closure(roots: Iterable[str], repository: Path) -> set[str]:
    """Return the coordinates of the roots and all they need at run time."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=repository, timeout=_TIMEOUT_S)
    versions: dict[tuple[str, str], str] = {}
    for root in roots:
        # One by one: resolved together, what one root manages would change the versions of another's.
        inputs, further = context.resolver.resolve([context.create_dependency(root)])
        for found in [*inputs, *further]:
            version = versions.setdefault((found.groupId, found.artifactId), found.version)
            if version != found.version:
                raise JarError(
                    f"{root} needs {found.artifact.component}, another root {version}. "
                    "Choose versions in ROOTS that agree."
                )
    return {f"{group}:{artifact}:{version}" for (group, artifact), version in versions.items()}


def main() -> int:
    """Run the maintenance command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m group_coordinator.deploy.jars")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lock", help="resolve jars.lock anew")
    fetching = commands.add_parser("fetch", help="fill the cache")
    fetching.add_argument("sections", nargs="*", metavar="section", help=", ".join(ROOTS))
    arguments = parser.parse_args()
    try:
        if arguments.command == "lock":
            LOCK.write_text(_lock(), encoding="utf-8")
        else:
            fetch(*(arguments.sections or ROOTS), progress=True)
    except JarError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; fetched jars are kept.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
