"""The settings of `observe`: which topics it writes to."""

from __future__ import annotations

import pytest

from group_coordinator.jobs.settings import SettingsError
from group_coordinator.observe.settings import ObserveSettings

GIVEN = {"observe.checkpoint": "c", "of": "brokers"}


def test_it_writes_to_the_topics_of_brokers() -> None:
    settings = ObserveSettings.load(None, {}, {**GIVEN, "brokers.topics.groups": "g"})
    topics = (settings.topics_groups, settings.topics_offsets, settings.topics_events)
    assert topics == ("g", "brokers.offsets", "brokers.events")


def test_it_never_writes_to_those_of_the_coordinator() -> None:
    with pytest.raises(SettingsError, match=r"^of must be brokers, and is 'coordinator'$"):
        ObserveSettings.load(None, {}, {**GIVEN, "of": "coordinator"})


def test_it_needs_a_checkpoint_of_its_own() -> None:
    with pytest.raises(SettingsError, match=r"^observe\.checkpoint is not set"):
        ObserveSettings.load(None, {}, {"of": "brokers"})
