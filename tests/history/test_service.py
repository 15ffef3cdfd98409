"""The job that writes the history: what it says, how it ends, and what it says when it cannot go on."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyspark
import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.history import service
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from group_coordinator.history.service import write_history
from group_coordinator.history.settings import HistorySettings
from group_coordinator.history.storage import Retention
from group_coordinator.jobs import job
from group_coordinator.jobs.settings import SettingsError
from tests.history.filled import CUT, DAY
from tests.history.fixtures.make import FIXTURE_TOPIC, unpacked
from tests.page.filled import lag_of
from tests.patience import PATIENCE_S, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The job uses the session of all tests, and leaves it running."""
    monkeypatch.setattr(job, "create_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    yield
    # Which else would end with it.
    queries = cast("Any", spark)._jsparkSession.streams()
    for listener in queries.listListeners():
        queries.removeListener(listener)


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    name = f"history{next(_numbers)}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics({name: {"num_partitions": 2}})
    admin.wait_for_topics([name])
    admin.close()
    return name


def settings_for(bootstrap_servers: str, topic: str, path: Path) -> HistorySettings:
    given = {
        "bootstrap.servers": bootstrap_servers,
        "topics.events": topic,
        "topics.lag": f"{topic}.lag",
        "history.path": str(path),
        "history.interval.ms": 500,
        "history.metrics.port": 0,
    }
    return HistorySettings.load(None, {}, given, needed=())


@pytest.fixture
def settings(bootstrap_servers: str, topic: str, tmp_path: Path) -> HistorySettings:
    return settings_for(bootstrap_servers, topic, tmp_path)


@pytest.fixture
def append(bootstrap_servers: str, topic: str) -> Iterator[Callable[..., None]]:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)

    def append(*records: bytes) -> None:
        for each in [producer.send(topic, key=b"g", value=record) for record in records]:
            each.get(30)

    yield append
    producer.close()


@pytest.fixture
def measure(bootstrap_servers: str, topic: str) -> Iterator[Callable[..., None]]:
    """Writes measurements of these times to the topic of lag."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics({f"{topic}.lag": {"num_partitions": 2}})
    admin.wait_for_topics([f"{topic}.lag"])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    (measurement, *_) = lag_of("g", "orders", 0)

    def measure(*times_ms: int) -> None:
        for at_ms in times_ms:
            record = msgspec.structs.replace(measurement, measured_timestamp_ms=at_ms)
            producer.send(f"{topic}.lag", key=b"g", value=msgspec.json.encode(record)).get(30)

    yield measure
    producer.close()


def measured(path: Path) -> list[float]:
    """The times of the rows of lag, in seconds since 1970."""
    times = DeltaTable(path / "lag").to_pyarrow_table()["at"].to_pylist()
    return sorted((each - time_of(0)) / timedelta(seconds=1) for each in times)


def written(path: Path) -> list[str]:
    if not (path / "events" / "_delta_log").exists():
        return []
    return sorted(DeltaTable(path / "events").to_pyarrow_table()["body"].to_pylist())


def test_it_goes_on_where_it_was(
    settings: HistorySettings, append: Callable[..., None], measure: Callable[..., None], tmp_path: Path
) -> None:
    append(*DAY[:CUT])
    measure(60_000, 75_000, 90_000)
    said: list[str] = []
    # A path may be relative, as README has it.
    relative = msgspec.structs.replace(settings, history_path=os.path.relpath(tmp_path))
    write_history(relative, said.append, once=True)
    assert written(tmp_path) == sorted(body.decode() for body in DAY[:CUT])
    assert measured(tmp_path) == [60]
    # Nobody could look in time at one that only writes what there is.
    assert said[1:] == [
        "starting Spark, which takes ten seconds or more",
        f"Spark {pyspark.__version__} is up",
        f"looking at the tables under file:{tmp_path}",
        f"writing all events to file:{tmp_path}, which takes ten seconds or more",
        f"{CUT} events are written",
        "all events are in it",
    ]

    begun = time.time()
    append(*DAY[CUT:])
    measure(119_000, 120_000)
    # Until it is told to stop; here, by itself.
    looked: list[Any] = []
    told = threading.Thread(target=lambda: looked.append(look_and_stop(said, tmp_path)))
    told.start()
    write_history(settings, said.append)
    told.join()
    assert said[-1] == "stopped"
    assert written(tmp_path) == sorted(body.decode() for body in DAY)

    (metrics,) = looked
    # What began in the first part was ended in the second one.
    assert {name[1]: it for name, it in metrics.items() if name[0].endswith("rows_merged_total") and it} == {
        "events": len(DAY) - CUT,
        "transitions": 5,
        "joins": 1,
        "generations": 1,
        "offsets": 2,
        "membership": 2,
        "assignments": 4,
        "lag": 1,
    }
    # Of each minute the first.
    assert measured(tmp_path) == [60, 120]
    newest = metrics["group_coordinator_history_newest_event_timestamp_seconds",]
    assert newest == 20
    assert metrics["group_coordinator_history_partitions_removed_total",] == 0
    for name in ("complete", "last_commit"):
        assert begun < metrics[f"group_coordinator_history_{name}_timestamp_seconds",] <= time.time()
    assert metrics["group_coordinator_query_up",] == 1
    assert metrics["group_coordinator_batch_duration_seconds_count",] >= 1
    assert not any("state" in name[0] or "watermark" in name[0] for name in metrics)


@pytest.mark.verify
def test_what_is_old_goes_when_a_batch_is_done(
    settings: HistorySettings,
    append: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is killed soon after each start gets on all the same."""

    def ended() -> int:
        return sum(file.name.isdigit() for file in (tmp_path / "checkpoint" / "commits").iterdir())

    class Watched(Retention):
        def apply(self, today: date) -> int:
            after.append(ended())
            return super().apply(today)

    after: list[int] = []
    monkeypatch.setattr(service, "Retention", Watched)
    append(*DAY[:CUT])
    write_history(msgspec.structs.replace(settings, history_max_events=CUT // 2), str, once=True)

    assert written(tmp_path) == sorted(body.decode() for body in DAY[:CUT])
    assert ended() > 1
    assert after == list(range(1, ended() + 1))


def look_and_stop(said: list[str], path: Path) -> dict[tuple[str, ...], float]:
    """Return the metrics of a history that is complete, and stop it."""
    place = "metrics are at http://localhost:"
    try:
        wait_for(lambda: said[-1].startswith("the history is written to"))
        (port,) = (line.removeprefix(place).removesuffix("/metrics") for line in said if place in line)
        assert ask(port, "healthz")[0] == 200
        wait_for(lambda: len(written(path)) == len(DAY))
        wait_for(lambda: ask(port, "readyz")[0] == 200)
        status, line = ask(port, "healthz")
        assert status == 200
        assert re.fullmatch(r"writing the history: a batch has ended \d+\.\d s ago\n", line)
        for line in ("unwritten_events 0.0", 'rows_merged_total{table="lag"} 1.0'):
            wait_for(lambda it=line: f"\ngroup_coordinator_history_{it}\n" in ask(port, "metrics")[1])
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(ask(port, "metrics")[1])
            for sample in family.samples
        }
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def ask(port: str, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_topic_that_is_not_there(bootstrap_servers: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as caught:
        write_history(settings_for(bootstrap_servers, "nothing.here", tmp_path), lambda _: None)
    assert str(caught.value) == (
        "topic nothing.here cannot be read: UnknownTopicOrPartitionError. The coordinator creates it; "
        "topics.events says what it is called"
    )


@pytest.mark.verify
def test_a_batch_that_cannot_be_written(
    settings: HistorySettings,
    append: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(*DAY)

    def disk_is_full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("group_coordinator.history.writer.HistoryWriter._merge_rows", disk_is_full)
        with pytest.raises(HistoryError, match=r"^the query failed: no space left on device$"):
            write_history(settings, lambda _: None)
    # There is room again.
    write_history(settings, lambda _: None, once=True)
    assert written(tmp_path) == sorted(body.decode() for body in DAY)


def test_a_port_that_somebody_else_has(settings: HistorySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark takes long to start, so it is told before")

    monkeypatch.setattr(job, "create_session", create_session)
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        taken.listen()
        busy = msgspec.structs.replace(settings, history_metrics_port=port)
        with pytest.raises(SettingsError, match=rf"^cannot listen on history\.metrics\.port {port}: "):
            write_history(busy, lambda _: None)


@pytest.mark.verify
def test_topics_that_were_made_anew(
    settings: HistorySettings,
    topic: str,
    append: Callable[..., None],
    tmp_path: Path,
    bootstrap_servers: str,
) -> None:
    """Their events have the ids of others, and would be passed over."""
    append(*DAY[:CUT])
    write_history(settings, lambda _: None, once=True)
    before = written(tmp_path)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.delete_topics([topic])
    wait_for(lambda: topic not in admin.list_topics())
    admin.create_topics({topic: {"num_partitions": 2}})
    admin.wait_for_topics([topic])
    admin.close()
    append(*DAY[CUT:])

    with pytest.raises(HistoryError) as caught:
        write_history(settings, lambda _: None, once=True)
    assert re.fullmatch(
        rf"topic {topic} is not the one that the history in {tmp_path} was written from \(its id is \S+, "
        r"and was \S+\): it was deleted and made again, and its events would pass for those that are there\. "
        r"Set history\.path to a new directory; the old tables can still be asked",
        str(caught.value),
    )
    assert written(tmp_path) == before

    elsewhere = tmp_path / "another"
    write_history(msgspec.structs.replace(settings, history_path=str(elsewhere)), lambda _: None, once=True)
    assert written(elsewhere) == sorted(body.decode() for body in DAY[CUT:])


@pytest.mark.verify
def test_a_history_that_does_not_say_of_which_topics_it_tells(bootstrap_servers: str, tmp_path: Path) -> None:
    """It goes on, unless it has read further than the topic goes."""
    path = unpacked(tmp_path)
    settings = settings_for(bootstrap_servers, FIXTURE_TOPIC, path)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics({FIXTURE_TOPIC: {"num_partitions": 1}})
    admin.wait_for_topics([FIXTURE_TOPIC])
    admin.close()
    with pytest.raises(HistoryError, match=rf"\(partition 0 ends at 0, and was read up to {CUT}\)"):
        write_history(settings, lambda _: None, once=True)

    with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for body in DAY:
            producer.send(FIXTURE_TOPIC, value=body)
    write_history(settings, lambda _: None, once=True)
    assert written(path) == sorted(body.decode() for body in DAY)
    # Which it had no column for.
    told = HistoryReader(str(path)).query("SELECT principal FROM events WHERE event = 'offsets_committed'")
    assert told.to_pylist() == [{"principal": "alice"}]
    assert "topic_ids" in (path / "history.json").read_text()
