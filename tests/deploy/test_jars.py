from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from group_coordinator.deploy import download, jars
from group_coordinator.deploy.jars import JarError, cache_dir, fetch, maven_url, read_lock

GOOD_1, GOOD_2 = "org.one:first:1.0", "org.two:second:2.0:linux"
GOOD = {GOOD_1: b"first jar", GOOD_2: b"second jar"}


CENTRAL = "https://repo.maven.apache.org/maven2"
PATHS = {
    "/maven/org/one/first/1.0/first-1.0.jar": GOOD_1,
    "/maven/org/two/second/2.0/second-2.0-linux.jar": GOOD_2,
}


class Repository:
    """A Maven repository: each answer is used once, the last one for ever. An int is an HTTP status."""

    def __init__(self) -> None:
        self.answers: dict[str, list[bytes | int]] = {name: [content] for name, content in GOOD.items()}
        self.downloads: list[str] = []
        self.cut = 0
        """So many bytes less are sent than are promised."""
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                coordinate = PATHS[self.path]
                repository.downloads.append(coordinate)
                answers = repository.answers[coordinate]
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer[: len(answer) - repository.cut])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/maven"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    lock = tmp_path / "jars.lock"
    lines = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in GOOD.items()]
    lock.write_text("# a comment\n\n[pair]\n" + "\n".join(lines) + "\n\n[one]\n" + lines[0] + "\n")
    monkeypatch.setattr(jars, "LOCK", lock)
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "cache"))
    repository = Repository()
    # With a slash too many, as people write it.
    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", f"{repository.url}/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    serving = Thread(target=repository.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield repository
    repository.server.shutdown()
    serving.join()
    repository.server.server_close()


def cached_names() -> list[str]:
    return sorted(path.name for path in cache_dir().iterdir())


# --- the real lock -------------------------------------------------------------------------------------


def test_the_brokers_kafka_jars_are_of_one_version() -> None:
    kafka = {jar.version for jar in read_lock("broker") if jar.group == "org.apache.kafka"}

    assert kafka == {"4.2.0"}


def test_an_unknown_section_names_the_known_ones() -> None:
    with pytest.raises(JarError, match=re.escape("[sparc]. Choose from: spark, broker, local, s3a, hdfs, ")):
        read_lock("sparc")


@pytest.mark.spark
def test_a_real_jar_is_fetched_and_verified() -> None:
    (path,) = fetch("local")

    assert hashlib.sha256(path.read_bytes()).hexdigest() == read_lock("local")[0].sha256


# --- the repository --------------------------------------------------------------------------------------


def test_jars_come_from_maven_central_unless_a_mirror_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROUP_COORDINATOR_MAVEN_URL", raising=False)
    assert maven_url() == CENTRAL

    # As a container's build argument is when nobody gives it.
    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", "")
    assert maven_url() == CENTRAL

    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", "https://mirror.example:8443/maven/")
    assert maven_url() == "https://mirror.example:8443/maven"


@pytest.mark.parametrize(
    "url", ["mirror", "file:///etc", "https://", "https://me:hidden@mirror.example", "http://[::1", "ftp://m"]
)
def test_a_mirror_that_is_none_is_one_clear_line(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", url)

    with pytest.raises(JarError) as raised:
        fetch("one")

    assert str(raised.value) == (
        "GROUP_COORDINATOR_MAVEN_URL is no address of a Maven repository. Give one with http or https and "
        f"without a password, such as {CENTRAL}."
    )


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
    assert cached_names() == ["org.one_first-1.0.jar", "org.two_second-2.0-linux.jar"]

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
    wanted, found = (hashlib.sha256(each).hexdigest() for each in (b"first jar", b"an error page"))
    url = f"{repository.url}/org/one/first/1.0/first-1.0.jar"
    assert message.startswith(
        f"Cannot fetch {GOOD_1}: {url} has SHA-256 {found}, and not {wanted}. Do not use"
    )
    assert "\n" not in message
    assert cached_names() == []
    assert len(repository.downloads) == 2


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_failed_download_is_one_clear_line_and_leaves_no_half_jar(
    repository: Repository, status: int
) -> None:
    repository.answers[GOOD_2] = [status]

    with pytest.raises(JarError) as raised:
        fetch("pair")

    message = str(raised.value)
    url = f"{repository.url}/org/two/second/2.0/second-2.0-linux.jar"
    assert message.startswith(f"Cannot fetch {GOOD_2}: {url} answers {status} ")
    assert (
        "Check the network (HTTPS_PROXY is honoured) or name a mirror in GROUP_COORDINATOR_MAVEN_URL"
        in message
    )
    assert "\n" not in message
    assert set(cached_names()) <= {"org.one_first-1.0.jar"}


def test_a_connection_that_breaks_off_is_no_wrong_file(repository: Repository) -> None:
    repository.cut = 3

    with pytest.raises(JarError, match=r"first-1\.0\.jar ended after 6 of 9 bytes\. Check the network"):
        fetch("one")

    assert cached_names() == []


def test_a_repository_that_cannot_be_reached_says_so(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", nowhere)

    with pytest.raises(JarError) as raised:
        fetch("one")

    assert f"{nowhere}/org/one/first/1.0/first-1.0.jar cannot be reached: " in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_connection_that_breaks_once_does_not_matter(repository: Repository) -> None:
    repository.answers[GOOD_1] = [503, b"first jar"]

    (path,) = fetch("one")

    assert path.read_bytes() == b"first jar"


def test_proxies_of_the_environment_are_used(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", repository.url.removesuffix("/maven"))
    monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", "http://maven.invalid/maven")
    # A proxy is asked for the whole address.
    monkeypatch.setitem(PATHS, "http://maven.invalid/maven/org/one/first/1.0/first-1.0.jar", GOOD_1)

    (path,) = fetch("one")

    assert path.read_bytes() == b"first jar"


def test_a_jar_that_is_too_large_is_not_read_to_its_end(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_LARGEST", 8)

    with pytest.raises(JarError, match=r"first-1\.0\.jar has more than "):
        fetch("one")

    assert cached_names() == []


def test_a_download_that_takes_too_long_ends(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_LONGEST_S", -1)

    with pytest.raises(JarError, match=r"first-1\.0\.jar takes more than -1 s"):
        fetch("one")


def test_a_silent_repository_ends_the_wait(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_SILENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("GROUP_COORDINATOR_MAVEN_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")

        with pytest.raises(JarError, match=r"first-1\.0\.jar cannot be .*timed out"):
            fetch("one")


def test_what_a_killed_process_left_is_removed_a_day_later(repository: Repository) -> None:
    cache_dir().mkdir(parents=True)
    abandoned, in_use = (cache_dir() / f".org.one_first-1.0.jar.{name}.part" for name in ("1", "2"))
    for part in (abandoned, in_use):
        part.write_bytes(b"half")
    two_days_ago = time.time() - 2 * 24 * 60 * 60
    os.utime(abandoned, (two_days_ago, two_days_ago))

    fetch("one")

    assert cached_names() == [in_use.name, "org.one_first-1.0.jar"]


def test_several_may_fetch_at_once(repository: Repository) -> None:
    with ThreadPoolExecutor(4) as pool:
        fetched = list(pool.map(lambda _: [path.read_bytes() for path in fetch("pair")], range(8)))

    assert fetched == [[b"first jar", b"second jar"]] * 8
    assert cached_names() == ["org.one_first-1.0.jar", "org.two_second-2.0-linux.jar"]


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
    monkeypatch.setattr("sys.argv", ["jars", "one"])

    assert jars.main() == 0
    assert cached_names() == ["org.one_first-1.0.jar"]


def test_the_command_line_leaves_out_what_only_tests_need(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "ON_REQUEST", ("pair",))
    monkeypatch.setattr("sys.argv", ["jars"])

    assert jars.main() == 0
    assert cached_names() == ["org.one_first-1.0.jar"]


def test_the_command_line_fails_with_one_line(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["jars", "two"])

    assert jars.main() == 1
    assert capsys.readouterr().err == "jars.lock has no section [two]. Choose from: pair, one.\n"
