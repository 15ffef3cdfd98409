"""The groups as they are, in a bounded amount of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.client.foreign import Records
from group_coordinator.client.work import assigned_partitions
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    GenerationCompleted,
    MemberAssigned,
    StateChanged,
)
from group_coordinator.coordinator_state.foreign import ForeignJson
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.history.rows import read_event, time_of
from group_coordinator.history.spans import Assignment, Membership, Wait
from group_coordinator.history.story import Story
from group_coordinator.page.recent import Move, Rebalances, Recent

# Bytes that Python needs for an entry besides its own, about.
_OVERHEAD = 300
_OF_OFFSETS = frozenset({"offsets_committed", "offsets_deleted", "offsets_expired"})
"""Most events are commits of members, which no page shows. Others are kept apart, however many they are."""


class Limits(NamedTuple):
    """The limits of what is kept, in bytes and in events. Groups that have changed last are kept longest.

    `resets`: offsets that were set or deleted by somebody other than a member, or that have expired. `near`:
    members that showed a sign of life when their session had nearly expired.
    """

    pictures: int = 64 << 20
    events: int = 64 << 20
    events_of_group: int = 1 << 20
    count_of_group: int = 2_000
    resets: int = 16 << 20
    resets_of_group: int = 4 << 20
    count_of_resets: int = 100
    near: int = 8 << 20
    near_of_group: int = 1 << 20
    count_of_near: int = 200


LIMITS = Limits()


class Listed(NamedTuple):
    """A group in a list. `since`: since when it has been in this state."""

    group_id: str
    state: str
    generation_id: int
    members: int
    since: datetime
    group_type: str = "classic"


class _Name(msgspec.Struct):
    """The names of a member, in a picture or in an event."""

    member_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    group_instance_id: str | None = None
    replaced_by: str | None = None

    @property
    def names(self) -> list[str]:
        """The names by which it is known, without its host's."""
        names = (self.member_id, self.client_id, self.group_instance_id, self.replaced_by)
        return [each for each in names if each]

    def __iter__(self) -> Iterator[str]:
        yield from (*self.names, self.client_host)


class _Named(msgspec.Struct):
    """As much of a picture as a search looks at."""

    members: list[_Name]


class _Tag(msgspec.Struct):
    """As much of an event as has to be known to keep it."""

    event_id: str
    event: str
    group_id: str
    at_ms: int = 0
    member_id: str | None = None


class Kept(NamedTuple):
    """An event as it is in the topic. `log_offset`: its place in its partition; `at_ms`: its log time."""

    log_offset: int
    event_id: str
    at_ms: int
    body: bytes

    @property
    def size(self) -> int:
        """The bytes that it takes, about."""
        return len(self.body) + len(self.event_id) + _OVERHEAD


class _Events:
    """The newest events of one group, each once: after a crash of the coordinator some come again."""

    def __init__(self) -> None:
        self.kept: deque[Kept] = deque()
        self.size = 0
        self._ids: set[str] = set()

    def take(self, event: Kept, most_bytes: int, most: int) -> None:
        if event.event_id in self._ids:
            return
        self._ids.add(event.event_id)
        self.kept.append(event)
        self.size += event.size
        while len(self.kept) > most or self.size > most_bytes:
            oldest = self.kept.popleft()
            self._ids.discard(oldest.event_id)
            self.size -= oldest.size


class _Newest:
    """The newest events of all groups: so many bytes, and of a group so many bytes and events at most."""

    def __init__(self, most_bytes: int, most_bytes_of_group: int, most_of_group: int) -> None:
        self._most_bytes = most_bytes
        self._of_group = most_bytes_of_group, most_of_group
        self.groups: OrderedDict[str, _Events] = OrderedDict()
        self.size = 0

    def take(self, group_id: str, event: Kept) -> None:
        of_group = self.groups.setdefault(group_id, _Events())
        self.groups.move_to_end(group_id)
        self.size -= of_group.size
        of_group.take(event, *self._of_group)
        self.size += of_group.size
        while self.size > self._most_bytes:
            _, oldest = self.groups.popitem(last=False)
            self.size -= oldest.size

    def kept(self, group_id: str) -> list[Kept]:
        of_group = self.groups.get(group_id)
        return [] if of_group is None else list(of_group.kept)


class Memory:
    """The newest picture of each group, and its newest events. For use by several threads.

    `begin_ms`: the time from which on it is given all events.
    """

    def __init__(self, limits: Limits = LIMITS, begin_ms: int = 0) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._pictures: OrderedDict[str, tuple[Listed, bytes]] = OrderedDict()
        self._pictures_size = 0
        self._places = Newest()
        self._events = _Newest(limits.events, limits.events_of_group, limits.count_of_group)
        self._resets = _Newest(limits.resets, limits.resets_of_group, limits.count_of_resets)
        # A large fleet that always comes late has so many that nothing else of its group would be kept.
        self._near = _Newest(limits.near, limits.near_of_group, limits.count_of_near)
        self._rebalances = Rebalances(begin_ms)
        self._topics: dict[str, tuple[bytes, frozenset[str]]] = {}
        self.has_forgotten = False
        """Whether there was no room for the pictures of some groups."""

    # -- what is read ------------------------------------------------------------------------------------

    def take_picture(
        self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]] = ()
    ) -> None:
        """A record of the topic of groups. One that is no picture, or that comes too late, is skipped."""
        if not self._places.take(key, headers):
            return
        picture = None if value is None else _records.read_value(value, "a record of the topic of groups")
        if picture is None and value is not None:
            return
        group_id = (key or b"").decode(errors="replace") if picture is None else picture.group_id
        with self._lock:
            before = self._pictures.pop(group_id, None)
            self._pictures_size -= 0 if before is None else len(before[1]) + _OVERHEAD
            if picture is None or value is None:
                return
            listed = Listed(
                picture.group_id,
                picture.state,
                picture.generation_id,
                len(picture.members),
                time_of(picture.state_timestamp_ms),
                picture.group_type,
            )
            self._pictures[group_id] = (listed, value)
            self._pictures_size += len(value) + _OVERHEAD
            while self._pictures_size > self._limits.pictures:
                _, (_, oldest) = self._pictures.popitem(last=False)
                self._pictures_size -= len(oldest) + _OVERHEAD
                self.has_forgotten = True

    def take_event(self, log_offset: int, value: bytes | None) -> None:
        """A record of the topic of events. One that is no event is skipped."""
        tag = _tags.read_value(value, "a record of the topic of events")
        if tag is None or value is None:
            return
        if tag.event == "offsets_committed" and tag.member_id != "":
            return
        with self._lock:
            self._of_kind(tag.event).take(tag.group_id, Kept(log_offset, tag.event_id, tag.at_ms, value))
            if tag.event == "state_changed" and (move := _moves.read_or_none(value)) is not None:
                self._rebalances.take(move)

    def _of_kind(self, kind: str) -> _Newest:
        if kind in _OF_OFFSETS:
            return self._resets
        return self._near if kind == "session_nearly_expired" else self._events

    # -- what is known -----------------------------------------------------------------------------------

    def groups(self) -> list[Listed]:
        """All groups, by id."""
        with self._lock:
            listed = [listed for listed, _ in self._pictures.values()]
        return sorted(listed)

    def named(self, text: str) -> set[str]:
        """The ids of groups with `text` in their id, or in the id, client, instance or host of a member."""
        # As it stands in JSON, without its quotes. Only pictures that have it anywhere are looked at closely.
        needle = msgspec.json.encode(text)[1:-1]
        with self._lock:
            kept = [(each, body) for each, (_, body) in self._pictures.items()]
        return {
            group_id
            for group_id, body in kept
            if text in group_id
            or (needle in body and any(text in name for name in chain(*_members_in(body))))
        }

    def with_member(self, name: str, since_ms: int) -> set[str]:
        """The ids of groups with a member of this id, client id or instance id, now or in a kept event."""
        needle = msgspec.json.encode(name)
        with self._lock:
            pictures = [(each, body) for each, (_, body) in self._pictures.items() if needle in body]
            events = [
                (group_id, each.body)
                for group_id, of_group in self._events.groups.items()
                for each in of_group.kept
                if each.at_ms >= since_ms and needle in each.body
            ]
        found = {each for each, body in pictures if any(name in it.names for it in _members_in(body))}
        named = ((each, _names.read_or_none(body)) for each, body in events if each not in found)
        return found | {each for each, member in named if member is not None and name in member.names}

    def owning(self, topic: str) -> set[str]:
        """The ids of groups with a member that owns something of this topic now."""
        with self._lock:
            kept = {each: body for each, (_, body) in self._pictures.items()}
        # To read what thousands of members own takes a while, so it is read once.
        self._topics = {
            each: it if (it := self._topics.get(each)) is not None and it[0] is body else (body, _owned(body))
            for each, body in kept.items()
        }
        return {each for each, (_, topics) in self._topics.items() if topic in topics}

    def begin_ms(self) -> int:
        """The time since when all rebalances are known."""
        with self._lock:
            return self._rebalances.begin_ms

    def recent(self, groups: Mapping[str, int | None], since_ms: int, until_ms: int) -> dict[str, Recent]:
        """The rebalances of groups in a time. `groups`: since when their pictures say that they rebalance."""
        with self._lock:
            return {each: self._rebalances.of(each, since_ms, until_ms, it) for each, it in groups.items()}

    def caused_by(self, cause: str, since_ms: int) -> set[str]:
        """The ids of groups that had a rebalance for this cause."""
        with self._lock:
            return self._rebalances.caused_by(cause, since_ms)

    def picture(self, group_id: str) -> GroupPicture | None:
        """The newest picture of a group."""
        with self._lock:
            found = self._pictures.get(group_id)
        return None if found is None else _pictures.read_or_none(found[1])

    def events(self, group_id: str) -> list[Kept]:
        """The newest events of a group that are kept, the oldest first. Commits of members are not."""
        with self._lock:
            stores = self._events, self._resets, self._near
            return sorted(each for kept in stores for each in kept.kept(group_id))

    def story(self, group_id: str) -> Story | None:
        """Return what happened to a group, as far as that is kept; None if nothing is known of it.

        Of a group to which nothing has happened lately it is what its picture says.
        """
        kept = self.events(group_id)
        picture = self.picture(group_id)
        if not kept and picture is None:
            return None
        events = ((each.log_offset, event) for each in kept if (event := read_event(each.body)) is not None)
        story = Story.of_events(group_id, events)
        return story if picture is None else _completed(story, picture)


_named = ForeignJson[_Named](_Named)
_names = ForeignJson[_Name](_Name)
_moves = ForeignJson[Move](Move)
_tags = Records[_Tag](_Tag, "event")
_pictures = ForeignJson[GroupPicture](GroupPicture)
_records = Records[GroupPicture](GroupPicture, "picture of a group")


def _members_in(body: bytes) -> list[_Name]:
    """The names of the members in a picture."""
    named = _named.read_or_none(body)
    return [] if named is None else named.members


def _owned(body: bytes) -> frozenset[str]:
    """The topics of which members own something, in a picture. What cannot be read is left out."""
    picture = _pictures.read_or_none(body)
    if picture is None:
        return frozenset()
    assigned = (
        assigned_partitions(picture.protocol_type or "", it.member_assignment) for it in picture.members
    )
    return frozenset(each.topic for partitions in assigned for each in partitions or ())


def _completed(story: Story, picture: GroupPicture) -> Story:
    """The story with what is older than its events, as far as the picture has it."""
    known = {each.member_id: each for each in story.memberships}
    for member in picture.members:
        if (membership := known.get(member.member_id)) is None:
            membership = Membership(group_id=story.group_id, member_id=member.member_id, begun_by="")
            story.memberships.insert(0, membership)
        if membership.client_id is None:
            membership.client_id, membership.client_host = member.client_id, member.client_host
            membership.group_instance_id = member.group_instance_id
    if picture.group_type == CONSUMER:
        _complete_consumers(story, picture)
    if not story.transitions:
        told = Story.of_events(story.group_id, ((-1, event) for event in _events_of(picture)))
        story.transitions += told.transitions
        story.generations += told.generations
        story.assignments += told.assignments
    return story


def _events_of(picture: GroupPicture) -> Iterator[AnyEvent]:
    """The events that would tell what the picture does: the state, and who has what in a classic group."""
    of_event: dict[str, Any] = {
        "at_ms": picture.state_timestamp_ms,
        "group_id": picture.group_id,
        "generation_id": picture.generation_id,
    }
    yield StateChanged(**of_event, from_="", to=picture.state, reason="")
    if picture.state != GroupState.STABLE or picture.group_type == CONSUMER:
        return
    of_event["protocol_type"] = picture.protocol_type or ""
    members = [each.member_id for each in picture.members]
    name, leader = picture.protocol_name or "", picture.leader or ""
    yield GenerationCompleted(**of_event, protocol_name=name, leader=leader, members=members)
    assigned = [MemberAssigned(each.member_id, each.member_assignment) for each in picture.members]
    yield AssignmentPropagated(**of_event, assignments=assigned)


def _complete_consumers(story: Story, picture: GroupPicture) -> None:
    """Tell what members of the consumer protocol have had, and waited for, since before the oldest event."""
    common: dict[str, Any] = {"group_id": story.group_id, "begun_by": ""}
    known = {(each.member_id, each.topic, each.partition) for each in story.assignments if each.until is None}
    waits = {(each.topic, each.partition) for each in story.waits if each.until is None}
    holders: dict[TopicPartition, str] = {}
    for member in picture.members:
        for held in assigned_partitions(CONSUMER, member.member_assignment) or ():
            holders[held] = member.member_id
            if (member.member_id, *held) not in known:
                given = Assignment(
                    **common,
                    generation_id=picture.generation_id,
                    member_id=member.member_id,
                    topic=held.topic,
                    partition=held.partition,
                )
                story.assignments.insert(0, given)
    for member in picture.members:
        target = b"" if member.target_assignment is msgspec.UNSET else member.target_assignment
        for wanted in assigned_partitions(CONSUMER, target) or ():
            holder_id = holders.get(wanted)
            if holder_id in (None, member.member_id) or tuple(wanted) in waits:
                continue
            wait = Wait(
                **common,
                topic=wanted.topic,
                partition=wanted.partition,
                holder_id=holder_id or "",
                member_id=member.member_id,
                assignment_epoch=picture.assignment_epoch or 0,
            )
            story.waits.insert(0, wait)
