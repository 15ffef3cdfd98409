"""The two sides of a move, and the topic that says which is which, over Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    GroupIdNotFoundError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import BrokersGuard, is_guard
from group_coordinator.client.channel import settings_of
from group_coordinator.client.descriptions import GroupDescription, MemberDescription
from group_coordinator.client.sides_log import SidesLog
from group_coordinator.commands.move.steps import Offsets, Seen
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.sides import GUARD_TYPE, SideRecord

_UNKNOWN = MemberDescription("", None, "clients", "hosts that the brokers do not tell", b"", b"", ())
"""The members of a group of another type, of which no more is asked than whether there are any."""

Errors = Mapping[TopicPartition, type[KafkaError]]


class AtCoordinator:
    """The group at the coordinator."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def look(self, group_id: str) -> Seen:
        """See `Place`."""
        return _seen(self._admin.describe_groups([group_id])[group_id])

    def offsets(self, group_id: str) -> Offsets:
        """See `Place`."""
        return _alike(self._admin.list_group_offsets([group_id])[group_id])

    def commit(self, group_id: str, offsets: Offsets) -> Errors:
        """See `Place`."""
        return self._admin.alter_group_offsets(group_id, offsets)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Errors:
        """See `Place`."""
        return self._admin.delete_group_offsets(group_id, partitions)


class AtBrokers:
    """The group at the brokers."""

    def __init__(self, admin: BrokersAdmin, guard: BrokersGuard) -> None:
        self._admin, self._guard = admin, guard
        self._sees_all = False

    def look(self, group_id: str) -> Seen:
        """See `Place`."""
        group = self._admin.describe_groups([group_id])[group_id]
        seen = _seen(group)
        if seen.is_there:
            return seen
        # It may be of another type than those that are described so.
        for each in self._admin.list_groups():
            if each.group_id == group_id:
                members = () if each.group_state == GroupState.EMPTY else (_UNKNOWN,)
                return Seen(True, members, "consumer", each.group_type)
        return seen

    def offsets(self, group_id: str) -> Offsets:
        """See `Place`."""
        # An offset that is left out would be lost: members would begin where auto.offset.reset says.
        self._sees_all = self._sees_all or self._admin.sees_all_topics()
        if not self._sees_all:
            raise TopicAuthorizationFailedError(
                "*: Describe, without which brokers leave out the offsets of topics that one may not see"
            )
        found = self._admin.list_group_offsets([group_id], require_stable=True)[group_id]
        if not found:
            return {}
        # Those of which the first commit is in a transaction that is open are told if they are named.
        named = self._admin.partitions({each.topic for each in found}) | found.keys()
        stable = self._admin.list_group_offsets({group_id: named}, require_stable=True)[group_id]
        return _alike({each: it for each, it in stable.items() if it.offset >= 0})

    def commit(self, group_id: str, offsets: Offsets) -> Errors:
        """See `Place`."""
        return self._admin.alter_group_offsets(group_id, offsets)

    def delete(self, group_id: str, partitions: Iterable[TopicPartition]) -> Errors:
        """See `Place`."""
        return self._admin.delete_group_offsets(group_id, partitions)

    def check_guard(self, group_id: str) -> None:
        """See `GuardedPlace`."""
        if error := self._guard.check([group_id])[group_id]:
            raise error

    def guard(self, group_id: str) -> None:
        """See `GuardedPlace`."""
        if error := self._guard.take([group_id])[group_id]:
            raise error

    def release(self, group_id: str) -> None:
        """See `GuardedPlace`."""
        if error := self._guard.release([group_id])[group_id]:
            raise error


class SidesTopic:
    """The topic of sides, which is made if it is not there."""

    def __init__(self, log: SidesLog, kafka_config: Mapping[str, Any]) -> None:
        self._log, self._config = log, kafka_config

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._log.topic

    def newest(self, group_id: str) -> SideRecord | None:
        """See `Sides`."""
        return self._log.read_all().get(group_id) if self._log.find() else None

    def append(self, record: SideRecord) -> None:
        """See `Sides`."""
        if not self._log.find():
            self._create()
        self._log.append(record)

    def _create(self) -> None:
        admin = KafkaAdminClient(**settings_of(KafkaAdminClient, self._config))
        try:
            topic = {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}
            admin.create_topics({self._log.topic: topic})
            admin.wait_for_topics([self._log.topic])
        except TopicAlreadyExistsError:
            # It is there, and may not be read.
            pass
        finally:
            admin.close()


def _seen(group: GroupDescription) -> Seen:
    if isinstance(group.error, GroupIdNotFoundError):
        return Seen(False)
    if group.error is not None:
        raise group.error
    members = tuple(each for each in group.members if not is_guard(each))
    is_guarded = len(members) < len(group.members)
    protocol_type = "" if group.protocol_type == GUARD_TYPE else group.protocol_type
    return Seen(True, members, protocol_type, group.group_type, is_guarded=is_guarded)


def _alike(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Offsets:
    """Offsets as both sides tell them."""
    return {
        each: OffsetAndMetadata(
            it.offset, it.metadata or "", -1 if it.leader_epoch is None else it.leader_epoch
        )
        for each, it in offsets.items()
    }
