from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.subscriptions import Pattern, Resolved, Wanted
from tests.conformance.consumer.resolutions import Resolutions
from tests.conformance.game import Inconclusive

NONE = ConsumerGroup.new("group", 0)


def group(*resolved: Resolved) -> ConsumerGroup:
    """One with so many patterns, and what each matches."""
    made = ConsumerGroup.new("group", 0)
    for number, topics in enumerate(resolved):
        made.subscriptions.add(Wanted((), Pattern(str(number)), topics))
    return made


def resolved_at(begun_ms: int, ended_ms: int) -> Resolutions:
    resolutions = Resolutions()
    resolutions.beat(None, group(None), begun_ms, begun_ms + 1)
    resolutions.end(ended_ms)
    return resolutions


@pytest.mark.parametrize(
    ("before", "after", "may_run"),
    [
        (None, None, False),
        (None, NONE, False),
        (None, group(None), True),
        (NONE, group(None), True),
        (group(None), group(None), True),
        (group(("a",)), NONE, False),
    ],
)
def test_the_first_pattern_is_resolved_at_once(
    before: ConsumerGroup | None, after: ConsumerGroup | None, may_run: bool
) -> None:
    resolutions = Resolutions()
    resolutions.beat(before, after, 5, 6)
    assert resolutions.may_run is may_run


@pytest.mark.parametrize("after", [group(("a",), None), group(("a",)), group(None)])
def test_another_one_is_not_resolved_within_ten_seconds(after: ConsumerGroup) -> None:
    resolutions = resolved_at(1_000, 1_050)
    resolutions.beat(group(("a",)), after, 10_800, 10_850)
    assert not resolutions.may_run


def test_whether_ten_seconds_are_over_is_not_known_to_the_millisecond() -> None:
    resolutions = resolved_at(1_000, 1_050)
    with pytest.raises(Inconclusive):
        resolutions.beat(group(("a",)), group(("a",), None), 10_900, 10_950)


def test_one_that_waits_is_resolved_after_ten_seconds() -> None:
    resolutions = resolved_at(1_000, 1_050)
    resolutions.beat(group(("a",)), group(("a",), None), 11_200, 11_250)
    assert resolutions.may_run
    resolutions.end(11_300)
    resolutions.beat(group(("a",)), group(("a",), None), 20_000, 20_050)
    assert not resolutions.may_run


@pytest.mark.parametrize(("is_outdated", "is_known"), [(True, True), (False, False)])
def test_it_is_known_when_it_was_if_something_was_due(is_outdated: bool, is_known: bool) -> None:
    resolutions = resolved_at(1_000, 1_050)
    resolutions.is_outdated = is_outdated
    resolutions.beat(group(("a",)), group(("a",)), 11_200, 11_250)
    assert resolutions.may_run
    resolutions.end(11_300)
    if is_known:
        resolutions.beat(group(("a",)), group(("a",), None), 12_000, 12_050)
        assert not resolutions.may_run
    else:
        with pytest.raises(Inconclusive):
            resolutions.beat(group(("a",)), group(("a",), None), 12_000, 12_050)
