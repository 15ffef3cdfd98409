"""The assignors: the tests of Kafka's, whose names the docstrings have, and what holds for any members.

Kafka's go by hash maps, so that a test of it may have topics or members in another order than here. Where it
has, what is expected here is the same but for the order. Topics that do not exist reach no assignor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinator_state.consumer.assignors import ASSIGNORS, Assignor, GroupSpec
from group_coordinator.coordinator_state.consumer.topic_table import Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from group_coordinator.coordinator_state.consumer.partitions import Partitions

Target = dict[str, "Partitions"]

T1, T2, T3, T4 = 1, 2, 3, 4
BOTH = pytest.mark.parametrize("assignor", ["uniform", "range"])
EITHER = pytest.mark.parametrize("is_homogeneous", [True, False])


class Subscriber(NamedTuple):
    """A member: the topics that it subscribes to, and its part of the target before."""

    member_id: str
    group_instance_id: str | None
    topics: frozenset[int]
    target: Partitions


class Divides:
    """An assignor that is given members."""

    def __init__(self, assignor: Assignor) -> None:
        self._assignor = assignor

    def __call__(
        self, members: Sequence[Subscriber], known: dict[int, Topic], is_homogeneous: bool
    ) -> Target:
        of = {each.member_id: each for each in members}
        return self._assignor(
            GroupSpec(
                targets={member_id: each.target for member_id, each in of.items()},
                topics=known,
                subscription=lambda member_id: of[member_id].topics,
                is_homogeneous=is_homogeneous,
                instance_id=lambda member_id: of[member_id].group_instance_id,
            )
        )


DIVIDE = {name: Divides(assignor) for name, assignor in ASSIGNORS.items()}
UNIFORM, RANGE = DIVIDE["uniform"], DIVIDE["range"]


def topics(*counts: int) -> dict[int, Topic]:
    """topic1, topic2, ... with so many partitions; none where it is 0."""
    numbered = enumerate(counts, 1)
    return {number: Topic(number, f"topic{number}", "", count) for number, count in numbered if count}


def member(
    member_id: str, *of: int, had: Partitions | None = None, instance: str | None = None
) -> Subscriber:
    return Subscriber(member_id, instance, frozenset(of), had or {})


def a_member_each(target: Target, *of: int) -> list[Subscriber]:
    return [member(member_id, *of, had=had) for member_id, had in target.items()]


def in_all(*members: str, of: int) -> list[Subscriber]:
    return [member(each, *range(1, of + 1)) for each in members]


def size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def test_first_is_the_default():
    assert list(ASSIGNORS) == ["uniform", "range"]


@BOTH
@EITHER
def test_group_without_members(assignor, is_homogeneous):
    assert DIVIDE[assignor]([], topics(3), is_homogeneous) == {}


@BOTH
@EITHER
def test_no_topic(assignor, is_homogeneous):
    """testOneMemberNoTopicSubscription, testOneMemberNoTopic, testTwoMembersNoTopicSubscription"""
    members = [member("A"), member("B", had={T1: {0}})]
    assert DIVIDE[assignor](members, topics(3), is_homogeneous) == {"A": {}, "B": {}}


@BOTH
@EITHER
def test_one_member_has_all(assignor, is_homogeneous):
    members = [member("A", T1, T2)]
    assert DIVIDE[assignor](members, topics(3, 2), is_homogeneous) == {"A": {T1: {0, 1, 2}, T2: {0, 1}}}


@BOTH
@EITHER
def test_topic_without_partitions(assignor, is_homogeneous):
    known = topics(2) | {T2: Topic(T2, "topic2", "", 0)}
    members = in_all("A", "B", of=2)
    assert DIVIDE[assignor](members, known, is_homogeneous) == {"A": {T1: {0}}, "B": {T1: {1}}}


class TestHomogeneous:
    """Kafka's `UniformHomogeneousAssignmentBuilderTest`."""

    def assign(self, members: Sequence[Subscriber], known: dict[int, Topic]) -> Target:
        return UNIFORM(members, known, True)

    def test_first_assignment_two_members_two_topics(self):
        """testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks: the extra one is for the last."""
        assert self.assign(in_all("A", "B", of=2), topics(3, 2)) == {
            "A": {T1: {0, 1}},
            "B": {T1: {2}, T2: {0, 1}},
        }

    def test_more_members_than_partitions(self):
        """testFirstAssignmentNumMembersGreaterThanTotalNumPartitions"""
        assert self.assign(in_all("A", "B", "C", of=1), topics(2)) == {
            "A": {},
            "B": {T1: {0}},
            "C": {T1: {1}},
        }

    def test_large_sample(self):
        """testValidityAndBalanceForLargeSampleSet"""
        target = self.assign(in_all(*(f"member{each}" for each in range(1, 50)), of=100), topics(*[3] * 100))
        assert sorted(map(size, target.values())) == [6] * 43 + [7] * 6

    def test_unbalanced_before(self):
        """testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment"""
        had: Target = {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2}, T2: {2}}}
        assert self.assign(a_member_each(had, T1, T2), topics(3, 3)) == {
            "A": {T1: {0, 1}, T2: {0}},
            "B": {T1: {2}, T2: {1, 2}},
        }

    def test_partitions_added(self):
        """testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics"""
        had: Target = {"A": {T1: {0, 2}, T2: {0}}, "B": {T1: {1}, T2: {1, 2}}}
        assert self.assign(a_member_each(had, T1, T2), topics(6, 5)) == {
            "A": {T1: {0, 2, 3, 4}, T2: {0}},
            "B": {T1: {1, 5}, T2: {1, 2, 3, 4}},
        }

    def test_member_added(self):
        """testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics"""
        had: Target = {"A": {T1: {0, 2}, T2: {0}}, "B": {T1: {1}, T2: {1, 2}}, "C": {}}
        assert self.assign(a_member_each(had, T1, T2), topics(3, 3)) == {
            "A": {T1: {0, 2}},
            "B": {T1: {1}, T2: {1}},
            "C": {T2: {0, 2}},
        }

    def test_member_removed(self):
        """testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics"""
        had: Target = {"A": {T1: {0}, T2: {0}}, "B": {T1: {1}, T2: {1}}}
        assert self.assign(a_member_each(had, T1, T2), topics(3, 3)) == {
            "A": {T1: {0, 2}, T2: {0}},
            "B": {T1: {1}, T2: {1, 2}},
        }

    def test_subscription_removed(self):
        """testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics"""
        had: Target = {"A": {T1: {0}, T2: {0}}, "B": {T1: {1}, T2: {1}}}
        assert self.assign(a_member_each(had, T2), topics(2, 2)) == {"A": {T2: {0}}, "B": {T2: {1}}}

    def test_sticky_when_balanced(self):
        """testReassignmentStickinessWhenAlreadyBalanced, testIterationOrderStickiness

        The extra one stays with the member that has it, wherever that comes.
        """
        for had in (
            {"A": {T1: {0, 3}}, "B": {T1: {1, 4}}, "C": {T1: {2}}},
            {"A": {T1: {0, 3}}, "B": {T1: {1}}, "C": {T1: {2, 4}}},
            {"A": {T1: {0}}, "B": {T1: {1, 3}}, "C": {T1: {2, 4}}},
        ):
            assert self.assign(a_member_each(had, T1), topics(5)) == had

    def test_extra_ones_for_members_that_have_them_and_for_the_last(self):
        had: Target = {"A": {T1: {0}}, "B": {T1: {1, 2, 3}}, "C": {}, "D": {}}
        assert self.assign(a_member_each(had, T1), topics(6)) == {
            "A": {T1: {0}},
            "B": {T1: {1, 2}},
            "C": {T1: {4}},
            "D": {T1: {3, 5}},
        }

    def test_surplus_is_the_last_by_name_and_number(self):
        known = {T1: Topic(T1, "zoo", "", 2), T2: Topic(T2, "ant", "", 2)}
        had: Target = {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {}}
        assert self.assign(a_member_each(had, T1, T2), known) == {"A": {T2: {0, 1}}, "B": {T1: {0, 1}}}

    def test_members_that_come_one_by_one_and_go(self):
        """Kafka 4.4.0's targets to the partition, whose hash maps have these ids and one topic in order."""
        target: Target = {}
        seen = []
        for members in (
            ["0"],
            ["0", "1"],
            ["0", "1", "2"],
            ["0", "1", "2", "3", "4"],
            ["1", "2", "4"],
            ["4"],
        ):
            of = [member(each, T1, had=target.get(each)) for each in members]
            target = self.assign(of, topics(7))
            seen.append([sorted(each.get(T1, ())) for each in target.values()])
        assert seen == [
            [[0, 1, 2, 3, 4, 5, 6]],
            [[0, 1, 2, 3], [4, 5, 6]],
            [[0, 1, 2], [4, 5], [3, 6]],
            [[0, 1], [4, 5], [3], [2], [6]],
            [[4, 5], [0, 3], [1, 2, 6]],
            [[0, 1, 2, 3, 4, 5, 6]],
        ]

    def test_targets_before_are_left_as_they_are(self):
        had: Target = {"A": {T1: {0, 1, 2}}, "B": {T1: {3}}}
        assert self.assign(a_member_each(had, T1), topics(4)) == {"A": {T1: {0, 1}}, "B": {T1: {2, 3}}}
        assert had == {"A": {T1: {0, 1, 2}}, "B": {T1: {3}}}


class TestHeterogeneous:
    """Kafka's `UniformHeterogeneousAssignmentBuilderTest`."""

    def assign(self, members: Sequence[Subscriber], known: dict[int, Topic]) -> Target:
        return UNIFORM(members, known, False)

    def test_first_assignment_two_members_two_topics(self):
        """testFirstAssignmentTwoMembersTwoTopics"""
        members = [member("A", T1, T3), member("B", T3)]
        assert self.assign(members, topics(3, 0, 6)) == {
            "A": {T1: {0, 1, 2}, T3: {4}},
            "B": {T3: {0, 1, 2, 3, 5}},
        }

    def test_more_members_than_partitions(self):
        """testFirstAssignmentNumMembersGreaterThanTotalNumPartitions"""
        members = [member("A", T3), member("B", T3), member("C", T1)]
        assert self.assign(members, topics(2, 0, 1)) == {"A": {T3: {0}}, "B": {}, "C": {T1: {0, 1}}}

    def test_member_without_subscriptions(self):
        """testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions"""
        assert self.assign([member("A", T1), member("B")], topics(3)) == {"A": {T1: {0, 1, 2}}, "B": {}}

    def test_unbalanced_before(self):
        """testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment"""
        members = [
            member("A", T1, had={T1: {0, 1, 2}}),
            member("B", T1, T2, had={T1: {3}, T2: {0}}),
            member("C", T1, T2, T3, had={T1: {4, 5}, T2: {1, 2, 3}, T3: {0, 1, 2, 3}}),
        ]
        assert self.assign(members, topics(6, 4, 4)) == {
            "A": {T1: {0, 1, 2, 5}},
            "B": {T1: {3}, T2: {0, 1, 2, 3}},
            "C": {T1: {4}, T3: {0, 1, 2, 3}},
        }

    def test_partitions_added(self):
        """testReassignmentWhenPartitionsAreAddedForTwoMembers"""
        members = [
            member("A", T1, T3, had={T1: {0, 1, 2, 3}, T3: {0, 1}}),
            member("B", T1, T2, T3, T4, had={T2: {0, 1, 2}, T4: {0, 1, 2}}),
        ]
        assert self.assign(members, topics(6, 5, 3, 3)) == {
            "A": {T1: {0, 1, 2, 3, 4, 5}, T3: {0, 1, 2}},
            "B": {T2: {0, 1, 2, 3, 4}, T4: {0, 1, 2}},
        }

    def test_member_and_partitions_added(self):
        """testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics"""
        members = [
            member("A", T1, had={T1: {0, 2}, T2: {0}}),
            member("B", T1, T2, had={T1: {1}, T2: {1, 2}}),
            member("C", T1, T2),
        ]
        assert self.assign(members, topics(6, 7)) == {
            "A": {T1: {0, 2, 3, 4, 5}},
            "B": {T1: {1}, T2: {1, 2, 6}},
            "C": {T2: {0, 3, 4, 5}},
        }

    def test_member_removed(self):
        """testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics"""
        members = [
            member("A", T1, T3, had={T1: {0, 1, 2}, T3: {0, 1}}),
            member("B", T2, had={T2: {3, 4, 5, 6}}),
        ]
        assert self.assign(members, topics(3, 8, 3)) == {
            "A": {T1: {0, 1, 2}, T3: {0, 1, 2}},
            "B": {T2: set(range(8))},
        }

    def test_subscription_removed(self):
        """testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics"""
        members = [
            member("A", T1, had={T1: {0, 2}, T2: {1, 3}}),
            member("B", T1, T2, had={T1: {1}, T2: {0, 2, 4}}),
        ]
        assert self.assign(members, topics(3, 5)) == {"A": {T1: {0, 1, 2}}, "B": {T2: {0, 1, 2, 3, 4}}}

    def test_partitions_of_a_topic_run_out(self):
        """testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions"""
        all_of_it: Partitions = {T1: {0, 1}, T2: {0, 1}, T3: {0, 1}}
        members = [member("A", T1, T2, T3, had=all_of_it), member("B", T1, T2, T3)]
        assert self.assign(members, topics(2, 2, 2)) == {
            "A": {T2: {0}, T3: {0, 1}},
            "B": {T1: {0, 1}, T2: {1}},
        }
        assert all_of_it == {T1: {0, 1}, T2: {0, 1}, T3: {0, 1}}

    def test_order_of_topics(self):
        """Many partitions for a subscriber, then few subscribers, then the name."""
        known = {
            T1: Topic(T1, "zoo", "", 2),
            T2: Topic(T2, "ant", "", 2),
            T3: Topic(T3, "few", "", 1),
            T4: Topic(T4, "zzz", "", 6),
        }
        # T4 has 3 for a subscriber. The others have 1: T3 has one subscriber, and T2 comes before T1.
        members = [member("A", T1, T2, T3, T4), member("B", T1, T2, T4)]
        assert self.assign(members, known) == {
            "A": {T4: {0, 2, 4}, T3: {0}, T1: {0, 1}},
            "B": {T4: {1, 3, 5}, T2: {0, 1}},
        }

    def test_giver_without_partitions_of_the_topic(self):
        """B has most, but none of what A wants. So C gives."""
        members = [
            member("A", T1),
            member("B", T1, T2, had={T2: {0, 1, 2, 3, 4}}),
            member("C", T1, had={T1: {0, 1, 2, 3}}),
        ]
        assert self.assign(members, topics(4, 5)) == {
            "A": {T1: {2, 3}},
            "B": {T2: {0, 1, 2, 3, 4}},
            "C": {T1: {0, 1}},
        }

    def test_rounds_are_limited(self):
        """A chain, in which each member shares a topic with the next, takes more rounds than there are."""
        members = [
            member(
                f"{each}",
                *{each - 1, each} & set(range(1, 8)),
                had={each: set(range(100))} if each < 8 else {},
            )
            for each in range(1, 9)
        ]
        target = self.assign(members, topics(*[100] * 7))
        assert list(map(size, target.values())) == [92, 91, 90, 88, 86, 85, 84, 84]


class TestRange:
    """Kafka's `RangeAssignorTest`."""

    def assign(self, members: Sequence[Subscriber], known: dict[int, Topic]) -> Target:
        return RANGE(members, known, len({each.topics for each in members}) == 1)

    def test_two_members_two_topics(self):
        """testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions"""
        members = [member("A", T1, T3), member("B", T1, T3)]
        assert self.assign(members, topics(3, 0, 2)) == {"A": {T1: {0, 1}, T3: {0}}, "B": {T1: {2}, T3: {1}}}

    def test_different_subscriptions(self):
        """testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions"""
        members = [member("A", T1, T2), member("B", T3), member("C", T2, T3)]
        assert self.assign(members, topics(3, 3, 2)) == {
            "A": {T1: {0, 1, 2}, T2: {0, 1}},
            "B": {T3: {0}},
            "C": {T2: {2}, T3: {1}},
        }

    def test_more_members_than_partitions(self):
        """testFirstAssignmentNumMembersGreaterThanNumPartitions"""
        members = [member(each, T1, T3) for each in "ABC"]
        assert self.assign(members, topics(3, 0, 2)) == {
            "A": {T1: {0}, T3: {0}},
            "B": {T1: {1}, T3: {1}},
            "C": {T1: {2}},
        }

    def test_static_members(self):
        """testStaticMembership: who comes back under another id gets the same."""
        known = topics(3)
        before = self.assign([member("A", T1, instance="1"), member("B", T1, instance="2")], known)
        after = self.assign([member("Z", T1, instance="1"), member("B", T1, instance="2")], known)
        assert before == {"A": {T1: {0, 1}}, "B": {T1: {2}}}
        assert after == {"Z": {T1: {0, 1}}, "B": {T1: {2}}}

    def test_static_members_come_first(self):
        """testMixedStaticMembership"""
        members = [member("A", T1, instance="2"), member("B", T1), member("C", T1, instance="10")]
        assert self.assign(members, topics(5)) == {"C": {T1: {0, 1}}, "A": {T1: {2, 3}}, "B": {T1: {4}}}

    def test_order_is_that_of_java(self):
        """U+FFFF comes after what is beyond it, which Java has as a pair of surrogates."""
        members = [member("\uffff", T1), member("\U0001f600", T1), member("a", T1)]
        assert list(self.assign(members, topics(3)).items()) == [
            ("a", {T1: {0}}),
            ("\U0001f600", {T1: {1}}),
            ("\uffff", {T1: {2}}),
        ]
        assert self.assign([member("\ud800", T1)], topics(1)) == {"\ud800": {T1: {0}}}

    @pytest.mark.parametrize(
        ("known", "subscriptions", "had", "expected"),
        [
            pytest.param(
                topics(2, 2),
                {"A": (T1, T2), "B": (T1, T2), "C": (T1, T2)},
                {"A": {T1: {0}, T2: {0}}, "B": {T1: {1}, T2: {1}}},
                {"A": {T1: {0}, T2: {0}}, "B": {T1: {1}, T2: {1}}, "C": {}},
                id="testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded",
            ),
            pytest.param(
                topics(4, 4),
                {"A": (T1, T2), "B": (T1, T2)},
                {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2}, T2: {2}}},
                {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2, 3}, T2: {2, 3}}},
                id="testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics",
            ),
            pytest.param(
                topics(3, 3),
                {"A": (T1, T2), "B": (T1, T2), "C": (T1, T2)},
                {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2}, T2: {2}}},
                {"A": {T1: {0}, T2: {0}}, "B": {T1: {1}, T2: {1}}, "C": {T1: {2}, T2: {2}}},
                id="testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
            ),
            pytest.param(
                topics(4, 3),
                {"A": (T1, T2), "B": (T1, T2), "C": (T1,)},
                {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2}, T2: {2}}},
                {"A": {T1: {0, 1}, T2: {0, 1}}, "B": {T1: {2}, T2: {2}}, "C": {T1: {3}}},
                id="testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics",
            ),
            pytest.param(
                topics(3, 3),
                {"B": (T1, T2)},
                {"B": {T1: {2}, T2: {2}}},
                {"B": {T1: {0, 1, 2}, T2: {0, 1, 2}}},
                id="testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
            ),
            pytest.param(
                topics(3, 3, 2),
                {"A": (T1,), "B": (T1, T2, T3), "C": (T2,)},
                {"A": {T1: {0, 1, 2}, T2: {0}}, "B": {T2: {1}}, "C": {T2: {2}, T3: {0, 1}}},
                {"A": {T1: {0, 1}}, "B": {T1: {2}, T2: {0, 1}, T3: {0, 1}}, "C": {T2: {2}}},
                id="testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
            ),
        ],
    )
    def test_target_before_does_not_count(self, known, subscriptions, had, expected):
        members = [member(each, *of, had=had.get(each)) for each, of in subscriptions.items()]
        assert self.assign(members, known) == expected


@EITHER
def test_partitions_and_topics_that_are_gone_are_not_kept(is_homogeneous):
    members = [member("A", T1, T2, had={T1: {0, 2}, T2: {2}, T4: {0}}), member("B", T1, T2)]
    target = UNIFORM(members, topics(2, 2), is_homogeneous)
    assert target["A"][T1] >= {0}
    assert sum(map(size, target.values())) == 4
    assert target["A"].keys() | target["B"].keys() == {T1, T2}


@pytest.mark.parametrize("alike", [True, False])
def test_large_group_that_loses_a_member_and_gets_one(alike):
    """10,000 partitions of 10 topics for 1,000 members, of which each but the first had ten."""
    known = topics(*[1_000] * 10)
    of = range(1, 11) if alike else range(2, 11)
    members = [member("0000", *of)]
    members += [
        member(f"{each:04}", *range(1, 11), had={t: {each} for t in known}) for each in range(1, 1_000)
    ]
    target = UNIFORM(members, known, alike)
    assert all(target[each.member_id] == each.target for each in members[1:]) == alike
    assert set(map(size, target.values())) == {10}


@st.composite
def groups(draw: st.DrawFn, *, is_homogeneous: bool) -> tuple[list[Subscriber], dict[int, Topic]]:
    names = draw(st.lists(st.sampled_from("stuvwxyz"), min_size=1, max_size=4, unique=True))
    known = {number: Topic(number, name, "", draw(st.integers(0, 9))) for number, name in enumerate(names, 1)}
    ids = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True))
    of = st.frozensets(st.sampled_from(sorted(known)))
    same = draw(of)
    had: list[Partitions] = [{} for _ in ids]
    nobody = len(ids)
    for topic in known.values():
        for partition in range(topic.partitions):
            if (owner := draw(st.integers(0, nobody))) != nobody:
                had[owner].setdefault(topic.number, set()).add(partition)
    static = draw(st.sets(st.sampled_from(ids)))
    return [
        Subscriber(
            each, f"i{each}" if each in static else None, same if is_homogeneous else draw(of), had[place]
        )
        for place, each in enumerate(ids)
    ], known


ALIKE, UNLIKE = groups(is_homogeneous=True), groups(is_homogeneous=False)


def check(members: Sequence[Subscriber], known: dict[int, Topic], target: Target) -> None:
    """Each partition that somebody subscribes to is of one member, which subscribes to it."""
    given = [
        (number, partition)
        for each in members
        for number, partitions in target[each.member_id].items()
        for partition in partitions
    ]
    wanted = frozenset().union(*(each.topics for each in members))
    assert sorted(given) == [
        (number, it) for number in sorted(wanted) for it in range(known[number].partitions)
    ]
    assert target.keys() == {each.member_id for each in members}
    assert all(target[each.member_id].keys() <= each.topics for each in members)
    assert all(partitions for each in target.values() for partitions in each.values())


@BOTH
@given(group=st.one_of(ALIKE, UNLIKE), rng=st.randoms(use_true_random=False))
def test_order_makes_no_difference_and_nothing_is_changed(assignor: str, group: Any, rng: Any):
    members, known = group
    is_homogeneous = len({each.topics for each in members}) == 1
    before = repr(members)
    target = DIVIDE[assignor](members, known, is_homogeneous)
    assert repr(members) == before
    shuffled = [
        each._replace(
            topics=frozenset(sorted(each.topics, reverse=True)), target=dict(reversed(each.target.items()))
        )
        for each in members
    ]
    rng.shuffle(shuffled)
    again = DIVIDE[assignor](shuffled, dict(reversed(known.items())), is_homogeneous)
    assert list(again.items()) == list(target.items())


@given(ALIKE)
def test_uniform_is_even_and_moves_no_more_than_it_must(group: Any):
    members, known = group
    target = UNIFORM(members, known, True)
    check(members, known, target)
    sizes = [size(target[each.member_id]) for each in members]
    assert max(sizes) - min(sizes) <= 1
    least, extras = divmod(sum(sizes), len(members))
    had = [sum(len(it) for number, it in each.target.items() if number in each.topics) for each in members]
    most = sum(min(each, least) for each in had) + min(extras, sum(each > least for each in had))
    stays = [
        partitions & target[each.member_id].get(number, set())
        for each in members
        for number, partitions in each.target.items()
    ]
    assert sum(map(len, stays)) == most


@given(UNLIKE)
def test_uniform_moves_nothing_that_would_make_it_more_even(group: Any):
    members, known = group
    target = UNIFORM(members, known, False)
    check(members, known, target)
    for owner in members:
        for number in target[owner.member_id]:
            others = [size(target[each.member_id]) for each in members if number in each.topics]
            assert size(target[owner.member_id]) - min(others) <= 1


@given(st.one_of(ALIKE, UNLIKE))
def test_uniform_leaves_its_own_target_as_it_is(group: Any):
    members, known = group
    is_homogeneous = len({each.topics for each in members}) == 1
    target = UNIFORM(members, known, is_homogeneous)
    again = [each._replace(target=target[each.member_id]) for each in members]
    assert UNIFORM(again, known, is_homogeneous) == target


@given(st.one_of(ALIKE, UNLIKE))
def test_ranges_are_contiguous_and_the_first_are_the_longer_ones(group: Any):
    members, known = group
    target = RANGE(members, known, len({each.topics for each in members}) == 1)
    check(members, known, target)
    static = sorted(each.member_id for each in members if each.group_instance_id is not None)
    order = static + sorted({each.member_id for each in members} - set(static))
    of = {each.member_id: each.topics for each in members}
    for number, topic in known.items():
        shares = [sorted(target[each].get(number, ())) for each in order if number in of[each]]
        if shares:
            assert [it for each in shares for it in each] == list(range(topic.partitions))
            assert sorted(map(len, shares), reverse=True) == list(map(len, shares))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(ALIKE)
def test_ranges_are_the_same_whether_members_are_said_to_be_alike(group: Any):
    members, known = group
    assert RANGE(members, known, True) == RANGE(members, known, False)
