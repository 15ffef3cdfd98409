"""The plot: who starts and who dies when."""

from __future__ import annotations

import time

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.demo.checks import History, Outage
from group_coordinator.demo.stage import Stage, StoryError

_OUTAGE_S = 8.0  # longer than a session lasts
_TIMEOUT_S = 60


def tell_story(stage: Stage) -> History:
    """Play the whole story on `stage`; return what was recorded. Raises what the stage raises."""
    say = stage.screen.step
    say("Kafka starts, and a shop that writes 50 orders a second to a topic with 6 partitions.")
    stage.start_broker()
    stage.open_shop()

    say("The coordinator starts: `group-coordinator run`, a Spark stream from Kafka to Kafka.")
    stage.start_coordinator()

    say("The gateway starts: `group-coordinator gateway`, a bootstrap server for Kafka's own clients.")
    stage.start_gateway()

    say(
        "Three workers join; java-2 is Kafka's own console consumer. "
        "A new group waits a few seconds for more members, as in Kafka."
    )
    stage.start_console("java-2")
    stage.start_workers("worker-1", "worker-3")
    stage.wait_for_work()

    say("java-2 is killed (SIGKILL). It cannot leave the group, so its session of 6 s has to expire.")
    stage.kill_worker("java-2")
    stage.wait_for_work()

    say("worker-3 is told to end (SIGTERM). It leaves the group, so nobody has to wait for a session.")
    stage.end_workers("worker-3")
    stage.wait_for_work()

    say("java-4 joins: another of Kafka's console consumers takes the place of the one that was killed.")
    stage.start_console("java-4")
    stage.wait_for_work()

    say("How far they are: `group-coordinator groups --describe`, without the columns that do not fit here.")
    stage.describe_group()

    outage = _outage(stage)

    say("The coordinator goes on to decide: worker-5 joins.")
    stage.start_workers("worker-5")
    stage.wait_for_work()

    say("The shop closes. The workers process what is left, then they leave.")
    stage.close_shop()
    stage.start_observe()
    written = stage.written
    stage.wait_for("the last orders", lambda: stage.store.totals().orders >= len(written), _TIMEOUT_S)
    stage.end_workers(*stage.workers)
    stage.wait_for("the group to be empty", lambda: _is_empty(stage), _TIMEOUT_S)

    say(
        "Not everybody has to move: java-6 reads the orders in a group at the broker, without a gateway. "
        "`group-coordinator observe` watches such groups in the broker's own log."
    )
    stage.start_at_broker("java-6")
    say("java-6 is killed, and the broker expires it.")
    stage.kill_at_broker()
    return History(
        written=written,
        log_end=stage.log_end(),
        orders=stage.store.orders(),
        ownership=stage.store.ownership(),
        events=stage.events,
        outage=outage,
        killed="java-2",
        end=stage.picture,
        brokers_events=stage.brokers_events,
        killed_at_broker="java-6",
    )


def _outage(stage: Stage) -> Outage:
    screen = stage.screen
    before, from_ms, processed = stage.picture, _now_ms(), stage.store.totals().orders
    screen.step(
        f"The coordinator is killed (SIGKILL), and stays dead for {_OUTAGE_S:.0f} s: longer than a session."
    )
    stage.kill_coordinator()
    over = time.monotonic() + _OUTAGE_S
    stage.wait_for("time to pass without a coordinator", lambda: time.monotonic() > over, _TIMEOUT_S)
    processed = stage.store.totals().orders - processed
    screen.note(f"{processed} orders were processed meanwhile, because work needs no coordinator")

    screen.step("It starts again from its checkpoint. The heartbeats since then wait in Kafka.")
    stage.start_coordinator()
    answered_ms = _now_ms()
    stage.watch_work()
    after, to_ms = stage.picture, _now_ms()
    if before is None or after is None:
        raise StoryError("the coordinator published no picture of the group")
    screen.note(f"the group before: {_summary(before)}")
    screen.note(f"the group now:    {_summary(after)}")
    return Outage(from_ms=from_ms, answered_ms=answered_ms, to_ms=to_ms, before=before, after=after)


def _summary(picture: GroupPicture) -> str:
    names = ", ".join(sorted(member.client_id for member in picture.members))
    return f"{picture.state}, generation {picture.generation_id}, {names}"


def _is_empty(stage: Stage) -> bool:
    return stage.picture is not None and stage.picture.state == GroupState.EMPTY


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
