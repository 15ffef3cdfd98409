"""The settings of a command. One file may be for all commands, so each of them knows every room's names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.lag.settings import LagSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.jobs.settings import JobSettings

__all__ = ["load_settings"]

AnySettings = TypeVar("AnySettings", bound="JobSettings")


def load_settings(
    kind: type[AnySettings],
    config: Path | None,
    overrides: Mapping[str, object],
    needed: Iterable[str] | None = None,
) -> AnySettings:
    """Load settings of this kind from the file, the environment and the command line.

    Raises `SettingsError`, also for what is no room's setting.
    """
    kinds = CoordinatorSettings, PageSettings, GatewaySettings, LagSettings
    return kind.load(config, os.environ, overrides, needed, others=kinds)
