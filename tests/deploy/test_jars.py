from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import jgo.maven
import pytest

from group_coordinator.deploy import jars
from group_coordinator.deploy.jars import ROOTS, JarError, cache_dir, fetch, read_lock

GOOD = {"org.one:first:1.0": b"first jar", "org.two:second:2.0": b"second jar"}


class Repository:
    """Stands in for Maven Central: a download takes the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[bytes | Exception]] = {name: [content] for name, content in GOOD.items()}
        self.downloads: list[str] = []

    def context(self, repo_cache: Path, timeout: int) -> SimpleNamespace:
        def download(coordinate: str) -> Path:
            self.downloads.append(coordinate)
            answers = self.answers[coordinate]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            path = repo_cache / coordinate.replace(":", "/")
            path.parent.mkdir(parents=True)
            # A broken connection leaves half a file behind.
            path.write_bytes(b"half" if isinstance(answer, Exception) else answer)
            if isinstance(answer, Exception):
                raise answer
            return path

        def project(group: str, artifact: str) -> SimpleNamespace:
            def at_version(version: str) -> SimpleNamespace:
                resolve = SimpleNamespace(resolve=lambda: download(f"{group}:{artifact}:{version}"))
                return SimpleNamespace(artifact=lambda: resolve)

            return SimpleNamespace(at_version=at_version)

        return SimpleNamespace(project=project)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    lock = tmp_path / "jars.lock"
    lines = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in GOOD.items()]
    lock.write_text("# a comment\n\n[pair]\n" + "\n".join(lines) + "\n\n[one]\n" + lines[0] + "\n")
    monkeypatch.setattr(jars, "LOCK", lock)
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "cache"))
    repository = Repository()
    monkeypatch.setattr(jgo.maven, "MavenContext", repository.context)
    return repository


def cached_names() -> list[str]:
    return sorted(path.name for path in cache_dir().iterdir())


# --- the real lock -------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", ROOTS)
def test_the_lock_is_in_step_with_its_roots(section: str) -> None:
    locked = read_lock(section)

    assert set(ROOTS[section]) <= {jar.coordinate for jar in locked}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in locked)
    assert len({jar.filename for jar in locked}) == len(locked)


@pytest.mark.parametrize("section", ["spark", "local"])
def test_spark_gets_exactly_the_roots(section: str) -> None:
    assert {jar.coordinate for jar in read_lock(section)} == set(ROOTS[section])


def test_the_brokers_kafka_jars_are_of_one_version() -> None:
    kafka = {jar.version for jar in read_lock("broker") if jar.group == "org.apache.kafka"}

    assert kafka == {"4.2.0"}


def test_an_unknown_section_names_the_known_ones() -> None:
    with pytest.raises(JarError, match=re.escape("[sparc]. Choose from: spark, broker, local, tools.")):
        read_lock("sparc")


@pytest.mark.spark
def test_a_real_jar_is_fetched_and_verified() -> None:
    (path,) = fetch("local")

    assert hashlib.sha256(path.read_bytes()).hexdigest() == read_lock("local")[0].sha256


# --- the cache -----------------------------------------------------------------------------------------


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "own"))

    assert cache_dir() == tmp_path / "own" / "jars"

    monkeypatch.delenv("GROUP_COORDINATOR_CACHE")

    assert cache_dir() == tmp_path / "xdg" / "group-coordinator" / "jars"

    monkeypatch.delenv("XDG_CACHE_HOME")

    assert cache_dir() == tmp_path / "home" / ".cache" / "group-coordinator" / "jars"


def test_fetches_what_is_missing_in_lock_order_and_only_once(repository: Repository) -> None:
    paths = fetch("pair", "one")

    assert [path.read_bytes() for path in paths] == [b"first jar", b"second jar", b"first jar"]
    assert sorted(repository.downloads) == sorted(GOOD)
    assert cached_names() == ["org.one_first-1.0.jar", "org.two_second-2.0.jar"]

    assert fetch("pair", "one") == paths
    assert len(repository.downloads) == len(GOOD)


def test_a_corrupt_cached_jar_is_fetched_again(repository: Repository) -> None:
    first, second = fetch("pair")
    first.write_bytes(b"fiRst jar")

    assert fetch("pair") == [first, second]
    assert first.read_bytes() == b"first jar"
    assert repository.downloads.count("org.one:first:1.0") == 2


def test_a_corrupt_download_is_tried_once_more(repository: Repository) -> None:
    repository.answers["org.one:first:1.0"] = [b"an error page", b"first jar"]

    (path,) = fetch("one")

    assert path.read_bytes() == b"first jar"


def test_a_jar_that_stays_corrupt_is_refused(repository: Repository) -> None:
    repository.answers["org.one:first:1.0"] = [b"an error page"]

    with pytest.raises(JarError) as raised:
        fetch("one")

    message = str(raised.value)
    assert "org.one:first:1.0" in message
    assert hashlib.sha256(b"first jar").hexdigest() in message
    assert hashlib.sha256(b"an error page").hexdigest() in message
    assert "\n" not in message
    assert cached_names() == []
    assert len(repository.downloads) == 2


@pytest.mark.parametrize(
    "failure", [ConnectionError("no route\nto host"), RuntimeError("not found in remote repositories {...}")]
)
def test_a_failed_download_is_one_clear_line_and_leaves_no_half_jar(
    repository: Repository, failure: Exception
) -> None:
    repository.answers["org.two:second:2.0"] = [failure]

    with pytest.raises(JarError) as raised:
        fetch("pair")

    message = str(raised.value)
    assert message.startswith(
        f"Cannot fetch org.two:second:2.0 ({type(failure).__name__}). Check the network"
    )
    assert "\n" not in message
    assert set(cached_names()) <= {"org.one_first-1.0.jar"}


def test_a_connection_that_breaks_once_does_not_matter(repository: Repository) -> None:
    repository.answers["org.one:first:1.0"] = [ConnectionError("reset"), b"first jar"]

    (path,) = fetch("one")

    assert path.read_bytes() == b"first jar"


def test_several_may_fetch_at_once(repository: Repository) -> None:
    with ThreadPoolExecutor(4) as pool:
        fetched = list(pool.map(lambda _: [path.read_bytes() for path in fetch("pair")], range(8)))

    assert fetched == [[b"first jar", b"second jar"]] * 8
    assert cached_names() == ["org.one_first-1.0.jar", "org.two_second-2.0.jar"]


def test_a_cache_that_cannot_be_written_says_so(repository: Repository) -> None:
    cache_dir().parent.write_text("in the way")

    with pytest.raises(JarError, match="Set GROUP_COORDINATOR_CACHE to a folder of yours"):
        fetch("one")


def test_progress_is_plain_lines_without_a_terminal(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch("pair", progress=True)

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == f"Fetching 2 jars into {cache_dir()}\nFetched 2 jars, 0.0 MB\n"

    fetch("pair", progress=True)

    assert capsys.readouterr().err == ""


def test_without_progress_nothing_is_printed(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch("pair")

    assert capsys.readouterr() == ("", "")


# --- the command line ----------------------------------------------------------------------------------


def test_the_command_line_fetches_the_named_sections(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["jars", "fetch", "one"])

    assert jars.main() == 0
    assert cached_names() == ["org.one_first-1.0.jar"]


def test_the_command_line_fails_with_one_line(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["jars", "fetch", "two"])

    assert jars.main() == 1
    assert capsys.readouterr().err == "jars.lock has no section [two]. Choose from: pair, one.\n"


def test_locking_resolves_roots_apart_and_refuses_versions_that_disagree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dependency(coordinate: str) -> SimpleNamespace:
        group, artifact, version = coordinate.split(":")
        component = SimpleNamespace(component=coordinate)
        return SimpleNamespace(groupId=group, artifactId=artifact, version=version, artifact=component)

    needs = {"a:root:1": ["x:shared:1", "x:own:3"], "b:root:1": ["x:shared:1"], "c:root:1": ["x:shared:2"]}

    def resolve(roots: list[SimpleNamespace]) -> tuple[list[SimpleNamespace], list[SimpleNamespace]]:
        (root,) = roots
        return roots, [dependency(name) for name in needs[root.artifact.component]]

    context = SimpleNamespace(create_dependency=dependency, resolver=SimpleNamespace(resolve=resolve))
    monkeypatch.setattr(jgo.maven, "MavenContext", lambda repo_cache, timeout: context)

    assert jars._closure(["a:root:1", "b:root:1"], tmp_path) == {
        "a:root:1",
        "b:root:1",
        "x:shared:1",
        "x:own:3",
    }

    with pytest.raises(JarError, match="c:root:1 needs x:shared:2, another root 1"):
        jars._closure(["a:root:1", "c:root:1"], tmp_path)
