"""The settings of a command, and the beginning and the end of one that is long-lived.

One file may be for all commands, so each of them knows every room's names.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from group_coordinator.commands.terminal import at_terminal, fail, overriding, say
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import JobSettings, SettingsError
from group_coordinator.jobs.threads import ThreadError, ending_with_threads
from group_coordinator.lag.settings import LagSettings
from group_coordinator.observe.settings import ObserveSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

AnySettings = TypeVar("AnySettings", bound=JobSettings)


def load_settings(
    kind: type[AnySettings],
    config: Path | None,
    overrides: Mapping[str, object],
    needed: Iterable[str] | None = None,
) -> AnySettings:
    """Load settings of this kind from the file, the environment and the command line.

    Raises `SettingsError`, also for what is no room's setting.
    """
    kinds = CoordinatorSettings, PageSettings, GatewaySettings, LagSettings, ObserveSettings
    return kind.load(config, os.environ, overrides, needed, others=kinds)


def history_settings(config: Path | None, options: Mapping[str, object]) -> HistorySettings:
    """Load the settings of a reader of the history, or end with one line that says what is wrong with them.

    `options`: those of the command line, None for each that was not given.
    """
    try:
        return load_settings(HistorySettings, config, overriding(options), needed=("history.path",))
    except SettingsError as error:
        fail(error)


def job_settings(
    kind: type[AnySettings],
    config: Path | None,
    overrides: Mapping[str, object],
    needed: Iterable[str] | None = None,
) -> AnySettings:
    """Load the settings of a long-lived command, or end with one line that says what is wrong with them."""
    try:
        return at_terminal(load_settings(kind, config, overrides, needed))
    except SettingsError as error:
        fail(error)


@contextmanager
def job(
    settings: JobSettings, *failures: type[Exception], logs: bool = True
) -> Iterator[Callable[[str], None]]:
    """Log as the settings say while the context is open, which is what tells people a line.

    The context ends with one line for each of `failures`, for settings that cannot be used, and for a thread
    that fails. `logs`: whether the command logs, which needs structlog.
    """
    told: tuple[type[Exception], ...] = (*failures, SettingsError, ThreadError)
    tell: Callable[[str], None] = say
    with ExitStack() as stack:
        if logs:
            from group_coordinator.jobs.logs import logging_as

            tell = stack.enter_context(logging_as(settings, say))
        try:
            with ending_with_threads(tell):
                yield tell
        except told as error:
            fail(error, tell)
