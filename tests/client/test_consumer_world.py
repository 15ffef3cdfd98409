"""Members of the consumer protocol and the real core, with a network that loses and delays answers.

No two members ever have one partition, and in the end each partition is someone's. A member that is out of
the group is none any more, although it may not have heard so.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel, step
from tests.depth import cases

pytestmark = pytest.mark.drawn

CONFIG = GroupConfig(group_consumer_assignment_interval_ms=0, group_consumer_session_timeout_ms=45_000)
SETTINGS = ConsumerMemberSettings(
    group_id="orders",
    client_id="c",
    rebalance_timeout_ms=60_000,
    request_timeout_ms=10_000,
    say_all_every_ms=20_000,
)
TOPICS = {"a": 3, "b": 2}
CALM_MS = 200_000
"""Longer than all timeouts together: a member that crashed is out, and what was lost is said again."""


class User:
    """A program with one member. `delay_ms`: how long it takes to give something up."""

    def __init__(self, number: int, name: str, instance_id: str | None, now_ms: int) -> None:
        own = dataclasses.replace(SETTINGS, client_id=name, group_instance_id=instance_id)
        self.member = ConsumerMembership(own, f"i{number}", f"m{number}", 0)
        self.names = list(TOPICS)
        self.gives_up_at: int | None = None
        self.busy_until = now_ms
        self.inbox: list[tuple[int, bytes]] = []

    def use(self, now_ms: int, delay_ms: int) -> None:
        """Do what `GroupMember.poll` does."""
        member = self.member
        if now_ms < self.busy_until or member.state in (MemberState.FAILED, MemberState.CLOSED):
            return
        member.poll(now_ms)
        if member.to_give_up and self.gives_up_at is None:
            self.gives_up_at = now_ms + delay_ms
        if self.gives_up_at is not None and now_ms >= self.gives_up_at:
            self.gives_up_at = None
            member.give_up(member.to_give_up, now_ms)
        if member.lost:
            member.give_up(member.lost, now_ms)
        if member.needs_join:
            member.join(self.subscription, now_ms)
        member.take()

    @property
    def subscription(self) -> Subscription:
        facts = (TopicFacts(name, TOPICS[name], f"id-{name}") for name in self.names)
        return Subscription(tuple(self.names), tuple(facts))


class World:
    """A log, the core that reads it, and users."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000
        self.state = None
        self.records: list[Record] = []
        self.offset = 0
        self.users: list[User] = []
        self.born = 0
        self.is_calm = False
        self.away_until = 0
        self.out: set[str] = set()

    def start(self, instance_id: str | None = None) -> None:
        self.born += 1
        name = f"c{self.born}"
        self.users.append(User(self.born, name, instance_id, self.now))

    def run(self, ms: int) -> None:
        end = self.now + ms
        while self.now < end:
            self.now += self.rng.choice([50, 300, 1_000])
            for user in self.users:
                user.member.handle_timer(self.now)
                self.send(user)
                user.use(self.now, 0 if self.is_calm else self.rng.choice([0, 500, 9_000]))
                self.send(user)
            if self.now >= self.away_until:
                self.read()
            for user in self.users:
                self.hear(user)
            self.check()

    def send(self, user: User) -> None:
        for request in user.member.take_requests():
            value = msgspec.json.encode(request)
            self.records.append(Record("requests", 0, self.offset, self.now, b"orders", value))
            self.offset += 1

    def read(self) -> None:
        records, self.records = self.records, []
        result = step(b"orders", self.state, records, self.now, CONFIG, b"secret")
        self.state = result.state
        for output in result.outputs:
            if output.channel is Channel.EVENTS:
                self.note(msgspec.json.decode(output.value))
            elif output.channel is Channel.RESPONSES:
                for user in self.users:
                    if user.member.settings.client_id == output.key.decode():
                        self.carry(user, output.value)

    def note(self, event: dict) -> None:
        """Keep in mind who is out of the group."""
        if event["event"] in ("member_removed", "member_fenced"):
            self.out.add(event["member_id"])
        elif event["event"] == "member_added":
            self.out.discard(event["member_id"])

    def carry(self, user: User, value: bytes) -> None:
        """Deliver an answer once, twice, late, or never."""
        delays = (
            [0] if self.is_calm else self.rng.choice([[0], [0], [300], [0, 2_000], [7_000], [40_000], []])
        )
        user.inbox += [(self.now + delay, value) for delay in delays]

    def hear(self, user: User) -> None:
        due = [each for each in user.inbox if each[0] <= self.now]
        user.inbox = [each for each in user.inbox if each[0] > self.now]
        for _, value in due:
            user.member.receive(msgspec.json.decode(value, type=AnyResponse), self.now)
        self.send(user)

    def crash(self) -> None:
        """Let the oldest member vanish without a word. A static one could not start again for a session."""
        if self.users and self.users[0].member.settings.group_instance_id is None:
            del self.users[0]

    def leave(self) -> None:
        if self.users:
            user = self.users.pop()
            user.member.give_up(user.member.owned, self.now)
            user.member.close()
            self.send(user)

    def restart(self) -> None:
        """Let a static member go for a while and come back under another id."""
        self.leave()
        if not any(user.member.settings.group_instance_id == "w" for user in self.users):
            self.start("w")

    def change(self) -> None:
        if self.users:
            user = self.rng.choice(self.users)
            user.names = self.rng.choice([["a"], ["b"], ["a", "b"]])
            user.member.subscribe(user.subscription, self.now)

    def stall(self) -> None:
        if self.users:
            self.rng.choice(self.users).busy_until = self.now + 8_000

    def pause(self) -> None:
        """Let the coordinator be away for longer than a session."""
        self.away_until = self.now + 90_000

    def holders(self) -> Iterator[MemberPartition]:
        for user in self.users:
            if user.member.epoch is not None and user.member.member_id not in self.out:
                yield from user.member.owned

    def check(self) -> None:
        twice = {partition: count for partition, count in Counter(self.holders()).items() if count > 1}
        assert not twice, "no two members have one partition"

    def settle(self) -> None:
        self.is_calm, self.away_until = True, 0
        for user in self.users:
            user.names = list(TOPICS)
            user.member.subscribe(user.subscription, self.now)
        self.run(CALM_MS)
        everything = sorted(
            MemberPartition(name, number, f"id-{name}") for name in TOPICS for number in range(TOPICS[name])
        )
        if self.users:
            assert [user.member.failure for user in self.users] == [None] * len(self.users)
            assert sorted(self.holders()) == everything, "each partition is someone's"
            assert {user.member.state for user in self.users} == {MemberState.STABLE}


MOVES = [World.start, World.start, World.crash, World.leave, World.change, World.stall, World.pause]


@settings(max_examples=cases(15, deep=400))
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from([*MOVES, World.restart]), st.integers(0, 40_000)), max_size=12),
)
def test_no_partition_is_twos_and_in_the_end_each_is_someones(seed, moves):
    world = World(seed)
    world.start()
    for move, ms in moves:
        move(world)
        world.run(ms)
    world.settle()
