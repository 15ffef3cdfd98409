from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.structs import TopicPartition

from group_coordinator.commands.groups.plan import Planned, read_plan, written_plan

ORDERS = TopicPartition("orders", 1)


def written(directory: Path, text: str) -> str:
    path = directory / "plan.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders,1,7\n", [Planned(None, ORDERS, 7)]),
        ('"orders", 1, 7\r\n\r\n"g","orders",1,-7', [Planned(None, ORDERS, 7), Planned("g", ORDERS, -7)]),
        ('"a ""g"", perhaps",orders,1,7\n\n', [Planned('a "g", perhaps', ORDERS, 7)]),
        ("", []),
    ],
)
def test_both_formats_are_read(tmp_path: Path, text: str, expected: list[Planned]) -> None:
    assert expected == read_plan(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "orders,1,7\norders,one,7\n",
            "line 2: expected topic,partition,offset or group,topic,.*, not 'orders,one,7'",
        ),
        ("orders,1\n", "line 1: expected"),
        ("a,b,c,1,7\n", "line 1: expected"),
        ("orders,1,7.5\n", "line 1: expected"),
        ('"orders,1,7\n', "is not CSV"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ValueError, match=message) as caught:
        read_plan(path)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing\.csv cannot be read: No such file or directory"):
        read_plan(str(tmp_path / "nothing.csv"))
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"bytes\.csv is not CSV"):
        read_plan(str(tmp_path / "bytes.csv"))


# Units of work and groups may have any names.
NAMES = st.text(st.characters(exclude_categories=["C"]), min_size=1)
OFFSETS = st.dictionaries(st.tuples(NAMES, st.integers(0, 9)), st.integers(0, 99))


@given(st.dictionaries(NAMES, OFFSETS))
def test_what_is_exported_can_be_read(tmp_path_factory: pytest.TempPathFactory, groups: dict) -> None:
    offsets = {
        group: {TopicPartition(*where): offset for where, offset in of_group.items()}
        for group, of_group in groups.items()
    }
    path = written(tmp_path_factory.mktemp("plan"), written_plan(offsets, with_groups=True))

    expected = [Planned(g, partition, each) for g, its in offsets.items() for partition, each in its.items()]
    assert expected == read_plan(path)
