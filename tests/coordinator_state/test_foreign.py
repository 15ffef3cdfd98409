"""JSON that somebody else may have written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.foreign import MOST_MS, ForeignJson, Ms, UnreadableError

DEEP = b"[" * 100_000


class Told(msgspec.Struct):
    name: str = ""
    at_ms: Ms = 0


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        "",
        b"{",
        b"[]",
        b"nonsense",
        b'{"name": 1}',
        b'{"name": "\\ud800"}',
        b'{"name": "\xff"}',
        # Of what the type does not have, as well: whoever looks at the whole of it must not fail.
        b'{"\xff": 1}',
        b'{"other": "\xff"}',
        b'{"other": ' + DEEP,
        b'{"other": ' + DEEP + b"]" * len(DEEP) + b"}",
        b'{"at_ms": -1}',
        f'{{"at_ms": {MOST_MS + 1}}}',
        b'{"at_ms": ' + b"9" * 5_000 + b"}",
        b'{"at_ms": 1e400}',
    ],
)
def test_all_that_is_not_of_the_type_is_refused_in_one_line(text: bytes | str | None) -> None:
    told = ForeignJson[Told](Told)
    with pytest.raises(UnreadableError) as refused:
        told.read(text)
    assert str(refused.value).count("\n") == 0
    assert told.read_or_none(text) is None


@pytest.mark.parametrize("text", [b'{"name": "B\xc3\xbcro", "more": [[1]]}', '{"name": "B\u00fcro"}'])
def test_what_is_of_the_type_is_read(text: bytes | str) -> None:
    assert ForeignJson[Told](Told).read(text) == Told("B\u00fcro")


def test_numbers_that_are_written_as_text() -> None:
    given = b'{"at_ms": "7"}'
    assert ForeignJson[Told](Told).read_or_none(given) is None
    assert ForeignJson[Told](Told, strict=False).read(given) == Told(at_ms=7)


def test_values_of_any_kind() -> None:
    assert ForeignJson[Any](Any).read(b"[1, null]") == [1, None]
