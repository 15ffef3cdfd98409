"""Records that anybody may have written: they are skipped, counted, and told seldom."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from group_coordinator.client.foreign import Records

NOT_NUMBERS = [None, b"", b"{", b"\xff", b'["\xff"]', b"[" * 100_000]


def record(value: bytes | None, offset: int) -> SimpleNamespace:
    return SimpleNamespace(topic="numbers", partition=1, offset=offset, value=value)


def test_what_is_none_is_skipped_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    numbers = Records[list[int]](list[int], "list of numbers")
    read = [numbers.read(record(each, offset)) for offset, each in enumerate([b"[1]", *NOT_NUMBERS, b"[2]"])]

    assert [each for each in read if each is not None] == [[1], [2]]
    assert numbers.skipped.count == len(NOT_NUMBERS)
    (told,) = caplog.messages
    assert told.startswith("numbers, partition 1, offset 1 is no list of numbers and is skipped: ")


def test_it_tells_how_many_it_has_not_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    numbers = Records[int](int, "number")
    for offset in range(3):
        numbers.read(record(b"a", offset))
    now_s = 200.0
    numbers.read_value(b"b", "somewhere")

    assert "somewhere is no number and is skipped, as 2 before: " in caplog.messages[1]
