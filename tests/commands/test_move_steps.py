"""The steps of a move, with models of both sides: killed between any two, run again, in both directions.

Members come through gateways that follow the record. They read and commit between any two steps. A ledger
has what was read: no record may be skipped, and a group may have members on one side only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NoError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.brokers_guard import HasMembersError
from group_coordinator.client.descriptions import MemberDescription
from group_coordinator.commands.move.steps import Mover, Offsets, RefusedError, Seen
from group_coordinator.commands.move.steps import World as Surroundings
from group_coordinator.coordinator_state.sides import Side, SideRecord, other

G = "billing"
T0, T1, T2 = (TopicPartition("orders", number) for number in range(3))
SIDES: list[Side] = ["brokers", "coordinator"]


class Killed(BaseException):
    """The command is killed with -9: nothing that it would still do is done."""


def committed(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, f"at {offset}", 3)


class World:
    """Both sides, the topic, and a fleet of `T0` and `T1` whose members come through gateways."""

    name = "sides"

    def __init__(self, at: Side, fleet: int = 2, *, record: bool = False) -> None:
        self.records: list[SideRecord] = []
        self.patterns: Side = at
        self.places = {side: ModelPlace(self, side) for side in SIDES}
        self.ledger: Counter[tuple[TopicPartition, int]] = Counter()
        self.positions: dict[TopicPartition, int] = {}
        """Of the fleet as it is now: the next record that it reads."""
        self.fleet = fleet
        self.stays: set[Side] = set()
        """Sides where a member stays that does not come through a gateway."""
        self.now_s = 1_000.0
        self.operations = 0
        self.kill_at: int | None = None
        self.fail_at: dict[int, BaseException] = {}
        self.said: list[str] = []
        if record:
            self.append(SideRecord(group_id=G, side=at, at_ms=0, client_id="c", move_id="first"))

    # -- what the command sees ---------------------------------------------------------------------------

    def step(self) -> None:
        """Something is done by the command. Before that the world goes on."""
        self.go_on()
        self.operations += 1
        if self.kill_at is not None and self.operations > self.kill_at:
            raise Killed
        if error := self.fail_at.pop(self.operations, None):
            raise error

    def newest(self, group_id: str) -> SideRecord | None:
        assert group_id == G
        self.step()
        return self.records[-1] if self.records else None

    def append(self, record: SideRecord) -> None:
        self.step()
        self.records.append(record)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def mover(self, to: Side, *, overwrites: bool = False) -> Mover:
        places = (self.places["coordinator"], self.places["brokers"])
        return Mover(
            G,
            to,
            Surroundings(*places, self, self.said.append, lambda: self.now_s, self.sleep),
            client_id="c",
            overwrites=overwrites,
        )

    # -- the fleet ---------------------------------------------------------------------------------------

    @property
    def side(self) -> Side | None:
        """The side that gateways have the fleet on; None while it moves."""
        if not self.records:
            return self.patterns
        return self.records[-1].side if self.records[-1].moving_to is None else None

    def go_on(self) -> None:
        """The fleet reads what it has, and commits if there is a coordinator to commit to."""
        side = self.side
        for each in self.places.values():
            if each.side != side:
                each.members = 0
        if not self.fleet:
            return
        if side is not None:
            place = self.places[side]
            if not place.members:
                assert not place.is_guarded, "a client takes the guard's refusal for final"
                self.positions = {
                    each: place.stored[each].offset if each in place.stored else 0 for each in (T0, T1)
                }
            place.members = self.fleet
        # While the group moves members keep their partitions, and read on.
        for partition, position in self.positions.items():
            self.ledger[partition, position] += 1
            self.positions[partition] = position + 1
        if side is not None:
            self.places[side].stored |= {each: committed(it) for each, it in self.positions.items()}
        assert sum(bool(it.members) for it in self.places.values()) <= 1

    def check(self) -> None:
        """No record was skipped."""
        self.go_on()
        for partition in (T0, T1):
            read = sorted(offset for each, offset in self.ledger if each == partition)
            assert read == list(range(len(read)))


class ModelPlace:
    """A side in memory."""

    def __init__(self, world: World, side: Side) -> None:
        self.world, self.side = world, side
        self.stored: Offsets = {}
        self.members = 0
        self.is_guarded = False
        self.is_known = self.may_guard = True
        self.unknown: set[TopicPartition] = set()
        self.seen = Seen(True, protocol_type="consumer")

    def _all_members(self) -> int:
        return self.members + (self.side in self.world.stays)

    def look(self, group_id: str) -> Seen:
        assert group_id == G
        self.world.step()
        members = tuple(
            MemberDescription(f"m{number}", None, "app", "10.0.0.7", b"", b"", ())
            for number in range(self._all_members())
        )
        is_there = bool(members or self.stored or self.is_guarded)
        return self.seen._replace(is_there=is_there, members=members, is_guarded=self.is_guarded)

    def offsets(self, group_id: str) -> Offsets:
        self.world.step()
        return dict(self.stored)

    def commit(self, group_id: str, offsets: Offsets) -> Mapping[TopicPartition, type[KafkaError]]:
        errors: dict[TopicPartition, type[KafkaError]] = {}
        for partition, offset in offsets.items():
            self.world.step()
            if self._all_members():
                errors[partition] = UnknownMemberIdError
            elif partition in self.unknown:
                errors[partition] = UnknownTopicOrPartitionError
            else:
                errors[partition] = NoError
                self.stored[partition] = offset
        return errors

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, type[KafkaError]]:
        for partition in sorted(partitions):
            self.world.step()
            del self.stored[partition]
        return {}

    def check_guard(self, group_id: str) -> None:
        self.world.step()
        if not self.may_guard:
            raise GroupAuthorizationFailedError

    def guard(self, group_id: str) -> None:
        self.world.step()
        if self.side == "brokers":
            if self._all_members():
                raise HasMembersError("group 'billing' has members at the brokers")
            self.is_guarded = True

    def release(self, group_id: str) -> None:
        self.world.step()
        self.is_guarded = False


def world(at: Side, **given: int) -> World:
    """A group that has read some records at a side, and whose other side has old offsets."""
    world = World(at, **given)
    for _ in range(5):
        world.go_on()
    old = world.places[other(at)].stored
    old[T0] = committed(2)
    old[T2] = committed(9)
    return world


# -- as it should be -----------------------------------------------------------------------------------


@pytest.mark.parametrize("to", SIDES)
def test_a_group_moves_with_its_offsets_while_its_members_read(to: Side) -> None:
    there = world(other(to))
    look = there.mover(to).move()
    assert (look.origin, look.already) == (other(to), False)
    there.check()
    assert there.side == to
    assert there.places[to].members == 2
    assert there.places[to].stored.keys() == {T0, T1}
    assert there.places["brokers"].is_guarded == (to == "coordinator")
    assert [(each.side, each.moving_to) for each in there.records] == [(other(to), to), (to, None)]
    assert len({each.move_id for each in there.records}) == 1
    assert any(count > 1 for count in there.ledger.values()), "what was not committed meanwhile is read again"
    assert there.now_s == 1_000.0, "nothing had to be waited for"
    again = there.mover(to).move()
    assert again.already
    assert len(there.records) == 2


@pytest.mark.parametrize("to", SIDES)
def test_a_look_changes_nothing(to: Side) -> None:
    there = world(other(to))
    before = [dict(it.stored) for it in there.places.values()]
    there.fleet = 0
    look = there.mover(to).look()
    assert (look.origin, look.obstacle) == (other(to), "")
    assert len(look.seen[look.origin].members) == 2
    assert look.offsets[to][T0].offset == 2
    assert [it.stored for it in there.places.values()] == before
    assert there.records == []


def test_offsets_of_topics_that_are_gone_are_left_out() -> None:
    there = world("coordinator")
    there.places["coordinator"].stored[T2] = committed(4)
    there.places["brokers"].stored.clear()
    there.places["brokers"].unknown.add(T2)
    there.mover("brokers").move()
    assert there.places["brokers"].stored.keys() == {T0, T1}
    assert "left out orders-2, because there is no such partition any more" in there.said


# -- interrupted ---------------------------------------------------------------------------------------


def operations_of(to: Side) -> int:
    whole = world(other(to))
    whole.mover(to).move()
    return whole.operations


@pytest.mark.parametrize("to", SIDES)
@pytest.mark.parametrize("again", SIDES)
def test_one_that_is_killed_anywhere_can_be_run_again_and_back(to: Side, again: Side) -> None:
    for kill_at in range(operations_of(to)):
        there = world(other(to))
        there.kill_at = kill_at
        with pytest.raises(Killed):
            there.mover(to).move()
        there.kill_at = None
        for _ in range(3):
            there.go_on()
        # Without a record the other side is meant, and that may have newer offsets.
        there.mover(again, overwrites=True).move() if there.records or again == to else None
        there.check()
        expected = again if there.records else other(to)
        assert there.side == expected
        assert there.places[expected].members == 2
        assert not (there.places["brokers"].is_guarded and expected == "brokers")


@pytest.mark.parametrize("error", [KafkaConnectionError("gone"), KeyboardInterrupt()])
@pytest.mark.parametrize("to", SIDES)
def test_an_error_anywhere_leaves_the_group_where_it_was(to: Side, error: BaseException) -> None:
    for fail_at in range(1, operations_of(to) + 1):
        there = world(other(to))
        there.fail_at = {fail_at: error}
        with pytest.raises(type(error)):
            there.mover(to).move()
        there.check()
        assert there.side == other(to), there.said
        assert not there.places["brokers"].is_guarded
        there.mover(to).move()
        there.check()
        assert there.side == to


def test_what_cannot_be_taken_back_is_told_and_the_guard_is_restored() -> None:
    there = World("brokers", record=True)
    there.mover("coordinator").move()
    assert there.places["brokers"].is_guarded
    begun = there.operations
    there.mover("brokers").move()
    steps = there.operations - begun
    for fail_at in range(1, steps):
        there = World("brokers", record=True)
        there.mover("coordinator").move()
        there.fail_at = {there.operations + fail_at: KafkaConnectionError("gone")}
        with pytest.raises(KafkaConnectionError):
            there.mover("brokers").move()
        assert there.places["brokers"].is_guarded
        there.check()
    there.fail_at = {there.operations + it: KafkaConnectionError("gone") for it in range(9, 30)}
    with pytest.raises(RefusedError, match="still on its way, and neither side serves it"):
        there.mover("brokers").move()
    assert there.side is None
    there.fail_at = {}
    there.mover("coordinator").move()
    assert (there.side, there.places["brokers"].is_guarded) == ("coordinator", True)
    there.check()


def test_a_guard_that_a_killed_run_has_released_is_taken_again_if_the_next_one_fails() -> None:
    there = World("brokers", record=True)
    there.mover("coordinator").move()
    brokers = there.places["brokers"]
    release = brokers.release

    def kills(group_id: str) -> None:
        release(group_id)
        there.kill_at = there.operations

    brokers.release = kills  # type: ignore[method-assign]
    with pytest.raises(Killed):
        there.mover("brokers").move()
    assert not brokers.is_guarded
    there.kill_at = None

    def fails(group_id: str, offsets: Offsets) -> Mapping[TopicPartition, type[KafkaError]]:
        raise KafkaConnectionError("gone")

    brokers.release, brokers.commit = release, fails  # type: ignore[method-assign]
    with pytest.raises(KafkaConnectionError):
        there.mover("brokers").move()
    assert (there.side, brokers.is_guarded) == ("coordinator", True)
    there.check()


def test_a_last_record_that_was_written_after_all_counts() -> None:
    there = world("brokers")
    append = there.append

    def fails(record: SideRecord) -> None:
        append(record)
        if record.moving_to is None:
            raise KafkaConnectionError("no answer")

    there.append = fails  # type: ignore[method-assign]
    with pytest.raises(KafkaConnectionError):
        there.mover("coordinator").move()
    assert (there.side, there.places["brokers"].is_guarded) == ("coordinator", True)
    there.check()


def test_of_two_moves_the_newer_one_goes_on() -> None:
    there = world("brokers")
    sleep, begun = there.sleep, []
    there.stays.add("brokers")

    def second(seconds: float) -> None:
        sleep(seconds)
        if not begun:
            begun.append(1)
            there.stays.clear()
            there.mover("coordinator").move()

    there.sleep = second  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match="another move of group 'billing' has begun"):
        there.mover("coordinator").move()
    assert there.side == "coordinator"
    assert there.places["brokers"].is_guarded
    there.check()


@pytest.mark.drawn
@given(data=st.data())
def test_any_number_of_moves_with_any_interruptions_skips_nothing(data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(SIDES))
    there = world(start)
    there.append(SideRecord(group_id=G, side=start, at_ms=0, client_id="c", move_id="first"))
    for _ in range(data.draw(st.integers(1, 5))):
        to = data.draw(st.sampled_from(SIDES))
        there.fleet = data.draw(st.integers(0, 2))
        how = data.draw(st.sampled_from(["whole", "kill", "error"]))
        at = there.operations + data.draw(st.integers(1, 40))
        there.kill_at = at if how == "kill" else None
        there.fail_at = {at: KafkaConnectionError("gone")} if how == "error" else {}
        with suppress(Killed, KafkaConnectionError):
            there.mover(to).move()
        there.kill_at, there.fail_at = None, {}
        for _ in range(data.draw(st.integers(0, 3))):
            there.go_on()
    there.fleet = 2
    there.mover(to).move()
    there.check()
    assert there.side == to
    assert there.places["brokers"].is_guarded is False or to == "coordinator"


# -- what stands in the way ----------------------------------------------------------------------------


def test_members_that_stay_are_named_and_the_group_stays_with_them() -> None:
    there = world("brokers")
    there.stays.add("brokers")
    with pytest.raises(RefusedError) as refused:
        there.mover("coordinator").move()
    assert str(refused.value) == (
        "group 'billing' is not moved: after 60 s it has members at the brokers (app of 10.0.0.7) that come "
        "through no gateway that reads sides: stop them, or give them the gateway's address"
    )
    assert there.side == "brokers"
    there.check()


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"protocol_type": "connect"}, "it is of protocol type 'connect'"),
        ({"group_type": "consumer"}, "its members speak group.protocol=consumer: stop them"),
        ({"group_type": "share"}, "a group of type 'share' has its name, and only classic and consumer"),
    ],
)
def test_groups_that_cannot_move_are_refused_before_anything_changes(seen: dict[str, str], why: str) -> None:
    there = world("brokers")
    there.places["brokers"].seen = there.places["brokers"].seen._replace(**seen)
    with pytest.raises(RefusedError, match=why):
        there.mover("coordinator").move()
    assert there.records == []


@pytest.mark.parametrize("to", SIDES)
def test_a_foreign_group_is_refused_without_members_and_on_either_side(to: Side) -> None:
    there = World(other(to), fleet=0)
    there.places[other(to)].stored[T0] = committed(5)
    there.places["brokers"].stored[T0] = committed(5)
    there.places["brokers"].seen = Seen(True, protocol_type="consumer", group_type="share")
    with pytest.raises(RefusedError, match="a group of type 'share' has its name"):
        there.mover(to).move()
    assert there.records == []


def test_a_group_whose_side_is_not_sure_is_not_moved() -> None:
    there = World("brokers", fleet=0)
    with pytest.raises(RefusedError, match="neither side knows it: is its name right"):
        there.mover("coordinator").move()
    there.places["coordinator"].stored[T0] = committed(7)
    with pytest.raises(RefusedError, match="it is at the coordinator already, as far as is known"):
        there.mover("coordinator").move()
    there.places["brokers"].stored[T0] = committed(5)
    with pytest.raises(RefusedError, match="at the coordinator orders-0 has a newer offset"):
        there.mover("coordinator").move()
    assert there.records == []
    there.mover("coordinator", overwrites=True).move()
    assert there.places["coordinator"].stored == {T0: committed(5)}


def test_commits_that_do_not_end_are_waited_for_as_long_as_members_are() -> None:
    there = World("coordinator", fleet=0)
    place = there.places["coordinator"]
    commits = itertools.count()

    def committing(group_id: str) -> Offsets:
        place.stored[T0] = committed(next(commits))
        assert there.operations < 5_000, "the command goes on for ever"
        return dict(place.stored)

    place.offsets = committing  # type: ignore[method-assign]
    place.stored[T0] = committed(0)
    with pytest.raises(RefusedError, match="after 60 s its members, its offsets or"):
        there.mover("brokers").move()
    assert (there.side, there.now_s) == ("coordinator", 1_060.0)


def test_a_guard_that_brokers_refuse_without_members_is_given_up() -> None:
    there = World("brokers", fleet=0)
    place = there.places["brokers"]
    place.stored[T0] = committed(5)

    def refused(group_id: str) -> None:
        there.step()
        assert there.operations < 5_000, "the command goes on for ever"
        raise HasMembersError

    place.guard = refused  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match="after 60 s the brokers still refuse its guard"):
        there.mover("coordinator").move()
    assert (there.side, there.now_s) == ("brokers", 1_060.0)


def test_members_at_the_other_side_stand_in_the_way() -> None:
    there = world("coordinator")
    there.stays.add("brokers")
    with pytest.raises(RefusedError, match="it has members at the brokers"):
        there.mover("brokers").move()
    assert there.records == []
    there.stays.clear()
    place = there.places["coordinator"]
    offsets = place.offsets

    def meanwhile(group_id: str) -> Offsets:
        there.stays |= {"brokers"} if there.side is None else set()
        return offsets(group_id)

    place.offsets = meanwhile  # type: ignore[method-assign]
    with pytest.raises(UnknownMemberIdError):
        there.mover("brokers").move()
    assert there.side == "coordinator"
    there.check()


@pytest.mark.parametrize("to", SIDES)
def test_a_right_that_is_missing_shows_before_anything_is_changed(to: Side) -> None:
    there = world(other(to))
    there.places["brokers"].may_guard = False
    stored = [dict(it.stored) for it in there.places.values()]
    there.fleet = 0
    with pytest.raises(GroupAuthorizationFailedError):
        there.mover(to).move()
    assert there.records == []
    assert [it.stored for it in there.places.values()] == stored


def test_a_member_that_comes_before_the_guard_is_waited_for() -> None:
    there = world("brokers")
    place = there.places["brokers"]
    guard, sleep = place.guard, there.sleep
    comes = [1]

    def too_late(group_id: str) -> None:
        if comes:
            comes.clear()
            there.stays.add("brokers")
        guard(group_id)

    def goes(seconds: float) -> None:
        there.stays.clear()
        sleep(seconds)

    place.guard, there.sleep = too_late, goes  # type: ignore[method-assign]
    there.mover("coordinator").move()
    assert there.side == "coordinator"
    there.check()


def test_what_a_transaction_commits_meanwhile_is_copied_as_well() -> None:
    there = World("brokers", fleet=0)
    place = there.places["brokers"]
    place.stored[T0] = committed(5)
    offsets, calls = place.offsets, Counter[str]()

    def counted(group_id: str) -> Offsets:
        calls["asked"] += 1
        if calls["asked"] == 3:
            place.stored[T1] = committed(8)
        return offsets(group_id)

    place.offsets = counted  # type: ignore[method-assign]
    there.mover("coordinator").move()
    assert there.places["coordinator"].stored == {T0: committed(5), T1: committed(8)}
    assert "something has changed meanwhile: copying again" in there.said
