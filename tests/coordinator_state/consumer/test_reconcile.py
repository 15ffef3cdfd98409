"""A member's way to its target: the tests of Kafka's `CurrentAssignmentBuilderTest`, and more.

Docstrings have Kafka's names. There is no `testUnknownState`, since nothing writes a state that is unknown.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions
from group_coordinator.coordinator_state.consumer.reconcile import Share, reconcile
from group_coordinator.coordinator_state.consumer.states import MemberState

STABLE, UNREVOKED, UNRELEASED = MemberState

FOO, BAR = 1, 2
TEN: Held = {FOO: {1: 10, 2: 10, 3: 10}, BAR: {4: 10, 5: 10, 6: 10}}
"""What most members have had since epoch 10."""
HALF: Held = {FOO: {2: 10, 3: 10}, BAR: {5: 10, 6: 10}}
OTHER_HALF: Held = {FOO: {1: 9}, BAR: {4: 8}}


def beat(share: Share, target_epoch: int, target: Partitions, **more: Any) -> Share:
    """Reconcile. By default nobody else has anything, and the member says nothing and subscribes to both."""
    settings: dict[str, Any] = {
        "is_free": lambda _topic, _partition: True,
        "owned": None,
        "subscribed": {FOO, BAR},
        "subscription_changed": False,
    }
    return reconcile(share, target_epoch, target, **(settings | more))


def taken(_topic: int, _partition: int) -> bool:
    return False


def unexpected(topic: int, partition: int) -> bool:
    raise AssertionError((topic, partition))


def test_stable_to_stable():
    """testStableToStable"""
    share = Share(10, 10, STABLE, TEN, {})
    target = {FOO: {1, 2, 3}, BAR: {4, 5, 6}}
    assert beat(share, 11, target, is_free=unexpected) == Share(11, 10, STABLE, TEN, {})


def test_stable_at_the_target_is_the_same():
    share = Share(10, 9, STABLE, TEN, {})
    assert beat(share, 10, {FOO: {9}}, is_free=unexpected) is share
    assert beat(share, 10, {FOO: {9}}, is_free=unexpected, owned={}) is share


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
def test_topic_that_is_gone_is_looked_at_with_the_next_target(state):
    """As long as the member's own subscription has not changed."""
    share = Share(10, 9, state, TEN, {})
    assert beat(share, 10, {FOO: {1, 2, 3}}, subscribed={FOO}) is share


def test_stable_to_stable_with_new_partitions():
    """testStableToStableWithNewPartitions: they are the member's since the target's epoch."""
    share = Share(10, 10, STABLE, TEN, {})
    assigned = {FOO: {1: 10, 2: 10, 3: 10, 4: 11}, BAR: {4: 10, 5: 10, 6: 10, 7: 11}}
    assert beat(share, 11, {FOO: {1, 2, 3, 4}, BAR: {4, 5, 6, 7}}) == Share(11, 10, STABLE, assigned, {})
    assert share.assigned == {FOO: {1: 10, 2: 10, 3: 10}, BAR: {4: 10, 5: 10, 6: 10}}


def test_first_partitions_of_a_member():
    share = Share(0, -1, STABLE, {}, {})
    assert beat(share, 1, {FOO: {0}, BAR: {1}}) == Share(1, 0, STABLE, {FOO: {0: 1}, BAR: {1: 1}}, {})
    assert beat(share, 1, {}) == Share(1, 0, STABLE, {}, {})


def test_stable_to_unrevoked():
    """testStableToUnrevokedPartitions: it gets nothing new before it has given up what it loses."""
    share = Share(10, 9, STABLE, TEN | {BAR: {4: 7, 5: 8, 6: 9}}, {})
    after = beat(share, 11, {FOO: {2, 3, 4}, BAR: {5, 6, 7}}, is_free=unexpected)
    assert after == Share(
        10, 10, UNREVOKED, {FOO: {2: 10, 3: 10}, BAR: {5: 8, 6: 9}}, {FOO: {1: 10}, BAR: {4: 7}}
    )


@pytest.mark.parametrize("owned", [{FOO: {1}}, {FOO: {2, 3}, BAR: {4, 5}}])
def test_stable_to_unrevoked_if_it_has_one_of_them(owned):
    share = Share(10, 9, STABLE, TEN, {})
    assert beat(share, 11, {FOO: {2, 3}, BAR: {5, 6}}, owned=owned).state == UNREVOKED


def test_stable_to_unreleased():
    """testStableToUnreleasedPartitions"""
    share = Share(10, 10, STABLE, TEN, {})
    after = beat(share, 11, {FOO: {1, 2, 3, 4}, BAR: {4, 5, 6, 7}}, is_free=taken)
    assert after == Share(11, 10, UNRELEASED, TEN, {})


def test_stable_to_unreleased_with_those_that_are_free():
    share = Share(10, 10, STABLE, {FOO: {1: 10}}, {})
    target = {FOO: {1, 2, 3}, BAR: {2, 3}}
    after = beat(
        share, 11, target, is_free=lambda topic, partition: (topic, partition) in {(FOO, 3), (BAR, 2)}
    )
    assert after == Share(11, 10, UNRELEASED, {FOO: {1: 10, 3: 11}, BAR: {2: 11}}, {})


def test_stable_to_unreleased_if_it_has_given_up_already():
    """testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions"""
    share = Share(10, 10, STABLE, TEN, {})
    after = beat(share, 11, {FOO: {1, 2, 3}, BAR: {4, 5, 7}}, is_free=lambda topic, _: topic != BAR, owned={})
    assert after == Share(11, 10, UNRELEASED, {FOO: {1: 10, 2: 10, 3: 10}, BAR: {4: 10, 5: 10}}, {})


def test_unrevoked_to_stable():
    """testUnrevokedPartitionsToStable"""
    share = Share(10, 10, UNREVOKED, HALF, OTHER_HALF)
    target = {FOO: {2, 3}, BAR: {5, 6}}
    assert beat(share, 11, target, owned=target) == Share(11, 10, STABLE, HALF, {})


@pytest.mark.parametrize(
    "owned", [None, {FOO: {1, 2, 3}, BAR: {5, 6}}, {FOO: {2, 3}, BAR: {4, 5, 6}}, {BAR: {4}}]
)
def test_remains_in_unrevoked(owned):
    """testRemainsInUnrevokedPartitions"""
    share = Share(10, 10, UNREVOKED, HALF, OTHER_HALF)
    assert beat(share, 12, {FOO: {3}, BAR: {6}}, owned=owned) is share


def test_unrevoked_to_unrevoked():
    """testUnrevokedPartitionsToUnrevokedPartitions: it goes on to the newest target."""
    share = Share(10, 9, UNREVOKED, HALF, OTHER_HALF)
    after = beat(share, 12, {FOO: {3}, BAR: {6}}, owned={FOO: {2, 3}, BAR: {5, 6}})
    assert after == Share(10, 10, UNREVOKED, {FOO: {3: 10}, BAR: {6: 10}}, {FOO: {2: 10}, BAR: {5: 10}})


def test_unrevoked_to_unreleased():
    """testUnrevokedPartitionsToUnreleasedPartitions"""
    share = Share(11, 10, UNREVOKED, HALF, {})
    target = {FOO: {2, 3, 4}, BAR: {5, 6, 7}}
    after = beat(share, 11, target, is_free=taken, owned={FOO: {2, 3}, BAR: {5, 6}})
    assert after == Share(11, 11, UNRELEASED, HALF, {})


def test_unrevoked_to_stable_with_returned_partitions():
    """testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation

    It has given up the partition that comes back to it. So it has that one since the target's epoch.
    """
    share = Share(10, 10, UNREVOKED, HALF, {FOO: {4: 9}})
    held = {(FOO, 2), (FOO, 3), (FOO, 4), (BAR, 5), (BAR, 6)}
    after = beat(
        share,
        12,
        {FOO: {2, 3, 4}, BAR: {5, 6, 7}},
        is_free=lambda *each: each not in held,
        owned={FOO: {2, 3}, BAR: {5, 6}},
    )
    assigned = {FOO: {2: 10, 3: 10, 4: 12}, BAR: {5: 10, 6: 10, 7: 12}}
    assert after == Share(12, 10, STABLE, assigned, {})


def test_unreleased_to_stable():
    """testUnreleasedPartitionsToStable"""
    share = Share(11, 11, UNRELEASED, HALF, {})
    after = beat(share, 12, {FOO: {2, 3}, BAR: {5, 6}}, is_free=unexpected)
    assert after == Share(12, 11, STABLE, HALF, {})


def test_unreleased_to_stable_with_new_partitions():
    """testUnreleasedPartitionsToStableWithNewPartitions"""
    share = Share(11, 11, UNRELEASED, HALF, {})
    assigned = {FOO: {2: 10, 3: 10, 4: 11}, BAR: {5: 10, 6: 10, 7: 11}}
    assert beat(share, 11, {FOO: {2, 3, 4}, BAR: {5, 6, 7}}) == Share(11, 11, STABLE, assigned, {})


def test_unreleased_to_unreleased():
    """testUnreleasedPartitionsToUnreleasedPartitions"""
    share = Share(11, 11, UNRELEASED, HALF, {})
    assert beat(share, 11, {FOO: {2, 3, 4}, BAR: {5, 6, 7}}, is_free=taken) is share


def test_unreleased_that_waits_on_forgets_the_epoch_before():
    share = Share(11, 10, UNRELEASED, HALF, {})
    after = beat(share, 11, {FOO: {2, 3, 4}, BAR: {5, 6}}, is_free=taken)
    assert after == Share(11, 11, UNRELEASED, HALF, {})


def test_unreleased_to_unrevoked():
    """testUnreleasedPartitionsToUnrevokedPartitions"""
    share = Share(11, 11, UNRELEASED, HALF, {})
    after = beat(share, 12, {FOO: {3}, BAR: {6}}, is_free=taken)
    assert after == Share(11, 11, UNREVOKED, {FOO: {3: 10}, BAR: {6: 10}}, {FOO: {2: 10}, BAR: {5: 10}})


ADVANCED_OR_CHANGED = pytest.mark.parametrize(
    ("target_epoch", "subscription_changed"), [(11, False), (11, True), (10, True)]
)


@ADVANCED_OR_CHANGED
def test_stable_to_stable_without_a_topic(target_epoch, subscription_changed):
    """testStableToStableWithAssignmentTopicsNoLongerInSubscription"""
    after = beat(
        Share(10, 9, STABLE, TEN, {}),
        target_epoch,
        {FOO: {1, 2, 3}, BAR: {4, 5, 6}},
        owned={BAR: {4, 5, 6}},
        subscribed={BAR},
        subscription_changed=subscription_changed,
    )
    assert after == Share(target_epoch, 10, STABLE, {BAR: {4: 10, 5: 10, 6: 10}}, {})


@ADVANCED_OR_CHANGED
@pytest.mark.parametrize("owned", [None, {FOO: {1, 2, 3}, BAR: {4, 5, 6}}, {FOO: {3}}])
def test_stable_to_unrevoked_without_a_topic(target_epoch, subscription_changed, owned):
    """testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription"""
    after = beat(
        Share(10, 9, STABLE, TEN, {}),
        target_epoch,
        {FOO: {1, 2, 3}, BAR: {4, 5, 6}},
        owned=owned,
        subscribed={BAR},
        subscription_changed=subscription_changed,
    )
    assert after == Share(10, 10, UNREVOKED, {BAR: {4: 10, 5: 10, 6: 10}}, {FOO: {1: 10, 2: 10, 3: 10}})


def test_remains_in_unrevoked_without_a_topic():
    """testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription"""
    share = Share(10, 9, UNREVOKED, HALF, OTHER_HALF)
    after = beat(
        share,
        12,
        {FOO: {1, 3, 4}, BAR: {6, 7}},
        owned={FOO: {1, 2, 3}, BAR: {4, 5, 6}},
        subscribed={BAR},
        subscription_changed=True,
    )
    assert after == Share(10, 10, UNREVOKED, {BAR: {5: 10, 6: 10}}, {FOO: {1: 9, 2: 10, 3: 10}, BAR: {4: 8}})
    assert share.pending == {FOO: {1: 9}, BAR: {4: 8}}


@pytest.mark.parametrize(
    ("subscribed", "assigned", "pending"),
    [
        pytest.param(
            {FOO},
            {FOO: TEN[FOO]},
            {BAR: TEN[BAR]},
            id="testSubscribedTopicNameAndUnresolvedRegularExpression",
        ),
        pytest.param(set(), {}, TEN, id="testUnresolvedRegularExpression"),
    ],
)
def test_pattern_without_topics_yet(subscribed, assigned, pending):
    after = beat(
        Share(10, 9, STABLE, TEN, {}),
        10,
        {FOO: {1, 2, 3}, BAR: {4, 5, 6}},
        owned={FOO: {1, 2, 3}, BAR: {4, 5, 6}},
        subscribed=subscribed,
        subscription_changed=True,
    )
    assert after == Share(10, 10, UNREVOKED, assigned, pending)


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
def test_other_subscription_with_all_topics_that_it_has(state):
    """testSubscribedTopicNameAndResolvedRegularExpression"""
    share = Share(10, 9, state, TEN, {})
    assert beat(share, 10, {FOO: {1, 2, 3}, BAR: {4, 5, 6}}, subscription_changed=True) is share


def test_target_without_a_topic_of_it():
    share = Share(10, 10, STABLE, {FOO: {1: 10}, BAR: {4: 10}}, {})
    assert beat(share, 11, {FOO: {1}}, owned={}) == Share(11, 10, STABLE, {FOO: {1: 10}}, {})


def test_topic_of_the_target_that_it_does_not_subscribe_to():
    share = Share(10, 10, STABLE, {}, {})
    target = {FOO: {1}, BAR: {4}}
    after = beat(share, 11, target, subscribed={BAR}, is_free=lambda topic, _: topic == BAR)
    assert after == Share(11, 10, STABLE, {BAR: {4: 11}}, {})


MEMBERS = 4
UNITS = [(FOO, 0), (FOO, 1), (FOO, 2), (BAR, 0), (BAR, 1)]
BOTH = frozenset((FOO, BAR))


def partitions(units: Any) -> Partitions:
    found: Partitions = {}
    for topic, partition in units:
        found.setdefault(topic, set()).add(partition)
    return found


def units(of: Held | Partitions) -> set[tuple[int, int]]:
    return {(topic, partition) for topic, each in of.items() for partition in each}


class Program:
    """A member, and its program: as KIP-848 asks for, it gives partitions up before it takes others."""

    def __init__(self) -> None:
        self.share = Share(0, -1, STABLE, {}, {})
        self.subscribed: frozenset[int] = BOTH
        self.subscription_changed = False
        self.has: set[tuple[int, int]] = set()
        self.told: set[tuple[int, int]] = set()

    def hear(self, assigned: set[tuple[int, int]]) -> None:
        self.told = assigned
        if not self.has - assigned:
            self.obey()

    def obey(self) -> None:
        self.has = self.told


class Group:
    """Some members, and the targets that somebody makes for them."""

    def __init__(self) -> None:
        self.programs = [Program() for _ in range(MEMBERS)]
        self.target_epoch = 0
        self.targets: list[Partitions] = [{} for _ in range(MEMBERS)]

    def set_target(self, owners: tuple[int, ...]) -> None:
        self.target_epoch += 1
        self.targets = [
            partitions(unit for unit, owner in zip(UNITS, owners, strict=True) if owner == it)
            for it in range(MEMBERS)
        ]

    def beat(self, which: int, *, reports: bool, is_lost: bool = False) -> None:
        program = self.programs[which]
        held = {
            unit
            for each in self.programs
            for of in (each.share.assigned, each.share.pending)
            for unit in units(of)
        }
        before = program.share
        after = reconcile(
            before,
            self.target_epoch,
            self.targets[which],
            lambda topic, partition: (topic, partition) not in held,
            partitions(program.has) if reports else None,
            program.subscribed,
            subscription_changed=program.subscription_changed,
        )
        program.share, program.subscription_changed = after, False
        self.check(before, after)
        if not is_lost:
            program.hear(units(after.assigned))

    def check(self, before: Share, after: Share) -> None:
        assert (after is before) == (after == before)
        assert before.epoch <= after.epoch <= self.target_epoch
        assert after is before or after.previous_epoch == before.epoch
        assert bool(after.pending) == (after.state == UNREVOKED)
        was = {unit: before.assigned[unit[0]][unit[1]] for unit in units(before.assigned)}
        for topic, each in (*after.assigned.items(), *after.pending.items()):
            assert each
            for partition, since in each.items():
                assert since == was.get((topic, partition), since) <= after.epoch
        self.nobody_has_a_partition_of_another()

    def nobody_has_a_partition_of_another(self) -> None:
        held = [units(each.share.assigned) | units(each.share.pending) for each in self.programs]
        assert all(units(each.share.assigned).isdisjoint(units(each.share.pending)) for each in self.programs)
        assert sum(map(len, held)) == len(set().union(*held))
        has = [each.has for each in self.programs]
        assert sum(map(len, has)) == len(set().union(*has))
        # So a partition that a program still has is given to nobody else.
        assert all(theirs <= known for theirs, known in zip(has, held, strict=True))


WHO = st.integers(0, MEMBERS - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("target"), st.tuples(*[st.integers(0, MEMBERS) for _ in UNITS])),
        st.tuples(st.just("beat"), WHO, st.booleans(), st.booleans()),
        st.tuples(st.just("beat"), WHO, st.booleans(), st.just(value=False)),
        st.tuples(st.just("obey"), WHO),
        st.tuples(st.just("subscribe"), WHO, st.frozensets(st.sampled_from([FOO, BAR]))),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_two_members_have_one_partition_and_in_the_end_all_have_their_target(steps):
    group = Group()
    for what, *how in steps:
        match what, how:
            case "target", [owners]:
                group.set_target(owners)
            case "beat", [which, reports, is_lost]:
                group.beat(which, reports=reports, is_lost=is_lost)
            case "obey", [which]:
                group.programs[which].obey()
                group.nobody_has_a_partition_of_another()
            case "subscribe", [which, subscribed]:
                group.programs[which].subscribed = subscribed
                group.programs[which].subscription_changed = True
    group.set_target((0, 1, 2, 3, 0))
    # Each gives up what it was told to, and then the same for the newest target. It gets what others have
    # given up by then, and the rest at its next heartbeat.
    for _ in range(4):
        for which, program in enumerate(group.programs):
            group.beat(which, reports=True)
            program.obey()
            group.nobody_has_a_partition_of_another()
    for program, target in zip(group.programs, group.targets, strict=True):
        wanted = {unit for unit in units(target) if unit[0] in program.subscribed}
        assert program.has == wanted == units(program.share.assigned)
        assert (program.share.state, program.share.epoch) == (STABLE, group.target_epoch)
