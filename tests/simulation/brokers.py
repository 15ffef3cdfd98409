"""The brokers' topics, which grow, are gone and are made again, and the watcher that tells the group of them.

The watcher decides with the coordinator's own `Watch`. It sees pictures late, one of its two brokers may lag
behind, and what it writes may be late or come twice. As a producer that never gives up it loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.requests import TopicFacts, TopicMetadataRequest
from group_coordinator.jobs.topic_answers import topics_in
from group_coordinator.streaming.watching.watch import Watch
from tests.simulation.conditions import LONGEST_DELAY_MS
from tests.simulation.network import encode
from tests.simulation.programs import GROUP
from tests.streaming.watching.cluster import NONE, UNKNOWN, answer, topic_id

if TYPE_CHECKING:
    from group_coordinator.streaming.watching.watch import Record
    from tests.simulation.world import World

UNITS = "units"
"""The name of what no broker knows. It only grows, because nobody could say that there is less."""
TOPICS = ("a", "b")
WATCH_MS = 2_000
"""How often the watcher asks brokers about all topics."""
_LOOK_MS = 300
_MOST_PARTITIONS = 8
CLIENT_ID = "topic-watcher"


class Topic(NamedTuple):
    """What there is to share: so many partitions. `number` makes the id; units have 0, and no id."""

    number: int
    partitions: int

    def facts(self, name: str) -> TopicFacts:
        """What somebody knows who has asked for it."""
        return TopicFacts(name, self.partitions, topic_id(self.number) if self.number else None)

    def keys(self, name: str) -> list[tuple[str, str, int]]:
        """Its partitions, as members know them: name, id and number."""
        return [(name, self.facts(name).topic_id or "", each) for each in range(self.partitions)]


class Brokers:
    """What there is, and what was there before the newest change."""

    def __init__(self, world: World) -> None:
        self._world = world
        rng = world.rng
        self.topics = {"a": Topic(1, rng.randint(1, 6)), UNITS: Topic(0, rng.randint(1, 5))}
        if rng.random() < 0.7:
            self.topics["b"] = Topic(2, rng.randint(1, 4))
        self._newest = 2
        self.former = dict(self.topics)
        self.made_again: set[str] = set()
        """Topics whose offsets may be of an earlier topic of that name."""

    def change(self) -> None:
        """A topic grows, is gone or is made again; or there are more units."""
        rng = self._world.rng
        self.former = dict(self.topics)
        name = rng.choice((*TOPICS, UNITS))
        topic = self.topics.get(name)
        if topic is None:
            self._newest += 1
            self.topics[name] = Topic(self._newest, rng.randint(1, 6))
        elif name == UNITS or rng.random() < 0.5:
            more = min(topic.partitions + rng.randint(1, 2), _MOST_PARTITIONS)
            self.topics[name] = topic._replace(partitions=more)
        else:
            self.made_again.add(name)
            del self.topics[name]
            if rng.random() < 0.5:
                self._newest += 1
                self.topics[name] = Topic(self._newest, rng.randint(1, 6))
        self._world.note("brokers", "have {}", dict(self.topics))

    def hints(self, names: tuple[str, ...]) -> tuple[TopicFacts, ...]:
        """What a program knows of topics: what is so, or in a storm maybe what was so before."""
        world = self._world
        known = self.topics if world.is_calm or world.rng.random() < 0.6 else self.former
        return tuple(known[name].facts(name) for name in names if name in known)


class Watcher:
    """Tells the group what brokers say, for as long as the run lasts."""

    def __init__(self, world: World, brokers: Brokers) -> None:
        self._world, self._brokers = world, brokers
        self._watch = Watch(interval_s=WATCH_MS / 1000, most_bytes=10_000)
        self._watch.begin(world.now / 1000)
        self._rounds = self._written = 0
        world.after(0, self._look)

    def _look(self) -> None:
        world = self._world
        if world.is_calm or world.rng.random() < 0.5:
            self._read_picture()
        due = self._watch.due(world.now / 1000)
        self._rounds += due.begins_round
        for part in due.parts:
            if not world.is_calm and world.rng.random() < 0.1:
                self._watch.missed(part)
            else:
                self._watch.told(part, self._answer(list(part.names)))
        for record in due.records:
            self._write(record)
        world.after(_LOOK_MS, self._look)

    def _read_picture(self) -> None:
        picture, group_id = self._world.checks.picture, GROUP
        if picture is None or picture.group_type != "consumer":
            self._watch.left(group_id)
        else:
            self._watch.pictured(group_id, picture.metadata_version, picture.topics)

    def _answer(self, names: list[str]) -> bytes:
        """The answer of one of two brokers, of which the second may lag behind."""
        lags = not self._world.is_calm and self._rounds % 2
        known = self._brokers.former if lags else self._brokers.topics
        said = []
        for name in names:
            topic = known.get(name)
            said.append((name, UNKNOWN, 0, 0) if topic is None else (name, NONE, *topic))
        return topics_in(answer(said, replicas=1))

    def _write(self, record: Record) -> None:
        world = self._world
        self._written += 1
        request = TopicMetadataRequest(
            request_id=f"{CLIENT_ID}-{self._written}",
            client_id=CLIENT_ID,
            group_id=record.group_id,
            based_on=record.based_on,
            topics=list(record.tells.topics),
            gone=list(record.tells.gone),
        )
        world.note(CLIENT_ID, "writes {}", record)
        rng, partition = world.rng, world.rng.randrange(world.conditions.partitions)
        for _ in range(1 if world.is_calm else rng.choice([1, 1, 2])):
            longest = 20 if world.is_calm else rng.choice([20, 20, 1_000, LONGEST_DELAY_MS])
            delay_ms = 1 + int(rng.random() * longest)
            world.after(delay_ms, world.log.append, partition, request, encode(request))
