"""This version starts from what each version that it reads has written.

At present that is one: a program that knew classic groups alone. Each new schema version adds the one before
it to `VERSIONS`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from group_coordinator.checkpoints.export import Export, export_checkpoint
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import read_identity
from group_coordinator.checkpoints.offset_log import newest_committed
from group_coordinator.checkpoints.restore import restore_checkpoint
from group_coordinator.checkpoints.topics import read_topic_ids
from group_coordinator.coordinator_state.stored import READABLE_VERSIONS, SCHEMA_VERSION, decode_group
from group_coordinator.streaming.query import per_group
from tests.archives import unpack
from tests.checkpoints.fixtures.make import JOIN, ScriptedLog, settings_for, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).with_name("fixtures")
VERSIONS = (5,)
"""Those before `SCHEMA_VERSION` that are read."""


def version_of(state: bytes) -> int:
    version: int = msgspec.msgpack.decode(state)[0]
    return version


def unpacked(version: int, directory: Path) -> str:
    """A checkpoint that a program with that schema version has left."""
    fixture = FIXTURES / f"version-{version}.tar.gz"
    assert fixture.exists(), "a version needs a fixture before the next one comes: see make.py there"
    unpack(fixture, directory)
    return str(directory / f"version-{version}")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_query_goes_on(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, version: int) -> None:
    checkpoint = unpacked(version, tmp_path)
    files = CheckpointFiles(spark, checkpoint)
    batch = newest_committed(files)
    assert batch is not None
    export = export_checkpoint(spark, checkpoint)
    before = {group.group_id: decode_group(group.state) for group in export.groups}
    assert {"rebalancing", "stable", "offsets", "deleted"} == before.keys()
    assert (*VERSIONS, SCHEMA_VERSION) == READABLE_VERSIONS

    settings = settings_for(bootstrap_servers, checkpoint, version)
    topics = (settings.topics_requests, settings.topics_clock)
    with closing(ScriptedLog(bootstrap_servers, version)) as log:
        log.create()
        # What that program has read is not here; something has to be in its place.
        for name, topic in (("requests", topics[0]), ("clock", topics[1])):
            for _ in range(batch.offsets[topic][0]):
                log.put(name, None, b"{}", 0)
        topic_ids = read_topic_ids({"bootstrap_servers": bootstrap_servers}, topics)
        query = start(spark, settings, topic_ids)
        try:
            stable = before["stable"]
            me = {"member_id": stable.leader, "generation_id": stable.generation_id}
            beat = {"api": "heartbeat", "api_version": 3, "group_instance_id": "worker-1"}
            assert "NONE" == log.call("stable", "c0-beat", 5_000, **beat, **me)["error"]
            assert (
                "FENCED_INSTANCE_ID"
                == log.call("stable", "c9-beat", 5_000, **beat, member_id="other", generation_id=1)["error"]
            )

            # c2 was parked by the program before, and is answered by this one.
            rejoin = JOIN | {"member_id": before["rebalancing"].leader}
            rejoined = log.call("rebalancing", "c1-rejoin", 6_000, **rejoin)
            parked = log.answer("c2-join")
            assert ("NONE", "NONE", 2, 2) == (
                rejoined["error"],
                parked["error"],
                rejoined["generation_id"],
                parked["generation_id"],
            )
            assert before["rebalancing"].members.keys() == {rejoined["member_id"], parked["member_id"]}

            (topic,) = log.call("offsets", "c3-fetch", 6_000, api="offset_fetch")["topics"]
            assert [(41, "A")] == [(it["committed_offset"], it["topic_id"]) for it in topic["partitions"]]
            assert before["deleted"].is_dead
            fetched = log.call("deleted", "c5-fetch", 6_000, api="offset_fetch")
            assert ("NONE", []) == (fetched["error"], fetched["topics"])
            # And then nobody is heard of any more: its session began with the heartbeat.
            log.tick(5_000 + 30_000 + 1_000)
            query.processAllAvailable()
            described = log.call("stable", "c0-describe", 5_000 + 30_000, api="describe_group")
            assert ("Empty", []) == (described["group_state"], described["members"])
            query.processAllAvailable()
        finally:
            query.stop()

    after = {group.group_id: version_of(group.state) for group in export_checkpoint(spark, checkpoint).groups}
    assert dict.fromkeys(before, SCHEMA_VERSION) == after
    identity = read_identity(files)
    assert identity is not None
    assert (SCHEMA_VERSION, topic_ids) == (identity.schema_version, identity.topic_ids)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_export_becomes_a_checkpoint_of_this_version(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    checkpoint = unpacked(version, tmp_path)
    header = export_checkpoint(spark, checkpoint).header
    groups = list(export_checkpoint(spark, checkpoint).groups)
    restored = str(tmp_path / "restored")
    restore_checkpoint(
        spark, Export(header, iter(groups)), restored, header.identity, header.offsets, per_group
    )

    again = list(export_checkpoint(spark, restored).groups)
    assert {version} == {version_of(group.state) for group in groups}
    assert [(group.group_id, group.deadline_ms, group.group) for group in groups] == [
        (group.group_id, group.deadline_ms, group.group) for group in again
    ]
    assert SCHEMA_VERSION == export_checkpoint(spark, restored).header.identity.schema_version
