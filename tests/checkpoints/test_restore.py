from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.export import Export, ExportedGroup, ExportHeader, export_checkpoint
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import read_identity
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.restore import restore_checkpoint
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.streaming.query import per_group
from tests.checkpoints.conftest import claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

INT32, INT64 = 2**31 - 1, 2**63 - 1

pytestmark = pytest.mark.spark


def now_ms() -> int:
    return round(time.time() * 1000)


def exported(spark: SparkSession, checkpoint: str) -> tuple[ExportHeader, list[ExportedGroup]]:
    export = export_checkpoint(spark, checkpoint, with_secret=True)
    return export.header, list(export.groups)


def restore(spark: SparkSession, header: ExportHeader, groups: Any, checkpoint: str, **identity: Any) -> None:
    restored = msgspec.structs.replace(header.identity, **identity)
    restore_checkpoint(spark, Export(header, iter(groups)), checkpoint, restored, header.offsets, per_group)


def refusal(*arguments: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        restore(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_export_of_what_was_restored_is_the_same(
    spark: SparkSession, written: Harness, tmp_path: Path
) -> None:
    header, groups = exported(spark, written.settings.checkpoint)
    noted = [Standstill(0, 6, 8, batch=7, end_batch=9), Standstill(1, 4, batch=8)]
    header = msgspec.structs.replace(header, outages=[Outage(3, 5)], standstills=noted)
    checkpoint = str(tmp_path / "restored")
    restore(spark, header, groups, checkpoint, state_partitions=3, secret="s")
    header_again, groups_again = exported(spark, checkpoint)

    assert groups == groups_again
    # Batches have other numbers.
    assert header_again.standstills == [Standstill(0, 6, 8), Standstill(1, 4)]
    kept = {
        "batch_id": 0,
        "identity": header_again.identity,
        "standstills": header_again.standstills,
    }
    assert msgspec.structs.replace(header, **kept) == header_again
    assert (3, "s") == (header_again.identity.state_partitions, header_again.identity.secret)
    # What it was made with is gone, and the session is as it was.
    files = ["commits", "coordinator.json", "ledger.json", "metadata", "offsets", "state"]
    assert files == CheckpointFiles(spark, checkpoint).list()
    assert {"0", "1", "2"} <= {each.name for each in (tmp_path / "restored/state/0").iterdir()}
    assert "2" == spark.conf.get("spark.sql.shuffle.partitions")


def test_no_groups(spark: SparkSession, written: Harness, tmp_path: Path) -> None:
    header, _ = exported(spark, written.settings.checkpoint)
    noted = {"outages": [Outage(3, 5)], "standstills": [Standstill(1, 4)]}
    header = msgspec.structs.replace(header, groups=0, **noted)
    restore(spark, header, [], str(tmp_path / "restored"), request_topic="another")

    header_again, groups_again = exported(spark, str(tmp_path / "restored"))
    assert (header.offsets, header.watermark_ms, []) == (
        header_again.offsets,
        header_again.watermark_ms,
        groups_again,
    )
    # Its partitions are other ones.
    assert (header_again.outages, header_again.standstills) == ([Outage(3, 5)], [])


def test_a_coordinator_goes_on_from_what_was_restored(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Over all that can go wrong between two checkpoints: offsets, the watermark, deadlines, the operator.

    Offsets are kept for every time up to the longest, and looked at every second, before and after an outage.
    """
    from tests.streaming.harness import Harness

    interval = {"offsets_retention_check_interval_ms": 1_000}
    with Harness(spark, bootstrap_servers, tmp_path, **interval) as harness:
        claim(harness)
        harness.start()
        commit = {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}
        harness.call("offset_commit", "g", topics=[commit])
        kept = {
            f"kept for {ms}": ms for ms in (-1, 86_400_000, INT32, LATEST_MS - now_ms(), LATEST_MS, INT64)
        }
        for group_id, ms in ({"gone": 0} | kept).items():
            harness.call("offset_commit", group_id, api_version=2, retention_time_ms=ms, topics=[commit])
        harness.events.first(lambda event: event["event"] == "offsets_expired")
        join = {"api_version": 3, "session_timeout_ms": 6_000}
        member_id = harness.answer(harness.join("m", "c1", **join))["member_id"]
        harness.stop()
        header, groups = exported(spark, harness.settings.checkpoint)
        sent_meanwhile = harness.send("offset_fetch", "g", topics=None)
        restored = str(tmp_path / "restored")
        restore(spark, header, groups, restored, state_partitions=3)

        harness.settings = msgspec.structs.replace(harness.settings, checkpoint=restored, state_partitions=3)
        claim(harness)
        harness.start(clock=False, outages=[Outage(header.watermark_ms, now_ms())])
        (topic,) = harness.answer(sent_meanwhile)["topics"]
        assert [5] == [each["committed_offset"] for each in topic["partitions"]]
        # The clock of before goes on, and the member, whose deadline was restored, is silent.
        removed = harness.events.first(lambda event: event["event"] == "member_removed")
        assert ("m", member_id) == (removed["group_id"], removed["member_id"])
        answered = [answer["request_id"] for answer in harness.responses.values()]
        assert len(answered) == len(set(answered)), "nothing was read twice"
        for group_id in kept:
            (topic,) = harness.call("offset_fetch", group_id, topics=None)["topics"]
            assert [5] == [each["committed_offset"] for each in topic["partitions"]], group_id
        harness.stop()
        header, groups = exported(spark, restored)
        # The one of the member, which is deleted now or soon, aside.
        assert {"g", *kept} == {each.group_id for each in groups if each.group["state"] != "Dead"} - {"m"}
        # Their deadlines are later by the outage, and still ones that can be stored.
        restore(spark, header, groups, str(tmp_path / "again"))
        assert groups == exported(spark, str(tmp_path / "again"))[1]
        batch = newest_planned(CheckpointFiles(spark, restored))
        assert batch is not None
        assert "3" == batch.conf["spark.sql.shuffle.partitions"]


# -- what is refused -----------------------------------------------------------------------------------


def test_a_place_where_something_is(spark: SparkSession, written: Harness, tmp_path: Path) -> None:
    header, groups = exported(spark, written.settings.checkpoint)
    (tmp_path / "mine").write_text("something")

    assert f"{tmp_path} is not empty: name a new directory" == refusal(spark, header, groups, str(tmp_path))
    assert ["mine"] == [each.name for each in tmp_path.iterdir()]


def test_a_restore_that_was_not_finished_is_recognised(
    spark: SparkSession, written: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies at each of its steps; no coordinator starts from what is left, and no restore goes on in it."""
    header, groups = exported(spark, written.settings.checkpoint)
    for number, step in enumerate(("frames", "_run_one_batch", "rewrite_first_batch", "write_identity")):
        checkpoint = str(tmp_path / str(number))
        with monkeypatch.context() as patch:
            patch.setattr(
                f"group_coordinator.checkpoints.restore.{step}",
                lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
            )
            with pytest.raises(KeyboardInterrupt):
                restore(spark, header, groups, checkpoint)

        with monkeypatch.context() as patch:
            settings = msgspec.structs.replace(written.settings, checkpoint=checkpoint)
            patch.setattr(written, "settings", settings)
            with pytest.raises(
                CheckpointError, match="was not restored to the end: delete the directory and"
            ):
                claim(written)
        assert "was not restored to the end: delete the directory first" in refusal(
            spark, header, groups, checkpoint
        )


def test_half_an_export_is_not_restored(spark: SparkSession, written: Harness, tmp_path: Path) -> None:
    def half():
        yield from groups[:2]
        raise CheckpointError("it.jsonl has 2 groups and should have 4: export again")

    header, groups = exported(spark, written.settings.checkpoint)

    assert "it.jsonl has 2 groups and should have 4: export again" == refusal(
        spark, header, half(), str(tmp_path / "restored")
    )
    assert read_identity(CheckpointFiles(spark, str(tmp_path / "restored"))) is None
