"""The numbers of groups and members, by the topic of groups."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.client.foreign import Records
from group_coordinator.client.since import partitions_there
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.jobs.threads import Background

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafka import TopicPartition
    from prometheus_client.core import Metric

_log = logging.getLogger(__name__)
_PAUSE_S = 5.0
_TYPES = ("classic", "consumer")
_STATES = [str(it) for it in dict.fromkeys((*GroupState, *ConsumerState)) if it != GroupState.DEAD]


class _Picture(msgspec.Struct):
    """As much of a `GroupPicture` as is counted."""

    state: str
    members: list[msgspec.Raw]
    group_type: str = "classic"


class _Counted(NamedTuple):
    """A group, as far as it is counted."""

    state: str
    group_type: str
    members: int


class GroupMetrics(Background, Collector):
    """Groups by state and by type, and members, as of the newest pictures."""

    def __init__(self, topic: str, client_config: Mapping[str, Any]) -> None:
        super().__init__("group-metrics")
        self._topic = topic
        self._groups: dict[bytes, _Counted] = {}
        self._lock = threading.Lock()
        self._consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
        partitions = partitions_there(self._consumer, topic)
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._consumer.close()

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the pictures read so far."""
        with self._lock:
            groups = list(self._groups.values())
        by_state = Counter(each.state for each in groups)
        yield _by("state", "groups", "Groups by state.", {state: by_state[state] for state in _STATES})
        by_type = Counter(each.group_type for each in groups)
        yield _by("type", "groups_of_type", "Groups by type.", {kind: by_type[kind] for kind in _TYPES})
        yield GaugeMetricFamily("group_coordinator_members", "Members.", sum(each.members for each in groups))

    def _poll(self) -> Collection[list[Any]]:
        try:
            polled: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=500)
        except KafkaError as error:
            # Such as rights that were taken away. The metrics are old until it can be read again.
            _log.warning("topic %s cannot be read, trying again: %s", self._topic, error)
            self._stopping.wait(_PAUSE_S)
            return ()
        return polled.values()

    def _run(self) -> None:
        pictures = Records[_Picture](_Picture, "picture of a group")
        newest = Newest()
        while not self._stopping.is_set():
            for records in self._poll():
                with self._lock:
                    for record in records:
                        if not newest.take(record.key, record.headers):
                            continue
                        if record.value is None:
                            self._groups.pop(record.key, None)
                        elif (picture := pictures.read(record)) is not None:
                            self._groups[record.key] = _Counted(
                                picture.state, picture.group_type, len(picture.members)
                            )


def _by(label: str, name: str, documentation: str, counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"group_coordinator_{name}", documentation, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
