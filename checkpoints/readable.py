"""Stored groups as people can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.partitions import unpack, unpack_held
from group_coordinator.coordinator_state.consumer.picture import told_patterns
from group_coordinator.coordinator_state.consumer.subscriptions import Wanted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.kinds import AnyGroup

_PACKED = frozenset({"stored_topics", "stored_subscriptions"})


def readable(group: AnyGroup) -> dict[str, Any]:
    """`group` with the names of its fields, for JSON; its committed offsets as a list.

    A group of the consumer protocol has topics and partitions by name in the place of packed bytes.
    """
    offsets = [
        {"topic": topic, "partition": partition} | msgspec.structs.asdict(offset)
        for topic, partition, offset in CommittedOffsets(group.offsets)
    ]
    named = _consumer_group(group) if isinstance(group, ConsumerGroup) else _named(group)
    return {**named, "offsets": offsets}


def _consumer_group(group: ConsumerGroup) -> dict[str, Any]:
    named = {name: it for name, it in _named(group).items() if name not in _PACKED}
    named["members"] = {name: _consumer(group, it) for name, it in group.members.items()}
    # It follows from the rest, and is no field.
    named["state"] = str(group.state)
    named["metadata_version"] = group.topics.version
    named["topics"] = _named(group.topics.known(group.subscriptions.all_names()))
    named["patterns"] = _named(told_patterns(group.subscriptions.resolved))
    return named


def _consumer(group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    """A member with its topics, and with the partitions that it has, is to give up, and is to have."""
    wanted = Wanted(()) if member.subscription < 0 else group.subscriptions.wanted(member.subscription)
    partitions: dict[str, Mapping[int, Collection[int]]] = {
        "target": unpack(member.target),
        "assigned": unpack_held(member.assigned),
        "pending": unpack_held(member.pending),
    }
    told = {name: _named(group.topics.told(it)) for name, it in partitions.items()}
    named = {name: it for name, it in _named(member).items() if name != "subscription"}
    subscribed = {
        "subscribed_topic_names": list(wanted.names),
        "subscribed_topic_regex": "" if wanted.pattern is None else wanted.pattern.text,
    }
    return named | {"state": member.state.name} | subscribed | told


def _named(value: Any) -> Any:
    # The state has its structs as arrays, which is all that JSON would show of them.
    if isinstance(value, msgspec.Struct):
        return {name: _named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(each) for each in value]
    return msgspec.to_builtins(value)
