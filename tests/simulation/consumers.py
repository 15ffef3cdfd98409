"""Members of the consumer protocol: the real `ConsumerMembership`, driven as `GroupMember` drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka.structs import TopicPartition

from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.errors import FencedInstanceIdError, UnreleasedInstanceIdError
from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.client.offsets import checked_offsets
from group_coordinator.client.states import MemberState
from tests.coordinator_state.consumer.invariants import held_by
from tests.simulation.brokers import UNITS
from tests.simulation.checks import Violation
from tests.simulation.conditions import LOOK_MS
from tests.simulation.programs import GROUP, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from group_coordinator.client.any_membership import AnyAnswer
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from tests.simulation.conditions import Timeouts
    from tests.simulation.consumer_play import ConsumerPlay
    from tests.simulation.world import World

_CHOICES = (("a",), ("a",), ("b",), (UNITS,), ("a", "b"), ("a", UNITS))


def settings_of(
    client_id: str, timeouts: Timeouts, instance_id: str | None, say_all_ms: int, assignor: str | None
) -> ConsumerMemberSettings:
    """The settings of a member; what members are known by and wait for is decided here alone."""
    return ConsumerMemberSettings(
        group_id=GROUP,
        client_id=client_id,
        client_host="host",
        group_instance_id=instance_id,
        server_assignor=assignor,
        max_poll_interval_ms=timeouts.rebalance_ms,
        request_timeout_ms=timeouts.request_ms,
        say_all_every_ms=say_all_ms,
    )


class Sent(NamedTuple):
    """What a commit, or with `positions` None a fetch, was sent for. `takes`: which take each is of."""

    takes: dict[MemberPartition, int]
    positions: dict[MemberPartition, int] | None


class Consumer(Program):
    """A program that shares one or two topics, and gives up what it is told to after some time."""

    REPLACES = False

    def __init__(
        self,
        world: World,
        play: ConsumerPlay,
        name: str,
        settings: ConsumerMemberSettings,
        reply_partition: int,
    ) -> None:
        membership = ConsumerMembership(settings, name, f"m-{name}", reply_partition)
        super().__init__(world, name, settings, membership)
        self.reply_partition = reply_partition
        self._play = play
        self.names: tuple[str, ...] = world.rng.choice(_CHOICES)
        self.positions: dict[MemberPartition, int] = {}
        """How far each partition has come of which it was told what is committed."""

        self._takes: dict[MemberPartition, int] = {}
        self._count = 0
        self._is_fetching = False
        self._wants_other = False
        self._look_at = 0
        self._units_told = 0
        self._epoch = 0

    # -- mishaps -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Go politely, for good or for a while."""
        self._world.note(self.name, "leaves")
        self._commit()
        self._forget(self.membership.owned)
        self.membership.give_up(self.membership.owned, self._world.now)
        self.membership.close(leave=self._world.rng.choice([None, None, True, False]))
        self._send()
        self.is_alive = False

    def change_subscription(self) -> None:
        """Want to share other topics, or the same as it sees them now."""
        self.names = self._world.rng.choice((self.names, *_CHOICES))
        self._world.note(self.name, "changes its subscription to {}", self.names)
        self._wants_other = True

    # -- the background thread -----------------------------------------------------------------------

    @property
    def _is_member(self) -> bool:
        return self.membership.epoch is not None

    def _has_heard(self, answer: AnyAnswer) -> None:
        epoch = self.membership.epoch or 0
        if 0 < epoch < self._epoch and not self.up_line.is_disordered:
            raise Violation(f"{self.name} was at epoch {self._epoch}, and goes back to {epoch}")
        if self._epoch != epoch:
            self._world.note(self.name, "is at epoch {}", epoch)
        self._epoch = epoch

    # -- the user's thread ---------------------------------------------------------------------------

    def _due_step(self) -> Callable[[], None] | None:
        membership = self.membership
        steps = (
            (membership.failure is not None, self._end),
            (bool(membership.lost), self._lose),
            (membership.needs_join, self._join),
            (bool(membership.to_give_up), self._give_up),
            (bool(membership.to_take), self._take_over),
            (self._wants_other, self._subscribe),
            (self._has_to_fetch(), self._fetch),
            (self._world.now >= self._look_at, self._look),
        )
        return next((step for is_due, step in steps if is_due), None)

    def _end(self) -> None:
        """A program that was refused for good ends, which only one that runs twice may be."""
        failure = self.membership.failure
        is_other = isinstance(failure, FencedInstanceIdError | UnreleasedInstanceIdError)
        if not is_other or self.settings.group_instance_id is None:
            raise Violation(f"{self.name} was refused for good: {failure}")
        self._world.note(self.name, "ends, because another program has its place")
        self.is_alive = False
        self._world.ended(self)

    @property
    def _subscription(self) -> Subscription:
        hints = self._play.brokers.hints(self.names)
        self._units_told = next((each.partitions for each in hints if each.name == UNITS), 0)
        return Subscription(self.names, hints)

    def _join(self) -> None:
        # It may have left by itself, and join another group of that name.
        self._wants_other, self._epoch = False, 0
        self.membership.join(self._subscription, self._world.now)
        self._send()

    def _subscribe(self) -> None:
        self._wants_other = False
        self.membership.subscribe(self._subscription, self._world.now)
        self._send()

    def _look(self) -> None:
        """There may be more units, of which nobody but a member tells."""
        self._look_at = self._world.now + LOOK_MS
        if UNITS in self.names and self._play.brokers.topics[UNITS].partitions > self._units_told:
            self._wants_other = True

    def _take_over(self) -> None:
        taken = self.membership.take()
        self._world.note(self.name, "takes {} in epoch {}", short(taken), self.membership.epoch)
        self._count += 1
        self._takes |= dict.fromkeys(taken, self._count)
        self._world.checks.believed()
        self._take(self._think_ms())

    def _give_up(self) -> None:
        self._commit()
        partitions = self.membership.to_give_up
        self._forget(partitions)
        self._take(self._think_ms(), lambda: self._given_up(partitions))

    def _lose(self) -> None:
        partitions = self.membership.lost
        self._forget(partitions)
        self._take(self._think_ms(), lambda: self._given_up(partitions))

    def _given_up(self, partitions: Iterable[MemberPartition]) -> None:
        self._world.note(self.name, "has given up {}", short(partitions))
        self.membership.give_up(frozenset(partitions), self._world.now)
        self._send()

    def _forget(self, partitions: Iterable[MemberPartition]) -> None:
        for each in partitions:
            self.positions.pop(each, None)
            self._takes.pop(each, None)

    # -- progress ------------------------------------------------------------------------------------

    def _has_to_fetch(self) -> bool:
        return self._is_member and not self._is_fetching and self._takes.keys() != self.positions.keys()

    def _fetch(self) -> None:
        """Ask where to go on."""
        self._is_fetching = True
        token = Sent({each: self._takes[each] for each in sorted(self._takes.keys() - self.positions)}, None)
        ends_at = self._world.now + self.settings.request_timeout_ms
        self.membership.offset_calls.fetch(map(place_of, token.takes), token, ends_at)
        self._send()

    def _work(self) -> None:
        if self.positions and self._is_member:
            done = int(self._world.rng.random() * 10)
            self.positions = {each: position + done for each, position in self.positions.items()}
            if done < 2:
                self._commit()

    def _commit(self) -> None:
        if self.positions and self._is_member:
            offsets = {place_of(each): position for each, position in sorted(self.positions.items())}
            token = Sent(dict(self._takes), dict(self.positions))
            self.membership.commit(checked_offsets(offsets), token)
            self._send()
            self._take_outcomes()

    def _take_outcomes(self) -> None:
        for outcome in self.membership.offset_calls.take_outcomes():
            takes, positions = outcome.token
            if positions is None:
                self._is_fetching = False
                if outcome.offsets is not None:
                    told = {each: it.offset if it else 0 for each, it in outcome.offsets.items()}
                    self._go_on_from(takes, told)
            elif outcome.error is None:
                committed = {place_of(each): position for each, position in positions.items()}
                self._world.checks.acknowledged(self.membership.member_id, 0, committed)

    def _go_on_from(self, takes: dict[MemberPartition, int], told: dict[TopicPartition, int]) -> None:
        """Go on from there, but for what was given up since it was asked about."""
        known = {each: told[place_of(each)] for each, take in takes.items() if self._takes.get(each) == take}
        self._world.note(self.name, "goes on from {}", {short([each]): it for each, it in known.items()})
        self.positions |= known

    # -- what it believes ------------------------------------------------------------------------------

    @property
    def believed(self) -> frozenset[MemberPartition]:
        """The partitions that it takes for its own. None if it has heard that it is no member."""
        return self.membership.owned if self._is_member else frozenset()

    def what_is_not_right(self, group: ConsumerGroup) -> str | None:
        """Whether it believes the same as the group, and waits for nothing."""
        membership = self.membership
        if membership.state is not MemberState.STABLE or self._wants_other:
            return f"{self.name} is {membership.state}"
        if self.positions.keys() != membership.owned:
            return f"{self.name} does not know where to go on"
        member = group.members[membership.member_id]
        if membership.epoch != member.epoch:
            return f"{self.name} is at {membership.epoch}, and the group has it at {member.epoch}"
        held = {MemberPartition(name, each, topic_id) for name, topic_id, each in held_by(group, member)}
        if held != membership.owned:
            return f"{self.name} believes that it owns {short(membership.owned)}"
        if tuple(sorted(self.names)) != group.subscriptions.names(member.subscription):
            return f"{self.name} wants {self.names}"
        return None


def place_of(partition: MemberPartition) -> TopicPartition:
    """Where the progress of a partition is committed."""
    return TopicPartition(partition.topic, partition.partition)


def short(partitions: Iterable[MemberPartition]) -> str:
    """Partitions as a trace shows them."""
    return " ".join(f"{topic}-{each}/{topic_id[-2:]}" for topic, each, topic_id in sorted(partitions))
