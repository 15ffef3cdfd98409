"""The parts of a member that depend on the protocol of its group, and the settings of each protocol."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from group_coordinator.client.assignors import check_names
from group_coordinator.client.channel import Channel
from group_coordinator.client.clock import now_ms
from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_work import SharedTopics, SharedUnits
from group_coordinator.client.driver import Driver
from group_coordinator.client.listeners import RebalanceListener
from group_coordinator.client.member_settings import AnySettings, ConsumerMemberSettings, MemberSettings
from group_coordinator.client.membership import Membership
from group_coordinator.client.rebalance import Rebalance
from group_coordinator.client.reconciliation import Reconciliation
from group_coordinator.client.work import DEFAULT_ASSIGNORS, TopicPartitions, WorkUnits

__all__ = ["GroupProtocol", "Parts", "Sharing", "protocol_of"]

_CLASSIC, _CONSUMER = "classic", "consumer"

# The settings of the classic protocol that the other has not, and what to do instead.
_INSTEAD = {
    "assignors": "the coordinator divides the work: give the name of one of its assignors as server_assignor",
    "heartbeat_interval_ms": "the coordinator says it: set its group.consumer.heartbeat.interval.ms",
    "session_timeout_ms": "the coordinator says it: set its group.consumer.session.timeout.ms",
}


class Sharing(Protocol):
    """The steps that the program's thread takes in a group, and the work that it owns; see `Rebalance`."""

    @property
    def assignment(self) -> frozenset[Any]:
        """The work of the member."""

    @property
    def generation_id(self) -> int:
        """The generation or epoch that `assignment` is of, -1 while there is none."""

    @property
    def assigned_in(self) -> object:
        """The newest assignment that the listener was told; None if none, or it was given up."""

    @property
    def is_subscribed(self) -> bool:
        """Whether there is anything to share."""

    @property
    def is_leader(self) -> bool:
        """Whether this member divides the work."""

    @property
    def may_work(self) -> bool:
        """Whether `assignment` is still this member's, as far as is known."""

    def subscribe(self, work: Any, listener: RebalanceListener | None) -> None:
        """Share `work`, which `GroupProtocol.work` has made. Raises ValueError for another kind of work."""

    def due_step(self, membership: Any, now: int) -> Any:
        """The step that is to be taken now, if any. It is called without the lock of the membership."""

    def give_up(self) -> None:
        """Give up all, and tell the listener."""


class Parts(NamedTuple):
    """The parts of one member."""

    driver: Driver[Any]
    sharing: Sharing


class GroupProtocol(Protocol):
    """The protocol of a group."""

    @property
    def settings(self) -> AnySettings:
        """The settings of its members."""

    def parts(self, instance: str, channel: Channel, look_up_every_ms: int) -> Parts:
        """Make the parts of one member; see `Membership` and `Rebalance` for the arguments."""

    def topics(self, topics: Collection[str], channel: Channel) -> Any:
        """Return the partitions of topics as work to share. Raises TypeError."""

    def units(self, units: Collection[str]) -> Any:
        """Return the units of a list as work to share. Raises TypeError."""


def protocol_of(name: str, settings: Mapping[str, Any]) -> GroupProtocol:
    """The protocol of this name, for a member with these settings; None: the default.

    Raises ValueError for a name that is none, or for a setting that cannot work or that another protocol has.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if name == _CLASSIC:
        for setting in ("rebalance_timeout_ms", "server_assignor"):
            if setting in given:
                raise ValueError(f'{setting} is a setting of group_protocol="consumer"')
        assignors = check_names(given.pop("assignors", DEFAULT_ASSIGNORS))
        return _Classic(MemberSettings(**given), assignors)
    if name != _CONSUMER:
        raise ValueError(f"group_protocol {name!r} is neither {_CLASSIC!r} nor {_CONSUMER!r}")
    for setting, instead in _INSTEAD.items():
        if setting in given:
            raise ValueError(f'{setting} is no setting of group_protocol="consumer": {instead}')
    return _Consumer(ConsumerMemberSettings(**given))


@dataclass(frozen=True)
class _Classic:
    settings: MemberSettings
    assignors: tuple[str, ...]

    def parts(self, instance: str, channel: Channel, look_up_every_ms: int) -> Parts:
        membership = Membership(self.settings, instance, channel.reply_partition, _wall_ahead_ms())
        driver = Driver(membership, channel)
        return Parts(driver, Rebalance(driver, look_up_every_ms))

    def topics(self, topics: Collection[str], channel: Channel) -> TopicPartitions:
        return TopicPartitions(topics, channel.partition_counts, self.assignors)

    def units(self, units: Collection[str]) -> WorkUnits:
        return WorkUnits(units, self.assignors)


@dataclass(frozen=True)
class _Consumer:
    settings: ConsumerMemberSettings

    def parts(self, instance: str, channel: Channel, look_up_every_ms: int) -> Parts:  # noqa: ARG002 - the coordinator looks
        membership = ConsumerMembership(
            self.settings, instance, _new_member_id(), channel.reply_partition, _wall_ahead_ms()
        )
        driver = Driver(membership, channel)
        return Parts(driver, Reconciliation(driver))

    def topics(self, topics: Collection[str], channel: Channel) -> SharedTopics:
        return SharedTopics(topics, channel.topic_facts)

    def units(self, units: Collection[str]) -> SharedUnits:
        return SharedUnits(units)


def _wall_ahead_ms() -> int:
    """By how much the time of day is ahead of the clock of members."""
    return time.time_ns() // 1_000_000 - now_ms()


def _new_member_id() -> str:
    """An id like those that Kafka's clients make (KIP-1082): 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
