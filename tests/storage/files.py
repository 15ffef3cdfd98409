"""Files of a disk, of an object store and of HDFS, for tests that look into what a job has written."""

from __future__ import annotations

import getpass
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem, SubTreeFileSystem

from tests.patience import PATIENCE_S

__all__ = ["WEBHDFS", "Files", "files_of"]

WEBHDFS = "TESTS_WEBHDFS"
"""Variable with the address at which HDFS can be read over HTTP."""


class Files(Protocol):
    """Files below a place. Names are relative to it, with slashes."""

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory; none if it is not there."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it is not there."""


def files_of(place: str | Path) -> Files:
    """The files below a directory, an s3a or an hdfs URI; the environment says where the server is."""
    name = str(place)
    scheme, _, path = name.rpartition("://")
    match scheme:
        case "s3a":
            address = urlsplit(os.environ["AWS_ENDPOINT_URL"])
            store = S3FileSystem(
                endpoint_override=address.netloc, scheme=address.scheme, region=os.environ["AWS_REGION"]
            )
            return _ArrowFiles(SubTreeFileSystem(path, store))
        case "hdfs":
            return _WebFiles(f"{os.environ[WEBHDFS]}/webhdfs/v1{urlsplit(name).path}")
        case _:
            return _ArrowFiles(SubTreeFileSystem(name, LocalFileSystem()))


class _ArrowFiles:
    def __init__(self, system: FileSystem) -> None:
        self._system = system

    def names(self, directory: str) -> list[str]:
        found = self._system.get_file_info(FileSelector(directory, allow_not_found=True))
        return [each.base_name for each in found if each.type == FileType.File]

    def read(self, name: str) -> bytes | None:
        try:
            with self._system.open_input_stream(name) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None


class _WebFiles:
    """Of HDFS, by its REST interface (WebHDFS)."""

    def __init__(self, url: str) -> None:
        self._url = url

    def names(self, directory: str) -> list[str]:
        answer = self._get(directory, "LISTSTATUS")
        found = [] if answer is None else json.loads(answer)["FileStatuses"]["FileStatus"]
        return [each["pathSuffix"] for each in found if each["type"] == "FILE"]

    def read(self, name: str) -> bytes | None:
        return self._get(name, "OPEN")

    def _get(self, name: str, operation: str) -> bytes | None:
        try:
            # Some files are their owner's only.
            url = f"{self._url}/{quote(name)}?op={operation}&user.name={getpass.getuser()}"
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
