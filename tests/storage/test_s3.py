"""Checkpoint, history and exports on a real S3 server, for each command that reads them, while things die."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from group_coordinator import GroupMember
from tests.commands.job import ROOT, Job
from tests.faults.faults import Fault
from tests.faults.test_sample import play_and_check
from tests.patience import PATIENCE_S, wait_for
from tests.storage.s3 import NoServerError, ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.verify]

FAULTS = [
    Fault(after_s=1, kind="kill-driver", seconds=0, choice=0.9),  # all of its processes at once
    # Shorter than a batch may take, and longer: then the query begins anew.
    Fault(after_s=1, kind="pause-store", seconds=5, choice=0),
    Fault(after_s=1, kind="kill-store", seconds=45, choice=0),
    Fault(after_s=1, kind="kill-driver", seconds=0, choice=0.9),
]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An S3 server, which this process and its children reach by their environment."""
    try:
        store = ObjectStore(tmp_path / "store")
    except NoServerError as error:
        pytest.skip(str(error))
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    with store:
        yield store


def command(*words: str) -> str:
    """Run a command in a process of its own, as people do; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "group_coordinator", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_lost_when_the_coordinator_or_the_store_dies(store: ObjectStore, tmp_path: Path) -> None:
    done, _ = play_and_check(tmp_path, FAULTS, kills_of_history=1, store=store)
    assert done == {"SIGKILL driver", "SIGSTOP storage", "SIGKILL storage", "SIGKILL history"}

    rows = json.loads(command("history", "--history-path", f"{store.root}/tables", "--output", "json"))
    assert rows
    assert {row["group_id"] for row in rows}


def test_a_standby_takes_over_and_an_export_is_restored(
    store: ObjectStore, bootstrap_servers: str, tmp_path: Path
) -> None:
    export, restored = f"{store.root}/export", f"{store.root}/restored"
    settings = [word for name, it in store.settings().items() for word in ("--set", f"{name}={it}")]
    with ExitStack() as stack:

        def start(*options: str) -> Job:
            job = Job(bootstrap_servers, tmp_path, "store", *store.options("coordinator"), *options)
            stack.callback(job.kill)
            return job

        first = start()
        first.wait_for("the coordinator is running")
        standby = start("--standby")
        standby.wait_for("standing by is warm: ")
        checkpoint, topics = first.settings.checkpoint, first.topics
        with GroupMember(
            group_id="g",
            bootstrap_servers=bootstrap_servers,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            request_topic=topics["requests"],
            response_topic=topics["responses"],
        ) as member:
            member.subscribe(units=["north", "south"])
            wait_for(lambda: member.poll(timeout_ms=100))
            was = member.member_id, member.generation_id
            member.commit({"north": 7})

            first.kill()
            standby.wait_for("the coordinator is running")
            member.commit({"south": 8})
            assert inspected(checkpoint, *settings) == {"Stable": 1}

            standby.terminate()
            assert standby.exit_code() == 0
            command("checkpoint", "export", checkpoint, "--to", export, "--with-secret", *settings)
            command(
                *("checkpoint", "restore", export, "--to", restored, "--state-partitions", "2", *settings),
                *("--bootstrap-server", bootstrap_servers),
            )
            assert inspected(restored, *settings) == {"Stable": 1}
            start("--checkpoint", restored, "--set", "state.partitions=2").wait_for(
                "the coordinator is running"
            )
            found = member.committed(["north", "south"])
            assert {unit: it and it.offset for unit, it in found.items()} == {"north": 7, "south": 8}
            assert member.poll(timeout_ms=100) == {"north", "south"}
            assert (member.member_id, member.generation_id) == was


def inspected(checkpoint: str, *options: str) -> dict[str, int]:
    """How many groups are in which state."""
    found = json.loads(command("checkpoint", "inspect", checkpoint, "--output", "json", *options))
    by_state: dict[str, int] = found["groups"]["by_state"]
    return by_state
