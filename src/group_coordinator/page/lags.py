"""The lags of groups. Nobody waits for them, because it takes a while to ask."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kafka.errors import KafkaError

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.messages import message_of
from group_coordinator.client.progress import Progress, measured
from group_coordinator.page.asking import Asking
from group_coordinator.page.at_brokers import GroupsAtBrokers

log = logging.getLogger(__name__)

FRESH_S = 15.0
"""As long as that nobody is asked again."""


@dataclass(frozen=True)
class Measured:
    """The answers of the coordinator and the brokers by `at`, or why there are none."""

    at: datetime
    rows: dict[str, list[Progress]] = field(default_factory=dict)
    problem: str | None = None

    def total(self, group_id: str) -> int | None:
        """The number of records that a group is behind; None if there is no log, or nothing is committed."""
        lags = [row.lag for row in self.rows.get(group_id, ()) if row.lag is not None]
        return sum(lags) if lags else None


class Lags:
    """Measures while somebody looks. `connect` makes the client to ask with. See `Asking`."""

    def __init__(self, connect: Callable[[], AdminClient | GroupsAtBrokers]) -> None:
        self._connect = connect
        self._asking: Asking[str | None, Measured] = Asking(self._measure, "ui-lags", FRESH_S)

    def newest(self, group_id: str | None = None) -> Measured | None:
        """The newest figures of a group, or of all. If they are old, or None, newer ones are on their way."""
        return self._asking.newest(group_id)

    def ask(self, group_id: str) -> Measured | None:
        """Figures of a group that are not old. Waits for them; None if too many others are asked for."""
        return self._asking.wait(group_id)

    def _measure(self, group_id: str | None) -> Measured:
        try:
            return self._answers(group_id)
        except (KafkaError, MissingTopicError) as error:
            problem = message_of(error) if isinstance(error, KafkaError) else str(error)
        except Exception as error:
            # Only this question fails, and its answer says so.
            log.exception(
                "the lag of %s cannot be measured", "all groups" if group_id is None else [group_id]
            )
            problem = f"a fault of this program: {error!r}"
        return Measured(datetime.now(UTC), problem=problem)

    def _answers(self, group_id: str | None) -> Measured:
        with self._connect() as admin:
            group_ids = [group_id] if group_id is not None else [it.group_id for it in admin.list_groups()]
            groups = admin.describe_groups_and_offsets(group_ids)
            there = {each: both for each, both in groups.items() if both[0].error is None}
            return Measured(datetime.now(UTC), measured(admin, there))
