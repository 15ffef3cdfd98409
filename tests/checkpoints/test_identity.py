from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.identity import open_checkpoint
from group_coordinator.coordinator_state.stored import READABLE_VERSIONS, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES: dict[str, Any] = {
    "request_topic": "requests",
    "clock_topic": "clock",
    "state_partitions": 2,
    "secret": "",
    "topic_ids": {"requests": "id-1", "clock": "id-2"},
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "below" / "checkpoint"


def refusal(spark: SparkSession, checkpoint: Path | str, **changes: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(spark, str(checkpoint), **(VALUES | changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(checkpoint: Path) -> dict[str, Any]:
    return dict(json.loads((checkpoint / "coordinator.json").read_text()))


def change(checkpoint: Path, **fields: Any) -> None:
    """Change the file as a program would, with the checksum that Hadoop keeps beside it."""
    (checkpoint / "coordinator.json").write_text(json.dumps(contents(checkpoint) | fields))
    (checkpoint / ".coordinator.json.crc").unlink()


def test_a_new_checkpoint_gets_a_secret_that_is_kept(spark: SparkSession, checkpoint: Path) -> None:
    first = open_checkpoint(spark, str(checkpoint), **VALUES)
    again = open_checkpoint(spark, str(checkpoint), **VALUES)

    assert first == again
    assert len(first) == 64


def test_each_checkpoint_gets_a_secret_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    secrets = {open_checkpoint(spark, str(tmp_path / name), **VALUES) for name in "abc"}

    assert len(secrets) == 3


def test_a_secret_of_the_settings_is_not_written_down(spark: SparkSession, checkpoint: Path) -> None:
    secret = open_checkpoint(spark, str(checkpoint), **(VALUES | {"secret": "hunter2"}))
    again = open_checkpoint(spark, str(checkpoint), **(VALUES | {"secret": "hunter2"}))

    assert (secret, again) == (b"hunter2", b"hunter2")
    assert contents(checkpoint)["secret"] == ""
    assert "hunter2" not in (checkpoint / "coordinator.json").read_text()


def test_the_directory_may_be_a_uri(spark: SparkSession, checkpoint: Path) -> None:
    first = open_checkpoint(spark, checkpoint.as_uri(), **VALUES)

    assert first == open_checkpoint(spark, str(checkpoint), **VALUES)


def test_only_the_owner_may_read_the_file(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)

    assert stat.filemode((checkpoint / "coordinator.json").stat().st_mode) == "-rw-------"


def test_no_other_file_is_left(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)

    assert [file.name for file in checkpoint.iterdir() if not file.name.endswith(".crc")] == [
        "coordinator.json"
    ]


def test_what_a_start_that_died_left_behind_does_not_matter(spark: SparkSession, checkpoint: Path) -> None:
    checkpoint.mkdir(parents=True)
    (checkpoint / ".coordinator.json.0badcafe").write_text('{"schema_ver')
    secret = open_checkpoint(spark, str(checkpoint), **VALUES)

    assert secret == open_checkpoint(spark, str(checkpoint), **VALUES)


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("topics.requests", "request_topic", "others"),
        ("topics.clock", "clock_topic", "another"),
        ("state.partitions", "state_partitions", 3),
    ],
)
def test_refuses_what_the_checkpoint_was_not_made_with(
    spark: SparkSession, checkpoint: Path, setting: str, name: str, value: object
) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)

    assert refusal(spark, checkpoint, **{name: value}) == (
        f"checkpoint {checkpoint} was made with {setting} = {VALUES[name]}, and now it is {value}: "
        "set it back, or start with a new checkpoint"
    )


def test_refuses_a_topic_that_was_made_again(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)

    assert refusal(spark, checkpoint, topic_ids={"requests": "id-1", "clock": "id-3"}) == (
        f"topic clock is not the one that checkpoint {checkpoint} was made with (its id is id-3, and was "
        "id-2). It was deleted and made again, so the checkpoint's offsets mean nothing in it. To keep the "
        "groups, run `group-coordinator checkpoint export` and `restore`; to begin without them, choose a "
        "new checkpoint"
    )
    assert contents(checkpoint)["topic_ids"] == VALUES["topic_ids"]


def test_brokers_that_tell_no_topic_ids_do_not_matter(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    open_checkpoint(spark, str(checkpoint), **(VALUES | {"topic_ids": {}}))

    assert contents(checkpoint)["topic_ids"] == VALUES["topic_ids"]


def test_ids_that_brokers_did_not_tell_are_noted_when_they_do(spark: SparkSession, checkpoint: Path) -> None:
    secret = open_checkpoint(spark, str(checkpoint), **VALUES)
    complete = contents(checkpoint)
    change(checkpoint, topic_ids={})

    assert secret == open_checkpoint(spark, str(checkpoint), **VALUES)
    assert complete == contents(checkpoint)
    assert stat.filemode((checkpoint / "coordinator.json").stat().st_mode) == "-rw-------"


def test_a_refused_checkpoint_is_left_as_it_was(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    change(checkpoint, topic_ids={})
    refusal(spark, checkpoint, state_partitions=3)

    assert {} == contents(checkpoint)["topic_ids"]


# -- what Spark has noted ------------------------------------------------------------------------------

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARKS = "org.apache.spark.sql.execution.streaming.state."


def plan(checkpoint: Path, topic: str = "requests", **conf: str) -> None:
    (checkpoint / "offsets").mkdir()
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
    offsets = {topic: {"0": 7}, "clock": {"0": 9}}
    (checkpoint / "offsets/0").write_text("\n".join(["v1", json.dumps(metadata), json.dumps(offsets)]))


def test_accepts_what_it_has_written(spark: SparkSession, checkpoint: Path) -> None:
    secret = open_checkpoint(spark, str(checkpoint), **VALUES)
    plan(checkpoint, **{"spark.sql.shuffle.partitions": "2", PROVIDER: f"{SPARKS}RocksDBStateStoreProvider"})

    assert secret == open_checkpoint(spark, str(checkpoint), **VALUES)


def test_refuses_another_state_store(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    plan(checkpoint, **{PROVIDER: f"{SPARKS}HDFSBackedStateStoreProvider"})

    assert refusal(spark, checkpoint) == (
        f"checkpoint {checkpoint} was made with {PROVIDER} = {SPARKS}HDFSBackedStateStoreProvider, and now "
        f"it is {SPARKS}RocksDBStateStoreProvider: set it back, or start with a new checkpoint"
    )


def test_refuses_a_state_with_other_partitions(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    plan(checkpoint, **{"spark.sql.shuffle.partitions": "5"})

    assert refusal(spark, checkpoint) == (
        f"checkpoint {checkpoint} has 5 state partitions in Spark's log, and 2 in its coordinator.json: the "
        "two do not belong together. Restore an export"
    )


def test_refuses_offsets_of_other_topics(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    plan(checkpoint, topic="others")

    assert f"checkpoint {checkpoint} has offsets of topic others, which is none of its" in refusal(
        spark, checkpoint
    )


def test_refuses_a_new_checkpoint_with_two_numbers_of_partitions(
    spark: SparkSession, checkpoint: Path
) -> None:
    """The session of the tests has 2."""
    assert refusal(spark, checkpoint, state_partitions=3) == (
        "spark.sql.shuffle.partitions is 2, and state.partitions is 3: set only the latter"
    )
    assert not checkpoint.exists()


def test_refuses_what_was_not_restored_to_the_end(spark: SparkSession, checkpoint: Path) -> None:
    checkpoint.mkdir(parents=True)
    (checkpoint / "restoring").touch()

    assert refusal(spark, checkpoint) == (
        f"checkpoint {checkpoint} was not restored to the end: delete the directory and restore it again"
    )


@pytest.mark.parametrize("version", [READABLE_VERSIONS[0] - 1, SCHEMA_VERSION + 1])
def test_refuses_a_state_of_another_version(spark: SparkSession, checkpoint: Path, version: int) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    change(checkpoint, schema_version=version)

    assert refusal(spark, checkpoint) == (
        f"checkpoint {checkpoint} was made by another version of this program (its schema version is "
        f"{version}, this program reads {READABLE_VERSIONS[0]} to {SCHEMA_VERSION}): run that one"
    )


@pytest.mark.parametrize(
    ("first", "then", "advice"),
    [
        ("hunter2", "other", "was made with another member.id.secret: set that one"),
        ("", "other", "was made with another member.id.secret: set that one"),
        ("hunter2", "", "was made with a member.id.secret of its own: set member.id.secret"),
    ],
)
def test_refuses_another_secret(
    spark: SparkSession, checkpoint: Path, first: str, then: str, advice: str
) -> None:
    open_checkpoint(spark, str(checkpoint), **(VALUES | {"secret": first}))
    message = refusal(spark, checkpoint, secret=then)

    assert advice in message
    assert "hunter2" not in message


def test_refuses_the_checkpoint_of_another_query(spark: SparkSession, checkpoint: Path) -> None:
    (checkpoint / "offsets").mkdir(parents=True)

    assert refusal(spark, checkpoint) == (
        f"{checkpoint} is the checkpoint of some other query (it has no coordinator.json): "
        "choose another directory"
    )
    assert [file.name for file in checkpoint.iterdir()] == ["offsets"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"{}", b'{"schema_version": "one"}', b'{"schema_version": 1}']
)
def test_refuses_a_file_that_it_has_not_written(
    spark: SparkSession, checkpoint: Path, content: bytes
) -> None:
    checkpoint.mkdir(parents=True)
    (checkpoint / "coordinator.json").write_bytes(content)

    assert "coordinator.json cannot be read: " in refusal(spark, checkpoint)


def test_refuses_a_file_that_somebody_has_changed(spark: SparkSession, checkpoint: Path) -> None:
    open_checkpoint(spark, str(checkpoint), **VALUES)
    with (checkpoint / "coordinator.json").open("a") as file:
        file.write(" ")

    assert f"cannot use checkpoint {checkpoint}: " in refusal(spark, checkpoint)


def test_refuses_a_place_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    assert f"cannot use checkpoint {tmp_path}/file/checkpoint: " in refusal(
        spark, tmp_path / "file/checkpoint"
    )


@pytest.mark.parametrize("uri", ["nosuch://bucket/checkpoint", "not a uri:/x", "s3a://bucket/checkpoint"])
def test_refuses_a_place_that_spark_cannot_reach(spark: SparkSession, uri: str) -> None:
    assert f"cannot use checkpoint {uri}: " in refusal(spark, uri)
