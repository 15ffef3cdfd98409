"""The ledger: log time that does not count, for all groups or those of one partition, and how time was known.

Decisions depend on three kinds of notes. An outage is a time without a coordinator. A standstill is a time in
which one request partition took no requests. A begin of a query says how the plans of its batches tell log
time. The checkpoint keeps all of them in one file, so they are there together or not at all. A batch that
runs again in another query knows what it knew: each note names the first batch that it is for.

    ledger = Ledger.read(files)      once in a coordinator's turn; nobody else writes then
    ledger.notes ...                 from memory
    ledger.begin(begun, outage) ...  is in the file when the call returns

A coordinator that was paused may write when it wakes up, before it knows of the next one. So each note is
added to the file as it is then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from group_coordinator.checkpoints.notes import read_json
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from group_coordinator.checkpoints.files import CheckpointFiles

FILE = "ledger.json"
_KEPT = 1_000
"""Of each kind. Older ones matter to groups only in which nothing has happened since, and to replays."""
_BEGUN = 100
"""Begins of queries: as many as there are plans of batches."""


class Begun(NamedTuple):
    """A query has begun. Times are in ms.

    `batch`: the first that it has planned. `ahead_ms`: log time is so much ahead of the driver's clock.
    `until_ms`: requests that it reads came until then, in log time; `LATEST_MS`: it reads on and on.
    """

    batch: int
    ahead_ms: int
    until_ms: int

    def latest_ms(self, planned_ms: int, later_ms: int) -> int:
        """The latest log time that a request counts as, of a batch planned then by the driver's clock.

        `later_ms`: by how much a request may seem to be later than its plan (`clocks.Leeway`).
        """
        return min(planned_ms + self.ahead_ms + later_ms, self.until_ms)


class Notes(msgspec.Struct, frozen=True):
    """The contents of the file, as JSON. Each kind is in the order in which it was noted."""

    outages: tuple[Outage, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    begun: tuple[Begun, ...] = ()

    def begun_of(self, batch: int) -> Begun | None:
        """The query that has planned this batch; None if that is not known."""
        # A coordinator that was paused may have noted its own after the next one did.
        return max((it for it in self.begun if it.batch <= batch), key=lambda it: it.batch, default=None)

    def as_of(self, batch: int) -> Notes:
        """The same as that batch knows them."""
        outages = tuple(it for it in self.outages if it.batch <= batch)
        standstills = (it.as_of(batch) for it in self.standstills)
        return Notes(outages, tuple(it for it in standstills if it is not None), self.begun)


class Ledger:
    """The notes of a checkpoint, kept in memory by its only writer."""

    def __init__(self, files: CheckpointFiles, notes: Notes) -> None:
        self.files = files
        """Of the checkpoint."""
        self.notes = notes
        """All of them."""

    @classmethod
    def read(cls, files: CheckpointFiles) -> Ledger:
        """The ledger of a checkpoint; one without notes if there is no file. Raises `CheckpointError`."""
        return cls(files, read_json(files, FILE, Notes) or Notes())

    @property
    def standing(self) -> dict[int, Standstill]:
        """The standstills that last still, by partition."""
        return {it.partition: it for it in self.notes.standstills if it.end_ms is None}

    @property
    def reached_ms(self) -> int:
        """The latest log time, in ms, that the notes know of; 0 if none."""
        # The end of a standstill may be later than all else that is known.
        ends = [it.end_ms for it in self.notes.outages]
        return max([0, *ends, *(it.end_ms or it.start_ms for it in self.notes.standstills)])

    def begin(self, begun: Begun, outage: Outage | None = None) -> None:
        """Note that a query begins, and with it the outage that is over, if there was one."""
        new = [] if outage is None else [outage]

        def change(it: Notes) -> Notes:
            # Another one of the same first batch has planned none.
            before = [each for each in it.begun if each.batch != begun.batch]
            outages = (*it.outages, *new)[-_KEPT:]
            return replace(it, outages=outages, begun=(*before, begun)[-_BEGUN:])

        self._change(change)

    def begin_standstills(self, begins: Mapping[int, int], batch: int) -> None:
        """Note that partitions, of which it was not known, take no requests since the times in `begins`.

        `batch`: the next one that is planned.
        """
        begun = [Standstill(*it, batch=batch) for it in begins.items()]

        def change(it: Notes) -> Notes:
            return replace(it, standstills=(*_recent(it.standstills, len(begun)), *begun))

        self._change(change)

    def end_standstills(self, partitions: Collection[int], at_ms: int, batch: int) -> list[Standstill]:
        """Note that these partitions take requests since then; return the standstills that have ended.

        `batch`: the next one that is planned.
        """
        ended = {
            it: it._replace(end_ms=max(at_ms, it.start_ms + 1), end_batch=batch)
            for partition, it in self.standing.items()
            if partition in partitions
        }

        def change(it: Notes) -> Notes:
            return replace(it, standstills=tuple(ended.get(each, each) for each in it.standstills))

        if ended:
            self._change(change)
        return list(ended.values())

    def write(self) -> None:
        """Write the notes that are in memory, in the place of those in the file."""
        self.files.write(FILE, msgspec.json.encode(self.notes))

    def _change(self, change: Callable[[Notes], Notes]) -> None:
        self.notes = change(read_json(self.files, FILE, Notes) or self.notes)
        self.write()


def _recent(standstills: Sequence[Standstill], more: int) -> list[Standstill]:
    """Those that are to be kept beside so many new ones: the newest, and all that last still."""
    older = len(standstills) + more - _KEPT
    return [it for place, it in enumerate(standstills) if place >= older or it.end_ms is None]
