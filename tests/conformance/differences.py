"""Known and wanted differences between the core and Kafka: what one is, and what is not counted for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.conformance.sequence import Sequence
    from tests.conformance.setups import Setup

    Undo = Callable[[Any, dict[str, Any], Any], None]
    """Makes of the group after a request what the broker has, by the group before and the request."""

__all__ = ["Known", "KnownDifference", "shown"]


class KnownDifference(NamedTuple):
    """A difference that is wanted."""

    name: str
    why: str
    shown_by: Sequence[Any]
    kind: str
    """Where it shows, ..."""
    theirs: str
    """... what the broker says there, ..."""
    ours: str
    """... and what the core does."""
    begins: Callable[[Any, dict[str, Any], Setup], bool] | None = None
    """Whether a request brings it about, by the group before it. There a sequence has to end."""
    undo: Undo | None = None
    """Or: how to undo it in the core's group, so that a sequence can go on."""


class Known:
    """What is not counted as a difference: all in the list of a game, except for those that are `counted`."""

    def __init__(self, differences: Iterable[KnownDifference], *counted: KnownDifference | None) -> None:
        self._differences = [each for each in differences if each not in counted]
        self._counted = counted

    def counts(self, difference: KnownDifference) -> bool:
        """Whether it is counted."""
        return difference in self._counted

    def begins(self, group: Any, request: dict[str, Any], setup: Setup) -> str | None:
        """Say which difference `request` brings about in `group` that cannot be undone; None if none."""
        for difference in self._differences:
            if difference.begins and group is not None and difference.begins(group, request, setup):
                return difference.name
        return None

    def undo(self, before: Any, request: dict[str, Any], after: Any) -> None:
        """Make of the group after `request` what the broker has."""
        for difference in self._differences:
            if difference.undo:
                difference.undo(before, request, after)


def shown(differences: Iterable[KnownDifference]) -> dict[str, KnownDifference]:
    """The known differences by the names of the sequences that show them."""
    return {f"difference: {each.name}": each for each in differences}
