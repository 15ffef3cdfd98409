"""Offsets in a CSV file, as kafka-consumer-groups.sh exports and reads them.

Lines are `topic,partition,offset` of one group, or `group,topic,partition,offset`; there is no heading.
Source: CsvUtils.java of Apache Kafka 4.2.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka.structs import TopicPartition

_EXPECTED = "expected topic,partition,offset or group,topic,partition,offset"


class Planned(NamedTuple):
    """A line of the file. `group_id` is None if the file does not say."""

    group_id: str | None
    partition: TopicPartition
    offset: int


def read_plan(path: str) -> list[Planned]:
    """Read a file. Raises ValueError with one line that says what is wrong, and where."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, strict=True)
            return [_planned(path, rows.line_num, row) for row in rows if row]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not CSV: {error}") from error


def _planned(path: str, line: int, row: list[str]) -> Planned:
    from kafka.structs import TopicPartition

    try:
        *group, topic, partition, offset = row
        (group_id,) = group or (None,)
        return Planned(group_id, TopicPartition(topic, int(partition)), int(offset))
    except ValueError:
        raise ValueError(f"{path}, line {line}: {_EXPECTED}, not {','.join(row)!r}") from None


def written_plan(offsets: Mapping[str, Mapping[TopicPartition, int]], *, with_groups: bool) -> str:
    """The lines of a file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id, of_group in offsets.items():
        for (topic, partition), offset in of_group.items():
            writer.writerow([*([group_id] if with_groups else []), topic, partition, offset])
    return text.getvalue()
