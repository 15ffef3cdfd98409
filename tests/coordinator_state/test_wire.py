"""From bytes to a request, or to the reason why it is none."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.requests import (
    BeatingMember,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
    Protocol,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import InvalidRequestResponse
from group_coordinator.coordinator_state.wire import Rejection, read_request, rejected_record

CONFIG = GroupConfig()
LAYOUT = Layout(response_partitions=8)
COMMON = {"request_id": "r1", "client_id": "c1", "group_id": "orders"}
HEARTBEAT = {"api": "heartbeat", **COMMON, "generation_id": 1, "member_id": "m"}
JOIN = {
    "api": "join_group",
    **COMMON,
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": "AAE="}],
}

COMMIT = {"api": "offset_commit", **COMMON}
FETCH = {"api": "offset_fetch", **COMMON}
DELETE = {"api": "offset_delete", **COMMON}


def record(value: bytes | None, key: bytes | None = b"orders") -> Record:
    return Record("requests", 2, 17, 1_000, key, value)


def read(request: dict, key: bytes | None = b"orders", config: GroupConfig = CONFIG):
    return read_request(record(msgspec.json.encode(request), key), config, LAYOUT)


def reason(request: dict, key: bytes | None = b"orders", config: GroupConfig = CONFIG) -> str:
    rejection = read(request, key, config)
    assert isinstance(rejection, Rejection)
    assert rejection.response is not None
    assert (rejection.response.request_id, rejection.response.client_id) == ("r1", "c1")
    assert (rejection.response.error, rejection.response.error_code) == ("INVALID_REQUEST", 42)
    assert rejection.response.error_message == rejection.reason
    return rejection.reason


# -- requests --------------------------------------------------------------------------------------


def test_join_group_with_the_defaults_of_the_contract():
    request = read(JOIN)
    assert request == JoinGroupRequest(
        **COMMON,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[Protocol("range", b"\x00\x01")],
    )
    assert (request.version, request.member_id, request.effective_rebalance_timeout_ms) == (9, "", 10_000)


def test_sync_group_with_the_defaults_of_the_contract():
    request = read({"api": "sync_group", **COMMON, "generation_id": 1, "member_id": "m"})
    assert request == SyncGroupRequest(**COMMON, generation_id=1, member_id="m")
    assert (request.version, request.assignments, request.protocol_name) == (5, [], None)


def test_sync_group_with_assignments():
    given = [{"member_id": "m", "assignment": "AA=="}]
    request = read(
        {"api": "sync_group", **COMMON, "generation_id": 1, "member_id": "m", "assignments": given}
    )
    assert request.assignments == [MemberAssignment("m", b"\x00")]


def test_heartbeat_and_who_is_to_be_answered_where():
    request = read({**HEARTBEAT, "api_version": 2, "reply_partition": 7, "client_host": "10.0.0.7"})
    assert isinstance(request, HeartbeatRequest)
    assert msgspec.structs.astuple(request.reply_to) == ("r1", "c1", 7, 2)
    assert request.client_host == "10.0.0.7"


@pytest.mark.parametrize("request_of", [HEARTBEAT, JOIN, {**COMMIT, "topics": []}], ids=lambda it: it["api"])
def test_what_a_request_leaves_out_takes_no_room_in_the_log(request_of):
    assert msgspec.json.decode(msgspec.json.encode(read(request_of))) == request_of


def test_what_parts_of_a_request_leave_out_takes_no_room_either():
    parts = [
        BeatingMember(generation_id=1, member_id="m"),
        LeavingMember(member_id="m"),
        OffsetCommitPartition(partition_index=0, committed_offset=7),
    ]
    assert msgspec.to_builtins(parts) == [
        {"generation_id": 1, "member_id": "m"},
        {"member_id": "m"},
        {"partition_index": 0, "committed_offset": 7},
    ]


def test_heartbeat_of_several():
    beating = [
        {"generation_id": 1, "member_id": "m"},
        {"generation_id": 2, "member_id": "", "group_instance_id": "i"},
    ]
    request = read({"api": "heartbeat", **COMMON, "members": beating})
    assert isinstance(request, HeartbeatRequest)
    assert request.beats == [
        BeatingMember(generation_id=1, member_id="m"),
        BeatingMember(generation_id=2, member_id="", group_instance_id="i"),
    ]


@pytest.mark.parametrize("own", [{"member_id": "m"}, {"generation_id": 1}, {"group_instance_id": "i"}])
def test_a_heartbeat_is_of_one_or_of_several(own):
    expected = "Each of `members` has a `generation_id` and a `member_id` of its own"
    assert reason({"api": "heartbeat", **COMMON, "members": []} | own) == expected


def test_a_heartbeat_of_too_many():
    beating = {"generation_id": 1, "member_id": ""}
    config = GroupConfig(max_request_bytes=1_000_000)
    request = {"api": "heartbeat", **COMMON, "members": [beating] * 10_000}
    assert isinstance(read(request, config=config), HeartbeatRequest)
    request["members"].append(beating)
    assert reason(request, config=config) == "Expected `array` of length <= 10000 - at `$.members`"


def test_leave_group():
    members = [{"member_id": "m", "reason": "bye"}, {"group_instance_id": "i"}]
    request = read({"api": "leave_group", **COMMON, "members": members})
    assert isinstance(request, LeaveGroupRequest)
    assert request.members == [
        LeavingMember(member_id="m", reason="bye"),
        LeavingMember(group_instance_id="i"),
    ]


def test_offset_commit_with_the_defaults_of_the_contract():
    partition = {"partition_index": 3, "committed_offset": 2**63 - 1}
    request = read({**COMMIT, "topics": [{"name": "t", "partitions": [partition]}]})
    assert request == OffsetCommitRequest(
        **COMMON,
        topics=[
            OffsetCommitTopic("t", [OffsetCommitPartition(partition_index=3, committed_offset=2**63 - 1)])
        ],
    )
    assert (request.version, request.generation_id, request.member_id) == (9, -1, "")
    assert (request.group_instance_id, request.retention_time_ms) == (None, -1)
    (committed,) = request.topics[0].partitions
    assert (committed.committed_leader_epoch, committed.committed_metadata) == (-1, None)


def test_offset_fetch():
    request = read({**FETCH, "topics": [{"name": "t", "partition_indexes": [0, 1]}]})
    assert request == OffsetFetchRequest(**COMMON, topics=[OffsetFetchTopic("t", [0, 1])])
    assert (request.version, request.require_stable, read(FETCH).topics) == (9, False, None)


def test_offset_delete():
    request = read({**DELETE, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]})
    assert request == OffsetDeleteRequest(
        **COMMON, topics=[OffsetDeleteTopic("t", [OffsetDeletePartition(0)])]
    )


# -- rejections that can be answered ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"api": "fly"}, "Invalid value 'fly' - at `$.api`"),
        ({"api": 3}, "Expected `str` - at `$.api`"),
        ({"generation_id": ...}, "Object missing required field `generation_id`"),
        ({"member_id": ...}, "Object missing required field `member_id`"),
        ({"generation_id": "1"}, "Expected `int`, got `str` - at `$.generation_id`"),
        ({"generation_id": 1.5}, "Expected `int`, got `float` - at `$.generation_id`"),
        ({"generation_id": True}, "Expected `int`, got `bool` - at `$.generation_id`"),
        ({"generation_id": 2**31}, "Expected `int` <= 2147483647 - at `$.generation_id`"),
        ({"generation_id": -(2**31) - 1}, "Expected `int` >= -2147483648 - at `$.generation_id`"),
        ({"member_id": None}, "Expected `str`, got `null` - at `$.member_id`"),
        ({"reply_partition": -1}, "Expected `int` >= 0 - at `$.reply_partition`"),
        ({"reply_partition": 8}, "the response topic's partitions are 0 to 7 - at `$.reply_partition`"),
        ({"surprise": 1}, "Object contains unknown field `surprise`"),
        ({"client_host": "x" * 256}, "longer than 255 characters - at `$.client_host`"),
        ({"principal": "x" * 256}, "longer than 255 characters - at `$.principal`"),
        ({"principal": ["alice"]}, "Expected `str | null`, got `array` - at `$.principal`"),
    ],
)
def test_field_that_is_wrong_is_named(change, expected):
    request = {name: it for name, it in (HEARTBEAT | change).items() if it is not ...}
    assert reason(request) == expected


@pytest.mark.parametrize(
    "request_",
    [{"api": "offset_commit", "topics": []}, {"api": "offset_delete", "topics": []}, {"api": "delete_group"}],
)
def test_reason_that_is_too_long_is_refused(request_):
    head = {name: HEARTBEAT[name] for name in ("request_id", "client_id", "group_id")}
    expected = "Expected `str` of length <= 255 - at `$.reason`"
    assert reason(head | request_ | {"reason": "x" * 256}) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"protocols": [{"name": "range"}]},
            "Object missing required field `metadata` - at `$.protocols[0]`",
        ),
        (
            {"protocols": [{"name": "range", "metadata": "?"}]},
            "Invalid base64 encoded string - at `$.protocols[0].metadata`",
        ),
        (
            {"protocols": [{"name": "a", "metadata": ""}, {"name": "x" * 256, "metadata": ""}]},
            "longer than 255 characters - at `$.protocols[1].name`",
        ),
        ({"protocol_type": "x" * 256}, "longer than 255 characters - at `$.protocol_type`"),
    ],
)
def test_field_of_a_join_that_is_wrong_is_named(change, expected):
    assert reason(JOIN | change) == expected


# The APIs that have a group_instance_id, where it stands in them, and its path.
LEAVE = {"api": "leave_group", **COMMON}
BEATS = {"api": "heartbeat", **COMMON}
WITH_INSTANCE = [
    (lambda it: JOIN | {"group_instance_id": it}, "group_instance_id"),
    (lambda it: HEARTBEAT | {"group_instance_id": it}, "group_instance_id"),
    (lambda it: HEARTBEAT | {"api": "sync_group", "group_instance_id": it}, "group_instance_id"),
    (lambda it: COMMIT | {"topics": [], "group_instance_id": it}, "group_instance_id"),
    (lambda it: LEAVE | {"members": [{}, {"group_instance_id": it}]}, "members[1].group_instance_id"),
    (
        lambda it: BEATS | {"members": [{"generation_id": 1, "member_id": "m", "group_instance_id": it}]},
        "members[0].group_instance_id",
    ),
]
with_instance = pytest.mark.parametrize(
    ("request_of", "path"),
    WITH_INSTANCE,
    ids=["join", "heartbeat", "sync", "commit", "leave", "heartbeat of several"],
)


@with_instance
def test_instance_id_must_not_be_empty(request_of, path):
    # It would be one name for all that leave it empty, and each would throw out the one before.
    assert reason(request_of("")) == f"Expected `str` of length >= 1 - at `$.{path}`"


@with_instance
def test_instance_id_is_a_text_or_null(request_of, path):
    assert not isinstance(read(request_of(None)), Rejection)
    assert isinstance(read(request_of(1)), Rejection)


@with_instance
def test_instance_id_has_a_limit(request_of, path):
    assert not isinstance(read(request_of("é" * 255)), Rejection)
    assert reason(request_of("x" * 256)) == f"longer than 255 characters - at `$.{path}`"


# The APIs that name partitions, and how they name them.
WITH_PARTITIONS = [
    lambda name, indexes: (
        COMMIT
        | {
            "topics": [
                {
                    "name": name,
                    "partitions": [{"partition_index": each, "committed_offset": 1} for each in indexes],
                }
            ]
        }
    ),
    lambda name, indexes: FETCH | {"topics": [{"name": name, "partition_indexes": list(indexes)}]},
    lambda name, indexes: (
        DELETE | {"topics": [{"name": name, "partitions": [{"partition_index": each} for each in indexes]}]}
    ),
]
with_partitions = pytest.mark.parametrize("request_of", WITH_PARTITIONS, ids=["commit", "fetch", "delete"])


@with_partitions
def test_topic_names_have_limits(request_of):
    assert not isinstance(read(request_of("é" * 255, [0])), Rejection)
    assert reason(request_of("x" * 256, [0])) == "longer than 255 characters - at `$.topics[0].name`"
    assert reason(request_of("", [0])) == "Expected `str` of length >= 1 - at `$.topics[0].name`"


@with_partitions
def test_partitions_are_not_negative(request_of):
    assert "Expected `int` >= 0" in reason(request_of("t", [-1]))


@with_partitions
def test_there_is_a_limit_for_partitions(request_of):
    config = GroupConfig(max_request_bytes=10_000)
    assert config.max_request_partitions == 250
    within, beyond = request_of("t", [0] * 200), request_of("t", [0] * 251)
    assert not isinstance(read(within, config=config), Rejection)
    assert reason(beyond, config=config) in (
        "more than 250 partitions - at `$.topics`",
        "larger than 10000 bytes",
    )


def test_more_partitions_than_can_be_answered():
    config = GroupConfig(max_request_bytes=4_000)
    fetch = WITH_PARTITIONS[1]
    assert not isinstance(read(fetch("t", [0] * 100), config=config), Rejection)
    assert reason(fetch("t", [0] * 101), config=config) == "more than 100 partitions - at `$.topics`"
    assert config.max_request_partitions == 100


@pytest.mark.parametrize("offset", [2**63, -(2**63) - 1])
def test_offsets_are_int64(offset):
    partition = {"partition_index": 0, "committed_offset": offset}
    path = "`$.topics[0].partitions[0].committed_offset`"
    assert reason({**COMMIT, "topics": [{"name": "t", "partitions": [partition]}]}).endswith(path)


def test_leave_has_the_limits_that_all_have():
    request = LEAVE | {"members": [], "client_host": "x" * 256}
    assert reason(request) == "longer than 255 characters - at `$.client_host`"


def test_question_for_a_group_has_no_instance_id():
    request = {"api": "describe_group", **COMMON, "group_instance_id": "I"}
    assert reason(request) == "Object contains unknown field `group_instance_id`"


def test_longest_names_are_read():
    longest = "é" * 255
    named = ["group_id", "client_id", "request_id", "client_host", "principal"]
    request = {**HEARTBEAT, **dict.fromkeys(named, longest)}
    assert read(request, key=longest.encode()).group_id == longest


@pytest.mark.parametrize("name", ["group_id", "client_id", "request_id"])
def test_names_that_are_too_long_are_echoed_all_the_same(name):
    request = {**HEARTBEAT, name: "x" * 256}
    rejection = read(request, key=request["group_id"].encode())
    assert rejection.reason == f"longer than 255 characters - at `$.{name}`"
    assert getattr(rejection.response, name) == "x" * 256


def test_key_that_is_missing():
    assert reason(HEARTBEAT, None) == "the record has no key; it must be the group id - at `$.group_id`"


@pytest.mark.parametrize("key", [b"", b"order", b"Orders", b"\xff", b"orders\0"])
def test_key_that_is_not_the_group_id(key):
    assert reason(HEARTBEAT, key) == "the record key is not the group id - at `$.group_id`"


def test_answer_says_as_much_as_could_be_read():
    rejection = read({**COMMON, "api": "fly", "reply_partition": 3})
    assert rejection.reply_partition == 3
    assert read({**COMMON, "api": "fly", "reply_partition": 0}).reply_partition == 0
    assert rejection.response == InvalidRequestResponse(
        api="fly",
        request_id="r1",
        client_id="c1",
        group_id="orders",
        error_message="Invalid value 'fly' - at `$.api`",
    )
    rejection = read({"request_id": "r1", "client_id": "c1", "api": 3, "group_id": ["orders"]})
    assert (rejection.response.api, rejection.response.group_id) == (None, None)


@pytest.mark.parametrize("partition", [-1, 8, 2**70, 3.0, "3", True, None, [3]])
def test_partition_that_cannot_be_used_is_left_to_the_client_id(partition):
    rejection = read({**HEARTBEAT, "surprise": 1, "reply_partition": partition})
    assert rejection.response is not None
    assert rejection.reply_partition is None


# -- rejections that cannot ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"heartbeat"',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"request_id":"r1"}',
        b'{"request_id":"r1","client_id":7}',
        b'{"request_id":"r1","client_id":"\\ud800"}',
        b'{"request_id":"r1","client_id":"c1"} trailing',
    ],
)
def test_sender_that_cannot_be_made_out(value):
    rejection = read_request(record(value), CONFIG, LAYOUT)
    assert isinstance(rejection, Rejection)
    assert rejection.reason
    assert (rejection.response, rejection.reply_partition) == (None, None)


def test_no_value():
    assert read_request(record(None), CONFIG) == Rejection("the record has no value", None, None)


@pytest.mark.parametrize("depth", [100, 100_000])
@pytest.mark.parametrize("field", ["surprise", "api", "group_id", "reply_partition"])
def test_deep_nesting_is_a_rejection(depth, field):
    nested = b"[" * depth + b"]" * depth
    request = {name: it for name, it in HEARTBEAT.items() if name != field}
    value = msgspec.json.encode(request)[:-1] + b',"%s":%s}' % (field.encode(), nested)
    assert isinstance(read_request(record(value), CONFIG, LAYOUT), Rejection)


# -- too large -------------------------------------------------------------------------------------

SMALL = GroupConfig(max_request_bytes=200)


def test_request_of_the_largest_size_is_read():
    size = len(msgspec.json.encode(HEARTBEAT))
    assert isinstance(read(HEARTBEAT, config=GroupConfig(max_request_bytes=size)), HeartbeatRequest)
    too_small = GroupConfig(max_request_bytes=size - 1)
    assert reason(HEARTBEAT, config=too_small) == f"larger than {size - 1} bytes"


@pytest.mark.parametrize("name", ["request_id", "client_id", "group_id", "api"])
def test_too_large_request_is_not_echoed_at_length(name):
    # The answer would be as large as the request, and the response topic might not take it.
    request = {**HEARTBEAT, "surprise": "x" * 1_000}
    assert reason(request, config=SMALL) == "larger than 200 bytes"
    echoed = read({**request, name: "x" * 255}, config=SMALL)
    assert getattr(echoed.response, name) == "x" * 255
    rejection = read({**request, name: "x" * 256}, config=SMALL)
    assert (rejection.reason, rejection.response) == ("larger than 200 bytes", None)


def test_too_large_request_is_answered_where_it_asks():
    assert (
        read({**HEARTBEAT, "reply_partition": 7}, config=GroupConfig(max_request_bytes=10)).reply_partition
        == 7
    )


def test_request_of_the_largest_size_is_echoed_whatever_it_says():
    request = {**HEARTBEAT, "surprise": 1, "request_id": "x" * 300}
    config = GroupConfig(max_request_bytes=len(msgspec.json.encode(request)))
    assert read(request, config=config).response.request_id == "x" * 300


# -- what is kept of them --------------------------------------------------------------------------


def test_rejected_record_is_kept_whole():
    kept = rejected_record(record(b"{", b"\xff"), "why", CONFIG)
    assert msgspec.json.decode(msgspec.json.encode(kept)) == {
        "topic": "requests",
        "partition": 2,
        "offset": 17,
        "timestamp_ms": 1_000,
        "key": "/w==",
        "value": "ew==",
        "value_bytes": 1,
        "reason": "why",
    }


def test_rejected_record_that_is_too_large_is_cut():
    kept = rejected_record(record(b"v" * 1_000, b"k" * 1_000), "why", SMALL)
    assert (kept.key, kept.value, kept.value_bytes) == (b"k" * 200, b"v" * 200, 1_000)


@pytest.mark.parametrize("nothing", [None, b""])
def test_rejected_record_of_nothing(nothing):
    kept = rejected_record(record(nothing, nothing), "why", CONFIG)
    assert (kept.key, kept.value, kept.value_bytes) == (nothing, nothing, 0)
