"""The settings of a command. One file may be for all commands, so each of them knows every room's names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.lag.settings import LagSettings
from group_coordinator.page.settings import PageSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["load_settings"]

AnySettings = TypeVar("AnySettings", PageSettings, GatewaySettings, LagSettings)


def load_settings(
    kind: type[AnySettings],
    config: Path | None,
    overrides: Mapping[str, object],
    needed: Iterable[str] = ("bootstrap.servers", "checkpoint"),
) -> AnySettings:
    """Load settings of this kind from the file, the environment and the command line.

    Raises `SettingsError`, also for what is no room's setting.
    """
    return kind.load(
        config, os.environ, overrides, needed, others=(PageSettings, GatewaySettings, LagSettings)
    )
