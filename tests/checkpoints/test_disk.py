"""The room that a checkpoint takes on a disk, held against `du` and `df`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from group_coordinator.checkpoints.disk import Room, local_path, plain_place, room_of
from group_coordinator.checkpoints.errors import CheckpointError


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [
        ("/var/lib/coordinator", "/var/lib/coordinator"),
        ("here", "here"),
        ("a:b", "a:b"),
        ("file:/var/lib/coordinator", "/var/lib/coordinator"),
        ("file:///var/lib/coordinator", "/var/lib/coordinator"),
        ("s3a://bucket/coordinator", None),
        ("hdfs://namenode:8020/coordinator", None),
    ],
)
def test_where_a_checkpoint_is(checkpoint: str, path: str | None) -> None:
    assert local_path(checkpoint) == (None if path is None else Path(path))


@pytest.mark.parametrize("name", ["my place", "a#b", "a%20b", "a?b", "{a,b}*[c]", "grün", "a\\b"])
def test_a_place_has_a_name_that_nobody_takes_for_another(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "file").touch()

    for place in (str(folder), f"file://{folder}"):
        with plain_place(place) as plain:
            assert re.fullmatch("[a-zA-Z0-9/_.-]+", plain)
            assert [each.name for each in Path(plain).iterdir()] == ["file"]
        assert not Path(plain).is_symlink()
    assert (folder / "file").exists()


def test_a_plain_place_keeps_its_name() -> None:
    for place in ("/var/lib/coordinator", "here", "s3a://bucket/a=b"):
        with plain_place(place) as plain:
            assert plain == place


def test_a_place_in_a_store_has_no_other_name() -> None:
    with pytest.raises(CheckpointError, match="may only have"), plain_place("s3a://bucket/my place"):
        pass


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A thousand files of ten bytes, and one of 300,000."""
    path = tmp_path / "checkpoint"
    (path / "state" / "0").mkdir(parents=True)
    for number in range(1_000):
        (path / "state" / "0" / f"{number}.delta").write_bytes(b"x" * 10)
    (path / "large").write_bytes(b"x" * 300_000)
    return path


def told(*command: str | Path) -> int:
    """The last number that a program tells."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int([word for word in done.stdout.split() if word.isdecimal()][-1])


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_room_is_what_du_and_df_say(checkpoint: Path, scheme: str) -> None:
    room = room_of(f"{scheme}{checkpoint}")

    assert room is not None
    assert (room.taken, room.files) == (told("du", "--summarize", "--block-size=1", checkpoint), 1_001)
    # Others use the disk meanwhile.
    assert room.free == pytest.approx(told("df", "--block-size=1", "--output=avail", checkpoint), rel=0.1)
    assert room.taken > 1_000 * 10 + 300_000


def test_what_is_not_on_this_machine_has_no_room(tmp_path: Path) -> None:
    assert room_of("s3a://bucket/coordinator") is None
    assert room_of(str(tmp_path / "not yet")) is None


def test_files_may_go_while_they_are_counted(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(path: Path) -> list[tuple[str, list[str], list[str]]]:
        return [(str(path), [], ["large", "gone"]), (str(path / "gone too"), [], [])]

    before = room_of(str(checkpoint / "large"))
    monkeypatch.setattr("os.walk", walk)
    room = room_of(str(checkpoint))
    assert before is None
    assert isinstance(room, Room)
    assert 300_000 < room.taken < 400_000
