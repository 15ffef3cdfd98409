"""The identity of a checkpoint: what has to be the same each time a coordinator starts from it.

Spark keeps the number of state partitions in its own way and would mix or lose groups without a word if
it changed; a different secret would give a batch that runs again other member ids than the first time.
Both are written into the checkpoint when it is new, and compared from then on.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from coordinator_state.step import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CheckpointError", "Identity", "open_checkpoint"]

_FILE = "coordinator.json"


class CheckpointError(Exception):
    """The checkpoint does not belong to a coordinator with these settings; the message says what to do."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What is written into a checkpoint. `secret` is hex, and empty if it is kept in the settings."""

    schema_version: int
    request_topic: str
    clock_topic: str
    state_partitions: int
    secret: str
    secret_sha256: str


def open_checkpoint(
    spark: SparkSession,
    checkpoint: str,
    *,
    request_topic: str,
    clock_topic: str,
    state_partitions: int,
    secret: str,
) -> bytes:
    """Claim a new checkpoint or recognise an old one; return the secret for member ids.

    `checkpoint` is a directory or a URI of any Hadoop file system; an empty `secret` means that one is
    drawn for a new checkpoint and kept in it. Raises `CheckpointError` if the checkpoint was made with
    other values, or by something else, or cannot be read or written.
    """
    try:
        files = _Files(spark, checkpoint)
        found = files.read()
        if found is None:
            if files.has_offsets():
                raise CheckpointError(
                    f"{checkpoint} is the checkpoint of some other query (it has no {_FILE}): "
                    "choose another directory"
                )
            drawn = "" if secret else secrets.token_hex(32)
            found = Identity(
                schema_version=SCHEMA_VERSION,
                request_topic=request_topic,
                clock_topic=clock_topic,
                state_partitions=state_partitions,
                secret=drawn,
                secret_sha256=_sha256(secret or drawn),
            )
            files.write(found)
    except (Py4JJavaError, PySparkException) as error:
        raise CheckpointError(f"cannot use checkpoint {checkpoint}: {_first_line(error)}") from None
    if found.schema_version > SCHEMA_VERSION:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made by a newer version of this program (its schema version is "
            f"{found.schema_version}, this program reads 1 to {SCHEMA_VERSION}): run that one"
        )
    _compare(checkpoint, "topics.requests", found.request_topic, request_topic)
    _compare(checkpoint, "topics.clock", found.clock_topic, clock_topic)
    _compare(checkpoint, "state.partitions", found.state_partitions, state_partitions)
    if secret and found.secret_sha256 != _sha256(secret):
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with another member.id.secret: "
            "set that one, or start with a new checkpoint"
        )
    if not secret and not found.secret:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with a member.id.secret of its own: set member.id.secret"
        )
    return (secret or found.secret).encode()


def _first_line(error: Py4JJavaError | PySparkException) -> str:
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).strip().splitlines()[0]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _compare(checkpoint: str, name: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise CheckpointError(
            f"checkpoint {checkpoint} was made with {name} = {found}, and now it is {wanted}: "
            "set it back, or start with a new checkpoint"
        )


class _Files:
    """The identity file through Hadoop's file systems, so that an object store works as a disk does."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        # pyspark has no file API of its own.
        session: Any = spark
        self._jvm = session._jvm  # noqa: SLF001
        self._root = self._jvm.org.apache.hadoop.fs.Path(checkpoint)
        self._file = self._jvm.org.apache.hadoop.fs.Path(self._root, _FILE)
        self._system = self._root.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001

    def has_offsets(self) -> bool:
        return bool(self._system.exists(self._jvm.org.apache.hadoop.fs.Path(self._root, "offsets")))

    def read(self) -> Identity | None:
        if not self._system.exists(self._file):
            return None
        stream = self._system.open(self._file)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        try:
            return msgspec.json.decode(text, type=Identity)
        except msgspec.DecodeError as error:
            raise CheckpointError(f"{self._file.toString()} cannot be read: {error}") from None

    def write(self, identity: Identity) -> None:
        # Under another name first: a coordinator that dies in between leaves no half a file behind.
        self._system.mkdirs(self._root)
        temporary = self._jvm.org.apache.hadoop.fs.Path(self._root, f".{_FILE}.{secrets.token_hex(4)}")
        stream = self._system.create(temporary)
        # It holds the secret. Stores without permissions ignore this.
        self._system.setPermission(temporary, self._jvm.org.apache.hadoop.fs.permission.FsPermission("600"))
        try:
            stream.write(msgspec.json.encode(identity))
        finally:
            stream.close()
        if not self._system.rename(temporary, self._file):
            raise CheckpointError(f"cannot write {self._file.toString()}")
