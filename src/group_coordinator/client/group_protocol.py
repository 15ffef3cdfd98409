"""The parts of a member that depend on the protocol of its group, and the settings of each protocol."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from group_coordinator.client.assignors import check_names
from group_coordinator.client.channel import Channel
from group_coordinator.client.clock import now_ms
from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_work import SharedTopics, SharedUnits
from group_coordinator.client.driver import Driver
from group_coordinator.client.member_settings import ConsumerMemberSettings, MemberSettings
from group_coordinator.client.membership import Membership
from group_coordinator.client.rebalance import Rebalance
from group_coordinator.client.reconciliation import Reconciliation
from group_coordinator.client.sharing import Sharing
from group_coordinator.client.work import DEFAULT_ASSIGNORS, TopicPartitions, WorkUnits

_CLASSIC, _CONSUMER = "classic", "consumer"

# The settings of the classic protocol that the other has not, and what to do instead.
_INSTEAD = {
    "assignors": "the coordinator divides the work: give the name of one of its assignors as server_assignor",
    "heartbeat_interval_ms": "the coordinator says it: set its group.consumer.heartbeat.interval.ms",
    "session_timeout_ms": "the coordinator says it: set its group.consumer.session.timeout.ms",
}

Parts = tuple[Driver[Any], Sharing[Any, Any]]


@dataclass(frozen=True)
class _Classic:
    """The classic protocol, for a member with these settings."""

    settings: MemberSettings
    assignors: tuple[str, ...]

    def parts(self, instance: str, channel: Channel, look_up_every_ms: int) -> Parts:
        """Make the parts of one member; see `Membership` and `Rebalance` for the arguments."""
        membership = Membership(self.settings, instance, channel.reply_partition, _wall_ahead_ms())
        driver = Driver(membership, channel)
        return driver, Rebalance(driver, look_up_every_ms)

    def topics(self, topics: Collection[str], channel: Channel) -> TopicPartitions:
        """Return the partitions of topics as work to share. Raises TypeError."""
        return TopicPartitions(topics, channel.partition_counts, self.assignors)

    def units(self, units: Collection[str]) -> WorkUnits:
        """Return the units of a list as work to share. Raises TypeError."""
        return WorkUnits(units, self.assignors)


@dataclass(frozen=True)
class _Consumer:
    """The consumer protocol (KIP-848), for a member with these settings; see `_Classic`."""

    settings: ConsumerMemberSettings

    def parts(self, instance: str, channel: Channel, look_up_every_ms: int) -> Parts:  # noqa: ARG002 - the coordinator looks
        membership = ConsumerMembership(
            self.settings, instance, _new_member_id(), channel.reply_partition, _wall_ahead_ms()
        )
        driver = Driver(membership, channel)
        return driver, Reconciliation(driver)

    def topics(self, topics: Collection[str], channel: Channel) -> SharedTopics:
        return SharedTopics(topics, channel.topic_facts)

    def units(self, units: Collection[str]) -> SharedUnits:
        return SharedUnits(units)


def protocol_of(name: str, settings: Mapping[str, Any]) -> _Classic | _Consumer:
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


def _wall_ahead_ms() -> int:
    """By how much the time of day is ahead of the clock of members."""
    return time.time_ns() // 1_000_000 - now_ms()


def _new_member_id() -> str:
    """An id like those that Kafka's clients make (KIP-1082): 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
