"""The jars Spark and the embedded broker run on: pinned in jars.lock, kept in a cache, verified at every use.

`python -m group_coordinator.deploy.jars [section ...]` fills the cache, by default with all that users need.
Jars come from Maven Central, or from the mirror that $GROUP_COORDINATOR_MAVEN_URL names.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from group_coordinator.deploy.download import PART, DownloadError, WrongFileError, download

LOCK = Path(__file__).with_name("jars.lock")
TESTS_ONLY = ("broker-3.9", "broker-4.4", "hdfs", "connect", "streams", "kroxylicious")
"""Sections that only tests and benchmarks fetch: 255 MB more, of which RocksDB is 73 and HDFS 56."""
ON_REQUEST = ("s3a", *TESTS_ONLY)
"""Sections that are fetched only if somebody names them. AWS's SDK is 686 MB."""

_MAVEN_CENTRAL = "https://repo.maven.apache.org/maven2"
_MAVEN_VARIABLE = "GROUP_COORDINATOR_MAVEN_URL"
_THREADS = 8
_TRIES = 2
# Nobody works any longer on an unfinished file that is as old as that.
_ABANDONED_AFTER_S = 24 * 60 * 60


class JarError(Exception):
    """A jar cannot be had as locked; the message is one line that names the jar and says what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of jars.lock; `sha256` is in lower-case hex."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""
    """One of several jars of the artifact, such as that for a platform."""

    @property
    def coordinate(self) -> str:
        """The name for it: group:artifact:version, and the classifier if it has one."""
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))

    @property
    def filename(self) -> str:
        """Its name in the cache; with the group, since artifact names repeat."""
        return f"{self.group}_{self._name}"

    @property
    def path(self) -> str:
        """Its path in a Maven repository, relative to the repository's address."""
        folder = self.group.replace(".", "/")
        return f"{folder}/{self.artifact}/{self.version}/{self._name}"

    @property
    def _name(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"


def read_lock(section: str) -> list[Jar]:
    """Return the jars of one section of jars.lock, in the order they are written.

    Raises JarError if there is no such section.
    """
    sections = _sections()
    if section not in sections:
        raise JarError(f"jars.lock has no section [{section}]. Choose from: {', '.join(sections)}.")
    return sections[section]


def maven_url() -> str:
    """Return the address of the Maven repository, without a slash at its end.

    Raises JarError if $GROUP_COORDINATOR_MAVEN_URL is none.
    """
    url = os.environ.get(_MAVEN_VARIABLE) or _MAVEN_CENTRAL
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    except ValueError:
        is_usable = False
    if not is_usable:
        # It is not repeated: it may have a password in it.
        raise JarError(
            f"{_MAVEN_VARIABLE} is no address of a Maven repository. Give one with http or https and without "
            f"a password, such as {_MAVEN_CENTRAL}."
        )
    return url.rstrip("/")


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


def are_there(*sections: str) -> bool:
    """Whether the cache has all jars of the sections, so that `fetch` has nothing to fetch."""
    cache = cache_dir()
    return all(_is_cached(cache / jar.filename, jar) for section in sections for jar in read_lock(section))


def _is_cached(path: Path, jar: Jar) -> bool:
    try:
        return _sha256(path) == jar.sha256
    except OSError:  # not there, or not to be read: fetching it says what is wrong, if anything is
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(jars: list[Jar], cache: Path, *, progress: bool) -> None:
    repository = maven_url()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(cache)
    except OSError as error:
        raise JarError(_cannot_write(error)) from error
    with _shown(len(jars), cache, visible=progress) as fetched:
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jars")
        try:
            for done in as_completed([pool.submit(_fetch_one, jar, repository, cache) for jar in jars]):
                fetched(done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _remove_abandoned(cache: Path) -> None:
    """Remove the unfinished files of processes that were killed."""
    before = time.time() - _ABANDONED_AFTER_S
    for part in cache.glob(f".*{PART}"):
        try:
            if part.stat().st_mtime < before:
                part.unlink()
        except FileNotFoundError:  # another process has finished or removed it
            continue


def _fetch_one(jar: Jar, repository: str, cache: Path) -> int:
    """Put one verified jar in the cache and return its size in bytes."""
    problem = ""
    for _ in range(_TRIES):
        try:
            return download(f"{repository}/{jar.path}", cache / jar.filename, jar.sha256)
        except WrongFileError as error:
            problem = f"{error}. Do not use it; look for a proxy or mirror that changes files."
        except DownloadError as error:
            problem = (
                f"{error}. Check the network (HTTPS_PROXY is honoured) or name a mirror in {_MAVEN_VARIABLE} "
                "and run the command again; fetched jars are kept."
            )
        except OSError as error:
            raise JarError(_cannot_write(error)) from error
    raise JarError(f"Cannot fetch {jar.coordinate}: {problem}")


def _cannot_write(error: OSError) -> str:
    return f"Cannot write to the jar cache: {error}. Set GROUP_COORDINATOR_CACHE to a folder of yours."


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


def _sections() -> dict[str, list[Jar]]:
    sections: dict[str, list[Jar]] = {}
    current: list[Jar] = []
    text = LOCK.read_text(encoding="utf-8")
    for line in (raw.partition("#")[0].strip() for raw in text.splitlines()):
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line:
            coordinate, sha256 = line.split()
            group, artifact, version, *classifier = coordinate.split(":")
            current.append(Jar(group, artifact, version, sha256, *classifier))
    return sections


def main() -> int:
    """Fill the cache from the command line; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m group_coordinator.deploy.jars", description="Fill the cache."
    )
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(_sections()))
    arguments = parser.parse_args()
    try:
        fetch(
            *(arguments.sections or (name for name in _sections() if name not in ON_REQUEST)), progress=True
        )
    except JarError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; fetched jars are kept.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
