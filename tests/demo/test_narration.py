"""Events in words, as the demo tells them."""

from __future__ import annotations

from group_coordinator.demo.narration import Narration
from group_coordinator.history.rows import read_event
from tests.history.consumers import Consumers, a_handover


def told(group: Consumers) -> list[str]:
    events = [event for body in group.bodies if (event := read_event(body)) is not None]
    return list(Narration().lines(events))


def test_a_group_of_the_consumer_protocol_hands_partitions_over_one_by_one() -> None:
    assert told(a_handover())[5:] == [
        "Reconciling -> Stable: c-m1 is at epoch 2",
        "c-m2 has joined",
        "Stable -> Assigning: c-m2 joined",
        "epoch 3: the coordinator divides the work anew for c-m1, c-m2",
        "Assigning -> Reconciling: the work was divided again",
        "c-m1 owns 0 1 2 3, and is to give up 2 3",
        "c-m1 owns 0 1",
        "c-m2 owns 2 3",
        "Reconciling -> Stable: c-m2 is at epoch 3",
        "c-m1 has left",
        "Stable -> Assigning: c-m1",
        "epoch 4: the coordinator divides the work anew for c-m2",
        "Assigning -> Reconciling: the work was divided again",
        "c-m2 owns 0 1 2 3",
        "Reconciling -> Stable: c-m2 is at epoch 4",
    ]


def test_a_static_member_that_leaves_for_a_while() -> None:
    group = Consumers({"orders": 1})
    group.join("m1", instance="worker-1")
    group.leave("m1", for_good=False)

    assert "c-m1 has left for a while" in told(group)
