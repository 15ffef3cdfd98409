"""What one run is like: drawn from its seed before anything happens.

Many runs are mild in one way or another (a network that loses nothing, no outages, a single member), because
what is wrong in quiet weather would never show in a storm.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import structs

from group_coordinator.coordinator_state.config import GroupConfig

KEY = b"orders"
SECRET = b"secret"

# A message of the storm arrives within this time or never.
LONGEST_DELAY_MS = 12_000
# What a network that works, a coordinator that is up and a user who does nothing long take at most.
CALM_DELAY_MS = 20
CALM_BATCH_MS = 250
CALM_THINK_MS = 20
TICK_MS = 500
LARGEST_SETBACK_MS = 2_000
# How far log time may be ahead.
GAP_MS = 3_000
# By how much clocks may differ: a record whose time is off by more is refused, if that can be seen.
DIFFER_MS = GAP_MS // 2
LONGEST_SLACK_MS = 500
# How long the coordinator takes to begin again when it has refused one.
LONGEST_BEGIN_MS = 5_000
# How long it may be behind before that is an outage.
LONGEST_BEHIND_MS = 3 * GAP_MS
# A clock of the coordinator's machine may be so much wrong.
DAY_MS = 86_400_000
# How long the log is asked before it is found to take nothing.
PATIENCE_MS = GAP_MS + 2 * TICK_MS
# How long after its last request that is.
NOTICED_MS = PATIENCE_MS + 2 * TICK_MS
# Plans of batches of so long ago are looked at to know the newest request of a partition that stands still.
LOOK_BACK_MS = LONGEST_SLACK_MS + GAP_MS + LONGEST_BEHIND_MS
# How often the leader looks whether what there is to share has changed.
LOOK_MS = 4_000
# How soon a program that ended by itself is started again.
LONGEST_RESTART_MS = 3_000


class Weather(NamedTuple):
    """What the network does in the storm, as probabilities per message.

    `in_order`: messages of one sender do not overtake each other, as with a Kafka producer and a partition.
    `keeps`: what is sent while cut off arrives afterwards, as with a producer that never gives up.
    """

    loss: float
    repeat: float
    slow: float
    in_order: bool
    keeps: bool

    @property
    def is_reliable(self) -> bool:
        """Whether everything arrives, once, in order and soon, unless it is cut off: Kafka at its best."""
        return self == Weather(0, 0, 0, in_order=True, keeps=True)


class Timeouts(NamedTuple):
    """What a member has been told to wait for, in ms."""

    session_ms: int
    rebalance_ms: int
    request_ms: int


@dataclass(frozen=True)
class Conditions:
    """Everything that is fixed for one run. Times are in ms; pauses are those between two mishaps."""

    config: GroupConfig
    weather: Weather
    members: tuple[Timeouts, ...]
    static: tuple[bool, ...]
    """Which of the members have an instance id."""
    storm_ms: int
    partitions: int
    has_setbacks: bool
    clock_slack_ms: int
    units: int
    slow_batch: float
    outage_pause_ms: int | None
    longest_outage_ms: int
    mishap_pause_ms: int
    shares_client_id: bool
    parting: float
    """How likely each member goes when the storm ends. Without that, nothing helps one that hangs."""
    has_jumps: bool
    """Whether clocks of brokers jump."""
    room: int | None
    """How many records a batch has at most, in a storm; None: all that there are."""
    longest_standstill_ms: int | None
    """How long the log takes no requests at most; None: it always does."""

    @property
    def smallest_jump_ms(self) -> int | None:
        """By how much clocks of brokers jump at least; None: they do not."""
        if not self.has_jumps:
            return None
        # A smaller one may be over, or look right, before a batch is planned that could show it.
        behind_ms = 0 if self.room is None else LONGEST_BEHIND_MS + LONGEST_BEGIN_MS
        standstill_ms = self.longest_standstill_ms or 0
        if standstill_ms and self.slow_batch:
            # What comes after it may wait for the one batch in which it was noted, and for the one after it.
            standstill_ms += LONGEST_BEGIN_MS + 21_000
        return 2_000 + behind_ms + (21_000 if self.slow_batch else 0) + standstill_ms

    @property
    def shows_right_clocks(self) -> bool:
        """Whether no clock is wrong."""
        return not (self.has_jumps or self.has_setbacks)

    @property
    def nobody_survives(self) -> bool:
        """Whether all members go when the storm ends."""
        return self.parting == 1

    @property
    def slowest(self) -> Timeouts:
        """The longest of each time, over all members."""
        return Timeouts(*(max(times) for times in zip(*self.members, strict=True)))


def draw(rng: random.Random) -> Conditions:
    """Draw the conditions of a run."""
    pick = rng.choice
    count = rng.randint(1, 6)
    static = pick([0, 0, 0.5, 1])
    slow_batch = pick([0, 0.05, 0.3])
    partitions = pick([1, 1, 2])
    return Conditions(
        config=GroupConfig(
            group_initial_rebalance_delay_ms=pick([0, 500, 3_000]),
            offsets_retention_check_interval_ms=pick([3_000, 20_000, 60_000]),
            new_member_join_timeout_ms=pick([12_000, 40_000]),
            # Not longer than what can be waited for when all are gone.
            offsets_retention_minutes=pick([1, 5]),
        ),
        weather=pick(
            [
                Weather(0, 0, 0, in_order=True, keeps=True),
                Weather(0, 0, 0.1, in_order=True, keeps=True),
                Weather(0, 0.1, 0.05, in_order=False, keeps=True),
                Weather(0.02, 0.02, 0.05, in_order=False, keeps=False),
                Weather(0.15, 0.1, 0.2, in_order=False, keeps=False),
                Weather(0.4, 0.1, 0.1, in_order=True, keeps=False),
            ]
        ),
        members=tuple(
            Timeouts(
                session_ms=pick([6_000, 6_000, 10_000]),
                rebalance_ms=pick([5_000, 12_000, 20_000]),
                request_ms=pick([4_000, 15_000]),
            )
            for _ in range(count)
        ),
        static=tuple(rng.random() < static for _ in range(count)),
        storm_ms=rng.randint(10_000, 240_000),
        partitions=partitions,
        has_setbacks=rng.random() < 0.25,
        clock_slack_ms=pick([0, LONGEST_SLACK_MS]),
        units=rng.randint(1, 8),
        slow_batch=slow_batch,
        outage_pause_ms=pick([None, 4_000, 15_000, 30_000]),
        longest_outage_ms=pick([1_000, 10_000, 60_000, 180_000]),
        mishap_pause_ms=pick([3_000, 10_000, 40_000, 150_000]),
        shares_client_id=rng.random() < 0.1,
        parting=pick([0, 0, 0, 0, 0.2, 0.2, 0.2, 1]),
        has_jumps=pick([False, True, True, True]),
        room=pick([None, None, 1, 3]),
        # A group is in one partition where it matters.
        longest_standstill_ms=pick([None, 20_000, 60_000]) if partitions == 1 else None,
    )


def draw_of_consumers(rng: random.Random) -> Conditions:
    """Draw the conditions of a run with a consumer group, whose members have one session and interval."""
    pick = rng.choice
    drawn = draw(rng)
    session_ms = pick([6_000, 6_000, 10_000])
    config = structs.replace(
        drawn.config,
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_heartbeat_interval_ms=pick([1_500, 2_500]),
        group_consumer_assignment_interval_ms=pick([0, 1_000, 1_000, 4_000]),
        group_consumer_assignors=pick(["uniform,range", "range,uniform"]),
    )
    members = tuple(each._replace(session_ms=session_ms) for each in drawn.members)
    # They send more than classic ones. With less room the log would grow for ever.
    room = drawn.room and 6 * drawn.room
    return replace(drawn, config=config, members=members, room=room)
