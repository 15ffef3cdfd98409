"""Places in Kafka's messages."""

from __future__ import annotations

import pytest

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import Place


def test_texts_and_bytes_of_both_ways() -> None:
    old = Place(b"\0\2ab\xff\xff\0\0\0\1x", is_flexible=False)
    assert (old.text_or_null(), old.text_or_null(), old.octets(), old.at) == (b"ab", None, b"x", 11)
    new = Place(b"\3ab\0\1\2x", is_flexible=True)
    assert (new.text_or_null(), new.text_or_null(), new.text_or_null()) == (b"ab", None, b"")
    assert (new.octets(), new.at) == (b"x", 7)


def test_tagged_fields_are_read_by_number() -> None:
    tagged = Place(b"\2\0\2ab\x05\0rest", is_flexible=True)
    assert (tagged.tags(), tagged.at) == ({0: b"ab", 5: b""}, 7)
    assert Place(b"", is_flexible=False).tags() == {}


@pytest.mark.parametrize("data", [b"\1\0\2a", b"\1", b"\1\0", b"\x7f", b""])
def test_tagged_fields_that_are_not_there(data: bytes) -> None:
    with pytest.raises(FrameError):
        Place(data, is_flexible=True).tags()


@pytest.mark.parametrize(
    ("data", "is_flexible"), [(b"\0", True), (b"\xff\xff\xff\xff", False), (b"\3a", True)]
)
def test_bytes_that_are_not_there(data: bytes, is_flexible: bool) -> None:
    with pytest.raises(FrameError):
        Place(data, is_flexible=is_flexible).octets()
