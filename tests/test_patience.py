"""A wait ends, and says what it has waited for."""

from __future__ import annotations

import asyncio

import pytest

from tests import patience
from tests.patience import eventually, wait_for


def test_wait_returns_what_was_found() -> None:
    found: list[int] = []
    assert wait_for(lambda: found[2:], meanwhile=lambda: found.append(len(found))) == [2]


def test_wait_that_is_over_says_what_never_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0)
    with pytest.raises(AssertionError, match=r"(?s)not in 0 s: .*lambda: None.*the cat has it"):
        wait_for(lambda: None, said=lambda: "the cat has it")


def test_a_wait_in_an_event_loop_ends_and_says_what_never_came(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    async def third_time() -> bool:
        looks.append(1)
        return len(looks) == 3

    asyncio.run(eventually(third_time))
    monkeypatch.setattr(patience, "PATIENCE_S", 0)
    with pytest.raises(AssertionError, match=r"(?s)not in 0 s: .*lambda: looks\[3:\]"):
        asyncio.run(eventually(lambda: looks[3:]))
