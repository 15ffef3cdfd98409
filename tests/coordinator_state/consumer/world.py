"""A consumer group, the programs in it, and the brokers: a world that goes its way by chance.

Each program knows only what it was told. Some answers are lost, some requests come twice or late, and some
programs lie. What a truthful one still works on must be its own in the coordinator's eyes, at any time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from group_coordinator.coordinator_state.step import step
from tests.coordinator_state.consumer.invariants import Identity, current_topics, held_by
from tests.coordinator_state.consumer.scenario import Consumers
from tests.coordinator_state.observer import Step

BEAT_MS = 5_000
SESSION_MS = 45_000
NAMES = ["a", "b", "c", "u"]
PATTERNS = ["", "", "[ab]", "[bc]", "."]
USERS = ["alice", "bob", None]
"""Bob may not see topic b. Of one without a name nobody but the watcher says what its pattern matches."""
FATAL = ("UNRELEASED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED", "FENCED_INSTANCE_ID")


@dataclass
class Actor:
    """A program, and what it remembers."""

    name: str
    instance_id: str | None
    topics: list[str]
    member_id: str = ""
    epoch: int = 0
    """0: it is to join."""
    is_running: bool = False
    works_on: set[Identity] = field(default_factory=set)
    """The partitions that it works on, and must be the only one that does."""
    told: set[Identity] = field(default_factory=set)
    """The partitions that it was told last are its own."""
    is_full_next: bool = True
    """Whether it says everything with its next heartbeat, as after an error or a lost answer."""
    runs: int = 0
    has_lost: bool = False
    """Whether an answer to it was lost, or a request of it came late or twice: it may be fenced for that."""
    removed: int = 0
    pattern: str = ""
    user: str | None = "alice"

    def start(self) -> None:
        """Run again, under a new id."""
        self.runs += 1
        self.member_id = f"{self.name}.{self.runs}"
        self.is_running, self.is_full_next = True, True
        self.give_all_up()

    def give_all_up(self) -> None:
        """Work on nothing, and join with the next heartbeat."""
        self.epoch = 0
        self.works_on, self.told = set(), set()

    def stop(self) -> None:
        """Stop working."""
        self.give_all_up()
        self.is_running = False


class World(Consumers):
    """A group and the programs in it. `rng` decides what happens."""

    def __init__(self, rng: Random, step: Step = step, **config: Any) -> None:
        super().__init__(step, **config)
        self.rng = rng
        self.brokers = {"a": ("A", 4), "b": ("B", 3), "u": (None, 5)}
        instances = [None, None, None, "i3", "i4", None]
        self.actors = [
            Actor(f"m{number}", instance, rng.sample(NAMES, rng.randint(1, 3)))
            for number, instance in enumerate(instances)
        ]
        self.seen: set[str] = set()
        """The kinds of answers that came, so that a test can say what its worlds have met."""
        self._again = 0
        self._former_brokers = dict(self.brokers)
        self._old: list[dict[str, Any]] = []

    # -- what programs do --------------------------------------------------------------------------

    def ask(self, actor: Actor, **fields: Any) -> dict[str, Any]:
        """The next heartbeat of a program that is truthful."""
        asked: dict[str, Any] = {"member_id": actor.member_id, "member_epoch": actor.epoch}
        if actor.instance_id is not None:
            asked["group_instance_id"] = actor.instance_id
        if actor.works_on != actor.told or actor.is_full_next or actor.epoch == 0:
            asked["topic_partitions"] = owned(actor.told)
            # It has stopped its work on all else before it says so.
            actor.works_on = set(actor.told)
        if actor.is_full_next or actor.epoch == 0:
            asked |= {
                "rebalance_timeout_ms": 20_000,
                "subscribed_topic_names": actor.topics,
                "subscribed_topic_regex": actor.pattern,
                "topics": self.hints(*actor.topics),
            }
            if actor.pattern and actor.user:
                topics = self.matching(actor.pattern, actor.user)
                asked["topics"] = self.hints(*sorted({*actor.topics, *topics}))
                asked["resolved"] = {"topics": topics, "user": actor.user}
        return self.request("consumer_group_heartbeat", actor.name, **(asked | fields))

    def behave(self, actor: Actor, *, hears: bool = True, **fields: Any) -> Any:
        """Let a program do what is next for it; whether it `hears` the answer."""
        if not actor.is_running:
            actor.start()
        request = self.ask(actor, **fields)
        self._old.append(request)
        before, known = actor.epoch, self._known()
        (reply,) = self.put(msgspec.json.encode(request))
        self._hints_only_add(known)
        self.seen.add(reply.error)
        if hears:
            self.hear(actor, reply)
        else:
            # It cannot know whether the coordinator has heard it.
            actor.has_lost, actor.is_full_next = True, True
            if before == 0:
                actor.give_all_up()
        self.is_sound()
        return reply

    def hints(self, *names: str) -> list[dict[str, Any]]:
        """What a program knows of topics, which may be what was so a while ago."""
        now = self.brokers
        self.brokers = self.rng.choice([now, now, self._former_brokers])
        try:
            return super().hints(*names)
        finally:
            self.brokers = now

    def _known(self) -> dict[str, tuple[str, int]]:
        if not self._is_of_consumers() or not self.state:
            return {}
        return {topic.name: (topic.topic_id, topic.partitions) for topic in current_topics(self.group)}

    def _hints_only_add(self, before: dict[str, tuple[str, int]]) -> None:
        after = self._known()
        for name in before.keys() & after.keys():
            (old_id, old_count), (new_id, new_count) = before[name], after[name]
            assert old_id == new_id, "a hint has replaced a topic"
            assert old_count <= new_count, "a hint has taken partitions away"

    def hear(self, actor: Actor, reply: Any) -> None:
        """Let a program read an answer."""
        if reply.error in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"):
            actor.removed += 1
            actor.give_all_up()
            return
        if reply.error in FATAL:
            actor.stop()
            return
        assert reply.error == "NONE", reply
        self.take(actor, reply.member_epoch, reply.assignment)

    def take(self, actor: Actor, epoch: int, assignment: Any) -> None:
        """Let a program take what it was told."""
        assert epoch >= actor.epoch, "an epoch falls"
        actor.epoch, actor.is_full_next = epoch, False
        if assignment is not None:
            actor.told = {
                (topic.name, topic.topic_id or "", each) for topic in assignment for each in topic.partitions
            }
            # What it loses it works on until it says so in a heartbeat.
            actor.works_on |= actor.told

    def is_sound(self) -> None:
        """What a truthful member works on must be its own, in the coordinator's eyes as well."""
        if self.state is None or not self._is_of_consumers():
            return
        group = self.group
        for actor in self.actors:
            member = group.members.get(actor.member_id)
            if member is not None and actor.epoch > 0 and not member.is_away and actor.is_running:
                held = set(held_by(group, member))
                assert actor.works_on <= held, f"{actor.name} works on what may be another's"

    def _is_of_consumers(self) -> bool:
        return bool(self.state) and self.picture is not None and self.picture.group_type == "consumer"

    # -- what happens ------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        """Let so many things happen, by chance."""
        for _ in range(steps):
            happens = self.rng.choices([each for each, _ in _HAPPENS], [often for _, often in _HAPPENS])[0]
            happens(self, self.rng.choice(self.actors))
            self.is_sound()

    def _beats(self, actor: Actor) -> None:
        self.behave(actor)

    def _is_not_answered(self, actor: Actor) -> None:
        self.behave(actor, hears=False)

    def _sends_twice(self, actor: Actor) -> None:
        """A producer without idempotence: the same record stands in the log twice, one after the other."""
        if not actor.is_running:
            actor.start()
        request = msgspec.json.encode(self.ask(actor))
        (first,), (second,) = self.put(request), self.put(request)
        self.seen |= {first.error, second.error}
        actor.has_lost = True
        self.hear(actor, first)

    def _all_beat(self, _actor: Actor) -> None:
        for actor in self.actors:
            if actor.is_running:
                self.behave(actor)

    def _all_say_that_they_live(self, _actor: Actor) -> None:
        actors = [it for it in self.actors if it.is_running and it.epoch > 0]
        if not actors:
            return
        members = [
            {"member_id": it.member_id, "member_epoch": it.epoch, "group_instance_id": it.instance_id}
            for it in actors
        ]
        request = self.request("consumer_group_heartbeat", "several", members=members)
        (reply,) = self.put(msgspec.json.encode(request))
        news = {each.member_id: each for each in reply.members}
        for actor in actors:
            each = news.get(actor.member_id)
            if each is not None and each.error_code:
                actor.removed += 1
                actor.give_all_up()
            elif each is not None:
                self.take(actor, each.member_epoch, each.assignment)

    def _leaves(self, actor: Actor) -> None:
        if actor.is_running and actor.epoch:
            epoch = -1 if actor.instance_id is None else self.rng.choice([-1, -2, -2])
            self.put(msgspec.json.encode(self.ask(actor, member_epoch=epoch, topic_partitions=...)))
            actor.stop()

    def _goes_away_while_it_revokes(self, _actor: Actor) -> None:
        for actor in self.actors:
            if actor.instance_id and actor.epoch and actor.works_on != actor.told:
                self.put(msgspec.json.encode(self.ask(actor, member_epoch=-2, topic_partitions=...)))
                actor.stop()

    def _dies(self, actor: Actor) -> None:
        actor.stop()
        # If its instance id is still its predecessor's, it is refused until that one's session is over.
        actor.has_lost = True

    def _joins_again(self, actor: Actor) -> None:
        if actor.is_running:
            actor.give_all_up()
            self.behave(actor)

    def _changes_its_mind(self, actor: Actor) -> None:
        actor.topics = self.rng.sample(NAMES, self.rng.randint(0, 3))
        actor.pattern, actor.user = self.rng.choice(PATTERNS), self.rng.choice(USERS)
        actor.is_full_next = True
        self.behave(actor)

    def _topic_is_left_and_named_again(self, actor: Actor) -> None:
        """Those that read it have not given it up yet when another one names it."""
        name = self.rng.choice(NAMES)
        for each in self.actors:
            if each.is_running and name in each.topics:
                each.topics, each.pattern = [it for it in NAMES if it != name][:1], ""
                each.is_full_next = True
                self.behave(each)
        actor.topics, actor.is_full_next = [name], True
        self.behave(actor)
        self.behave(actor)

    def _names_an_assignor(self, actor: Actor) -> None:
        self.behave(actor, server_assignor=self.rng.choice(["uniform", "range"]))

    def _a_topic_changes(self, _actor: Actor) -> None:
        name = self.rng.choice(NAMES)
        self._former_brokers = dict(self.brokers)
        topic_id, partitions = self.brokers.get(name, (None, 0))
        if name == "u":
            self.brokers[name] = (None, partitions + 1)
        elif partitions and self.rng.random() < 0.4:
            del self.brokers[name]
        elif partitions and self.rng.random() < 0.6:
            self.brokers[name] = (topic_id, partitions + self.rng.randint(1, 3))
        else:
            self._again += 1
            self.brokers[name] = (f"{name}{self._again}", self.rng.randint(1, 6))
        if self.rng.random() < 0.7:
            self.is_watched()

    def is_watched(self) -> None:
        """Let the watcher write what differs from the brokers."""
        if not self._is_of_consumers() or self.group.is_dead:
            return
        known = {
            topic.name: (topic.topic_id or None, topic.partitions) for topic in current_topics(self.group)
        }
        patterns = []
        named = set(self.group.subscriptions.all_names())
        for pattern, topics in self.group.subscriptions.resolved.items():
            matched = self.matching(pattern.text, pattern.user)
            if topics is None or list(topics) != matched:
                found = {"pattern": pattern.text, "topics": matched}
                patterns.append(found if pattern.user is None else found | {"user": pattern.user})
                named.update(matched)
        new = [
            name for name in sorted(named) if name in self.brokers and known.get(name) != self.brokers[name]
        ]
        gone = [name for name, (topic_id, _) in known.items() if topic_id and name not in self.brokers]
        before = self.group.topics.version
        facts = super().hints(*new)
        self.metadata(topics=facts, gone=tuple(gone), patterns=patterns)
        assert self.group.topics.version > before or not (new or gone or patterns)
        if self.rng.random() < 0.3:
            self.metadata(topics=facts, gone=tuple(gone), patterns=patterns, based_on=before - 1)

    def matching(self, pattern: str, user: str | None) -> list[str]:
        """The topics that a pattern matches for a user."""
        return [
            name
            for name in sorted(self.brokers)
            if re.fullmatch(pattern, name) and not (user == "bob" and name == "b")
        ]

    def _a_stranger_writes(self, actor: Actor) -> None:
        """What no program of this project sends."""
        some_id = self.rng.choice([actor.member_id, "nobody", ""])
        fields: dict[str, Any] = {
            "member_id": some_id,
            "member_epoch": self.rng.choice([-2, -1, 0, 1, actor.epoch, actor.epoch + 1]),
            "group_instance_id": self.rng.choice([None, None, "i3", "i4"]),
        }
        if self.rng.random() < 0.5 and some_id == "nobody":
            fields |= {
                "rebalance_timeout_ms": self.rng.choice([-5, 0, 1_000]),
                "subscribed_topic_names": self.rng.sample(NAMES, 2),
                "topic_partitions": [],
                "topics": [{"name": "c", "topic_id": self.rng.choice(["A", "C", "Z"]), "partitions": 2}],
            }
        touched = [it for it in self.actors if it.member_id == some_id or it.instance_id]
        for each in touched:
            each.has_lost = True
        request = self.request("consumer_group_heartbeat", "stranger", **fields)
        expected = self._is_fenced(request)
        for reply in self.put(msgspec.json.encode(request)):
            self.seen.add(reply.error)
            assert not expected or reply.error == "FENCED_MEMBER_EPOCH"
            if reply.error == "NONE" and some_id not in ("nobody", ""):
                # It has spoken in another's name, who cannot know any more what it has.
                for each in touched:
                    if each.member_id == some_id:
                        each.give_all_up()

    def _an_old_request_comes(self, _actor: Actor) -> None:
        if not self._old:
            return
        request = self.rng.choice(self._old)
        for actor in self.actors:
            if actor.member_id == request["member_id"] or actor.instance_id:
                actor.has_lost = True
        if request["member_epoch"] == 0:
            # As after a lost connection: a client joins again only after it has given up everything.
            for actor in self.actors:
                if actor.member_id == request["member_id"]:
                    actor.give_all_up()
        elif "topic_partitions" in request:
            return  # It would say of a member that it has given up what it has got again.
        expected = self._is_fenced(request)
        (reply,) = self.put(msgspec.json.encode(request))
        assert not expected or reply.error == "FENCED_MEMBER_EPOCH"

    def _is_fenced(self, request: dict[str, Any]) -> bool:
        """Whether a heartbeat of a member that says nothing else has an epoch that is not the member's."""
        if not self._is_of_consumers():
            return False
        member = self.group.members.get(request["member_id"])
        if member is None or "topic_partitions" in request or request["member_epoch"] <= 0:
            return False
        is_its_name = request.get("group_instance_id") in (None, member.group_instance_id)
        return is_its_name and request["member_epoch"] != member.epoch

    def _a_classic_request_comes(self, actor: Actor) -> None:
        api = self.rng.choice(["sync_group", "heartbeat", "join_group", "describe_group"])
        fields: dict[str, Any] = {
            "member_id": actor.member_id,
            "generation_id": 1,
            "protocol_type": "consumer",
        }
        fields |= {"protocol_name": "range", "assignments": []}
        if api == "join_group":
            if self.group_is_empty():
                return
            protocols = [{"name": "range", "metadata": ""}]
            fields = {"member_id": "", "protocol_type": "consumer", "protocols": protocols}
            fields |= {"session_timeout_ms": 10_000}
        elif api == "heartbeat":
            fields = {"member_id": actor.member_id, "generation_id": 1}
        elif api == "describe_group":
            fields = {}
        for reply in self.put(msgspec.json.encode(self.request(api, "classic", **fields))):
            self.seen.add(f"{api} {reply.error}")

    def group_is_empty(self) -> bool:
        """Whether there is no group with members."""
        return self.state is None or not self._is_of_consumers() or not self.group.members

    def _commits(self, actor: Actor) -> None:
        names = {name for name, _, _ in actor.works_on}
        if not names:
            return
        topics = {
            name: [each for other, _, each in actor.works_on if other == name] for name in sorted(names)
        }
        code = self.commit(actor.member_id, actor.epoch, topics)
        self.seen.add(f"commit {code}")
        known = {(topic.name, topic.topic_id) for topic in current_topics(self.group)}
        member = self.group.members.get(actor.member_id)
        if not actor.has_lost and member is not None and {each[:2] for each in actor.works_on} <= known:
            assert code == 0, "a healthy member may not commit what it works on"

    def _time_passes(self, _actor: Actor) -> None:
        self.wait(self.rng.choice([1, 300, 1_000, 1_000, 4_000]))

    def _all_live_on(self, _actor: Actor) -> None:
        for _ in range(self.rng.randint(1, 6)):
            self.wait(BEAT_MS)
            self._all_beat(_actor)

    def _much_time_passes(self, _actor: Actor) -> None:
        self.wait(self.rng.choice([20_000, 46_000, 700_000]))
        for actor in self.actors:
            # Its session is over, and it will be told. It knows that itself: no answer came for so long.
            actor.has_lost = True
            actor.give_all_up()

    def _coordinator_is_away(self, _actor: Actor) -> None:
        self.away(self.rng.choice([1_000, 100_000]))

    # -- promises ----------------------------------------------------------------------------------

    def settles(self) -> None:
        """If all are truthful from now on, each partition is someone's, and nobody is removed."""
        self.is_watched()
        for actor in self.actors:
            if not actor.topics:
                actor.topics = ["a"]
            actor.is_full_next = True
        # Until then members that nobody plays any more are gone, and instance ids are free.
        for _ in range(SESSION_MS // BEAT_MS + 2):
            self._beat_of_all()
        self.is_watched()
        removed = [actor.removed for actor in self.actors]
        for _ in range(8):
            self._beat_of_all()
        assert [actor.removed for actor in self.actors] == removed, "a truthful member was removed"
        assert self.group.state == "Stable"
        named = {name for actor in self.actors for name in actor.topics}
        for actor in self.actors:
            named.update(self.matching(actor.pattern, actor.user) if actor.pattern else ())
        wanted = {
            (name, topic_id or "", partition)
            for name, (topic_id, partitions) in self.brokers.items()
            for partition in range(partitions)
            if name in named
        }
        works_on = [each for actor in self.actors for each in actor.works_on]
        assert sorted(works_on) == sorted(wanted), "a partition is nobody's, or has two"
        rest = len(self.events)
        self._beat_of_all()
        assert len(self.events) == rest, "a group at rest has no events"

    def _beat_of_all(self) -> None:
        self.wait(BEAT_MS)
        for actor in self.actors:
            if self.config.group_consumer_max_size < len(self.actors) and not actor.is_running:
                continue
            self.behave(actor)
        if self.rng.random() < 0.5:
            self._all_say_that_they_live(self.actors[0])


def owned(partitions: set[Identity]) -> list[dict[str, Any]]:
    """Partitions as a member says that it has them."""
    topics: dict[tuple[str, str], list[int]] = {}
    for name, topic_id, partition in sorted(partitions):
        topics.setdefault((name, topic_id), []).append(partition)
    return [
        {"topic_id": topic_id, "partitions": each} if topic_id else {"name": name, "partitions": each}
        for (name, topic_id), each in topics.items()
    ]


_HAPPENS = [
    (World._beats, 12),
    (World._all_beat, 6),
    (World._is_not_answered, 2),
    (World._sends_twice, 2),
    (World._all_say_that_they_live, 2),
    (World._leaves, 2),
    (World._goes_away_while_it_revokes, 3),
    (World._dies, 1),
    (World._joins_again, 1),
    (World._changes_its_mind, 3),
    (World._topic_is_left_and_named_again, 1),
    (World._names_an_assignor, 1),
    (World._a_topic_changes, 3),
    (World._a_stranger_writes, 2),
    (World._an_old_request_comes, 1),
    (World._a_classic_request_comes, 1),
    (World._commits, 3),
    (World._time_passes, 4),
    (World._all_live_on, 1),
    (World._much_time_passes, 1),
    (World._coordinator_is_away, 1),
]
