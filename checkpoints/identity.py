"""The identity of a checkpoint: what has to be the same each time a coordinator starts from it.

Spark keeps the number of state partitions in its own way and would mix or lose groups without a word if
it changed; offsets mean something else in a topic that was deleted and made again under the same name; a
different secret would give a batch that runs again other member ids than the first time. All of it is written
into the checkpoint when it is new, and compared from then on.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.topics import made_anew
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.coordinator_state.stored import READABLE_VERSIONS, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
RESTORING = "restoring"
"""A file that is in a checkpoint for as long as it is being restored."""

IDENTITY_FILE = "coordinator.json"
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity as a checkpoint has it. `secret` is hex, and empty if the settings have it.

    `topic_ids`: Kafka's ids (KIP-516) of the topics that are read, by name; of those whose ids are known.
    """

    schema_version: int
    request_topic: str
    clock_topic: str
    state_partitions: int
    secret: str
    secret_sha256: str
    topic_ids: dict[str, str] = {}


def open_checkpoint(
    spark: SparkSession,
    checkpoint: str,
    *,
    request_topic: str,
    clock_topic: str,
    state_partitions: int,
    secret: str,
    topic_ids: Mapping[str, str],
) -> bytes:
    """Claim a new checkpoint or recognise an old one; return the secret for member ids.

    `checkpoint` is a directory or a URI of any Hadoop file system; an empty `secret` means that one is
    drawn for a new checkpoint and kept in it; `topic_ids` are those of the two topics, as Kafka has them now,
    without those that it does not tell. Raises `CheckpointError` if the checkpoint was made with other
    values, or by something else, or cannot be read or written.
    """
    files = CheckpointFiles(spark, checkpoint)
    drawn = "" if secret else secrets.token_hex(32)
    wanted = Identity(
        schema_version=SCHEMA_VERSION,
        request_topic=request_topic,
        clock_topic=clock_topic,
        state_partitions=state_partitions,
        secret=drawn,
        secret_sha256=secret_sha256(secret or drawn),
        topic_ids=dict(topic_ids),
    )
    found = recognise(spark, files, wanted)
    if found is None:
        found = wanted
        write_identity(files, found)
    _complete(files, found, topic_ids)
    return (secret or found.secret).encode()


def recognise(spark: SparkSession, files: CheckpointFiles, wanted: Identity) -> Identity | None:
    """The identity of a checkpoint that goes with `wanted`; None of a new one. Changes nothing.

    `wanted.secret` is empty if the settings have it. Raises `CheckpointError` as `open_checkpoint` does.
    """
    checkpoint = files.checkpoint
    if files.exists(RESTORING):
        raise CheckpointError(
            f"checkpoint {checkpoint} was not restored to the end: delete the directory and restore it again"
        )
    found = read_identity(files)
    if found is None:
        if files.exists("offsets"):
            raise CheckpointError(
                f"{checkpoint} is the checkpoint of some other query (it has no {IDENTITY_FILE}): "
                "choose another directory"
            )
        _check_partitions(spark, wanted.state_partitions)
        return None
    compare(checkpoint, "topics.requests", found.request_topic, wanted.request_topic)
    compare(checkpoint, "topics.clock", found.clock_topic, wanted.clock_topic)
    compare(checkpoint, "state.partitions", found.state_partitions, wanted.state_partitions)
    if not wanted.secret and found.secret_sha256 != wanted.secret_sha256:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with another member.id.secret: "
            "set that one, or start with a new checkpoint"
        )
    if wanted.secret and not found.secret:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with a member.id.secret of its own: set member.id.secret"
        )
    check_topics(checkpoint, found.topic_ids, wanted.topic_ids)
    _check_log(spark, files, found)
    return found


def read_identity(files: CheckpointFiles) -> Identity | None:
    """The identity of a checkpoint; None if it has none.

    Raises `CheckpointError` for one that cannot be read, or that another version of the program has written.
    """
    text = files.read(IDENTITY_FILE)
    if text is None:
        return None
    try:
        found = ForeignJson[Identity](Identity).read(text)
    except UnreadableError as error:
        raise CheckpointError(f"{files.name(IDENTITY_FILE)} cannot be read: {error}") from None
    if found.schema_version not in READABLE_VERSIONS:
        first, *_, last = READABLE_VERSIONS
        raise CheckpointError(
            f"checkpoint {files.checkpoint} was made by another version of this program (its schema version "
            f"is {found.schema_version}, this program reads {first} to {last}): run that one"
        )
    return found


def known_identity(files: CheckpointFiles) -> Identity:
    """The identity of a checkpoint that must have one. Raises `CheckpointError`."""
    identity = read_identity(files)
    if identity is None:
        raise not_a_checkpoint(files.checkpoint)
    return identity


def not_a_checkpoint(checkpoint: str) -> CheckpointError:
    """Return the error for a place that has no identity in it."""
    return CheckpointError(f"{checkpoint} is not the checkpoint of a coordinator: name one that is")


def write_identity(files: CheckpointFiles, identity: Identity) -> None:
    """Write the identity, for its owner only: it may hold the secret."""
    files.write(IDENTITY_FILE, msgspec.json.encode(identity), private=True)


def secret_sha256(secret: str) -> str:
    """Return the hash by which an identity recognises a secret that it does not contain."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _complete(files: CheckpointFiles, found: Identity, topic_ids: Mapping[str, str]) -> None:
    """Note the ids of topics that Kafka did not tell before, and that older programs cannot read it now."""
    complete = msgspec.structs.replace(
        found, schema_version=SCHEMA_VERSION, topic_ids={**topic_ids, **found.topic_ids}
    )
    if complete != found:
        write_identity(files, complete)


def compare(checkpoint: str, name: str, found: object, wanted: object) -> None:
    """Raise `CheckpointError` if the setting `name` is not the one that the checkpoint was made with."""
    if found != wanted:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with {name} = {found}, and now it is {wanted}: "
            "set it back, or start with a new checkpoint"
        )


def check_topics(checkpoint: str, known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise `CheckpointError` if the id of a topic `now` is not the one that is `known`."""
    for topic, before, topic_id in made_anew(known, now):
        raise CheckpointError(
            f"topic {topic} is not the one that checkpoint {checkpoint} was made with (its id is "
            f"{topic_id}, and was {before}). It was deleted and made again, so the checkpoint's offsets "
            "mean nothing in it. To keep the groups, run `group-coordinator checkpoint export` and "
            "`restore`; to begin without them, choose a new checkpoint"
        )


def _check_log(spark: SparkSession, files: CheckpointFiles, found: Identity) -> None:
    """Compare with what Spark has noted. It would go on with its own settings without a word."""
    batch = newest_planned(files)
    if batch is None:
        return
    others = batch.offsets.keys() - {found.request_topic, found.clock_topic}
    if others:
        raise CheckpointError(
            f"checkpoint {files.checkpoint} has offsets of topic {min(others)}, which is none of its "
            "coordinator's: choose another directory, or restore an export"
        )
    partitions = batch.conf.get(PARTITIONS, str(found.state_partitions))
    if partitions != str(found.state_partitions):
        raise CheckpointError(
            f"checkpoint {files.checkpoint} has {partitions} state partitions in Spark's log, and "
            f"{found.state_partitions} in its {IDENTITY_FILE}: the two do not belong together. Restore an "
            "export"
        )
    provider = spark.conf.get(_STATE_STORE)
    compare(files.checkpoint, _STATE_STORE, batch.conf.get(_STATE_STORE, provider), provider)


def _check_partitions(spark: SparkSession, state_partitions: int) -> None:
    partitions = spark.conf.get(PARTITIONS)
    if partitions != str(state_partitions):
        raise CheckpointError(
            f"{PARTITIONS} is {partitions}, and state.partitions is {state_partitions}: set only the latter"
        )
