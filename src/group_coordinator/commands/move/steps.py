"""The steps of a move: what is looked at, and what is done in which order.

    look       the record of the group, and what both sides know of it
    away       the record says that the group moves: from now on neither side serves it, and its members leave
    empty      the side that it comes from has no members
    guarded    nobody joins or commits at the brokers, or nobody is kept from it any more
    copied     the other side has the offsets, and no others
    seen       nothing has changed meanwhile where the group comes from; if it has, all again from `empty`
    there      the record says that the group is there

Until the last step nothing is changed where the group comes from. So a move that is interrupted anywhere can
be done again, or be taken back. The record decides what is true.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.brokers_guard import HasMembersError
from group_coordinator.client.descriptions import MemberDescription
from group_coordinator.client.messages import message_of
from group_coordinator.coordinator_state.naming import some_of
from group_coordinator.coordinator_state.sides import Side, SideRecord, other

_SHARED = ("", "consumer")
"""The protocol types of groups that share partitions; "" is that of one without members so far."""
_CLASSIC = "classic"
_MOVABLE = (_CLASSIC, "consumer")
"""The types of groups that the guard can keep members out of, once they have none."""
_LOOK_EVERY_S = 0.5
_MOST_NAMED = 5
_WHAT_TO_DO = "stop them, or give them the gateway's address"

Offsets = dict[TopicPartition, OffsetAndMetadata]


class RefusedError(Exception):
    """The group cannot be moved; the message is one line, and says what to do."""


class Seen(NamedTuple):
    """A group as one side has it. `group_type`: that of the protocol that its members speak."""

    is_there: bool
    members: tuple[MemberDescription, ...] = ()
    """Without the guard."""
    protocol_type: str = ""
    group_type: str = _CLASSIC
    is_guarded: bool = False


class Place(Protocol):
    """A side. Methods raise a KafkaError."""

    def look(self, group_id: str) -> Seen:
        """The group as it is now."""

    def offsets(self, group_id: str) -> Offsets:
        """The committed offsets, once no transaction may change them."""

    def commit(self, group_id: str, offsets: Offsets) -> Mapping[TopicPartition, type[KafkaError]]:
        """Commit for a group without members."""

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, type[KafkaError]]:
        """Delete committed offsets."""


class GuardedPlace(Place, Protocol):
    """The brokers. Only gateways let members in at the coordinator, so it needs no guard."""

    def check_guard(self, group_id: str) -> None:
        """Raise the KafkaError of a right that is missing to guard the group, and change nothing."""

    def guard(self, group_id: str) -> None:
        """Keep members out. Raises HasMembersError."""

    def release(self, group_id: str) -> None:
        """Let members in again."""


class Sides(Protocol):
    """`coordinator.sides`."""

    @property
    def name(self) -> str:
        """The name of the topic."""

    def newest(self, group_id: str) -> SideRecord | None:
        """The newest record of a group, as the topic is now."""

    def append(self, record: SideRecord) -> None:
        """Write a record."""


class World(NamedTuple):
    """All that a move needs."""

    coordinator: Place
    brokers: GuardedPlace
    sides: Sides
    say: Callable[[str], None]
    """It is told how the move goes, in lines."""
    clock: Callable[[], float] = time.time
    """It tells seconds since 1970."""
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Look:
    """A group before a move. `already`: there is nothing to move, because the group is there."""

    record: SideRecord | None
    origin: Side
    seen: Mapping[Side, Seen]
    offsets: Mapping[Side, Offsets]
    already: bool
    obstacle: str
    """Why it cannot be moved; "" if it can."""


class Mover:
    """Moves one group to the side `to`.

    `timeout_s`: the longest wait for members to leave. `overwrites`: take the offsets of the other side, even
    if no record says that the group is there and those of `to` are newer.
    """

    def __init__(
        self,
        group_id: str,
        to: Side,
        world: World,
        *,
        client_id: str,
        timeout_s: float = 60.0,
        overwrites: bool = False,
    ) -> None:
        self._group_id, self._to, self._client_id = group_id, to, client_id
        coordinator, self._brokers, self._sides, self._say, self._clock, self._sleep = world
        self._places: Mapping[Side, Place] = {"coordinator": coordinator, "brokers": self._brokers}
        self._timeout_s, self._overwrites = timeout_s, overwrites
        self._move_id = secrets.token_hex(8)

    # -- look ------------------------------------------------------------------------------------------

    def look(self) -> Look:
        """Look at both sides, and change nothing."""
        record, to = self._sides.newest(self._group_id), self._to
        origin = other(to) if record is None else record.side
        already = record is not None and record.moving_to is None and record.side == to
        seen = {side: place.look(self._group_id) for side, place in self._places.items()}
        offsets = {side: self._places[side].offsets(self._group_id) for side in seen}
        look = Look(record, origin, seen, offsets, already, "")
        # Nothing keeps a move that was interrupted from being taken back.
        obstacle = "" if already or origin == to else self._obstacle(look)
        return Look(record, origin, seen, offsets, already, obstacle)

    def _obstacle(self, look: Look) -> str:
        origin, target = look.seen[look.origin], look.seen[self._to]
        ahead = _ahead(look.offsets[self._to], look.offsets[look.origin])
        is_sure = look.record is not None or bool(origin.members) or self._overwrites
        types = (origin.group_type, target.group_type)
        foreign = next((each for each in types if each not in _MOVABLE), "")
        obstacles = {
            "neither side knows it: is its name right?": not (origin.is_there or target.is_there),
            f"it has members at the {self._to} ({_named(target.members)}): {_WHAT_TO_DO}": target.members,
            f"a group of type {foreign!r} has its name, and only classic and consumer groups move": foreign,
            f"its members speak group.protocol={origin.group_type}: stop them first": (
                origin.members and origin.group_type != _CLASSIC
            ),
            f"it is of protocol type {origin.protocol_type!r}, and only groups of consumers move": (
                origin.protocol_type not in _SHARED
            ),
            f"it is at the {self._to} already, as far as is known": not (is_sure or origin.is_there),
            f"no record says where it is, and at the {self._to} {ahead} has a newer offset: if it is at the "
            f"{look.origin}, add --overwrite": not is_sure and ahead,
        }
        return next((why for why, is_so in obstacles.items() if is_so), "")

    # -- do --------------------------------------------------------------------------------------------

    def move(self) -> Look:
        """Move the group; returns what was known before. Raises `RefusedError`, or a KafkaError."""
        look = self.look()
        if look.already:
            return look
        if look.obstacle:
            raise RefusedError(f"group {self._group_id!r} cannot be moved: {look.obstacle}")
        if look.origin == self._to:
            self._say(f"taking back what was on its way to the {other(self._to)}")
            self._settle(self._to, look)
            return look
        # Later the group would be left on its way for a right that is missing.
        self._brokers.check_guard(self._group_id)
        try:
            self._append(look.origin, moving_to=self._to)
            self._transfer(look.origin)
            self._append(self._to)
        except BaseException:
            self._give_up(look)
            raise
        return look

    def _transfer(self, origin: Side) -> None:
        deadline_s = self._clock() + self._timeout_s
        while why := self._try_to_transfer(origin, deadline_s):
            if self._clock() >= deadline_s:
                raise RefusedError(
                    f"group {self._group_id!r} is not moved: after {self._timeout_s:g} s {why}: stop "
                    "all programs that use it"
                )
            self._sleep(_LOOK_EVERY_S)

    def _try_to_transfer(self, origin: Side, deadline_s: float) -> str:
        """Do all steps from `empty` to `seen`; returns why all has to be done again, or ""."""
        self._await_empty(origin, deadline_s)
        if origin == "brokers":
            try:
                self._brokers.guard(self._group_id)
            except HasMembersError:
                return "the brokers still refuse its guard, as if it had members"
        else:
            self._brokers.release(self._group_id)
        offsets = self._places[origin].offsets(self._group_id)
        self._check_ours()
        wanted = self._copy(offsets)
        if self._is_done(origin, offsets, wanted):
            return ""
        self._say("something has changed meanwhile: copying again")
        return "its members, its offsets or its guard still change"

    def _await_empty(self, origin: Side, deadline_s: float) -> None:
        said = 0
        while members := self._places[origin].look(self._group_id).members:
            if self._clock() >= deadline_s:
                raise RefusedError(
                    f"group {self._group_id!r} is not moved: after {self._timeout_s:g} s it has members at "
                    f"the {origin} ({_named(members)}) that come through no gateway that reads "
                    f"{self._sides.name}: {_WHAT_TO_DO}"
                )
            if len(members) != said:
                self._say(f"waiting for {len(members)} members to leave the {origin}")
            said = len(members)
            self._sleep(_LOOK_EVERY_S)

    def _copy(self, offsets: Offsets) -> Offsets:
        """Have the other side have these offsets and no others; returns those that it can have."""
        target = self._places[self._to]
        wanted = dict(offsets)
        before = target.offsets(self._group_id)
        errors = {
            **target.commit(self._group_id, {p: it for p, it in offsets.items() if before.get(p) != it})
        }
        for partition, error in list(errors.items()):
            if error is UnknownTopicOrPartitionError:
                self._say(f"left out {_name(partition)}, because there is no such partition any more")
                del errors[partition], wanted[partition]
        errors |= target.delete(self._group_id, before.keys() - wanted.keys())
        for partition, error in errors.items():
            if error is not NoError:
                raise error(f"{self._to}, {_name(partition)}: {message_of(error)}")
        return wanted

    def _is_done(self, origin: Side, offsets: Offsets, wanted: Offsets) -> bool:
        """Whether all is as it has to be for the last step."""
        self._check_ours()
        here, there = (self._places[side].look(self._group_id) for side in (origin, self._to))
        if there.members:
            raise RefusedError(
                f"group {self._group_id!r} is not moved: it has members at the {self._to} "
                f"({_named(there.members)}): {_WHAT_TO_DO}"
            )
        is_guarded = (here if origin == "brokers" else there).is_guarded
        return (
            not here.members
            and is_guarded == (origin == "brokers")
            and self._places[origin].offsets(self._group_id) == offsets
            and self._places[self._to].offsets(self._group_id) == wanted
        )

    def _check_ours(self) -> None:
        if not self._is_ours():
            raise RefusedError(f"another move of group {self._group_id!r} has begun, which goes on instead")

    # -- back ------------------------------------------------------------------------------------------

    def _give_up(self, look: Look) -> None:
        """Have all be as before, unless the last record was written after all, or another move goes on."""
        try:
            if self._is_ours():
                self._say(f"giving up: the group stays at the {look.origin}")
                self._settle(look.origin, look)
        except KafkaError as error:
            raise RefusedError(
                f"group {self._group_id!r} is still on its way, and neither side serves it. Run the command "
                f"again, to either side: {message_of(error)}"
            ) from error

    def _settle(self, side: Side, look: Look) -> None:
        """End a move where it began. `look`: what was known before this run of the command."""
        seen = look.seen["brokers"]
        # An earlier run may have released the guard.
        was_moving = look.record is not None and look.record.moving_to is not None
        # Before the record, because clients take the guard's refusal for final.
        if side == "brokers":
            self._brokers.release(self._group_id)
        elif seen.is_there if was_moving else seen.is_guarded:
            try:
                self._brokers.guard(self._group_id)
            except HasMembersError as error:
                self._say(f"warning: {error}, and each record may be read twice: stop them")
        self._append(side)

    def _is_ours(self) -> bool:
        """Whether this move is the newest one, and has not ended."""
        record = self._sides.newest(self._group_id)
        return record is not None and record.move_id == self._move_id and record.moving_to is not None

    def _append(self, side: Side, moving_to: Side | None = None) -> None:
        self._sides.append(
            SideRecord(
                group_id=self._group_id,
                side=side,
                moving_to=moving_to,
                at_ms=round(self._clock() * 1_000),
                client_id=self._client_id,
                move_id=self._move_id,
            )
        )


def _ahead(target: Offsets, origin: Offsets) -> str:
    """A partition of which the target has a newer offset than the origin; "" if there is none."""
    for partition, there in sorted(target.items()):
        here = origin.get(partition)
        if here is None or there.offset > here.offset:
            return _name(partition)
    return ""


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _named(members: tuple[MemberDescription, ...]) -> str:
    return some_of(members, _MOST_NAMED, lambda each: f"{each.client_id} of {each.client_host}")
