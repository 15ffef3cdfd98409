"""The thread that commits, at the pace of what it commits to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from kafka.errors import KafkaError, NoError

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.spark.newest import GroupOffsets, NewestOffsets

log = logging.getLogger(__name__)

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0

Destination = AdminClient | BrokersAdmin
"""Takes commits for groups without members."""


class Counts(NamedTuple):
    """Offsets of partitions: committed, replaced by newer ones before they were, and refused for good."""

    committed: int
    superseded: int
    refused: int


class Committer:
    """Commits offsets in a thread of its own, and tries again for as long as nothing takes them.

    `connect` makes the destination. It is called again after each failure of a whole call.
    """

    def __init__(self, connect: Callable[[], Destination]) -> None:
        self._connect = connect
        self._destination: Destination | None = None
        self._newest = NewestOffsets()
        self._committed = self._refused = 0
        self.problem: str | None = None
        """The reason why offsets are not committed just now."""
        self._thread = threading.Thread(target=self._run, name="commits of queries", daemon=True)
        self._thread.start()

    def put(self, group_id: str, offsets: GroupOffsets) -> None:
        """Have the newest offsets of a group committed; returns at once."""
        self._newest.put(group_id, offsets)

    @property
    def counts(self) -> Counts:
        """The counts since it was made."""
        return Counts(self._committed, self._newest.superseded, self._refused)

    def close(self, timeout_s: float) -> None:
        """Commit what waits, once, and end the thread; wait `timeout_s` at most."""
        self._newest.close()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._commit_all()
        except Exception as error:
            # The program is somebody else's, and does not end by this.
            log.exception("offsets of queries are not committed any more")
            self.problem = f"a fault of this program: {error!r}"

    def _commit_all(self) -> None:
        wait_s = _SHORTEST_WAIT_S
        while offsets := self._newest.take():
            try:
                again = self._commit(offsets)
            except (KafkaError, MissingTopicError, OSError, ValueError) as error:
                # The last two are about files and settings of TLS and logins.
                self._disconnect()
                again = offsets
                self._have_problem(f"{error}")
            if not again:
                wait_s = _SHORTEST_WAIT_S
            elif self._newest.is_closed:
                log.warning("the last offsets of %s groups are not committed: %s", len(again), self.problem)
                break
            else:
                self._newest.put_back(again)
                self._newest.wait_for_close(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        self._disconnect()

    def _commit(self, offsets: dict[str, GroupOffsets]) -> dict[str, GroupOffsets]:
        """Commit, and return what is worth another try."""
        if self._destination is None:
            self._destination = self._connect()
        errors = self._destination.alter_offsets_of_groups(offsets)
        again: dict[str, GroupOffsets] = {}
        problems = []
        for group_id, of_group in errors.items():
            for partition, error in of_group.items():
                if error is NoError:
                    self._committed += 1
                    continue
                problems.append(f"{error.__name__} for group {group_id}")
                if error.retriable:
                    again.setdefault(group_id, {})[partition] = offsets[group_id][partition]
                else:
                    self._refused += 1
        self._have_problem(problems[0] if problems else None)
        return again

    def _have_problem(self, problem: str | None) -> None:
        if problem is None and self.problem is not None:
            log.info("offsets of queries are committed again")
        elif problem != self.problem:
            log.warning("offsets of queries are not committed, the queries go on: %s", problem)
        # Last, so that the log tells of it already when a program sees it.
        self.problem = problem

    def _disconnect(self) -> None:
        if self._destination is not None:
            self._destination.close()
            self._destination = None
