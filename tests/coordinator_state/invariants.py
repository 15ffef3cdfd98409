"""What must be true of a stored group between any two calls, and of what a call writes, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.committed import (
    CommittedOffset,
    CommittedOffsets,
    offset_key,
)
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import NO_OUTAGES, Outage, Outages
from group_coordinator.coordinator_state.responses import FetchedOffset, FetchedOffsetsOfTopic
from group_coordinator.coordinator_state.step import Channel, StepResult
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from tests.coordinator_state.consumer import invariants as of_consumers

AnyGroup = ClassicGroup | ConsumerGroup
Committed = dict[tuple[str, int], CommittedOffset]
"""All that is committed for a group, by topic and partition."""

REMEMBERED_MS = 60_000
"""A group that was deleted stays known for so long, to requests that are late."""


def check(
    before: bytes | None,
    result: StepResult,
    watermark_ms: int,
    config: GroupConfig,
    outages: Outages = NO_OUTAGES,
) -> Any:
    """Check what a call that found the state `before` has come to; the group is handed back."""
    old = decode_group(before) if before is not None else None
    new = decode_group(result.state) if result.state is not None else None
    _records_fit_their_topics(result, config)
    _published_is_what_has_changed(old, new, result)
    _places_go_forward(old, new, result)
    begins = (b'"group_created"', b'"group_type_changed"')
    if old is not None and any(begin in (it.value or b"") for it in result.outputs for begin in begins):
        # Another one, whose time may be an earlier one.
        old = None
    if new is None:
        assert result.deadline_ms is None
        return None
    assert encode_group(new) == result.state, "stored state does not round-trip"
    if old is None or old.offsets != new.offsets:
        _offsets_are_what_is_counted(new)
    if isinstance(new, ConsumerGroup):
        of_consumers.check(old if isinstance(old, ConsumerGroup) else None, new, watermark_ms)
        _consumers_offsets_are_looked_for(new, config, outages)
    else:
        _counters_are_what_the_members_say(new)
        _the_leader_is_a_member(new)
        _time_is_limited(new)
        _members_fit_the_state(new)
        _what_is_not_used_is_looked_for(old if isinstance(old, ClassicGroup) else None, new, config, outages)
    # Spark refuses a time-out that is not later than the watermark, and ends the query.
    assert result.deadline_ms is not None
    assert result.deadline_ms > max(watermark_ms, new.now_ms)
    return new


def committed(group: AnyGroup | None) -> Committed:
    """What the stored group has."""
    offsets = CommittedOffsets(group.offsets if group else b"")
    return {
        (topic, partition): offset
        for topic in offsets.topics()
        for partition, offset in offsets.of_topic(topic)
    }


# -- what is written -------------------------------------------------------------------------------


def _records_fit_their_topics(result: StepResult, config: GroupConfig) -> None:
    for output in result.outputs:
        size = len(output.key or b"") + len(output.value or b"")
        assert size <= config.max_record_bytes, f"{output.channel} of {size} bytes"


def _published_is_what_has_changed(old: AnyGroup | None, new: AnyGroup | None, result: StepResult) -> None:
    written = [(output.key, output.value) for output in result.outputs if output.channel is Channel.OFFSETS]
    if not written and old is not None and new is not None and old.offsets == new.offsets:
        return
    newest = dict(written)
    assert len(newest) == len(written), "a key is written twice"
    before, after = _pictures(old), _pictures(new)
    # A tombstone for what has come and gone within the call does no harm.
    kept = before | {key: msgspec.json.decode(value) if value else None for key, value in newest.items()}
    assert after == {key: value for key, value in kept.items() if value is not None}


def _places_go_forward(old: AnyGroup | None, new: AnyGroup | None, result: StepResult) -> None:
    compacted = (Channel.GROUPS, Channel.OFFSETS)
    places = {output.place for output in result.outputs if output.channel in compacted}
    told = {output.place for output in result.outputs if output.channel is Channel.RESPONSES} - {None}
    others = {output.place for output in result.outputs} - places - told
    assert others <= {None}
    assert None not in places
    pictured = {output.place for output in result.outputs if output.channel is Channel.GROUPS}
    if new is not None:
        assert all(place is not None and place <= new.pictured for place in told)
        assert pictured <= {new.pictured}
    if old is not None:
        assert all(place is not None and place > old.place for place in places)
    if new is not None and places:
        assert new.place >= max(place or 0 for place in places)


def _pictures(group: AnyGroup | None) -> dict[bytes, dict[str, Any]]:
    """What the compacted topic has to have."""
    return {
        offset_key(group.group_id, topic, partition): {
            "group_id": group.group_id,
            "topic": topic,
            "partition": partition,
            "committed_offset": each.offset,
            "committed_leader_epoch": each.leader_epoch,
            "metadata": each.metadata,
            "commit_timestamp_ms": each.commit_timestamp_ms,
            "expire_timestamp_ms": each.expire_timestamp_ms,
        }
        | ({"topic_id": each.topic_id} if each.topic_id else {})
        for (topic, partition), each in committed(group).items()
        if group is not None
    }


# -- members ---------------------------------------------------------------------------------------


def _counters_are_what_the_members_say(group: ClassicGroup) -> None:
    members = group.members.values()
    assert group.num_awaiting_join == sum(member.awaiting_join is not None for member in members)
    assert group.num_pending_sync == sum(member.pending_sync for member in members)
    assert group.protocol_counts == Counter(
        name for member in members for name in {protocol.name for protocol in member.protocols}
    )
    assert group.bytes_held == sum(member.size for member in members)
    static = [member for member in members if member.group_instance_id is not None]
    assert group.static_members == {member.group_instance_id: member.member_id for member in static}
    assert len(group.static_members) == len(static), "one member per instance id"


def _the_leader_is_a_member(group: ClassicGroup) -> None:
    if group.members:
        assert group.leader in group.members
    else:
        assert group.leader is None
    assert not group.members.keys() & group.pending_members.keys()
    for member_id, member in group.members.items():
        assert member.member_id == member_id


def _time_is_limited(group: ClassicGroup) -> None:
    for member in group.members.values():
        is_parked = member.awaiting_join is not None or member.awaiting_sync is not None
        # Else it would be a member for ever without a sign of life.
        assert is_parked or member.session_deadline_ms is not None
    in_join_phase = group.state is GroupState.PREPARING_REBALANCE
    assert in_join_phase == (group.join_deadline_ms is not None)
    # Somebody who has not synced is waited for, but not for ever.
    assert (group.num_pending_sync > 0) == (group.sync_deadline_ms is not None)


def _members_fit_the_state(group: ClassicGroup) -> None:
    members = group.members.values()
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        assert not group.members
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert group.members
        assert all(member.awaiting_join is None and not member.is_new for member in members)
        assert all(any(p.name == group.protocol_name for p in member.protocols) for member in members)
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert all(member.awaiting_sync is None for member in members)
    if group.state is GroupState.PREPARING_REBALANCE:
        assert group.num_pending_sync == 0


# -- offsets ---------------------------------------------------------------------------------------


def _offsets_are_what_is_counted(group: AnyGroup) -> None:
    offsets, again, kept = CommittedOffsets(group.offsets), CommittedOffsets(), committed(group)
    for (topic, partition), offset in kept.items():
        again.put(topic, partition, offset, 1)
    assert (len(kept), again.bytes_held) == (len(offsets), offsets.bytes_held)
    assert again.encode() == group.offsets, "not as it would be if nothing had been deleted"
    by_topic: dict[str, list[FetchedOffset]] = {topic: [] for topic in offsets.topics()}
    for (topic, partition), offset in kept.items():
        by_topic[topic].append(
            FetchedOffset(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                topic_id=offset.topic_id or msgspec.UNSET,
            )
        )
    assert all(by_topic.values()), "a topic without offsets"
    listed = [FetchedOffsetsOfTopic(*each) for each in by_topic.items()]
    assert len(msgspec.json.encode(listed)) - len("[]") <= offsets.bytes_held


def _what_is_not_used_is_looked_for(
    old: ClassicGroup | None, new: ClassicGroup, config: GroupConfig, outages: Outages
) -> None:
    """In time, that is no more than the check interval late, and no sooner than is of use.

    Time without a coordinator does not count.
    """
    look_ms, interval_ms = new.cleanup_deadline_ms, config.offsets_retention_check_interval_ms
    if new.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        assert look_ms is None, "a group that rebalances loses nothing"
        return
    if new.state is GroupState.DEAD:
        # Nothing is left but its time and its place, and that for a while only.
        assert (new.pending_members, new.offsets, new.subscribed_topics) == ({}, b"", None)
        forgotten_ms = new.state_timestamp_ms + REMEMBERED_MS
        assert look_ms is not None
        assert min(forgotten_ms, LATEST_MS) <= look_ms <= forgotten_ms + _length(outages)
        return
    kept = committed(new)
    ends = [_end_of(new, topic, offset, config) for (topic, _), offset in kept.items()]
    due = [end for end in ends if end is not None]
    if new.state is GroupState.EMPTY and not kept:
        # The group itself.
        due = [new.state_timestamp_ms]
    if look_ms is None:
        assert new.state is GroupState.STABLE
        assert not due
        return
    if due:
        assert look_ms <= max(min(due), new.now_ms + interval_ms) + _length(outages)
    assert look_ms >= min(new.state_timestamp_ms + interval_ms, LATEST_MS)
    if old is not None:
        awaited_ms = old.cleanup_deadline_ms
        if awaited_ms is not None:
            awaited_ms += _length(outages.between(old.now_ms, new.now_ms))
        if look_ms != awaited_ms:
            assert look_ms >= min(old.now_ms + interval_ms, LATEST_MS)


def _consumers_offsets_are_looked_for(group: ConsumerGroup, config: GroupConfig, outages: Outages) -> None:
    """No more than the check interval late: offsets of topics that no member names, and an Empty group."""
    interval_ms = config.offsets_retention_check_interval_ms
    kept = committed(group)
    ends = [group.unused_since_ms(topic, each.commit_timestamp_ms) for (topic, _), each in kept.items()]
    due = [end + config.offsets_retention_ms for end in ends if end is not None]
    if group.is_empty and not kept:
        due = [group.state_timestamp_ms]
    if due:
        assert group.cleanup_deadline_ms is not None
        latest_ms = max(min(due), group.now_ms + interval_ms) + _length(outages)
        assert group.cleanup_deadline_ms <= latest_ms


def _length(outages: Iterable[Outage]) -> int:
    return sum(outage.end_ms - outage.start_ms for outage in outages)


def _end_of(group: ClassicGroup, topic: str, offset: CommittedOffset, config: GroupConfig) -> int | None:
    """When the time of an offset is over, as things are; None if it is in use."""
    reads = group.subscribed_topics if group.protocol_type == "consumer" else None
    if group.state is not GroupState.EMPTY and (reads is None or topic in reads):
        return None
    if offset.expire_timestamp_ms is not None:
        return offset.expire_timestamp_ms
    of_group = group.state is GroupState.EMPTY and group.protocol_type is not None
    base_ms = group.state_timestamp_ms if of_group else offset.commit_timestamp_ms
    return base_ms + config.offsets_retention_minutes * 60_000
