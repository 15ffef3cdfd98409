"""The oracles notice coordinators that are wrong, each in the life of one ordinary group."""

from __future__ import annotations

import json
from random import Random

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from tests.coordinator_state import faults
from tests.coordinator_state.model_offsets import Commit, T
from tests.coordinator_state.observer import Step, check_cuts
from tests.coordinator_state.world import Actor, World

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=500, offsets_retention_minutes=1)


def live(step: Step) -> World:
    """Three members come, commit, meet an outage and a newcomer, lose one, and are gone in the end."""
    names = [None, None, "i1", None]
    actors = [Actor(f"c{i}", name, "new", 10_000, 20_000, (("range", T),)) for i, name in enumerate(names)]
    world = World(CONFIG, actors, step=step)

    def behave(*who: int, for_ms: int) -> None:
        until_ms = world.now + for_ms
        while world.now < until_ms:
            world.now += 1_000
            for i in who:
                world.behave(actors[i])
            world.repeats_itself()

    behave(0, 1, 2, for_ms=8_000)
    assert world.model.state == "Stable"
    world.commit(actors[0], Commit("t", 0, 5))
    world.commit(actors[0], Commit("t", 1, 6), generation_id=0)
    world.ask_as_tool("offset_fetch")
    world.put(b"{", world.now)
    world.go_away(60_000)
    behave(0, 1, 2, for_ms=70_000)
    behave(0, 1, 2, 3, for_ms=10_000)
    world.send(world.ask(actors[0], "leave_group", members=[{"member_id": actors[0].member_id}]))
    behave(1, 2, 3, for_ms=20_000)
    assert len(world.model.members) == 3
    world.describes_itself()
    world.may_be_cut(Random(1))
    world.copy().settles_if_all_behave(actors[1:])
    world.is_gone_if_nobody_comes()
    return world


def test_nothing_is_wrong_with_the_coordinator():
    world = live(step)
    assert (world.state, world.observer.picture) == (None, None)
    assert world.model.offsets.kept == {}


@pytest.mark.parametrize(
    "fault",
    [
        faults.forgets_a_member,
        faults.gives_units_twice,
        faults.CountsItsCalls(),
        faults.counts_outages,
        faults.never_expires,
        faults.tells_other_assignments,
        faults.answers_joins_twice,
        faults.never_answers_syncs,
        faults.answers_somebody_else,
        faults.forgets_offsets,
        faults.grants_all_commits,
        faults.tells_no_offsets,
    ],
    ids=lambda fault: getattr(fault, "__name__", None),
)
def test_fault_is_noticed(fault: Step):
    with pytest.raises(AssertionError):
        live(fault)


# -- one oracle alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [faults.CountsItsCalls(), faults.lets_time_pass_first])
def test_cutting_the_log_shows_what_depends_on_batches(fault: Step):
    world = live(step)
    with pytest.raises(AssertionError, match="differ"):
        check_cuts(world.log, CONFIG, world.outages, Random(1), fault)


def bent(result: StepResult, channel: Channel, **fields: object) -> StepResult:
    """The newest record of one kind with other fields."""
    outputs = list(result.outputs)
    for i, output in reversed([*enumerate(outputs)]):
        if output.channel is channel and output.value is not None:
            value = msgspec.json.encode(json.loads(output.value) | fields)
            outputs[i] = output._replace(value=value)
            break
    return result._replace(outputs=outputs)


@pytest.mark.parametrize(
    ("channel", "fields"),
    [
        (Channel.GROUPS, {"generation_id": 99}),
        (Channel.OFFSETS, {"committed_offset": 4}),
        (Channel.EVENTS, {"at_ms": 0}),
        (Channel.EVENTS, {"event_id": "requests-0-0-0"}),
        (Channel.EVENTS, {"request_id": "nobody's"}),
        (Channel.RESPONSES, {"error_code": 0, "error": "UNKNOWN_MEMBER_ID"}),
    ],
)
def test_record_that_is_wrong_is_noticed(channel: Channel, fields: dict[str, object]):
    with pytest.raises(AssertionError):
        live(lambda *args: bent(step(*args), channel, **fields))


@pytest.mark.parametrize("channel", list(Channel))
def test_record_that_is_missing_is_noticed(channel: Channel):
    def forgetful(*args: object) -> StepResult:
        result = step(*args)
        return result._replace(outputs=[it for it in result.outputs if it.channel is not channel])

    with pytest.raises(AssertionError):
        live(forgetful)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("now_ms", 0),
        ("generation_id", 99),
        ("leader", "nobody"),
        ("num_pending_sync", 1),
        ("bytes_held", 1),
        ("cleanup_deadline_ms", 1),
        ("offsets", b""),
    ],
)
def test_stored_group_that_is_wrong_is_noticed(name: str, value: object):
    def forgetful(*args: object) -> StepResult:
        result = step(*args)
        if result.state is None:
            return result
        group = decode_group(result.state)
        setattr(group, name, value)
        return result._replace(state=encode_group(group))

    with pytest.raises(AssertionError):
        live(forgetful)
