"""The common part of the commands for checkpoints: settings, Spark, and errors of one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.terminal import config_option, fail, need_spark, overriding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from group_coordinator.streaming.settings import CoordinatorSettings


def settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for settings, as `run` has them."""
    config = config_option("Settings file of the coordinator (TOML).")
    assignments = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="Another setting of the coordinator (repeatable).",
    )
    return config(assignments(command))


def load(
    config: Path | None, assignments: tuple[str, ...], overrides: dict[str, str | None]
) -> CoordinatorSettings:
    """The settings as `run` would have them with these options. Raises `SettingsError`."""
    from group_coordinator.commands.settings import load_settings
    from group_coordinator.streaming.settings import CoordinatorSettings

    return load_settings(CoordinatorSettings, config, overriding(overrides, assignments))


@contextmanager
def spark_session(settings: CoordinatorSettings, *, delta: bool) -> Iterator[SparkSession]:
    """Spark for the time of the command. `delta`: whether a Delta table is read or written.

    Delta makes the session's start take twice as long.
    """
    from group_coordinator.jobs.session import DELTA, SHORT_LIVED, create_session

    defaults = SHORT_LIVED | (DELTA if delta else {})
    session = create_session(settings, settings.checkpoint, progress=True, defaults=defaults)
    # The command says in one line what goes wrong. Spark would say it in a hundred more.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def look_for_checkpoint(settings: CoordinatorSettings) -> None:
    """Check that a checkpoint on this machine's disk is one, before Spark is started to find out.

    Hadoop's own settings may say that a path without a scheme is somewhere else: then Spark has to look.
    Raises `CheckpointError`.
    """
    from group_coordinator.checkpoints.disk import local_path
    from group_coordinator.checkpoints.identity import IDENTITY_FILE, not_a_checkpoint

    path = local_path(settings.checkpoint)
    is_elsewhere = "spark.hadoop.fs.defaultFS" in settings.spark or "HADOOP_CONF_DIR" in os.environ
    if path is None or (is_elsewhere and not settings.checkpoint.startswith("file:")):
        return
    if not (path / IDENTITY_FILE).is_file():
        raise not_a_checkpoint(settings.checkpoint)


@contextmanager
def errors() -> Iterator[None]:
    """Check what is needed, and end with one line for each error that the user can mend."""
    need_spark()
    from kafka.errors import KafkaError

    from group_coordinator.checkpoints.errors import CheckpointError
    from group_coordinator.deploy.jars import JarError
    from group_coordinator.jobs.settings import SettingsError

    failures: tuple[type[Any], ...] = (CheckpointError, JarError, SettingsError)
    try:
        yield
    except failures as error:
        fail(error)
    except KafkaError as error:
        fail(f"Kafka: {error}")
