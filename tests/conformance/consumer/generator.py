"""Sequences drawn by chance: mostly what members do that follow the protocol, bent here and there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.consumer.sequence import NEW, RESOLVE, TOPICS, Step
from tests.conformance.sequence import Sequence

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

_SETUPS = ("plain",) * 8 + ("tight",) * 3 + ("brief",)
_IDS = "0123456789"
"""Ids of one digit: Kafka's maps have them in order."""
_APIS = (
    *("beat",) * 62,
    *("join",) * 6,
    *("leave",) * 5,
    *("back",) * 5,
    *("commit",) * 14,
    *("fetch",) * 2,
    *("simple", "describe", "list", "delete_group", "delete_offsets"),
    *("join_group", "sync_group", "heartbeat", "leave_group"),
)
_NAMES = ("a",) * 6 + ("ab",) * 3 + ("abc", "b", "c", "az", "none", "z")
_ASSIGNORS = ("range", "range", "none")
"""Never two that are there: which of them wins a tie is Kafka's chance, see `differences.py`."""
_OWNED = ("null",) * 4 + ("none", "told", "told", "before", "before", "a0", "a0+a1+a2", "b0", "q0")
_EPOCHS = ("told+1", "told-1", "told-1", "before", "before", "0", "1", "-2", "-1", "-3")
_COMMIT_EPOCHS = ("told",) * 4 + ("told-1", "told-1", "told-2", "told-3", "before", "before", "1", "told+1")
_PAUSES = (0,) * 8 + (250, 550, 900)
"""Where sessions end soon."""
_REBALANCES = (0, 300, 700, 60_000)
_OWN_TOPIC = 0.12
"""How many sequences have a topic of their own, which comes, grows and goes."""
_TOPIC_CHANGES = 0.1
_MOST_PARTITIONS = 8
_PATTERNS = ("[ab]", "[ab]", "[ab]", "a|b", "a|c", "[bc]", "[abc]", "a", "b", "z+")
_WITH_PATTERNS = 0.2
"""How many sequences have patterns of members, ..."""
_PATTERN_CHANGES = 0.1
"""... how often a heartbeat changes one, ..."""
_LONG_PAUSES = 0.3
"""... and how many of these sequences wait until the broker resolves another one, ..."""
_LONG_MS = 10_300
"""... which takes so long."""
_ROUNDS = 0.15
_BENT = 0.22
_CHANGED = 0.07


def any_sequence(rng: random.Random, *, static: bool = True, patterns: bool = False) -> Sequence[Step]:
    """Draw a sequence of which some have patterns of members; all if `patterns`."""
    if patterns:
        return sequence_with_patterns(rng, static=static)
    without = random_sequence(rng, static=static)
    # It is drawn at last. So those without are the same as ever by their seeds.
    return sequence_with_patterns(rng, static=static) if rng.random() < _WITH_PATTERNS else without


def random_sequence(rng: random.Random, *, static: bool = True) -> Sequence[Step]:
    """Draw a sequence; with static members only if `static`."""
    setup = rng.choice(_SETUPS)
    count = rng.randint(1, 10) if rng.random() < 0.2 else rng.randint(2, 5)
    drawer = _Drawer(rng, count, setup)
    if rng.random() < _OWN_TOPIC:
        drawer.topics = _OwnTopic(rng)
    drawer.all_join(rng.choice((0.0, 0.0, 0.5, 1.0)) if static else 0.0)
    for _ in range(rng.randint(6, 30)):
        if rng.random() < _ROUNDS:
            drawer.all_beat(count)
        drawer.draw()
    return Sequence(setup, tuple(drawer.steps))


def sequence_with_patterns(rng: random.Random, *, static: bool = True) -> Sequence[Step]:
    """Draw a sequence in which members have patterns; with static members only if `static`."""
    # Where sessions end soon it would be chance whether one ends while a pattern is resolved.
    setup = rng.choice(("plain", "plain", "tight"))
    drawer = _Drawer(rng, count := rng.randint(1, 5), setup)
    drawer.patterns = rng.sample(_PATTERNS, k=rng.choice((1, 1, 2, 3)))
    drawer.all_join(rng.choice((0.0, 0.0, 0.5, 1.0)) if static else 0.0)
    early = len(drawer.steps)
    for _ in range(rng.randint(6, 24)):
        if rng.random() < _ROUNDS:
            drawer.all_beat(count)
        drawer.draw()
    steps = drawer.steps
    if rng.random() < _LONG_PAUSES:
        # The new topic, which none of them matches, makes it certain that the broker looks anew.
        place = rng.randint(early, len(steps))
        steps[place:place] = [Step(api="make", names="h"), Step(api="wait", pause=_LONG_MS)]
    return Sequence(setup, tuple(_resolved(steps)))


def _resolved(steps: list[Step]) -> Iterator[Step]:
    """The steps, and after each heartbeat one that waits for what the broker may be resolving."""
    for step in steps:
        yield step
        if step.api == "beat":
            yield Step(api=RESOLVE)


class _SharedTopics:
    """What members may subscribe to: topics that stay as they are."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def names(self) -> str:
        """Draw a subscription."""
        return self._rng.choice(_NAMES)

    def partition(self) -> str:
        """Draw a partition."""
        topic = self._rng.choice("aaaabbc")
        return f"{topic}{self._rng.randrange(TOPICS[topic])}"

    def change(self) -> Step | None:
        """Draw a change of a topic; mostly there is none."""
        return None


class _OwnTopic(_SharedTopics):
    """One topic, which comes, grows and goes. Only one, because Kafka goes through several by their ids."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._partitions = 0

    def names(self) -> str:
        return self._rng.choice(("g", "g", "g", "g", "none", "z"))

    def partition(self) -> str:
        # Offsets are only kept of topics that are there.
        return f"a{self._rng.randrange(TOPICS['a'])}"

    def change(self) -> Step | None:
        if self._rng.random() >= _TOPIC_CHANGES:
            return None
        if not self._partitions:
            self._partitions = NEW["g"]
            return Step(api="make", names="g")
        if self._partitions + NEW["g"] > _MOST_PARTITIONS or self._rng.random() < 0.4:
            self._partitions = 0
            return Step(api="drop", names="g")
        self._partitions += NEW["g"]
        return Step(api="grow", names="g")


class _Drawer:
    """Draws steps of so many actors."""

    def __init__(self, rng: random.Random, count: int, setup: str) -> None:
        self._rng = rng
        self._count = count
        self._is_brief = setup == "brief"
        self._ids = dict(enumerate(_IDS[:count]))
        self._static: set[int] = set()
        self.topics = _SharedTopics(rng)
        self.patterns: list[str] = []
        self.steps: list[Step] = []

    def all_join(self, static: float) -> None:
        """Let one after the other join, of whom a share of `static` are static members."""
        rng = self._rng
        names = self.topics.names()
        for number in range(self._count):
            own = names if rng.random() < 0.75 else self.topics.names()
            fields: dict[str, Any] = {"actor": number, "names": own, "epoch": "0"}
            if rng.random() < static:
                fields["instance"] = "own"
                self._static.add(number)
            if rng.random() < 0.1:
                fields["assignor"] = rng.choice(_ASSIGNORS)
            if self._is_brief:
                fields["rebalance"] = rng.choice(_REBALANCES)
            if self.patterns and rng.random() < 0.7:
                fields |= self._pattern()
            self.steps.append(Step(**fields))
            if self.patterns and rng.random() < 0.7:
                # It divides the work. Who joins before may have what it does not read, see `differences.py`.
                self.steps.append(Step(actor=number))
            if rng.random() < 0.3:
                self.all_beat(number + 1)

    def all_beat(self, count: int) -> None:
        """Let the first `count` send a heartbeat each, as clients would, in any order."""
        self.steps += [Step(actor=number) for number in self._rng.sample(range(count), k=count)]

    def draw(self) -> None:
        """Draw one step."""
        rng = self._rng
        if (change := self.topics.change()) is not None:
            self.steps.append(change)
        number = rng.randrange(self._count)
        api = rng.choice(_APIS)
        if api == "join" and number in self._static:
            # If it were not away, the two would go on otherwise, see `differences.py`.
            api = "back"
        fields = {"actor": number, "api": api} | self._fields(number, api)
        is_bent = rng.random() < (_BENT / 3 if number in self._static else _BENT)
        if is_bent and api in ("beat", "join", "leave", "commit"):
            fields |= self._bend()
        if self._is_brief:
            fields["pause"] = rng.choice(_PAUSES)
        self.steps.append(Step(**fields))

    def _fields(self, number: int, api: str) -> dict[str, Any]:
        """What is said in a step."""
        rng = self._rng
        match api:
            case "beat":
                return self._beat()
            case "join":
                return {"api": "beat", "epoch": "0"}
            case "leave":
                is_away = number in self._static and rng.random() < 0.7
                return {"api": "beat", "epoch": "-2" if is_away else "-1"}
            case "back":
                return self._back(number)
            case "commit":
                return {"epoch": rng.choice(_COMMIT_EPOCHS), "parts": self._parts()}
        return self._of_others(api)

    def _of_others(self, api: str) -> dict[str, Any]:
        """What is said by who may be no member of the group."""
        rng = self._rng
        match api:
            case "simple":
                return {"api": "commit", "member": "", "instance": "none", "epoch": "-1"}
            case "fetch":
                member = rng.choice((None, None, "null", ""))
                return {"member": member, "epoch": rng.choice(("told", "told", "told-1", "-1"))}
            case "join_group" | "sync_group" | "heartbeat" | "leave_group":
                # As no member of the classic kind: with an id, so that the coordinator makes none.
                return {"member": str(rng.randrange(10)), "instance": "none"}
        return {}

    def _beat(self) -> dict[str, Any]:
        rng = self._rng
        fields: dict[str, Any] = {}
        if rng.random() < _CHANGED:
            fields["names"] = self.topics.names()
        if rng.random() < _CHANGED / 2:
            fields["assignor"] = rng.choice(_ASSIGNORS)
        if rng.random() < 0.1:
            fields["full"] = True
        if self.patterns and rng.random() < _PATTERN_CHANGES:
            fields |= self._pattern()
        return fields

    def _pattern(self) -> dict[str, str]:
        """A pattern, mostly instead of names; or names instead of a pattern."""
        rng = self._rng
        drawn = rng.random()
        if drawn < 0.2:
            return {"regex": "", "names": self.topics.names()}
        pattern = {"regex": rng.choice(self.patterns)}
        return pattern | {"names": "none"} if drawn < 0.8 else pattern

    def _back(self, number: int) -> dict[str, Any]:
        """A static member that has been started again, under an id of its own or a new one."""
        fields: dict[str, Any] = {"api": "beat", "epoch": "0"}
        free = [each for each in _IDS if each not in self._ids.values()]
        if number in self._static:
            self.steps.append(Step(actor=number, epoch="-2"))
            if free and self._rng.random() < 0.7:
                self._ids[number] = self._rng.choice(free)
                fields["id"] = self._ids[number]
        return fields

    def _parts(self) -> str:
        return "+".join(sorted({self.topics.partition() for _ in range(self._rng.randint(1, 4))}))

    def _bend(self) -> dict[str, Any]:
        rng = self._rng
        other = str(rng.randrange(self._count))
        return rng.choice(
            (
                {"owned": rng.choice(_OWNED)},
                {"owned": rng.choice(_OWNED)},
                {"owned": rng.choice(_OWNED)},
                {"epoch": rng.choice(_EPOCHS)},
                {"epoch": rng.choice(_EPOCHS), "owned": rng.choice(_OWNED)},
                {"member": rng.choice((other, "9", "8"))},
                {"instance": rng.choice((other, "none", "9"))},
            )
        )
