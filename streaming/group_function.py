"""A function for `applyInPandasWithState`, as the queries here have them: records in, rows and state out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

# As Spark's sink wants them: another node of the plan above the stateful operator takes time in each batch.
OUTPUT_SCHEMA = (
    "topic STRING, key BINARY, value BINARY, partition INT, headers ARRAY<STRUCT<key STRING, value BINARY>>"
)
_OUTPUT_COLUMNS = ["topic", "key", "value", "partition", "headers"]
Row = tuple[str, bytes | None, bytes | None, int | None, list[tuple[str, bytes]] | None]
"""A row of `OUTPUT_SCHEMA`."""
STATE_SCHEMA = "group BINARY"


class GroupFunction(ABC):
    """Decides about one group of a batch at a time. Spark makes one for each task."""

    INPUT_COLUMNS: ClassVar[tuple[str, ...]]
    """The columns of a record, besides the key that the records are grouped by."""

    def __call__(
        self, key: tuple[bytes | None], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """As Spark calls it."""
        # The project's own worker does without, and need not take the time to import it.
        import pandas as pd  # noqa: PLC0415

        for rows in self.parts(key, chain.from_iterable(map(self._plain, frames)), state):
            if rows:
                # dtype object keeps a missing partition a null instead of making the column float.
                yield pd.DataFrame(rows, columns=_OUTPUT_COLUMNS, dtype=object)

    @abstractmethod
    def parts(
        self, key: tuple[bytes | None], records: Iterable[tuple[Any, ...]], state: GroupState
    ) -> Iterator[list[Row]]:
        """Do the same without pandas, for the project's own worker: `records` have `INPUT_COLUMNS`.

        All parts have to be taken: `state` is as it is to be after the last one.
        """

    def _plain(self, frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
        return zip(*(frame[name].tolist() for name in self.INPUT_COLUMNS), strict=True)
