"""The settings of the page. With those of the rooms below it they are all that there are."""

from __future__ import annotations

from typing import ClassVar, Self

import msgspec

from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import Port


class PageSettings(HistorySettings, frozen=True, kw_only=True):
    """Settings of `ui`, and of `run`, which may serve the page.

    One file may be for all commands, so that every command loads these: it refuses what is nobody's setting.
    """

    SIDES: ClassVar[tuple[str, ...]] = (*HistorySettings.SIDES, "both")

    ui_port: Port = -1
    """Port of the page for people; 0: any free one, -1: none (but `ui`, which is nothing else, has one)."""
    ui_host: str = "127.0.0.1"
    """Address that the page is served at. Anybody who can reach it can read everything there."""

    @property
    def sides(self) -> list[Self]:
        """The settings of each side that the page shows."""
        if self.of != "both":
            return [self]
        of_brokers = msgspec.structs.replace(self, of="brokers", **self.of_brokers)
        return [msgspec.structs.replace(self, of="coordinator"), of_brokers]
