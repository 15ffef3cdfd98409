from __future__ import annotations

import msgspec
import pytest

from tests.conformance.consumer.sequence import Step
from tests.conformance.consumer.steps import script


def test_a_verb_has_an_actor_and_fields() -> None:
    steps = script("join 1 names=ab, leave, away 2 instance=own, wait 600, commit 1 parts=a0+b1 epoch=told-1")

    assert steps == (
        Step(actor=1, names="ab", epoch="0"),
        Step(epoch="-1"),
        Step(actor=2, instance="own", epoch="-2"),
        Step(api="wait", pause=600),
        Step(actor=1, api="commit", parts="a0+b1", epoch="told-1"),
    )


def test_several_join_and_send_heartbeats_until_nothing_changes() -> None:
    steps = script("group 2 names=b")

    assert steps[:2] == (Step(names="b", epoch="0"), Step(actor=1, names="b", epoch="0"))
    assert steps[2:] == (Step(), Step(actor=1)) * 4


def test_a_range_of_versions_is_a_step_for_each() -> None:
    assert script("list version=3..5") == tuple(Step(api="list", version=version) for version in (3, 4, 5))


@pytest.mark.parametrize("text", ["jump", "jump 2", "wait", "join 1 2"])
def test_what_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (step|verb) of a script"):
        script(text)


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        script("join colour=red")
