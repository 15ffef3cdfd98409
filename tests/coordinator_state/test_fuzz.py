"""Whatever stands on the request topic: nothing raises, and what cannot be read changes nothing."""

from __future__ import annotations

import json
import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_state.config import GroupConfig
from coordinator_state.log import Record
from coordinator_state.requests import Request
from coordinator_state.step import Channel, StepResult, step
from coordinator_state.wire import Rejection, read_request
from tests.coordinator_state import invariants
from tests.coordinator_state.scenario import Scenario

pytestmark = pytest.mark.drawn

# Small, so that the limits are met; for the rest as they are.
CONFIG = GroupConfig(max_request_bytes=3_000, max_group_bytes=5_000, response_partitions=8)
KEY = b"orders"
NOW_MS = 20_000
# Not the one that the groups come from: a place of the log is taken by one record only.
PARTITION = 1


def bounded(max_examples: int) -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=max_examples, deadline=None, suppress_health_check=checks)


def groups() -> list[bytes | None]:
    """None at all, one that is Stable, one in each phase of a rebalance, one that is Empty."""
    scenarios = [Scenario() for _ in range(4)]
    stable, completing, preparing, empty = scenarios
    for s in scenarios:
        s.at(NOW_MS)
    stable.stabilise("c1", "c2")
    completing.form("c1", "c2")
    completing.sync("c2")
    preparing.stabilise("c1", "c2")
    preparing.join("c1")
    empty.ask("c1")
    assert len({s.group.state for s in scenarios}) == 4
    return [None, *(s.state for s in scenarios)]


GROUPS = groups()


# -- what must hold --------------------------------------------------------------------------------


def check(record: Record, config: GroupConfig = CONFIG) -> None:
    request = read_request(record, config)
    assert isinstance(request, Request | Rejection)
    for state in GROUPS:
        result = step(record.key, state, [record], 0, config, b"secret")
        invariants.check(result, 0)
        check_outputs(result, config)
        # No later than the group's time already is: then nothing but the record can change anything.
        early = step(record.key, state, [record._replace(timestamp_ms=NOW_MS)], 0, config, b"secret")
        if isinstance(request, Rejection):
            assert early.state == state
            check_rejection(early, record, request)
        else:
            assert early.counts["rejected", "", ""] == 0


def check_outputs(result: StepResult, config: GroupConfig) -> None:
    for output in result.outputs:
        assert len(output.key or b"") + len(output.value or b"") <= config.max_record_bytes
        assert output.partition is None or 0 <= output.partition < config.response_partitions
        if output.value is not None:
            json.loads(output.value.decode("utf-8"))
            assert output.channel is not Channel.RESPONSES or output.key is not None


def check_rejection(result: StepResult, record: Record, rejection: Rejection) -> None:
    (rejected,) = (output for output in result.outputs if output.channel is Channel.REJECTED)
    kept = json.loads(rejected.value)
    assert (kept["reason"], kept["offset"]) == (rejection.reason, record.offset)
    assert rejection.reason
    responses = [output for output in result.outputs if output.channel is Channel.RESPONSES]
    assert len(responses) == (rejection.response is not None)
    assert len(result.outputs) == 1 + len(responses)
    for response in responses:
        body = json.loads(response.value)
        # The standard library reads what msgspec reads, and says who asked.
        asked = json.loads(record.value.decode("utf-8", "replace"))
        assert (body["request_id"], body["client_id"]) == (asked["request_id"], asked["client_id"])
        assert body["error"] == "INVALID_REQUEST"
        assert body["error_message"] == rejection.reason


# -- requests with fields of every kind ------------------------------------------------------------

COMMON = {"request_id": "r1", "client_id": "c1", "group_id": "orders"}
VALID = [
    {
        "api": "join_group",
        **COMMON,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": "AAE="}],
        "reason": "why",
    },
    {
        "api": "sync_group",
        **COMMON,
        "generation_id": 2,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "m", "assignment": "AAE="}],
    },
    {"api": "heartbeat", **COMMON, "generation_id": 2, "member_id": "m", "reply_partition": 3},
    {"api": "leave_group", **COMMON, "api_version": 5, "members": [{"member_id": "m", "reason": "bye"}]},
]
FIELDS = sorted({name for request in VALID for name in request} | {"client_host", "group_instance_id"})
BOUNDARIES = [2**bits + d for bits in (7, 15, 31, 32, 53, 63, 64, 100) for d in (-1, 0, 1)]

texts = (
    st.text(max_size=20)
    | st.text(alphabet='\0\x7f\ud800\udfff\ufeff\u2028"\\/é😀', max_size=20)
    | st.sampled_from(
        ["orders", "heartbeat", "m", "", "x" * 255, "x" * 256, "\0" * 300, "é" * 256, "x" * 4_000]
    )
)
numbers = (
    st.integers()
    | st.sampled_from([sign * it for it in BOUNDARIES for sign in (1, -1)])
    | st.floats()
    | st.sampled_from([-0.0, 1e400, float("nan"), float("inf")])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
changes = st.dictionaries(st.sampled_from(FIELDS) | texts, values, max_size=3)
times = st.integers(-(2**62), 2**62) | st.sampled_from([-1, 0, NOW_MS, NOW_MS + 1, NOW_MS + 60_000])
keys = st.sampled_from([KEY] * 8 + [None, b"", b"order", b"\xff\xfe", b"\0", b"k" * 5_000]) | st.binary(
    max_size=9
)


def encode(request: object) -> bytes:
    # Not msgspec: it would not write NaN, nor a lone surrogate.
    return json.dumps(request).encode()


@bounded(1_200)
@given(st.sampled_from(VALID), changes, st.sets(st.sampled_from(FIELDS), max_size=1), keys, times)
def test_fields_of_every_kind(valid, changed, missing, key, at_ms):
    request = {name: it for name, it in (valid | changed).items() if name not in missing}
    check(Record("requests", PARTITION, 7, at_ms, key, encode(request)))


@bounded(300)
@given(values, keys, times)
def test_json_of_every_kind(value, key, at_ms):
    check(Record("requests", PARTITION, 7, at_ms, key, encode(value)))


@bounded(300)
@given(st.none() | st.binary(max_size=60), keys, times)
def test_bytes_of_every_kind(value, key, at_ms):
    check(Record("requests", PARTITION, 7, at_ms, key, value))


# -- valid requests that were damaged --------------------------------------------------------------

TOKENS = [
    b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"1e999", b"-0", b"1.0", b"01", b"1" * 400,
    b"2147483648", b"9223372036854775808", b"18446744073709551616", b"[]", b"{}", b"[[[[", b'"', b'""', b",",
    b":", b"\\", b'"\\ud800"', b'"\\u0000"', b'"\\udc00\\ud800"', b"\0", b"\xff", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"/*", b"\n", b"x" * 5_000, b'"api":"sync_group",',
    b'"request_id":7,', b'"member_id":"m",', b'"group_id":"orders",', b'"surprise":{"a":[1]},',
    b'"members":[],',
]  # fmt: skip


def damage(rng: random.Random, value: bytes) -> bytes:
    at = rng.randrange(len(value) + 1)
    to = min(len(value), at + rng.choice([1, 1, 2, 5, 20]))
    new = b""
    match rng.randrange(8):
        case 0:
            new = bytes([rng.randrange(256)])
        case 1:
            new = value[at:to] * rng.choice([0, 2, 3, 200])
        case 2:
            to = len(value)
        case 3:
            to, new = at, rng.choice(TOKENS)
        case 4 | 5:
            # In the place of one value: what stands between a colon and the next comma.
            at = value.find(b":", at) + 1
            to = value.find(b",", at) % (len(value) + 1)
            new = rng.choice(TOKENS)
        case 6:
            # After the opening brace a token may be a whole field, or one that comes twice.
            at, to, new = 1, 1, rng.choice(TOKENS)
        case _:
            encoding = rng.choice(["utf-16", "utf-32", "utf-8-sig"])
            at, to, new = 0, len(value), value.decode("utf-8", "replace").encode(encoding)
    return value[:at] + new + value[to:]


@bounded(200)
@given(st.integers(0, 2**32))
def test_damaged_requests(seed):
    rng = random.Random(seed)
    for offset in range(50):
        value = encode(rng.choice(VALID))
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            value = damage(rng, value)
        key = rng.choice([KEY] * 20 + [None, b"", b"\xff"])
        check(Record("requests", PARTITION, offset, rng.choice([NOW_MS, -1, NOW_MS + 9_000]), key, value))


# -- one by one ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize("field", [*FIELDS, "surprise"])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"":', b"}"), (b"[", b"")])
def test_deep_nesting(depth, field, begin, end):
    nested = begin * depth + b"1" + end * depth
    for valid in VALID:
        request = {name: it for name, it in valid.items() if name != field}
        value = encode(request)[:-1] + b',"' + field.encode() + b'":' + nested + b"}"
        record = Record("requests", PARTITION, 7, NOW_MS, KEY, value)
        assert isinstance(read_request(record, GroupConfig()), Rejection)
        check(record, GroupConfig())


@pytest.mark.parametrize("name", ["request_id", "client_id", "api", "group_id", "surprise"])
@pytest.mark.parametrize("text", ["x", "\0", "é", '"'])
def test_oversize(name, text):
    # As large as a topic might be made to take; nothing of it may come back as large.
    valid = VALID[2] | {name: text * 100_000}
    record = Record("requests", PARTITION, 7, NOW_MS, KEY, encode(valid))
    assert isinstance(read_request(record, CONFIG), Rejection)
    check(record)


def test_group_of_many_small_members_fits_its_records():
    # The smallest members there can be: what holds them together is larger than what they say.
    config = GroupConfig(max_request_bytes=1_000, max_group_bytes=200_000)
    join = msgspec.json.encode(
        {
            "api": "join_group",
            "request_id": "",
            "client_id": "",
            "group_id": "orders",
            "api_version": 3,
            "session_timeout_ms": 10_000,
            "protocol_type": "p",
            "protocols": [{"name": "", "metadata": ""}],
        }
    )
    records = [Record("requests", PARTITION, offset, 0, KEY, join) for offset in range(1_500)]
    result = step(KEY, None, records, 60_000, config, b"secret")
    check_outputs(result, config)
    errors = [json.loads(it.value)["error"] for it in result.outputs if it.channel is Channel.RESPONSES]
    assert errors.count("GROUP_MAX_SIZE_REACHED") > 100, "the limit was met"
    assert errors.count("NONE") > 100
