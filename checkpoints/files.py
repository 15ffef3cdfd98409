"""The files of a checkpoint through Hadoop's file systems, so that an object store works as a disk does."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.jobs.java_errors import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_ABORTABLE = "fs.capability.outputstream.abortable"
"""Hadoop's name for that in its file systems (CommonPathCapabilities)."""


class CheckpointFiles:
    """Small files below `checkpoint`, a directory or a URI of any Hadoop file system.

    Names are relative to it, with slashes (`offsets/3`). All methods raise `CheckpointError` if the place
    cannot be reached, read or written; `what` is how its message calls the place.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, what: str = "checkpoint") -> None:
        self.checkpoint = checkpoint
        self._what = what
        # pyspark has no file API of its own.
        session: Any = spark
        self._jvm = session._jvm  # noqa: SLF001
        self._gateway = session.sparkContext._gateway  # noqa: SLF001
        with self._errors():
            self._root = self._jvm.org.apache.hadoop.fs.Path(checkpoint)
            self._system = self._root.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001

    def absolute(self) -> str:
        """The whole path: Delta takes a relative one for the name of a table."""
        with self._errors():
            if self._root.isAbsolute():
                return self.checkpoint
            return str(self._system.makeQualified(self._root).toString())

    def name(self, name: str) -> str:
        """The whole name of a file, for messages."""
        return f"{self.checkpoint.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        """Whether there is such a file or directory."""
        with self._errors():
            return bool(self._system.exists(self._path(name)))

    def list(self, directory: str = "") -> list[str]:
        """Names of what is in `directory`, without its own name, sorted; empty if it is not there."""
        with self._errors():
            path = self._path(directory)
            if not self._system.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in self._system.listStatus(path))

    def read(self, name: str) -> str | None:
        """The text of a file; None if it is not there."""
        with self._errors():
            if not self._system.exists(self._path(name)):
                return None
            stream = self._system.open(self._path(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, content: bytes, *, private: bool = False) -> None:
        """Write a file, in the place of one that is there. `private`: only its owner may read it."""
        with self._errors():
            path = self._path(name)
            if self._appears_whole(path):
                self._put(path, content)
                return
            self.create()
            self._system.mkdirs(path.getParent())
            # Under another name first: who dies in between leaves no half a file behind.
            temporary = self._jvm.org.apache.hadoop.fs.Path(
                path.getParent(), f".{path.getName()}.{secrets.token_hex(4)}"
            )
            stream = self._system.create(temporary)
            if private:
                self._system.setPermission(temporary, self._mode("600"))
            try:
                stream.write(content)
            finally:
                stream.close()
            self._rename(temporary, path)

    def create(self) -> None:
        """Make the directory for its owner only, unless it is there: others may have to look into that."""
        if not self.exists(""):
            self.make_private()

    def make_private(self) -> None:
        """Make the directory, if it is not there, and let only its owner look into it."""
        with self._errors():
            mode = self._mode("700")
            self._system.mkdirs(self._root, mode)
            self._system.setPermission(self._root, mode)

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with all that is in it; nothing if it is not there."""
        with self._errors():
            self._system.delete(self._path(name), True)

    def size(self) -> int:
        """Bytes in all files, without the checksums that Hadoop keeps beside them."""
        with self._errors():
            return int(self._system.getContentSummary(self._root).getLength())

    def _appears_whole(self, path: Any) -> bool:
        """Whether a file is not seen before it is closed, as in object stores."""
        return bool(self._system.hasPathCapability(path, _ABORTABLE))

    def _put(self, path: Any, content: bytes) -> None:
        """Write an object. It is there, whole and in the place of one before, once it is closed.

        A rename would copy it, after it had deleted the one before: who dies in between leaves none behind.
        """
        stream = self._system.create(path, True)
        try:
            stream.write(content)
        except BaseException:
            stream.abort()
            raise
        finally:
            stream.close()

    def _rename(self, temporary: Any, path: Any) -> None:
        if self._system.exists(path):
            # FileSystem's rename does not replace a file everywhere; FileContext's does, in one step.
            hadoop = self._jvm.org.apache.hadoop.fs
            rename = getattr(hadoop, "Options$Rename")
            options = self._gateway.new_array(rename, 1)
            options[0] = rename.OVERWRITE
            hadoop.FileContext.getFileContext(path.toUri()).rename(temporary, path, options)
        elif not self._system.rename(temporary, path):
            raise CheckpointError(f"cannot write {path.toString()}")

    def _mode(self, octal: str) -> Any:
        # Stores without permissions ignore it.
        return self._jvm.org.apache.hadoop.fs.permission.FsPermission(octal)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            raise CheckpointError(f"cannot use {self._what} {self.checkpoint}: {first_line(error)}") from None
