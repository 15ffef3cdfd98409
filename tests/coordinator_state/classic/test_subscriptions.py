"""What the coordinator can tell of subscriptions."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tests.coordinator_state.scenario import Scenario
from tests.coordinator_state.subscription import subscription


def group_of(*metadata: bytes, protocol_type: str = "consumer"):
    """A group in its sync phase, of members with these subscriptions."""
    s = Scenario()
    for number, each in enumerate(metadata):
        s.join(f"c{number}", protocols={"range": each}, protocol_type=protocol_type)
    if len(metadata) > 1:
        for number in range(len(metadata) - 1):
            s.join(f"c{number}", protocols={"range": metadata[number]}, protocol_type=protocol_type)
    assert s.group.state == "CompletingRebalance"
    return s.group


def test_topics_of_all_members():
    assert group_of(subscription("b", "a"), subscription("a", "c")).subscribed_topics == ("a", "b", "c")


def test_no_topics_are_known_to_be_none():
    group = group_of(subscription())
    assert group.subscribed_topics == ()
    assert not group.is_subscribed("a")


def test_later_versions_begin_like_version_0():
    assert group_of(subscription("a", version=3, more=b"\x00" * 9)).subscribed_topics == ("a",)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_as_kafka_python_writes_them(version):
    encoded = ConsumerProtocolSubscription(
        topics=["a", "ä"], user_data=b"user data", version=version
    ).encode()
    assert group_of(encoded).subscribed_topics == ("a", "ä")


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        subscription("topic")[:-5],
        subscription("topic")[:-1],
        b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
    ids=["empty", "short", "cut off in a name", "cut off after the names", "fewer topics than none"],
)
def test_unreadable(metadata):
    group = group_of(subscription("a"), metadata)
    assert group.subscribed_topics is None
    assert group.is_subscribed("anything"), "to be safe"


def test_name_that_is_not_utf_8():
    odd = b"\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x01\xff\xff\xff\xff\xff"
    assert group_of(odd).subscribed_topics == ("a", "\ufffd")


def test_negative_lengths():
    no_name = b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff"
    assert group_of(no_name).subscribed_topics is None


def test_user_data_that_is_cut_off():
    assert group_of(subscription("a")[:-4] + b"\x00\x00\x00\x05abc").subscribed_topics is None


def test_other_protocol_types_are_not_read():
    group = group_of(subscription("a"), protocol_type="connect")
    assert group.subscribed_topics is None
    assert not group.is_subscribed("a")


def test_as_of_the_last_generation():
    s = Scenario()
    s.join("c1", protocols={"range": subscription("a")})
    s.sync("c1")
    s.join("c2", protocols={"range": subscription("b")})
    assert s.group.state == "PreparingRebalance"
    assert (s.group.is_subscribed("a"), s.group.is_subscribed("b")) == (True, False)
    s.join("c1", protocols={"range": subscription("c")})
    assert s.group.state == "CompletingRebalance"
    assert [topic for topic in "abc" if s.group.is_subscribed(topic)] == ["b", "c"]
    s.leave("c1", "c2")
    assert s.group.state == "Empty"
    assert not any(s.group.is_subscribed(topic) for topic in "abc")


def test_before_the_first_generation():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1", protocols={"range": subscription("a")})
    assert s.group.state == "PreparingRebalance"
    assert s.group.is_subscribed("b"), "to be safe"
