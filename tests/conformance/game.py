"""One sequence in play: what each protocol's game has of its own, and how a game is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tests.conformance.compare import Difference
from tests.conformance.differences import shown
from tests.conformance.sequence import write_sequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from group_coordinator.coordinator_state.log import Record
    from tests.conformance.actors import Cast
    from tests.conformance.core import Core
    from tests.conformance.differences import Known, KnownDifference
    from tests.conformance.sequence import Sequence
    from tests.conformance.setups import Setup
    from tests.conformance.wire import BrokerClient

__all__ = ["Game", "Inconclusive", "Result", "Topic"]

Topic = tuple[str, int]
"""Its id, and its number of partitions."""

_START_MS = 1_000_000


class Inconclusive(Exception):  # noqa: N818 - it says what happened
    """The machine was held up, so a request may have met a deadline: it has to be played again."""

    def __init__(self, reason: str, difference: Difference | None = None) -> None:
        super().__init__(f"{reason}; {difference}" if difference else reason)
        self.difference = difference


class _MetKnown(Exception):  # noqa: N818 - same
    """A known difference shows from here on; its name is the message."""


@dataclass
class Result:
    """What came of a sequence."""

    sequence: Sequence[Any]
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """The topics that were there at first, if the game has to know them."""
    verdict: str = "same"
    """`same`, `different`, `known` or `inconclusive`."""
    reason: str = ""
    difference: Difference | None = None
    """What was found; if it is `inconclusive`, what may be the machine's fault."""
    story: list[str] = field(default_factory=list)
    """What was sent and answered, to be read by people."""
    moves: list[Any] = field(default_factory=list)
    """The same, to be played again."""
    comparisons: int = 0
    answered: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """How often: group's state before, API, error code."""
    log: list[Record] = field(default_factory=list)
    """The requests, with the times at which the broker got them ..."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """... and what both answered, by request id. Only the classic game takes note of them."""

    def __str__(self) -> str:
        story = "\n".join(f"    {line}" for line in self.story)
        return f"{self.verdict}: {self.reason}\n{story}\n  {write_sequence(self.sequence)}"


class Game(ABC):
    """One sequence in play, from `start_ms` on. What is `known` does not count as a difference.

    `topics` are those that the broker has at first. A subclass is the game of a protocol.
    """

    folder: ClassVar[Path]
    """Has its records, and its scripts as `scripts.txt`."""
    jars: ClassVar[str]
    """The version of its brokers, as `deploy.jars` calls it."""
    setups: ClassVar[Mapping[str, Setup]]
    """Its brokers."""
    client: ClassVar[type[BrokerClient]]
    drawn_at_a_time: ClassVar[int]
    """How many sequences a runner plays at a time, ..."""
    scripts_at_a_time: ClassVar[int]
    """... and how many if none may be held up by the others."""
    step: ClassVar[type]
    script: ClassVar[Callable[[str], tuple[Any, ...]]]
    """Reads the steps of a script."""
    draw: ClassVar[Callable[..., Sequence[Any]]]
    """Draws a sequence by a `random.Random`, with static members only if `static`."""
    differences: ClassVar[list[KnownDifference]]
    """All that are wanted."""
    played: ClassVar[dict[str, Sequence[Any]]]
    """All sequences that are recorded, by name."""
    record: ClassVar[Any]
    """The type of a line of a record (`recorded.py`)."""
    core: Core
    cast: Cast[Any]

    def __init__(
        self,
        sequence: Sequence[Any],
        known: Known,
        topics: Mapping[str, Topic],
        group_id: str = "group",
        start_ms: int = _START_MS,
    ) -> None:
        self.result = Result(sequence, dict(topics))
        self.setup = self.setups[sequence.setup]
        self.group_id = "" if sequence.nameless else group_id
        self.known = known
        self.start_ms = start_ms

    @classmethod
    def shows(cls, name: str) -> KnownDifference | None:
        """The difference that a sequence of this name shows; None if none."""
        return shown(cls.differences).get(name)

    @staticmethod
    @abstractmethod
    def make_topics(bootstrap_servers: str) -> dict[str, Topic]:
        """Make the topics of all sequences, and return what a game has to know of them."""

    @staticmethod
    @abstractmethod
    def mark(sequence: Sequence[Any]) -> Any:
        """What a record has of its sequence: the same for the same."""

    @abstractmethod
    async def play(self, client: Any) -> None:
        """Play it with a live broker. The group must be new."""

    @abstractmethod
    def replay(self, moves: list[Any]) -> None:
        """Play it with what a broker has shown."""

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Take what ends the sequence in this context for the verdict of `result`."""
        result = self.result
        try:
            yield
        except Difference as difference:
            result.verdict, result.reason, result.difference = "different", str(difference), difference
        except Inconclusive as inconclusive:
            result.verdict, result.reason = "inconclusive", str(inconclusive)
            result.difference = inconclusive.difference
        except _MetKnown as known:
            result.verdict, result.reason = "known", str(known)
        result.log = self.core.log

    def request(self, number: int) -> dict[str, Any] | None:
        """Return the request of the step with this number; None if it only waits."""
        step = self.result.sequence.steps[number]
        request = self.cast.request(step, self.group_id, f"r{number}")
        if request is not None:
            name = self.known.begins(self.core.group, request, self.setup)
            if name is not None:
                raise _MetKnown(name)
        return request

    def tell(self, what: str, at_ms: int) -> None:
        """Note it for people."""
        self.result.story.append(f"{at_ms - self.start_ms:6} {what}")
