"""Patterns of topics, as members of the consumer protocol leave them to the coordinator (KIP-848).

The syntax is RE2's, as in Kafka, whose brokers have RE2J. The time for a name is in proportion to its length.
The size of a pattern and its memory are bounded. The core compiles none of them: gateways and the watcher of
topics do.

Source: TopicRegexResolver and Utils.throwIfRegularExpressionIsInvalid of Apache Kafka 4.4, module
group-coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import re2

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from group_coordinator.coordinator_state.requests import TopicFacts

_MOST_BYTES = 2 << 20
"""Of a compiled pattern, and of what is remembered while it matches."""
_MOST_INSTRUCTIONS = 2_000
"""Of a compiled pattern. With more of them that memory is too small, and each letter costs them all."""
_MOST_SHOWN = 1_000
"""Characters of a pattern, or of RE2's reason, in a message."""
_OPTIONS = re2.Options()
_OPTIONS.max_mem = _MOST_BYTES
_OPTIONS.log_errors = False
# Nobody asks what a group has matched, and to know it takes a hundred times the time.
_OPTIONS.never_capture = True


class PatternError(ValueError):
    """A pattern does not compile, or is too large."""


def matcher_of(pattern: str) -> Callable[[str], bool]:
    """Tells whether the whole of a name matches. Raises `PatternError`."""
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        (reason,) = error.args or ("",)
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _invalid(pattern, text) from None
    except UnicodeEncodeError:
        raise PatternError(
            "SubscribedTopicRegex is not a valid regular expression: it is no Unicode."
        ) from None
    if compiled.programsize > _MOST_INSTRUCTIONS:
        text = f"it takes {compiled.programsize} instructions of RE2, and {_MOST_INSTRUCTIONS} are allowed"
        raise _invalid(pattern, text)
    return lambda name: compiled.fullmatch(name) is not None


def shown(text: str) -> str:
    """A pattern, or what is said of it, as a message has it: Kafka's clients read no long ones."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _invalid(pattern: str, reason: str) -> PatternError:
    return PatternError(
        f"SubscribedTopicRegex `{shown(pattern)}` is not a valid regular expression: {shown(reason)}."
    )


class Matched(NamedTuple):
    """The topics that a pattern matches, by name; or the reason why it does not compile."""

    topics: Mapping[str, TopicFacts]
    problem: str | None = None


class Renewal:
    """A pattern of a group, whose topics are looked up again and again.

    A broker that lags behind does not tell of a topic that others know. So a topic goes only if it is missing
    in two looks, one after the other.
    """

    def __init__(self) -> None:
        self._missing: frozenset[str] = frozenset()
        """The topics that were missing in the newest look, and that the group still has."""

    @property
    def is_doubtful(self) -> bool:
        """Whether the next look decides that a topic goes."""
        return bool(self._missing)

    def news(self, known: Collection[str] | None, found: Collection[str]) -> list[str] | None:
        """The topics that the pattern matches now, sorted, if the group does not know it; None if it does.

        `known`: those that the group has, None if nobody has resolved the pattern yet. `found`: those of the
        newest look.
        """
        before = frozenset(known or ())
        missing = before.difference(found)
        gone, self._missing = missing & self._missing, missing
        now = before.union(found) - gone
        return None if known is not None and now == before else sorted(now)
