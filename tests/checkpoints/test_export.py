from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from group_coordinator.checkpoints.delta import is_delta, read_delta, write_delta
from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.export import Export, ExportedGroup, ExportHeader, export_checkpoint
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import Identity, read_identity, write_identity
from group_coordinator.checkpoints.json_lines import read_json_lines, write_json_lines
from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.offset_log import committed_batches, newest_committed
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.coordinator_state.stored import (
    READABLE_VERSIONS,
    SCHEMA_VERSION,
    decode_group,
    encode_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark


def exported(
    spark: SparkSession, harness: Harness, **options: int
) -> tuple[ExportHeader, list[ExportedGroup]]:
    export = export_checkpoint(spark, harness.settings.checkpoint, **options)
    return export.header, list(export.groups)


def test_what_is_exported(spark: SparkSession, written: Harness) -> None:
    header, groups = exported(spark, written)
    batch = newest_committed(CheckpointFiles(spark, written.settings.checkpoint))

    assert batch is not None
    assert (batch.batch_id, batch.offsets) == (header.batch_id, header.offsets)
    assert (batch.next_watermark_ms, SCHEMA_VERSION, 4) == (
        header.watermark_ms,
        header.schema_version,
        header.groups,
    )
    assert written.settings.topics_requests == header.identity.request_topic
    assert ["a", "b", "c", "d"] == [group.group_id for group in groups]
    for group in groups:
        stored = decode_group(group.state)
        assert (group.group_id, group.state) == (stored.group_id, encode_group(stored))
        assert group.deadline_ms is not None
        assert group.deadline_ms > header.watermark_ms
    *empty, alone = [group.group for group in groups]
    assert ["Empty"] * 3 == [group["state"] for group in empty]
    assert [40, 41, 42] == [each["offset"] for each in empty[2]["offsets"]]
    assert {"topic": "orders", "partition": 2}.items() <= empty[2]["offsets"][2].items()
    ((member_id, member),) = alone["members"].items()
    assert ("CompletingRebalance", 1) == (alone["state"], alone["generation_id"])
    assert (member_id, 600_000) == (member["member_id"], member["session_timeout_ms"])


def test_an_earlier_batch(spark: SparkSession, written: Harness) -> None:
    """The second request was sent when the first one had been answered."""
    first, *_ = committed_batches(CheckpointFiles(spark, written.settings.checkpoint))
    header, groups = exported(spark, written, batch_id=first)

    assert (first, len(groups)) == (header.batch_id, header.groups)
    assert ["a"] >= [group.group_id for group in groups]


def test_json_lines_give_back_what_was_written(spark: SparkSession, written: Harness, tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    write_json_lines(export_checkpoint(spark, written.settings.checkpoint), file)
    read = read_json_lines(file)

    assert exported(spark, written) == (read.header, list(read.groups))
    assert [file] == list(tmp_path.iterdir())
    assert "-rw-------" == stat.filemode(file.stat().st_mode)
    assert "a" == json.loads(file.read_text().splitlines()[1])["group"]["group_id"]


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[None]:
    """The session of the tests was not made for Delta, which the other tests do without."""
    name = "spark.databricks.delta.requiredSparkConfsCheck.enabled"
    spark.conf.set(name, "false")
    yield
    spark.conf.unset(name)


@pytest.mark.verify
@pytest.mark.usefixtures("delta")
def test_a_delta_table_gives_back_what_was_written(
    spark: SparkSession, written: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("group_coordinator.checkpoints.frames._ROWS", 3)  # so that one frame is not enough
    directory = str(tmp_path / "table")
    assert not is_delta(spark, directory)
    write_delta(spark, export_checkpoint(spark, written.settings.checkpoint), directory)
    read = read_delta(spark, directory)

    assert is_delta(spark, directory)
    assert "drwx------" == stat.filemode(Path(directory).stat().st_mode), "others do not come to the secret"
    assert exported(spark, written) == (read.header, list(read.groups))
    with pytest.raises(CheckpointError, match=r"^cannot write .*table.*already exist"):
        write_delta(spark, export_checkpoint(spark, written.settings.checkpoint), directory)


@pytest.mark.verify
@pytest.mark.usefixtures("delta")
def test_a_delta_table_that_was_not_written_to_the_end(spark: SparkSession, tmp_path: Path) -> None:
    directory = str(tmp_path / "table")
    frame = spark.createDataFrame(
        [("a", 1, b"", "{}", None)],
        "group_id STRING, deadline_ms BIGINT, state BINARY, group STRING, header STRING",
    )
    frame.write.format("delta").save(directory)

    with pytest.raises(CheckpointError, match="is not an export, or not a whole one: export again"):
        read_delta(spark, directory)


@pytest.mark.parametrize("with_secret", [False, True])
def test_the_secret_is_only_exported_if_asked_for(
    spark: SparkSession, written: Harness, tmp_path: Path, with_secret: bool
) -> None:
    """Here it was drawn; in the other tests it is in the settings, and never in the checkpoint."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(written.settings.checkpoint, copy)
    files = CheckpointFiles(spark, str(copy))
    identity = read_identity(files)
    assert identity is not None
    write_identity(files, msgspec.structs.replace(identity, secret="drawn", secret_sha256="digest"))
    exported = export_checkpoint(spark, str(copy), with_secret=with_secret).header.identity

    assert ("drawn" if with_secret else "", "digest") == (exported.secret, exported.secret_sha256)


# -- the notes of the ledger -------------------------------------------------------------------------


def test_the_notes_know_of_no_batches(tmp_path: Path) -> None:
    """Batches have other numbers where they go."""
    standstills = [Standstill(0, 6, 8, batch=7, end_batch=9), Standstill(1, 4, batch=8)]
    file = tmp_path / "it.jsonl"
    write(file, header(0, outages=[Outage(3, 5)], standstills=standstills))
    read = read_json_lines(file).header

    assert (read.outages, read.standstills) == ([Outage(3, 5)], standstills)
    assert read.notes == Notes((Outage(3, 5),), (Standstill(0, 6, 8), Standstill(1, 4)))
    assert read.notes.as_of(0) == read.notes


def test_an_export_of_a_version_that_noted_no_batches(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    before = {"outages": [[3, 5, False]], "standstills": [[0, 6, 8], [1, 4, None]], "shifts": [[0, 7, -12]]}
    file.write_text(json.dumps(msgspec.to_builtins(header(0)) | before) + "\n")

    expected = Notes((Outage(3, 5),), (Standstill(0, 6, 8), Standstill(1, 4)))
    assert read_json_lines(file).header.notes == expected


# -- what cannot be exported, or read ------------------------------------------------------------------


def test_what_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not the checkpoint of a coordinator: name one that is"):
        export_checkpoint(spark, str(tmp_path))


def header(groups: int, **fields: Any) -> ExportHeader:
    identity = Identity(
        schema_version=1, request_topic="r", clock_topic="c", state_partitions=2, secret="", secret_sha256=""
    )
    values = {"schema_version": SCHEMA_VERSION, "batch_id": 7, "watermark_ms": 5} | fields
    return ExportHeader(**values, offsets={"r": {0: 1}}, groups=groups, identity=identity)


def write(file: Path, header: ExportHeader, *groups: ExportedGroup) -> None:
    write_json_lines(Export(header, iter(groups)), file)


A = ExportedGroup(group_id="a", deadline_ms=None, state=b"\x00\xff", group={"state": "Empty"})


def refusal(file: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        list(read_json_lines(file).groups)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_export_that_lost_its_end(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    write(file, header(2), A)

    assert f"{file} has 1 groups and should have 2: export again" == refusal(file)
    file.write_bytes(file.read_bytes()[:-5])
    assert f"{file} is not an export: line 2: " in refusal(file)


@pytest.mark.parametrize(
    "other",
    [
        {"schema_version": SCHEMA_VERSION + 1},
        {"schema_version": READABLE_VERSIONS[0] - 1},
        {"format_version": 2},
    ],
)
def test_an_export_of_another_version_of_the_program(tmp_path: Path, other: dict[str, int]) -> None:
    file = tmp_path / "it.jsonl"
    write(file, header(0, **other))

    assert f"{file} was written by another version of this program: use that one" == refusal(file)


@pytest.mark.parametrize("content", ["", "{}", "\xff", "[1]\n"])
def test_what_is_no_export(tmp_path: Path, content: str) -> None:
    file = tmp_path / "it.jsonl"
    file.write_text(content, encoding="latin-1")

    assert f"{file} is not an export: line 1: " in refusal(file)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert f"cannot read {tmp_path}/it.jsonl: No such file or directory" == refusal(tmp_path / "it.jsonl")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^cannot write .*/no/it.jsonl: No such file or directory$"):
        write(tmp_path / "no" / "it.jsonl", header(0))


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "it.jsonl"
    file.write_text("mine")
    with pytest.raises(CheckpointError, match=r"it\.jsonl exists: name another file"):
        write(file, header(0))

    assert "mine" == file.read_text()


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def groups():
        yield A
        raise CheckpointError("gone")

    with pytest.raises(CheckpointError, match="gone"):
        write_json_lines(Export(header(2), groups()), tmp_path / "it.jsonl")

    assert [] == list(tmp_path.iterdir())
