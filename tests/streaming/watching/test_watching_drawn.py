"""Two watchers at once, brokers that lag behind, and records that are lost, late or doubled.

The groups are tables of topics of the core. In the end each knows what there is, and no id comes back to it.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.jobs.topic_answers import topics_in
from group_coordinator.streaming.watching.watch import Record, Watch
from tests.depth import cases
from tests.streaming.watching.cluster import NO_LEADER, NONE, UNKNOWN, UNSEEN, answer, topic_id

NAMES = ("a", "b", "c")
State = dict[str, tuple[int, int]]
"""The number of the id and the partitions of each topic that there is."""


class Broker:
    """Knows the cluster as it was at some time, and may say of a topic that it cannot tell."""

    def __init__(self) -> None:
        self.known: State = {}
        self.errors: dict[str, int] = {}

    def answer(self, names: list[str]) -> bytes:
        said = []
        for name in names:
            error = self.errors.get(name, NONE if name in self.known else UNKNOWN)
            said.append((name, error, *(self.known.get(name, (0, 0)) if error != UNKNOWN else (0, 0))))
        return topics_in(answer(said, replicas=1))


class World:
    """Takes one step after the other, at random. One broker of the two may lag behind."""

    def __init__(self, random: Random) -> None:
        self.random, self.now_s = random, 0.0
        self.truth: State = {}
        self.next_id = 1
        self.deleted: set[str] = set()
        self.brokers = [Broker(), Broker()]
        self.groups = {f"g{number}": TopicTable() for number in range(2)}
        self.names = {group_id: random.sample(NAMES, random.randint(1, 3)) for group_id in self.groups}
        self.watches = [Watch(interval_s=5, most_bytes=random.choice((1, 10_000))) for _ in range(2)]
        self.rounds = [0, 1]
        self.pictures: list[list[tuple[str, TopicTable]]] = [[], []]
        self.records: list[Record] = []
        self.seen_ids: dict[tuple[str, str], int] = defaultdict(int)
        for watch in self.watches:
            watch.begin(0)
        for group_id in self.groups:
            self.picture(group_id)

    def picture(self, group_id: str) -> None:
        table = TopicTable(self.groups[group_id].encode())
        for pictures in self.pictures:
            pictures.append((group_id, table))

    def change(self) -> None:
        """Something happens to a topic, and the first broker knows."""
        name = self.random.choice(NAMES)
        if name not in self.truth:
            self.truth[name] = (self.next_id, self.random.randint(1, 3))
            self.next_id += 1
        elif self.random.random() < 0.5:
            number, partitions = self.truth[name]
            self.truth[name] = (number, partitions + 1)
        else:
            self.deleted.add(topic_id(self.truth.pop(name)[0]))
        self.brokers[0].known = dict(self.truth)

    def hide(self) -> None:
        broker, name = self.random.choice(self.brokers), self.random.choice(NAMES)
        if broker.errors.pop(name, None) is None:
            broker.errors[name] = self.random.choice((UNSEEN, NO_LEADER))

    def catch_up(self) -> None:
        self.brokers[1].known = dict(self.truth)

    def show(self) -> None:
        """A watcher gets pictures, in order."""
        number = self.random.randrange(2)
        for group_id, table in self.pictures[number]:
            self.watches[number].pictured(group_id, table.version, table.known(self.names[group_id]))
        self.pictures[number].clear()

    def watch(self) -> None:
        self.now_s += self.random.choice((0.1, 1, 3))
        number = self.random.randrange(2)
        due = self.watches[number].due(self.now_s)
        self.rounds[number] += due.begins_round
        for part in due.parts:
            if self.random.random() < 0.1:
                self.watches[number].missed(part)
            else:
                broker = self.brokers[self.rounds[number] % 2]
                self.watches[number].told(part, broker.answer(list(part.names)))
        for record in due.records:
            self.records += [record] * self.random.choice((0, 1, 1, 1, 2))

    def apply(self) -> None:
        """The query takes some of the records, in any order."""
        self.random.shuffle(self.records)
        for _ in range(self.random.randint(0, len(self.records))):
            self.take(self.records.pop())

    def take(self, record: Record) -> None:
        table, names = self.groups[record.group_id], self.names[record.group_id]
        if record.based_on != table.version:
            return
        assert table.refusal(record.tells.topics, names) is None
        before = {each.name: each.topic_id for each in table.known(names) if each.partitions}
        for name in record.tells.gone:
            assert before[name] in self.deleted
        changed = table.changed_by(record.tells.topics, names)
        table.remove(record.tells.gone)
        if changed:
            table.put(changed)
        table.prune(names, [])
        for each in table.known(names):
            if each.partitions:
                number = int(each.topic_id.replace("-", ""), 16)
                assert number >= self.seen_ids[record.group_id, each.name], "an id has come back"
                self.seen_ids[record.group_id, each.name] = number
        self.picture(record.group_id)

    def settle(self) -> None:
        """All goes well from here on."""
        for broker in self.brokers:
            broker.known, broker.errors = dict(self.truth), {}
        for _ in range(20_000):
            self.now_s += 0.5
            for number, watch in enumerate(self.watches):
                for group_id, table in self.pictures[number]:
                    watch.pictured(group_id, table.version, table.known(self.names[group_id]))
                self.pictures[number].clear()
                due = watch.due(self.now_s)
                for part in due.parts:
                    watch.told(part, self.brokers[0].answer(list(part.names)))
                for record in [*self.records, *due.records]:
                    self.take(record)
                self.records.clear()
            if all(self.knows_all(group_id) for group_id in self.groups):
                return
        pytest.fail(f"{self.truth}, and groups know {[each.known(NAMES) for each in self.groups.values()]}")

    def knows_all(self, group_id: str) -> bool:
        known = self.groups[group_id].known(self.names[group_id])
        there = {each.name: (each.topic_id, each.partitions) for each in known if each.partitions}
        return there == {
            name: (topic_id(number), partitions)
            for name, (number, partitions) in self.truth.items()
            if name in self.names[group_id]
        }


@pytest.mark.drawn
@settings(max_examples=cases(300, deep=20_000))
@given(st.integers(0, 2**64))
def test_groups_come_to_know_what_there_is_and_no_id_comes_back(seed: int) -> None:
    world = World(Random(seed))
    steps = [world.change, world.hide, world.catch_up, world.show, world.watch, world.apply]
    weights = [1, 1, 1, 6, 20, 6]
    for step in world.random.choices(steps, weights, k=400):
        step()
    world.settle()
