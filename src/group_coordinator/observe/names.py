"""The names of topics that the brokers' records of consumer groups have by their ids alone.

Workers ask Kafka. An id has one name for ever, so a worker keeps the answer as long as it lives. A group
keeps the names of its topics in its state. `docs/observe.md` says why names come in this way.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import UUID

from kafka.errors import KafkaError

from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.kafka_config import python_client_config

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

_PATIENCE_S = 120.0
"""Spark's own readers wait for brokers as long."""
_BETWEEN_S = 1.0
_UNKNOWN_S = 60.0
"""An id that Kafka does not know, as that of a topic that is gone, is not asked about again for so long."""

_names: dict[str, str] = {}
_not_before_s: dict[str, float] = {}


class TopicNames:
    """Finds names out. It is shipped to the Python workers, and connects when there is something to ask.

    `java`: the client properties (`kafka.*`).
    """

    def __init__(self, bootstrap_servers: str, java: Mapping[str, str]) -> None:
        self._bootstrap_servers, self._java = bootstrap_servers, dict(java)

    def __call__(self, topic_ids: Collection[str]) -> dict[str, str]:
        """The names of those topics that Kafka knows and lets us describe, by id.

        Raises `UnreachableError` or a KafkaError if it has not answered for two minutes.
        """
        now_s = time.monotonic()
        unknown = [it for it in topic_ids if it not in _names and now_s >= _not_before_s.get(it, 0)]
        if unknown:
            for told in self._ask(unknown):
                if told["error_code"] == 0:
                    _names[str(told["topic_id"])] = told["name"]
            later_s = time.monotonic() + _UNKNOWN_S
            _not_before_s.update({it: later_s for it in unknown if it not in _names})
        return {it: _names[it] for it in topic_ids if it in _names}

    def _ask(self, topic_ids: Collection[str]) -> list[dict[str, Any]]:
        config = python_client_config(self._bootstrap_servers, self._java)
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with admin_client(config) as admin:
                    return list(admin.describe_topics([UUID(it) for it in sorted(topic_ids)]))
            except (KafkaError, UnreachableError):
                # Without it the history would have the id in the place of the name for ever.
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(_BETWEEN_S)
