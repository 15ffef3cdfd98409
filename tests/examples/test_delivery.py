"""What the examples promise, kept by real processes of which one is killed in the worst place."""

from __future__ import annotations

import re
import runpy
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from kafka.structs import TopicPartition

from tests.patience import PATIENCE_S, wait_for
from tests.streaming.harness import Harness

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT, BATCH = 40, 10


class Process:
    """An example that runs. What it says goes to a file, so that it is all there when it is killed."""

    def __init__(self, said: Path, name: str, *arguments: str) -> None:
        self._said = said
        with said.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, EXAMPLES / f"{name}.py", *arguments], stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def processed(self) -> list[int]:
        """The numbers that it says it has processed."""
        assert self._process.poll() in (None, -signal.SIGKILL), self._said.read_text()
        return [
            int(number) for number in re.findall(r"^processed (\d+)\n", self._said.read_text(), re.MULTILINE)
        ]

    def kill_where(self, is_worst: Callable[[list[int]], bool]) -> list[int]:
        """Kill it after its first batch, where `is_worst(processed)`; it is halted to look. Return that."""
        seen = BATCH
        while True:
            wait_for(lambda: len(self.processed()) > seen)  # noqa: B023 - called at once
            self._process.send_signal(signal.SIGSTOP)
            processed = self.processed()
            if is_worst(processed):
                self.kill()
                return processed
            self._process.send_signal(signal.SIGCONT)
            seen = len(processed)


class Stage:
    """A group with a topic of its own, in which the numbers below COUNT are."""

    def __init__(self, harness: Harness, name: str, directory: Path) -> None:
        self.name = self.group = self.topic = name
        self.store = directory / "store.sqlite"
        self._harness = harness
        self._directory = directory
        self._workers = 0
        self._connection = ("--bootstrap-server", harness.settings.bootstrap_servers)
        sizes = ("--count", str(COUNT), "--partitions", "2")
        produce = [sys.executable, EXAMPLES / "produce.py", "--topic", self.topic, *self._connection, *sizes]
        subprocess.run(produce, check=True, timeout=PATIENCE_S)

    def worker(self) -> Process:
        self._workers += 1
        said = self._directory / f"worker-{self._workers}"
        group = ("--group", self.group, "--topic", self.topic, "--session-timeout-ms", "2000")
        store = ("--store", str(self.store)) if self.name == "exactly_once" else ()
        return Process(said, self.name, *group, *store, *self._connection)

    def committed(self) -> int:
        """How many records the group has committed."""
        topics = [{"name": self.topic, "partition_indexes": [0, 1]}]
        answer = self._harness.call("offset_fetch", self.group, topics=topics)
        offsets = [each["committed_offset"] for topic in answer["topics"] for each in topic["partitions"]]
        return sum(max(offset, 0) for offset in offsets)

    def stored(self) -> list[int]:
        """The numbers that results are stored for."""
        db = sqlite3.connect(self.store, timeout=PATIENCE_S)
        try:
            return [number for (number,) in db.execute("SELECT number FROM results")]
        finally:
            db.close()


@pytest.fixture(scope="module")
def harness(
    spark: Any, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """A coordinator as the examples expect it, with the topics' default names."""
    directory = tmp_path_factory.mktemp("coordinator")
    names = {f"topics_{name}": f"coordinator.{name}" for name in ("requests", "responses")}
    with Harness(spark, bootstrap_servers, directory, group_min_session_timeout_ms=1_000, **names) as harness:
        harness.start_and_warm_up()
        yield harness


@pytest.fixture
def make_stage(harness: Harness, tmp_path: Path) -> Callable[[str], Stage]:
    return lambda name: Stage(harness, name, tmp_path)


@pytest.mark.verify
@pytest.mark.spark
def test_at_most_once_may_lose_but_repeats_nothing(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage("at_most_once")
    with stage.worker() as first:
        before = first.kill_where(lambda processed: len(processed) < stage.committed())
        lost = stage.committed() - len(before)
    with stage.worker() as second:
        wait_for(lambda: len(before) + lost + len(second.processed()) >= COUNT)
        processed = Counter(before + second.processed())

    assert lost > 0
    assert set(processed.values()) == {1}
    assert COUNT - lost == len(processed)


@pytest.mark.verify
@pytest.mark.spark
def test_at_least_once_may_repeat_but_loses_nothing(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage("at_least_once")
    with stage.worker() as first:
        # Not between two batches, where a commit may be on its way.
        before = first.kill_where(lambda processed: 0 < len(processed) - stage.committed() < BATCH)
        repeated = len(before) - stage.committed()
    with stage.worker() as second:
        wait_for(lambda: len(before) - repeated + len(second.processed()) >= COUNT)
        processed = Counter(before + second.processed())

    assert repeated > 0
    assert set(range(COUNT)) == set(processed)
    assert COUNT + repeated == processed.total()


@pytest.mark.spark
def test_exactly_once_neither_loses_nor_repeats(make_stage: Callable[[str], Stage]) -> None:
    stage = make_stage("exactly_once")
    with stage.worker() as first:
        before = first.kill_where(lambda processed: len(processed) > len(stage.stored()))
    computed_again = len(before) - len(stage.stored())
    with stage.worker() as second:
        wait_for(lambda: len(stage.stored()) >= COUNT)
        processed = Counter(before + second.processed())

    assert computed_again > 0
    assert COUNT + computed_again == processed.total()
    assert list(range(COUNT)) == sorted(stage.stored())


# -- the store of exactly_once, alone ------------------------------------------------------------------


A, B = TopicPartition("numbers", 0), TopicPartition("numbers", 1)


def test_store_lets_one_of_two_go_on(tmp_path: Path) -> None:
    store_class = runpy.run_path(str(EXAMPLES / "exactly_once.py"))["Store"]
    path = str(tmp_path / "store.sqlite")
    owner, zombie = store_class(path), store_class(path)
    assert (owner.position(A), zombie.position(A)) == (0, 0)

    assert owner.save([(0, 0), (1, 1)], A, 0, 2)
    assert not zombie.save([(0, 0)], A, 0, 1)

    assert (zombie.position(A), zombie.position(B)) == (2, 0)
    assert zombie.save([(2, 4)], A, 2, 3)
    assert not owner.save([(2, 4), (3, 9)], A, 2, 4)


class Record(NamedTuple):
    offset: int
    value: bytes


class Consumer:
    """Returns what is in the logs from where it was told to seek."""

    def __init__(self, logs: dict[TopicPartition, list[bytes]]) -> None:
        self._logs = logs
        self.positions: dict[TopicPartition, int] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        polled = {
            partition: [Record(i, value) for i, value in enumerate(self._logs[partition])][offset:]
            for partition, offset in self.positions.items()
        }
        self.positions = {partition: len(self._logs[partition]) for partition in self.positions}
        return {partition: records for partition, records in polled.items() if records}


def test_worker_that_is_fenced_goes_on_where_its_successor_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLES / "exactly_once.py"))
    store = example["Store"](str(tmp_path / "store.sqlite"))
    consumer = Consumer({A: [b"0", b"1", b"2"], B: [b"10"]})
    worker = example["Worker"](consumer, store)
    worker.on_partitions_assigned([A, B])
    store.save([(0, 0), (1, 1)], A, 0, 2)  # its successor

    worker.work()
    assert f"fenced: somebody else has worked on {A}" in capsys.readouterr().out
    worker.work()

    db = sqlite3.connect(tmp_path / "store.sqlite")
    assert [(0, 0), (1, 1), (2, 4), (10, 100)] == db.execute("SELECT * FROM results ORDER BY 1").fetchall()
    db.close()
    assert (store.position(A), store.position(B)) == (3, 1)
