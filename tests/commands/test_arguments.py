from __future__ import annotations

import pytest

from group_coordinator.commands.arguments import parse_topic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", ("orders", None)),
        ("orders:0", ("orders", (0,))),
        ("orders:0,12", ("orders", (0, 12))),
        ("tenant:eu:0", ("tenant:eu", (0,))),
    ],
)
def test_topics_with_and_without_partitions(text: str, expected: tuple[str, tuple[int, ...] | None]) -> None:
    assert expected == parse_topic(text)


@pytest.mark.parametrize(
    ("text", "bad"), [("orders:x", "x"), ("orders:", ""), ("orders:0,", ""), ("t:-1", "-1"), (":0", "0")]
)
def test_partitions_are_numbers(text: str, bad: str) -> None:
    with pytest.raises(
        ValueError, match=f"invalid partition '{bad}' in '{text}': write TOPIC or TOPIC:0,1,2"
    ):
        parse_topic(text)
