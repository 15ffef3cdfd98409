"""The settings of `observe`, beside those that all jobs have."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from group_coordinator.jobs.settings import JobSettings, Port, Positive


class ObserveSettings(JobSettings, frozen=True, kw_only=True):
    """Settings of `observe`."""

    NEEDED: ClassVar[tuple[str, ...]] = ("bootstrap.servers", "observe.checkpoint")
    SIDES: ClassVar[tuple[str, ...]] = ("brokers",)

    observe_checkpoint: str = ""
    """Directory or object-store URI for what `observe` knows of the groups, and how far it has read."""
    observe_offsets: bool = True
    """Read commits as well. Most records of the brokers are commits."""
    observe_commits_interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 60_000
    """Events tell of the newest commit of each partition in so much time; 0: of all. The topic of committed
    offsets always has the newest."""
    observe_trigger_interval_ms: Positive = 1_000
    """Time between the starts of two batches."""
    observe_max_records: Positive = 100_000
    """Most records of one batch. More are read in several batches, one after the other."""
    observe_state_partitions: Positive = 1
    """Partitions of the state, and so the most cores that work on groups at once. Fixed for the life of a
    checkpoint."""
    observe_metrics_port: Port = 9470
    """Port of the Prometheus endpoint of `observe`; 0: any free one, -1: none."""
