from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_what_is_written_can_be_read(files: CheckpointFiles, tmp_path: Path) -> None:
    files.write("below/it.json", "grüße".encode())

    assert "grüße" == files.read("below/it.json")
    assert "grüße" == (tmp_path / "checkpoint/below/it.json").read_text(encoding="utf-8")


def test_a_file_is_replaced_and_no_other_is_left(files: CheckpointFiles, tmp_path: Path) -> None:
    files.write("it", b"first")
    files.write("it", b"second")

    assert "second" == files.read("it")
    assert {"it", ".it.crc"} == {each.name for each in (tmp_path / "checkpoint").iterdir()}


def test_a_write_that_fails_leaves_the_file_as_it_was(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("it", b"first")
    monkeypatch.setattr(CheckpointFiles, "_rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write("it", b"second")

    assert "first" == files.read("it")


def test_where_a_file_appears_whole_it_is_not_renamed(
    files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename in an object store deletes the file before, and copies the new one to its place."""
    monkeypatch.setattr(CheckpointFiles, "_appears_whole", lambda *_: True)
    monkeypatch.setattr(CheckpointFiles, "_rename", lambda *_: pytest.fail("renamed"))
    files.write("it", b"first")
    files.write("it", b"second")

    assert "second" == files.read("it")


@pytest.mark.parametrize("before", [None, b"open to all"])
def test_a_private_file_is_its_owners(files: CheckpointFiles, tmp_path: Path, before: bytes | None) -> None:
    if before is not None:
        files.write("it", before)
    files.write("it", b"secret", private=True)

    assert "-rw-------" == stat.filemode((tmp_path / "checkpoint/it").stat().st_mode)


def test_the_directory_is_its_owners(files: CheckpointFiles, tmp_path: Path) -> None:
    """So Spark's own files below it are as well, whose mode is that of all new files."""
    before = tmp_path.stat().st_mode
    files.write("offsets/3", b"it")

    assert "drwx------" == stat.filemode((tmp_path / "checkpoint").stat().st_mode)
    assert before == tmp_path.stat().st_mode


def test_a_directory_that_was_there_is_as_it_was(files: CheckpointFiles, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint").chmod(0o750)
    files.write("it", b"it")
    files.create()

    assert "drwxr-x---" == stat.filemode((tmp_path / "checkpoint").stat().st_mode)


def test_what_is_not_there(files: CheckpointFiles) -> None:
    assert files.read("it") is None
    assert [] == files.list()
    assert [] == files.list("offsets")
    assert not files.exists("it")
    files.delete("it")


def test_list_names_files_and_directories(files: CheckpointFiles) -> None:
    for name in ("offsets/10", "offsets/9", "metadata"):
        files.write(name, b"x")

    assert ["metadata", "offsets"] == files.list()
    assert ["10", "9"] == files.list("offsets")


def test_delete_takes_all_below(files: CheckpointFiles) -> None:
    files.write("sources/0/0", b"x")
    files.delete("sources")

    assert [] == files.list()


def test_size_counts_all_files(files: CheckpointFiles) -> None:
    files.write("a", b"x" * 100)
    files.write("b/c", b"x" * 23)

    assert 123 == files.size()


def test_a_place_that_cannot_be_reached_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(CheckpointError, match=r"^cannot use checkpoint nosuch://x: .*\S$"):
        CheckpointFiles(spark, "nosuch://x")
