"""Whatever stands on the request topic: nothing raises, and what cannot be read changes nothing."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.requests import Request
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.coordinator_state.wire import Rejection, read_request
from tests.coordinator_state import invariants
from tests.coordinator_state.consumer.scenario import Consumers
from tests.coordinator_state.scenario import Scenario
from tests.coordinator_state.subscription import subscription
from tests.depth import cases

pytestmark = pytest.mark.drawn

# Small, so that the limits are met; for the rest as they are.
CONFIG = GroupConfig(max_request_bytes=3_000, max_group_bytes=5_000)
LAYOUT = Layout(response_partitions=8)
KEY = b"orders"
NOW_MS = 20_000
# Not the one that the groups come from: a place of the log is taken by one record only.
PARTITION = 1


def groups() -> list[bytes | None]:
    """None at all, one that is Stable, one in each phase of a rebalance, one that is Empty; with offsets."""
    stable, completing, preparing, empty = scenarios = [Scenario() for _ in range(4)]
    for s in scenarios:
        s.at(NOW_MS)
        s.commit("tool", {"t": {0: 7, 1: {"committed_offset": 8, "committed_metadata": "m"}}, "u": {3: 9}})
    for s in (stable, completing, preparing):
        s.form("c1", "c2", protocols={"range": subscription("t")})
        s.sync("c2")
    for s in (stable, preparing):
        s.sync("c1")
    preparing.join("c1")
    empty.ask("c1")
    assert len({s.group.state for s in scenarios}) == 4
    return [None, *(s.state for s in scenarios), *consumer_groups()]


def consumer_groups() -> list[bytes | None]:
    """One of consumers in which one waits for what another has, and one that is Empty; with offsets."""
    reconciling, empty = scenarios = [Consumers() for _ in range(2)]
    for s in scenarios:
        s.now = NOW_MS
        s.join("m", "t", topics=[{"name": "t", "topic_id": "T", "partitions": 3}])
        s.commit("m", s.epochs["m"], {"t": [0], "u": [3]})
    reconciling.join("n", "t", group_instance_id="i")
    reconciling.beat("m")
    empty.leave("m")
    assert [s.summary[0] for s in scenarios] == ["Reconciling", "Empty"]
    return [s.state for s in scenarios]


GROUPS = groups()


# -- what must hold --------------------------------------------------------------------------------


def call(state: bytes | None, record: Record, config: GroupConfig, watermark_ms: int = 0) -> StepResult:
    result = step(record.key, state, [record], watermark_ms, config, b"secret", layout=LAYOUT)
    invariants.check(state, result, watermark_ms, config)
    check_outputs(result, config)
    return result


def check(record: Record, config: GroupConfig = CONFIG) -> None:
    request = read_request(record, config, LAYOUT)
    assert isinstance(request, Request | Rejection)
    # Spark keeps a group's state under the key of its records.
    for state in GROUPS if record.key == KEY else [None]:
        call(state, record, config)
        # No later than the group's time already is: then nothing but the record can change anything.
        early = step(
            record.key, state, [record._replace(timestamp_ms=NOW_MS)], 0, config, b"secret", layout=LAYOUT
        )
        if isinstance(request, Rejection):
            assert early.state == state
            check_rejection(early, record, request)
        else:
            assert early.rejections == []


def check_outputs(result: StepResult, config: GroupConfig) -> None:
    for output in result.outputs:
        assert output.partition is None or 0 <= output.partition < LAYOUT.response_partitions
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
        # The standard library reads what msgspec reads, and says who asked. It refuses to make an int of more
        # than 4,300 digits.
        asked = json.loads(record.value.decode("utf-8", "replace"), parse_int=str)
        assert (body["request_id"], body["client_id"]) == (asked["request_id"], asked["client_id"])
        assert body["error"] == "INVALID_REQUEST"
        assert body["error_message"] == rejection.reason


# -- requests with fields of every kind ------------------------------------------------------------

COMMON = {"request_id": "r1", "client_id": "c1", "group_id": "orders"}
VALID = [
    {
        "api": "join_group",
        **COMMON,
        "principal": "alice",
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
    {"api": "heartbeat", **COMMON, "members": [{"generation_id": 2, "member_id": "m"}]},
    {"api": "leave_group", **COMMON, "api_version": 5, "members": [{"member_id": "m", "reason": "bye"}]},
    {
        "api": "consumer_group_heartbeat",
        **COMMON,
        "member_id": "m",
        "member_epoch": 0,
        "group_instance_id": "i",
        "rack_id": "r",
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t", "u"],
        "subscribed_topic_regex": "",
        "server_assignor": "range",
        "topic_partitions": [],
        "topics": [{"name": "t", "topic_id": "T", "partitions": 3}],
    },
    {
        "api": "consumer_group_heartbeat",
        **COMMON,
        "member_id": "m",
        "member_epoch": 2,
        "topic_partitions": [{"topic_id": "T", "partitions": [0]}, {"name": "u", "partitions": [1]}],
        "quiet": True,
    },
    {
        "api": "consumer_group_heartbeat",
        **COMMON,
        "members": [{"member_id": "m", "member_epoch": 2, "group_instance_id": "i"}],
        "quiet": False,
    },
    {"api": "consumer_group_describe", **COMMON, "api_version": 1},
    {
        "api": "topic_metadata",
        **COMMON,
        "based_on": 1,
        "topics": [{"name": "t", "topic_id": "T", "partitions": 4}],
        "gone": ["u"],
    },
    {
        "api": "offset_commit",
        **COMMON,
        "api_version": 4,
        "generation_id": -1,
        "member_id": "",
        "retention_time_ms": 9,
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 7,
                        "committed_leader_epoch": 1,
                        "committed_metadata": "m",
                    }
                ],
            }
        ],
    },
    {
        "api": "offset_fetch",
        **COMMON,
        "topics": [{"name": "t", "partition_indexes": [0, 2]}],
        "require_stable": True,
    },
    {"api": "offset_delete", **COMMON, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    {"api": "delete_group", **COMMON, "api_version": 2},
    {"api": "find_coordinator", **COMMON, "api_version": 6},
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
times = st.integers(-(2**62), 2**62) | st.sampled_from(
    [-1, 0, NOW_MS, NOW_MS + 1, NOW_MS + 60_000, LATEST_MS - 60_000, LATEST_MS]
)
keys = st.sampled_from([KEY] * 8 + [None, b"", b"order", b"\xff\xfe", b"\0", b"k" * 5_000]) | st.binary(
    max_size=9
)


def encode(request: object) -> bytes:
    # Not msgspec: it would not write NaN, nor a lone surrogate.
    return json.dumps(request).encode()


@settings(max_examples=cases(400, deep=5_000))
@given(st.sampled_from(VALID), changes, st.sets(st.sampled_from(FIELDS), max_size=1), keys, times)
def test_fields_of_every_kind(valid, changed, missing, key, at_ms):
    request = {name: it for name, it in (valid | changed).items() if name not in missing}
    check(Record("requests", PARTITION, 7, at_ms, key, encode(request)))


topic_names = st.sampled_from(["t", "u"]) | texts
partition_indexes = st.sampled_from([0, 1, 3]) | numbers
commits = st.fixed_dictionaries(
    {"partition_index": partition_indexes, "committed_offset": numbers},
    optional={"committed_leader_epoch": numbers, "committed_metadata": st.none() | texts},
)
deletes = st.fixed_dictionaries({"partition_index": partition_indexes})


def topics_of(field: str, partitions: st.SearchStrategy) -> st.SearchStrategy:
    topic = st.fixed_dictionaries({"name": topic_names, field: st.lists(partitions, max_size=4)})
    return st.lists(topic, max_size=4)


@settings(max_examples=cases(200, deep=2_000))
@given(
    st.fixed_dictionaries({"api": st.just("offset_commit"), "topics": topics_of("partitions", commits)})
    | st.fixed_dictionaries(
        {"api": st.just("offset_fetch"), "topics": topics_of("partition_indexes", partition_indexes)}
    )
    | st.fixed_dictionaries({"api": st.just("offset_delete"), "topics": topics_of("partitions", deletes)}),
    st.dictionaries(st.just("api_version"), st.integers(0, 9)),
    st.dictionaries(st.just("retention_time_ms"), numbers),
    times,
)
def test_offsets_of_every_kind(request, version, retention, at_ms):
    if request["api"] == "offset_commit":
        request |= retention
    check(Record("requests", PARTITION, 7, at_ms, KEY, encode(COMMON | request | version)))


@settings(max_examples=cases(100, deep=1_000))
@given(values, keys, times)
def test_json_of_every_kind(value, key, at_ms):
    check(Record("requests", PARTITION, 7, at_ms, key, encode(value)))


@settings(max_examples=cases(100, deep=1_000))
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


@settings(max_examples=cases(100, deep=1_000))
@given(st.integers(0, 2**32))
@example(405654)
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
    assert isinstance(read_request(record, CONFIG, LAYOUT), Rejection)
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


# -- as large as may be ----------------------------------------------------------------------------


PARTITIONS = {
    "offset_commit": "partitions",
    "offset_fetch": "partition_indexes",
    "offset_delete": "partitions",
}


class Filler:
    """Requests that are as large as they may be. All ids are the same text, as are all names and metadata."""

    def __init__(self, config: GroupConfig, ids: str, text: str, metadata: str, *, one_topic: bool) -> None:
        self._config = config
        self.head = {"request_id": ids, "client_id": ids, "group_id": ids}
        self.key = ids.encode()
        self._text = text
        self._metadata = metadata
        self._one_topic = one_topic

    def request(self, api: str, first: int) -> bytes:
        """Of partitions (or topics) from `first` on, as many as may be, then of topics without partitions."""
        topics: list[dict[str, Any]] = []
        request = {"api": api, **self.head, "topics": topics}
        room = self._config.max_request_bytes - len(msgspec.json.encode(request))
        for number in range(first, first + self._config.max_request_partitions):
            partition = self._partition(api, 2**31 - 1 - number)
            room -= len(msgspec.json.encode(partition)) + 1
            if not self._one_topic or not topics:
                topics.append({"name": self._name(number), PARTITIONS[api]: []})
                room -= len(msgspec.json.encode(topics[-1])) + 1
            if room < 0:
                break
            topics[-1][PARTITIONS[api]].append(partition)
        else:
            topic = {"name": self._name(first), PARTITIONS[api]: []}
            topics += [topic] * (room // (len(msgspec.json.encode(topic)) + 1))
        if not topics[-1][PARTITIONS[api]] and room < 0:
            topics.pop()
        return msgspec.json.encode(request)

    def _name(self, number: int) -> str:
        return f"{number}{self._text}"

    def _partition(self, api: str, index: int) -> object:
        match api:
            case "offset_fetch":
                return index
            case "offset_delete":
                return {"partition_index": index}
            case _:
                # Nothing takes as many characters as the least numbers.
                least = {"committed_offset": -(2**63), "committed_leader_epoch": -(2**31)}
                return {"partition_index": index, **least, "committed_metadata": self._metadata}


@pytest.mark.parametrize("one_topic", [True, False])
@pytest.mark.parametrize("text", ["t", "\1", "é", "\N{GRINNING FACE}", '"'])
@pytest.mark.parametrize("length", [0, 1, 10])
@pytest.mark.parametrize(
    ("request_bytes", "group_bytes", "ids"),
    [(450, 0, "i"), (450, 1_000, "i"), (6_000, 500, "\1" * 255), (6_000, 30_000, "\1" * 255)],
)
def test_what_full_requests_bring_about_fits(request_bytes, group_bytes, ids, text, length, one_topic):
    config = GroupConfig(max_request_bytes=request_bytes, max_group_bytes=group_bytes)
    fill_and_empty(config, Filler(config, ids, text, text * length, one_topic=one_topic))


@pytest.mark.parametrize("one_topic", [True, False])
def test_what_large_requests_bring_about_fits(one_topic):
    config = GroupConfig(max_request_bytes=100_000, max_group_bytes=400_000)
    fill_and_empty(config, Filler(config, "i", "\1", "\1", one_topic=one_topic))


def fill_and_empty(config: GroupConfig, filler: Filler) -> None:
    """Commit until there is no more room, ask for that and for what is not there, and let it go."""
    state, first, error_codes = None, 0, set[int]()

    def ask(request: bytes, watermark_ms: int = 0) -> StepResult:
        return call(state, Record("requests", PARTITION, first, 0, filler.key, request), config, watermark_ms)

    while not error_codes:
        result = ask(filler.request("offset_commit", first))
        state = result.state
        answer = json.loads(result.outputs[0].value)
        results = [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]
        assert results, "not one partition has room in a request"
        first += len(results)
        error_codes = set(results) - {0}
    assert error_codes == {28}

    for index in (0, 10**6):
        for api in ("offset_fetch", "offset_delete"):
            answer = json.loads(ask(filler.request(api, index)).outputs[0].value)
            assert answer["error"] == "NONE"
    for api in ("offset_fetch", "describe_group", "find_coordinator"):
        # Asked when all is there, and then it goes.
        assert ask(msgspec.json.encode({"api": api, **filler.head}), 10**10).state is None
    delete = msgspec.json.encode({"api": "delete_group", **filler.head})
    assert decode_group(ask(delete).state or b"").is_dead
    state = None
    ask(delete)
