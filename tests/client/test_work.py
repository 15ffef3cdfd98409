"""Dividing topics and units: everything is somebody's, nothing is two members'."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from group_coordinator.client.work import MalformedMetadataError, TopicPartitions, WorkUnits, natural
from group_coordinator.coordinator_state.responses import JoinGroupMember
from tests.depth import cases

ASSIGNORS = ["range", "roundrobin", "sticky"]
COUNTS = {"a": 4, "b": 1, "c": 7, "empty": 0}


def lookup(topics):
    return {topic: COUNTS[topic] for topic in topics if topic in COUNTS}


def topic_work(topics, names=("range",)):
    return TopicPartitions(topics, lookup, names)


def subscribed(work, member_id, name, owned=(), generation_id=-1, instance=None):
    (metadata,) = [each.metadata for each in work.protocols(owned, generation_id) if each.name == name]
    return JoinGroupMember(member_id, instance, metadata)


def shares(work, name, members):
    assignments = work.assign(name, members)
    assert set(assignments) == {member.member_id for member in members}
    return {member_id: work.decode(assignment) for member_id, assignment in assignments.items()}


def all_units(by_member):
    return Counter(unit for units in by_member.values() for unit in units)


# -- topics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_all_partitions_are_assigned_once(name, count):
    work = topic_work(["a", "b", "c", "empty", "missing"], [name])
    members = [subscribed(work, f"m{i}", name) for i in range(count)]

    owned = shares(work, name, members)

    expected = [TopicPartition(topic, i) for topic, n in COUNTS.items() for i in range(n)]
    assert all_units(owned) == Counter(expected)


def test_a_topic_that_is_not_there_is_told(caplog):
    work = topic_work(["a", "missing"])
    work.assign("range", [subscribed(work, "m", "range")])

    # Other tests' clients may still say something, from threads of their own.
    (record,) = [each for each in caplog.records if each.name == "group_coordinator.client.work"]
    assert record.getMessage() == (
        "there is no topic missing: members are assigned its partitions once it is created"
    )
    assert record.levelname == "WARNING"


@settings(max_examples=cases(60, deep=600))
@given(
    st.sampled_from(ASSIGNORS),
    st.lists(st.sets(st.sampled_from([*COUNTS, "missing"])), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
)
def test_members_get_only_what_they_subscribe_to(name, subscriptions, static):
    members = [
        subscribed(topic_work(topics, [name]), f"m{i}", name, instance=f"i{i}" if i in static else None)
        for i, topics in enumerate(subscriptions)
    ]

    owned = shares(topic_work([]), name, members)

    wanted = set().union(*subscriptions)
    assert all_units(owned) == Counter(
        TopicPartition(topic, i) for topic, n in COUNTS.items() if topic in wanted for i in range(n)
    )
    for i, topics in enumerate(subscriptions):
        assert {each.topic for each in owned[f"m{i}"]} <= topics


@pytest.mark.parametrize("name", ASSIGNORS)
def test_order_of_members_makes_no_difference(name):
    work = topic_work(["a", "c"], [name])
    members = [subscribed(work, f"m{i}", name) for i in range(3)]

    assert shares(work, name, members) == shares(work, name, members[::-1])


def test_round_robin_deals_in_turns_and_skips_who_does_not_subscribe():
    wide, narrow = topic_work(["a", "b"], ["roundrobin"]), topic_work(["a"], ["roundrobin"])
    members = [subscribed(wide, "m1", "roundrobin"), subscribed(narrow, "m2", "roundrobin")]

    assert shares(wide, "roundrobin", members) == {
        "m1": (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 0)),
        "m2": (TopicPartition("a", 1), TopicPartition("a", 3)),
    }


def test_sticky_leaves_partitions_where_they_were():
    work = topic_work(["c"], ["sticky"])
    before = shares(work, "sticky", [subscribed(work, f"m{i}", "sticky") for i in range(2)])
    members = [subscribed(work, member_id, "sticky", owned, 4) for member_id, owned in before.items()]

    after = shares(work, "sticky", [*members, subscribed(work, "m2", "sticky")])

    assert all(set(after[member_id]) <= set(owned) for member_id, owned in before.items())
    assert len(after["m2"]) == 2


def test_subscription_is_kafkas_own():
    range_, sticky = topic_work(["b", "a", "a"], ["range", "sticky"]).protocols((), -1)

    assert (range_.name, sticky.name) == ("range", "sticky")
    decoded = ConsumerProtocolSubscription.decode(range_.metadata)
    assert (decoded.version, decoded.topics) == (0, ["a", "b"])


def test_assignment_is_kafkas_own():
    work = topic_work(["a"])
    assignment = work.assign("range", [subscribed(work, "m1", "range")])["m1"]

    assert ConsumerProtocolAssignment.decode(assignment).partitions() == [
        TopicPartition("a", i) for i in range(4)
    ]


def test_same_subscription_is_the_same_bytes():
    assert topic_work(["a", "b", "c"]).protocols((), -1) == topic_work(["c", "a", "b"]).protocols((), -1)


def test_more_partitions_make_it_outdated():
    counts = {"a": 1}
    work = TopicPartitions(["a"], lambda topics: {each: counts[each] for each in topics}, ["range"])
    work.assign("range", [subscribed(work, "m1", "range")])
    assert not work.outdated()

    counts["a"] = 2

    assert work.outdated()


def test_what_changes_after_a_leader_that_started_again_looked_makes_it_outdated():
    counts = {"a": 1, "b": 1}
    work = TopicPartitions(["a"], lambda topics: {each: counts[each] for each in topics}, ["range"])
    work.watch([subscribed(work, "m1", "range"), subscribed(topic_work(["b"]), "m2", "range")])
    assert not work.outdated()

    counts["b"] = 2

    assert work.outdated()
    assert work.outdated(), "until the work is divided anew"


def test_leader_that_was_only_away_knows_what_it_divided():
    counts = {"a": 1}
    work = TopicPartitions(["a"], lambda topics: {each: counts[each] for each in topics}, ["range"])
    members = [subscribed(work, "m1", "range")]
    work.assign("range", members)
    counts["a"] = 2
    work.watch(members)

    assert work.outdated()


def test_garbage_from_a_watched_member_names_the_member():
    with pytest.raises(MalformedMetadataError, match="member m2"):
        topic_work(["a"]).watch([JoinGroupMember("m2", None, b"\0")])


@pytest.mark.parametrize(
    "garbage", [b"", b"\0", b"\xff" * 20, b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\2\xff\xfe", b"{}" * 9]
)
def test_garbage_from_a_member_names_the_member(garbage):
    work = topic_work(["a"])

    with pytest.raises(MalformedMetadataError, match="member m2"):
        work.assign("range", [subscribed(work, "m1", "range"), JoinGroupMember("m2", None, garbage)])


@pytest.mark.parametrize("garbage", [b"\0", struct.pack(">hi", 0, 7), b"garbage garbage"])
def test_garbage_from_the_leader_says_so(garbage):
    with pytest.raises(MalformedMetadataError, match="the leader"):
        topic_work(["a"]).decode(garbage)


@pytest.mark.parametrize("work", [topic_work(["a"]), WorkUnits(["a"])])
def test_member_that_the_leader_forgot_owns_nothing(work):
    assert work.decode(b"") == ()


# -- units -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("units", [[], ["only"], [f"device {i}" for i in range(12)]])
def test_all_units_are_assigned_once(name, count, units):
    work = WorkUnits(units, [name])
    members = [subscribed(work, f"m{i}", name) for i in range(count)]

    owned = shares(work, name, members)

    assert all_units(owned) == Counter(units)
    sizes = [len(each) for each in owned.values()]
    assert max(sizes) - min(sizes) <= 1


def test_the_leaders_list_is_shared_and_old_units_are_gone():
    old = WorkUnits(["a", "b", "gone"], ["sticky"])
    members = [
        subscribed(old, "m1", "sticky", ["a", "gone"], 1),
        subscribed(old, "m2", "sticky", ["b"], 1),
    ]

    owned = shares(WorkUnits(["a", "b", "new"], ["sticky"]), "sticky", members)

    assert all_units(owned) == Counter(["a", "b", "new"])
    assert "a" in owned["m1"]
    assert "b" in owned["m2"]


def test_sticky_leaves_units_where_they_were():
    work = WorkUnits([f"u{i}" for i in range(7)], ["sticky"])
    before = shares(work, "sticky", [subscribed(work, f"m{i}", "sticky") for i in range(2)])
    members = [subscribed(work, member_id, "sticky", owned, 4) for member_id, owned in before.items()]

    after = shares(work, "sticky", [*members, subscribed(work, "m2", "sticky")])

    assert all(set(after[member_id]) <= set(owned) for member_id, owned in before.items())


def test_watched_units_do_not_change_by_themselves():
    work = WorkUnits(["a"])
    work.watch([subscribed(work, "m1", "range")])

    assert not work.outdated()


def test_units_are_shared_in_natural_order():
    work = WorkUnits([f"unit-{i}" for i in range(12)], ["range"])
    members = [subscribed(work, f"m{i}", "range") for i in range(2)]

    assert shares(work, "range", members) == {
        "m0": tuple(f"unit-{i}" for i in range(6)),
        "m1": tuple(f"unit-{i}" for i in range(6, 12)),
    }


@given(st.sets(st.text("a01-9\u0663", max_size=6), max_size=8))
def test_natural_order_is_an_order_of_all_names(names):
    assert sorted(names, key=natural) == sorted(sorted(names), key=natural)
    assert len({str(natural(name)) for name in names}) == len(names)


def test_numbers_of_any_length_have_an_order():
    names = ["a", "a01", "a1", "a2", "a10", "a10b2", "a10b10", "b", f"b{'9' * 5000}", f"b1{'0' * 5000}"]
    assert sorted(names, key=natural) == names
    assert sorted(names) != names


def test_units_are_a_set():
    assert WorkUnits(["b", "a", "b"]).subscription == ("a", "b")


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"[]", b'{"owned": 3}', b'{"owned": [null]}'])
def test_garbage_units_from_a_member_name_the_member(garbage):
    with pytest.raises(MalformedMetadataError, match="member m2"):
        WorkUnits(["a"]).assign("range", [JoinGroupMember("m2", None, garbage)])


@pytest.mark.parametrize("garbage", [b"\xff", b"{}", b'{"units": "a"}'])
def test_garbage_units_from_the_leader_say_so(garbage):
    with pytest.raises(MalformedMetadataError, match="the leader"):
        WorkUnits(["a"]).decode(garbage)


# -- assignors ---------------------------------------------------------------------------------------


def test_cooperative_assignor_is_refused_with_a_reason():
    with pytest.raises(ValueError, match=r"cooperative-sticky.*eager.*'sticky'"):
        WorkUnits(["a"], ["cooperative-sticky"])


@pytest.mark.parametrize(
    ("names", "message"), [(["best"], "range, roundrobin, sticky"), ([], "at least one")]
)
def test_unknown_assignors_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        WorkUnits(["a"], names)


@pytest.mark.parametrize("names", ["abc", [1], [b"a"]])
def test_names_have_to_be_a_list_of_strings(names):
    with pytest.raises(TypeError, match="list of strings"):
        WorkUnits(names)
