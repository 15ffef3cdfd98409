"""Keeps members out of the brokers' groups of those that are here (`gateway.guard`).

Members that do not come through a gateway could join there by accident, and each record would be read twice.
So a guard (`client/brokers_guard.py`) is in each group that is here and that the brokers know as well. All
gateways renew all guards, and a guard outlives the gateways for half an hour.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import GUARD_SESSION_MS, BrokersGuard, HasMembersError
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.seldom import Seldom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from group_coordinator.client.groups_log import GroupListing

log = logging.getLogger(__name__)

_ROUND_S = GUARD_SESSION_MS / 3_000
"""The time in which all guards are renewed once."""
_AT_ONCE = 50
"""Guards that are renewed at a time. Each takes a broker some milliseconds."""


class GuardKeeper:
    """Renews guards in a thread of its own, spread over time. `is_here`: whether a group is, and stays, here.

    `count` is told the result for each guard. Raises a KafkaError if Kafka cannot be reached.
    """

    def __init__(
        self, is_here: Callable[[str], bool], count: Callable[[str], Any], kafka_config: Mapping[str, Any]
    ) -> None:
        self._is_here, self._count = is_here, count
        self._stopping = threading.Event()
        self._failures: dict[str, Seldom] = {"members": Seldom(), "failed": Seldom(), "round": Seldom()}
        with ExitStack() as on_error:
            self._admin = on_error.enter_context(BrokersAdmin(**kafka_config))
            self._guard = on_error.enter_context(BrokersGuard(**kafka_config))
            on_error.pop_all()
        self._thread = threading.Thread(target=self._run, name="gateway's keeper of guards", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop renewing. The guards stay until their sessions end."""
        self._stopping.set()
        self._thread.join()
        self._guard.close()
        self._admin.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                self.renew_all()
            except KafkaError as error:
                if self._is_due("round"):
                    log.warning("guards cannot be renewed, trying again: %s", error)
                self._stopping.wait(_ROUND_S / 20)
                continue
            self._stopping.wait(begun_s + _ROUND_S - time.monotonic())

    def renew_all(self) -> None:
        """Renew all guards once, and take those that are missing. Raises a KafkaError."""
        groups = [each for each in self._admin.list_groups() if self._is_here(each.group_id)]
        begun_s, done = time.monotonic(), 0
        for part in _parts(groups):
            self._renew(part)
            done += len(part)
            if self._stopping.wait(begun_s + _ROUND_S * done / len(groups) - time.monotonic()):
                return

    def _renew(self, group_ids: Sequence[str]) -> None:
        ids = [each for each in group_ids if self._is_here(each)]
        for group_id, error in self._guard.take(ids).items():
            has_members = isinstance(error, HasMembersError)
            result = "taken" if error is None else "members" if has_members else "failed"
            self._count(result)
            if result == "members" and self._is_due(result):
                log.warning(
                    "group %s is here and has members at the brokers, so records are read twice: stop them",
                    group_id,
                )
            elif result == "failed" and self._is_due(result):
                log.warning("the guard of group %s cannot be taken: %s", group_id, error)
        # It may have begun to move since it was looked at.
        self._guard.release([each for each in ids if not self._is_here(each)])

    def _is_due(self, kind: str) -> bool:
        return bool(self._failures[kind].happened(time.monotonic()))


def _parts(groups: Sequence[GroupListing]) -> Iterator[list[str]]:
    """Ids of groups that are renewed together. The first join of a group without members takes seconds."""
    empty = [each.group_id for each in groups if each.group_state == GroupState.EMPTY]
    others = [each.group_id for each in groups if each.group_state != GroupState.EMPTY]
    yield from (others[start : start + _AT_ONCE] for start in range(0, len(others), _AT_ONCE))
    yield from ([each] for each in empty)
