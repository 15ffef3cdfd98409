"""A coordinator is paused in a batch, its executors are not: they write when another one has taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.deploy.jars import fetch
from tests.commands.asking import requests_to
from tests.commands.job import Job, gated_python, set_all
from tests.jdk import find_javac
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = [pytest.mark.spark, pytest.mark.verify]

# What loads classes beside the first batch takes two cores of its executor.
CLUSTER = {"spark.master": "local-cluster[1,3,512]", "spark.executor.memory": "512m"}
# Without probes, all that is planned is what a test has asked.
GAP = ("--set", "clock.max.gap.ms=10000", "--set", "probes.enabled=false")


def planned_requests(job: Job) -> int:
    """With how many requests the newest batch and those before it were planned."""
    if not (job.checkpoint / "offsets").exists() or not (batches := job.batches("offsets")):
        return 0
    newest = job.checkpoint / "offsets" / max(batches, key=int)
    *_, ends = newest.read_text().splitlines()
    return sum(json.loads(ends)[job.topics["requests"]].values())


def waits_for_python(job: Job) -> bool:
    """Whether the task of a batch has begun in its executor, and needs a Python worker next."""
    (executor,) = job.executors()
    done = subprocess.run(
        [find_javac().with_name("jstack"), str(executor)], capture_output=True, text=True, check=True
    )
    threads = done.stdout.split("\n\n")
    return any("FlatMapGroupsInPandasWithState" in it and "createPythonWorker" in it for it in threads)


@pytest.mark.parametrize("in_cluster", [False, True], ids=["one-process", "cluster"])
def test_what_its_executors_still_write_is_corrected_and_readers_never_go_back(
    start: Callable[..., Job], bootstrap_servers: str, tmp_path: Path, in_cluster: bool
) -> None:
    """In one process its JVM is executor as well. In a cluster all of the driver is paused."""
    # Its Python workers begin when the gate is open, and its JVM waits for them in the first batch.
    python, gate = gated_python(tmp_path)
    more = {"spark.pyspark.python": str(python)}
    if in_cluster:
        # Executors do not have the driver's class path.
        (jar,) = fetch("local")
        more |= CLUSTER | {"spark.executor.extraClassPath": str(jar)}
    first = start(*GAP, *set_all(more))
    first.wait_for("topics are ready at ")
    groups, offsets = first.topics["groups"], first.topics["offsets"]
    with (
        requests_to(bootstrap_servers, first) as requests,
        Reader({"bootstrap_servers": bootstrap_servers}, groups, offsets) as reader,
    ):
        # Makes a group, which is in both topics then.
        partitions = [{"partition_index": 0, "committed_offset": 5}]
        made = requests.send("offset_commit", "g", topics=[{"name": "t", "partitions": partitions}])
        first.wait_until(lambda: planned_requests(first) == 1)
        if in_cluster:
            # It asks the driver nothing more until it has written.
            first.wait_until(lambda: waits_for_python(first))
            os.kill(first.java(), signal.SIGSTOP)
        os.kill(first.pid, signal.SIGSTOP)

        second = start(*GAP)
        second.wait_for("catching up with the log")
        assert requests.answer(made)["error"] == "NONE"
        assert requests.call("delete_group", "g")["error"] == "NONE"

        def is_gone() -> dict[str, list[bool]]:
            """By topic: whether each of its records is a tombstone."""
            return {it: [each.value is None for each in reader.records if each.topic == it] for it in topics}

        topics = groups, offsets
        deleted = {groups: [False, True], offsets: [False, True]}
        wait_for(lambda: is_gone() == deleted, meanwhile=reader.poll, said=is_gone)

        gate.touch()
        # The group comes again, and goes again.
        corrected = {groups: [False, True, False, True], offsets: [False, True, False, True]}
        wait_for(lambda: is_gone() == corrected, meanwhile=reader.poll, said=is_gone)
        late_ms, corrected_ms = (
            max(each.timestamp for each in reader.records if (each.value is None) is gone)
            for gone in (False, True)
        )
        assert corrected_ms - late_ms < 60_000
        second.wait_until(
            lambda: [it for it in second.said if "records of a coordinator that was superseded" in it]
        )

        # A reader that reads on never sees it again.
        for topic in topics:
            newest = Newest()
            taken = [it for it in reader.records if it.topic == topic and newest.take(it.key, it.headers)]
            assert [it.value is None for it in taken] == [False, True, True]

        # The batch that both have run was decided alike, by what was noted when it was planned.
        with Reader({"bootstrap_servers": bootstrap_servers}, first.topics["events"]) as events:
            told = events.until(lambda it: len(it) > len({event["event_id"] for event in it}))
            assert len({it.value for it in events.records}) == len({event["event_id"] for event in told})
