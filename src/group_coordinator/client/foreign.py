"""Records of topics that others may write to as well: what is none is skipped, and told seldom."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.coordinator_state.seldom import Seldom

T = TypeVar("T")
log = logging.getLogger(__name__)


class Skipped:
    """Counts the records that are not `what` they should be, and logs some. Several threads may use it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seldom = Seldom()
        self.count = 0

    def skip(self, where: str, reason: object) -> None:
        """Take in that the record there is none, and why."""
        self.count += 1
        if (count := self._seldom.happened(time.monotonic())) > 1:
            log.warning("%s is no %s and is skipped, as %d before: %s", where, self._what, count - 1, reason)
        elif count:
            log.warning("%s is no %s and is skipped: %s", where, self._what, reason)


class Records(Generic[T]):
    """Reads the values of records as JSON of one type; `what` they are is for people."""

    def __init__(self, type_: Any, what: str) -> None:
        self._json = ForeignJson[T](type_)
        self.skipped = Skipped(what)

    def read(self, record: Any) -> T | None:
        """Read the value of a record of kafka-python's; None if it is skipped."""
        return self._read(record.value, lambda: place_of(record))

    def read_value(self, value: bytes | None, where: str) -> T | None:
        """Read a value that stands there; None if it is skipped."""
        return self._read(value, lambda: where)

    def _read(self, value: bytes | None, where: Callable[[], str]) -> T | None:
        try:
            return self._json.read(value)
        except UnreadableError as error:
            self.skipped.skip(where(), error)
            return None


def place_of(record: Any) -> str:
    """The place of a record, for people."""
    return f"{record.topic}, partition {record.partition}, offset {record.offset}"
