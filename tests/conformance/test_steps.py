from __future__ import annotations

import msgspec
import pytest

from tests.conformance.classic.sequence import Step
from tests.conformance.classic.steps import script
from tests.conformance.consumer.sequence import Step as ConsumerStep
from tests.conformance.consumer.steps import script as consumers_script


def test_steps_are_told_apart_and_take_fields() -> None:
    assert script(
        "beat 1 generation=previous, wait half, fetch offsets='twice, once too large' stable=true"
    ) == (
        Step(actor=1, api="heartbeat", generation="previous"),
        Step(api="wait", pause="half"),
        Step(api="fetch", offsets="twice, once too large", stable=True),
    )


def test_actor_0_leads_those_that_come_together() -> None:
    assert script("static 2 session=300") == script(
        "restart session=300, restart 1 session=300, join instance=own session=300, "
        "sync 1 instance=own, sync instance=own"
    )


def test_others_leave_by_member_and_by_instance() -> None:
    (step,) = script("leave also=1+empty@2")

    assert step.also == (("1", None), ("empty", "2"))


def test_a_range_of_versions_is_a_step_for_each() -> None:
    assert [step.version for step in script("listed Stable version=3..5")] == [3, 4, 5]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("yawn", ValueError, "no step of a script: yawn"),
        ("yawn 2", ValueError, "no step of a script: yawn 2"),
        ("wait", ValueError, "no step of a script: wait"),
        ("join 1 2", ValueError, "no step of a script: join 1 2"),
        ("join sesion=3", msgspec.ValidationError, "unknown field `sesion`"),
        ("join session=long", msgspec.ValidationError, "session"),
    ],
)
def test_a_misspelt_step_is_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        script(text)


def test_what_is_said_in_short_takes_fields_as_well() -> None:
    assert script("listed_in_each_state", version="4") == script(
        "listed Empty version=4, listed PreparingRebalance version=4, listed CompletingRebalance version=4, "
        "listed Stable version=4, listed Dead version=4"
    )


def test_a_verb_of_the_consumer_protocol_has_an_actor_and_fields() -> None:
    steps = consumers_script(
        "join 1 names=ab, leave, away 2 instance=own, wait 600, commit 1 parts=a0+b1 epoch=told-1"
    )

    assert steps == (
        ConsumerStep(actor=1, names="ab", epoch="0"),
        ConsumerStep(epoch="-1"),
        ConsumerStep(actor=2, instance="own", epoch="-2"),
        ConsumerStep(api="wait", pause=600),
        ConsumerStep(actor=1, api="commit", parts="a0+b1", epoch="told-1"),
    )


def test_several_join_and_send_heartbeats_until_nothing_changes() -> None:
    steps = consumers_script("group 2 names=b")

    assert steps[:2] == (ConsumerStep(names="b", epoch="0"), ConsumerStep(actor=1, names="b", epoch="0"))
    assert steps[2:] == (ConsumerStep(), ConsumerStep(actor=1)) * 4
