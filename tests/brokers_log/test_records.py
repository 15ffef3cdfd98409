"""Records of `__consumer_offsets`: of Kafka's own classes (`Records.java`), and such as nobody writes."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.brokers_log.consumer.records import (
    AssignmentEpoch,
    ConsumerRecord,
    GroupEpoch,
    MemberFacts,
    MemberRecord,
    MemberShare,
    MemberTarget,
    Obsolete,
    ResolvedPattern,
    is_tombstone,
)
from group_coordinator.brokers_log.records import (
    GroupMetadata,
    OffsetCommit,
    Unknown,
    Unreadable,
    read_record,
    topic_ids,
)
from group_coordinator.coordinator_state.committed import CommittedOffset
from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.gateway.wire import varint_of
from tests.brokers_log.consumers import AWAY, UNREVOKED, ConsumerLog, topic_id
from tests.brokers_log.kafka import Log, M, recorded, text
from tests.depth import cases

GROUP, AT = "größe", 1_700_000_000_123


def written(name: str) -> GroupPicture:
    read = read_record(recorded()["key_2"], recorded()[name])
    assert isinstance(read, GroupMetadata)
    assert read.group_id == GROUP
    assert read.written is not None
    return read.written


def committed(name: str, key: str = "key_1") -> CommittedOffset:
    read = read_record(recorded()[key], recorded()[name])
    assert isinstance(read, OffsetCommit)
    assert (read.group_id, read.topic, read.partition) == (GROUP, "orders", 7)
    assert read.committed is not None
    return read.committed


# -- as Kafka writes them --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["key_0", "key_1"])
def test_a_commit_of_each_version(key: str) -> None:
    of_all = {"offset": 1 << 40, "metadata": "é", "commit_timestamp_ms": AT}
    plain = CommittedOffset(**of_all, leader_epoch=-1)
    assert committed("legacy_offset_0", key) == committed("offset_0", key) == plain
    assert committed("offset_1", key) == CommittedOffset(
        **of_all, leader_epoch=-1, expire_timestamp_ms=AT + 1
    )
    assert committed("offset_2", key) == plain
    assert committed("offset_3", key) == CommittedOffset(**of_all, leader_epoch=5)
    assert committed("offset_4", key) == CommittedOffset(
        **of_all, leader_epoch=5, topic_id="c6dcd658-de1b-4e38-ada4-bde47ddf6ce6"
    )
    unknown = recorded()["offset_4"][:-16] + bytes(16)
    assert read_record(recorded()[key], unknown)[-1].topic_id == ""
    assert committed("offset_4_without_topic_id", key) == CommittedOffset(42, -1, "", AT)


@pytest.mark.parametrize("version", range(5))
def test_a_group_of_each_version(version: int) -> None:
    group = written(f"group_{version}")
    assert (group.state, group.generation_id, group.leader) == ("Stable", 9, "c1-id")
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert group.state_timestamp_ms == (AT if version >= 2 else -1)
    one, two = group.members
    assert (one.member_id, one.client_id, one.client_host) == ("c1-id", "c1", "/10.0.0.7")
    assert (one.member_metadata, one.member_assignment) == (b"\0\1", b"\2\3\4")
    assert (two.member_metadata, two.member_assignment) == (b"", b"\5")
    assert (one.session_timeout_ms, two.session_timeout_ms) == (45_000, 6_000)
    # Version 0 has no time for rebalances: it is that of the session then.
    rebalance = (45_000, 6_000) if version == 0 else (300_000, -1)
    assert (one.rebalance_timeout_ms, two.rebalance_timeout_ms) == rebalance
    assert (one.group_instance_id, two.group_instance_id) == (None, "two" if version >= 3 else None)


@pytest.mark.parametrize("version", [3, 4])
def test_a_group_without_members(version: int) -> None:
    new = written(f"new_group_{version}")
    assert (new.state, new.generation_id, new.protocol_type, new.members) == ("Empty", 0, None, [])
    empty = written(f"empty_group_{version}")
    assert (empty.state, empty.generation_id, empty.protocol_type) == ("Empty", 3, "consumer")
    assert (empty.protocol_name, empty.leader) == (None, None)


def test_tombstones() -> None:
    assert read_record(recorded()["key_1"], None) == OffsetCommit(GROUP, "orders", 7, None)
    assert read_record(recorded()["key_2"], None) == GroupMetadata(GROUP, None)


ORDERS, BILLS = str(UUID("c6dcd658-de1b-4e38-ada4-bde47ddf6ce6")), str(UUID(int=(1 << 64) + 2))


@pytest.mark.parametrize(
    ("kind", "name", "read"),
    [
        (3, "epoch_0", GroupEpoch(7)),
        (3, "epoch_0_with_hash", GroupEpoch(7, 2**64 - 2)),
        (4, "partition_metadata_0", Obsolete()),
        (
            5,
            "member_0",
            MemberRecord("m", MemberFacts("c1", "/10.0.0.7", ("bills", "orders"), 300_000)),
        ),
        (
            5,
            "member_0_with_all",
            MemberRecord("m", MemberFacts("c1", "/10.0.0.7", (), -1, "one", "o.*", "range", 45_000)),
        ),
        (6, "assignment_epoch_0", AssignmentEpoch(6)),
        (6, "assignment_epoch_0_with_time", AssignmentEpoch(6)),
        (7, "target_0", MemberTarget("m", {ORDERS: {0, 2}, BILLS: {5}})),
        (7, "target_0_of_nothing", MemberTarget("m", {})),
        (8, "share_0", MemberShare("m", 6, 1, {ORDERS: {0, 2}}, {ORDERS: {1}, BILLS: {5}})),
        (8, "share_0_with_epochs", MemberShare("m", 6, 0, {ORDERS: {0, 2}}, {})),
        (8, "share_0_away", MemberShare("m", -2, 0, {}, {})),
        (16, "pattern_0", ResolvedPattern("a.*", ("orders", "old"))),
    ],
)
def test_a_record_of_a_group_of_the_consumer_protocol(kind: int, name: str, read: ConsumerRecord) -> None:
    assert read_record(recorded()[f"key_{kind}"], recorded()[name]) == read
    assert not is_tombstone(read)


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        (3, GroupEpoch(None)),
        (5, MemberRecord("m", None)),
        (6, AssignmentEpoch(None)),
        (7, MemberTarget("m", None)),
        (8, MemberShare("m", None, 0, {}, {})),
        (16, ResolvedPattern("a.*", None)),
    ],
)
def test_tombstones_of_the_consumer_protocol(kind: int, read: ConsumerRecord) -> None:
    assert read_record(recorded()[f"key_{kind}"], None) == read
    assert is_tombstone(read)


def test_a_member_of_which_it_is_not_said_that_its_protocol_is_not_classic() -> None:
    """Kafka always says so. Its own reader would take it for a classic one without a session."""
    value = recorded()["member_0"]
    assert value.endswith(b"\1\0\1\0")
    read = read_record(recorded()["key_5"], value[:-4] + b"\0")
    assert read == read_record(recorded()["key_5"], value)


def test_ids_of_topics_are_found_before_the_records_are_taken() -> None:
    pairs = [(7, "target_0"), (8, "share_0"), (7, None), (8, None), (5, "member_0"), (8, "epoch_0")]
    records = [
        Record("l", 0, number, 0, recorded()[f"key_{kind}"], None if name is None else recorded()[name])
        for number, (kind, name) in enumerate(pairs)
    ]
    assert topic_ids(records[2:]) == set()
    assert topic_ids(records[:1]) == topic_ids(records) == {ORDERS, BILLS}
    nothing = recorded()["target_0"].replace(UUID(BILLS).bytes, bytes(16))
    assert topic_ids([records[0]._replace(value=nothing), records[0]._replace(key=None)]) == {ORDERS}


@pytest.mark.parametrize("kind", [10, 11, 15, 17, 23])
def test_records_of_other_protocols_are_named(kind: int) -> None:
    is_group = kind in {11, 17}
    key = recorded()[f"key_{kind}"]
    assert read_record(key, b"anything") == Unknown(kind, GROUP, is_group, is_tombstone=False)
    assert read_record(key, None) == Unknown(kind, GROUP, is_group, is_tombstone=True)


def test_the_versions_that_are_written_by_hand_are_those_of_kafka() -> None:
    log = Log(GROUP)
    assert log.group_key == recorded()["key_2"]
    assert log.offset_key("orders", 7) == recorded()["key_1"]
    assert log.group_value("consumer", 3, None, None, (), AT) == recorded()["empty_group_3"]
    of_consumers = ConsumerLog(GROUP)
    assert of_consumers.pattern("a.*").key == recorded()["key_16"]
    for record, kind, name in (
        (of_consumers.epoch(7, metadata_hash=0), 3, "epoch_0"),
        (of_consumers.epoch(7, metadata_hash=-2), 3, "epoch_0_with_hash"),
        (of_consumers.member("m", "bills", "orders"), 5, "member_0"),
        (of_consumers.assigned(6), 6, "assignment_epoch_0"),
        (of_consumers.target("m"), 7, "target_0_of_nothing"),
        (of_consumers.share("m", AWAY), 8, None),
    ):
        assert record.key == recorded()[f"key_{kind}"]
        # A member by hand is called by its client id.
        assert name is None or record.value == recorded()[name].replace(b"\3c1", b"\2m")
    odd = ConsumerLog(GROUP)
    assert read_record(odd.of_member(7, "m"), odd.target("m", t=[0, 2]).value) == MemberTarget(
        "m", {topic_id("t"): {0, 2}}
    )
    share = odd.share("m", 6, state=UNREVOKED, t=[0], pending={"u": [1]})
    assert read_record(share.key, share.value) == MemberShare(
        "m", 6, 1, {topic_id("t"): {0}}, {topic_id("u"): {1}}
    )


# -- as nobody should ------------------------------------------------------------------------------------


def reason(key: bytes | None, value: bytes | None) -> str:
    read = read_record(key, value)
    assert isinstance(read, Unreadable)
    assert "\n" not in read.reason
    return read.reason


def test_a_newer_version_is_not_read() -> None:
    assert reason(recorded()["key_1"], b"\0\5") == "a value of version 5, and not of 0 to 4"
    assert reason(recorded()["key_2"], b"\xff\xff") == "a value of version -1, and not of 0 to 4"
    assert reason(recorded()["key_8"], b"\0\1") == "a value of version 1, and not of 0 to 0"
    assert read_record(recorded()["key_4"], b"\0\1") == Obsolete()


def test_a_key_that_is_none() -> None:
    assert reason(None, b"") == "the record has no key"
    assert reason(b"\0", b"") == "1 bytes are missing"


KINDS_BY_NAME = {
    "epoch": 3,
    "partition_metadata": 4,
    "member": 5,
    "assignment_epoch": 6,
    "target": 7,
    "share": 8,
    "pattern": 16,
}


@pytest.mark.parametrize("name", [name for name in recorded() if not name.startswith("key_")])
def test_a_record_that_is_cut_off_is_unreadable(name: str) -> None:
    kind = KINDS_BY_NAME.get(name.partition("_0")[0], 1 if "offset" in name else 2)
    if kind == 4:
        return
    key, value = recorded()[f"key_{kind}"], recorded()[name]
    for end in range(len(value)):
        reason(key, value[:end])
    for end in range(len(key)):
        reason(key[:end], value)


def test_more_bytes_than_it_needs_are_passed_over() -> None:
    for version in range(5):
        key, value = recorded()["key_2"], recorded()[f"group_{version}"]
        assert read_record(key, value + b"more") == read_record(key, value)


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 2**31 - 1])
def test_a_wrong_number_of_members(count: int) -> None:
    value = Log.group_value("consumer", 1, "range", "m", [M("m")], AT)
    at = value.index(struct.pack(">qi", AT, 1)) + 8
    reason(recorded()["key_2"], value[:at] + struct.pack(">i", count) + value[at + 4 :])


@pytest.mark.parametrize("length", [-2, -(2**15), 2**15 - 1])
def test_a_wrong_length_of_a_text(length: int) -> None:
    reason(struct.pack(">hh", 2, length) + b"g", None)


def test_a_null_where_a_text_has_to_be() -> None:
    value = recorded()["offset_0"][:10] + text(None) + bytes(8)
    assert "null" in reason(recorded()["key_1"], value)


def test_a_text_that_is_not_utf_8_is_read_as_a_broker_reads_it() -> None:
    read = read_record(struct.pack(">hh", 2, 3) + b"a\xffb", None)
    assert read == GroupMetadata("a\ufffdb", None)


@pytest.mark.parametrize("topic", [b"t" * 40_000, b"\xff" * 20_000])
def test_a_text_that_cannot_be_written_again(topic: bytes) -> None:
    """A byte that is not UTF-8 becomes three."""
    value = recorded()["member_0"].replace(b"\6bills", varint_of(len(topic) + 1) + topic)
    assert f"a text of {len(topic)} bytes" in reason(recorded()["key_5"], value)


@pytest.mark.parametrize("length", [0, 7, 9])
def test_a_hash_of_another_length(length: int) -> None:
    value = recorded()["epoch_0"][:-1] + bytes((1, 0, length)) + b"h" * length
    assert reason(recorded()["key_3"], value) == f"a hash of {length} bytes, and not of 8"


def test_numbers_that_no_reader_takes_are_within_limits() -> None:
    value = struct.pack(">hqi", 3, 1, -1) + text("") + struct.pack(">q", 2**62)
    read = read_record(recorded()["key_1"], value)
    assert isinstance(read, OffsetCommit)
    assert read.committed is not None
    assert read.committed.commit_timestamp_ms == MOST_MS
    group = Log.group_value("consumer", 1, "range", "m", [M("m", session_ms=-1)], -(2**62))
    metadata = read_record(recorded()["key_2"], group)
    assert isinstance(metadata, GroupMetadata)
    assert metadata.written is not None
    assert metadata.written.state_timestamp_ms == -1
    assert metadata.written.members[0].session_timeout_ms == 0


KEYS = st.sampled_from([data for name, data in recorded().items() if name.startswith("key_")])
VALUES = st.sampled_from([data for name, data in recorded().items() if not name.startswith("key_")])


@pytest.mark.drawn
@settings(max_examples=cases(2_000, deep=100_000))
@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=200))
def test_no_bytes_raise(key: bytes | None, value: bytes | None) -> None:
    read_record(key, value)


@pytest.mark.drawn
@settings(max_examples=cases(2_000, deep=100_000))
@given(KEYS, VALUES, st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 255)), max_size=4))
def test_no_changed_bytes_raise(key: bytes, value: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(value)
    for at, byte in changes:
        data[at % len(data)] = byte
    read_record(key, bytes(data))
