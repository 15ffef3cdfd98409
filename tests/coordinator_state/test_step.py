"""One call: state and records in, state and outputs out."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.events import RequestLate
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import NO_OUTAGES, Outage, Outages
from group_coordinator.coordinator_state.step import Channel, Output, StepResult, step
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION, decode_group, encode_group
from group_coordinator.coordinator_state.wire import rejected_record
from tests.coordinator_state.scenario import Scenario, errors, only

CONFIG = GroupConfig()
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}


def request(offset: int, at_ms: int, **fields) -> Record:
    body = {"request_id": f"r{offset}", "client_id": "c1", "group_id": "orders"} | fields
    return Record("requests", 0, offset, at_ms, b"orders", msgspec.json.encode(body))


def join(offset: int, at_ms: int, **fields) -> Record:
    body = {
        "api": "join_group",
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
        "api_version": 3,
    }
    return request(offset, at_ms, **(body | fields))


def call(
    state: bytes | None,
    *records: Record,
    watermark_ms: int = 0,
    config: GroupConfig = CONFIG,
    outages: Outages = NO_OUTAGES,
) -> StepResult:
    return step(b"orders", state, records, watermark_ms, config, b"secret", outages)


def test_nothing():
    assert call(None) == (None, None, [], [], [], [], [], 0, None, None)


def test_first_join():
    result = call(None, join(0, 5_000))
    assert result.deadline_ms == 8_000
    (asked,) = result.requests
    assert (asked.request_id, asked.version) == ("r0", 3)
    assert [(output.channel, output.key) for output in result.outputs] == [
        (Channel.EVENTS, b"orders"),
        (Channel.EVENTS, b"orders"),
        (Channel.EVENTS, b"orders"),
        (Channel.GROUPS, b"orders"),
    ]


def test_call_for_time_alone_answers_what_is_due():
    first = call(None, join(0, 5_000, reply_partition=3))
    result = call(first.state, watermark_ms=8_000)
    answer = result.outputs[0]
    assert (answer.channel, answer.key, answer.partition) == (Channel.RESPONSES, b"c1", 3)
    assert msgspec.json.decode(answer.value)["generation_id"] == 1


def test_call_before_its_time_changes_nothing():
    first = call(None, join(0, 5_000))
    result = call(first.state, watermark_ms=7_999)
    assert (result.state, result.outputs, result.deadline_ms) == (first.state, [], 8_000)


def test_records_are_applied_in_the_order_of_the_log():
    records = [join(2, 5_000, client_id="c2"), join(1, 5_000, client_id="c1")]
    group = decode_group(call(None, *records).state)
    assert [member.client_id for member in group.members.values()] == ["c1", "c2"]


def test_record_from_before_the_groups_time_counts_as_of_now():
    first = call(None, join(0, 5_000), watermark_ms=5_500)
    result = call(first.state, join(1, 4_000, client_id="c2"), watermark_ms=5_500)
    events = [msgspec.json.decode(output.value) for output in result.outputs]
    assert events[0]["at_ms"] == 5_000


# -- late requests -----------------------------------------------------------------------------------


def late_ones(result: StepResult) -> list[RequestLate]:
    return [event for event in result.events if isinstance(event, RequestLate)]


def test_record_that_a_deadline_has_passed_counts_as_of_the_deadline_and_says_so():
    log = join(0, 5_000), request(1, 7_500, api="heartbeat", generation_id=1, member_id="gone")
    first = call(None, log[0], watermark_ms=9_000)
    result = call(first.state, log[1], watermark_ms=9_000)
    (late,) = late_ones(result)
    assert (late.partition, late.offset, late.appended_ms, late.at_ms) == (0, 1, 7_500, 8_000)
    assert late.event_id == "requests-0-1-late-0"


def test_only_the_first_after_a_deadline_is_late():
    first = call(None, join(0, 5_000), watermark_ms=9_000)
    records = [request(it, 7_500, api="heartbeat", generation_id=1, member_id="gone") for it in (1, 2)]
    assert len(late_ones(call(first.state, *records, watermark_ms=9_000))) == 1
    one = call(first.state, records[0], watermark_ms=9_000)
    assert late_ones(call(one.state, records[1], watermark_ms=9_000)) == []


def test_record_after_the_newest_deadline_is_not_late():
    first = call(None, join(0, 5_000), watermark_ms=9_000)
    result = call(first.state, request(1, 8_000, api="heartbeat", generation_id=1, member_id="gone"))
    assert late_ones(result) == []


def test_record_that_is_no_request_may_be_late():
    first = call(None, join(0, 5_000), watermark_ms=9_000)
    nonsense = Record("requests", 0, 1, 7_500, b"orders", b"nonsense")
    later = join(2, 7_600, client_id="c2")
    apart = call(call(first.state, nonsense).state, later)
    assert [it.offset for it in late_ones(call(first.state, nonsense))] == [1]
    assert late_ones(apart) == []


def test_record_that_an_outage_has_passed_is_late():
    outages = Outages([Outage(5_500, 6_500)])
    first = call(None, join(0, 5_000), watermark_ms=6_000, outages=outages)
    result = call(first.state, join(1, 5_400, client_id="c2"), watermark_ms=6_600, outages=outages)
    (late,) = late_ones(result)
    assert (late.appended_ms, late.at_ms) == (5_400, 6_500)


@pytest.mark.parametrize(("at_ms", "is_late"), [(5_500, True), (5_501, False), (6_499, False)])
def test_record_in_an_outage_that_is_over_is_not_late(at_ms: int, *, is_late: bool):
    outages = Outages([Outage(5_500, 6_500)])
    first = call(None, join(0, 5_000), watermark_ms=6_000, outages=outages)
    result = call(first.state, join(1, at_ms, client_id="c2"), outages=outages)
    assert bool(late_ones(result)) is is_late
    assert result.events[-1].at_ms == 6_500


def test_replay_that_is_told_of_late_records_decides_the_same():
    log = [join(0, 5_000), request(1, 7_500, api="heartbeat", generation_id=1, member_id="gone")]
    log.append(join(2, 7_700, client_id="c2"))
    first = call(None, log[0], watermark_ms=9_000)
    second = call(first.state, *log[1:], watermark_ms=9_000)
    (late,) = late_ones(second)
    untold = call(None, *log, watermark_ms=9_000)
    log[1] = log[1]._replace(late_ms=late.at_ms)
    told = call(None, *log, watermark_ms=9_000)
    assert untold.events != told.events == first.events + second.events
    assert told.state == second.state


def commit(offset: int, at_ms: int) -> Record:
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    return request(offset, at_ms, api="offset_commit", topics=[{"name": "t", "partitions": partitions}])


@pytest.mark.parametrize("late_api", ["offset_commit", "offset_fetch", "delete_group"])
def test_request_that_is_late_for_a_group_which_a_deadline_has_deleted(late_api: str):
    """Its time is known for a minute more. So a replay that is told decides the same."""
    config = GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1)
    gone_ms = 1_000 + 60_000
    late = request(1, gone_ms - 1, api=late_api) if late_api != "offset_commit" else commit(1, gone_ms - 1)
    log = [commit(0, 1_000), late, commit(2, gone_ms + 5)]
    first = call(None, log[0], watermark_ms=gone_ms + 3_000, config=config)
    assert decode_group(first.state).is_dead
    second = call(first.state, *log[1:], watermark_ms=gone_ms + 3_000, config=config)
    assert [(it.appended_ms, it.at_ms) for it in late_ones(second)] == [(gone_ms - 1, gone_ms)]
    log[1] = late._replace(late_ms=gone_ms)
    told = call(None, *log, watermark_ms=gone_ms + 3_000, config=config)
    assert told.events == first.events + second.events
    assert told.replies == first.replies + second.replies
    assert (told.state, told.deadline_ms) == (second.state, second.deadline_ms)


def test_a_group_that_is_deleted_is_forgotten_after_a_minute():
    deleted = call(None, commit(0, 1_000), request(1, 2_000, api="delete_group"))
    assert deleted.deadline_ms == 62_000
    assert call(deleted.state, watermark_ms=61_999).state == deleted.state
    assert (None, None, []) == call(deleted.state, watermark_ms=62_000)[:3]
    # A request that comes later finds as much as one that never had a group.
    assert call(deleted.state, commit(2, 62_000)).state == call(None, commit(2, 62_000)).state


def test_without_a_group_there_is_no_time_to_go_back_from():
    # Nothing is stored between two batches then, so one batch must forget as well as two.
    refused = request(0, 9_000, api="heartbeat", generation_id=1, member_id="gone")
    in_one = call(None, refused, join(1, 5_000))
    first = call(None, refused)
    in_two = call(first.state, join(1, 5_000))
    assert in_one.state == in_two.state
    assert in_one.outputs == first.outputs + in_two.outputs


def test_pictures_and_events_come_once_per_call():
    result = call(None, *(join(i, 5_000, client_id=f"c{i}") for i in range(3)), watermark_ms=60_000)
    pictures = [output for output in result.outputs if output.channel is Channel.GROUPS]
    assert msgspec.json.decode(only(pictures).value)["state"] == "Empty"
    assert len([output for output in result.outputs if output.channel is Channel.EVENTS]) > 5


def test_group_that_came_and_went_within_a_call_leaves_a_tombstone():
    result = call(None, join(0, 5_000), watermark_ms=10**7)
    assert (result.state, result.deadline_ms) == (None, None)
    # The Empty group was looked at when the check interval was over.
    assert result.outputs[-1] == Output(Channel.GROUPS, b"orders", None, place=618_000 << 21)


def test_what_was_decided_comes_as_it_is_too():
    first = call(None, join(0, 5_000))
    result = call(first.state, request(1, 6_000, api="fly"), watermark_ms=8_000)
    decided = {
        Channel.RESPONSES: [reply.response for reply in result.replies],
        Channel.EVENTS: result.events,
        Channel.REJECTED: [rejected_record(record, why.reason, CONFIG) for record, why in result.rejections],
    }
    for channel, expected in decided.items():
        assert expected
        assert [msgspec.json.encode(each) for each in expected] == [
            output.value for output in result.outputs if output.channel is channel
        ]


def about(s: Scenario, *records: Record) -> dict[str, tuple[str, str]]:
    """Which member the answer to each request is about, and what it says."""
    result = step(b"orders", s.state, records, 0, s.config, b"secret")
    return {reply.response.request_id: (reply.member_id, reply.response.error) for reply in result.replies}


@pytest.mark.parametrize(("partition", "error"), [(7, "UNKNOWN_MEMBER_ID"), (8, "INVALID_REQUEST")])
def test_an_answer_goes_only_to_a_partition_that_there_is(partition, error):
    record = request(0, 0, api="heartbeat", member_id="m", generation_id=1, reply_partition=partition)
    result = step(b"orders", None, [record], 0, CONFIG, b"secret", layout=Layout(response_partitions=8))
    assert [reply.response.error for reply in result.replies] == [error]


def test_an_answer_comes_with_the_member_that_it_is_about():
    s = Scenario()
    s.stabilise("c1", "c2")
    member, other = s.ids["c1"], s.ids["c2"]
    own = {"member_id": member, "generation_id": s.group.generation_id}
    commit = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    both = [{"member_id": member}, {"member_id": other}]
    for asked, expected, error in [
        ({"api": "heartbeat", **own}, member, "NONE"),
        ({"api": "heartbeat", **own, "api_version": 99}, member, "UNSUPPORTED_VERSION"),
        ({"api": "sync_group", **own, **PROTOCOL}, member, "NONE"),
        ({"api": "sync_group", **own, "member_id": "nobody", **PROTOCOL}, "nobody", "UNKNOWN_MEMBER_ID"),
        ({"api": "offset_commit", **own, **commit}, member, "NONE"),
        ({"api": "offset_commit", **own, "generation_id": 7, **commit}, member, "ILLEGAL_GENERATION"),
        ({"api": "offset_fetch"}, "", "NONE"),
        ({"api": "leave_group", "api_version": 2, "members": both[:1]}, member, "NONE"),
        ({"api": "leave_group", "members": both}, "", "NONE"),
    ]:
        assert about(s, request(100, 0, **asked)) == {"r100": (expected, error)}
    ((asked_for, error),) = about(s, join(100, 0, api_version=9, client_id="c3")).values()
    assert asked_for.startswith("c3-")
    assert error == "MEMBER_ID_REQUIRED"


def test_an_answer_that_had_to_wait_comes_with_the_member_that_waited():
    s = Scenario()
    s.stabilise("c1", "c2")
    leader, other = s.ids["c1"], s.ids["c2"]
    joins = [join(100, 0, member_id=leader), join(101, 0, member_id=other)]
    sync = {"api": "sync_group", "generation_id": s.group.generation_id + 1, **PROTOCOL}
    syncs = [request(102, 0, member_id=other, **sync), request(103, 0, member_id=leader, **sync)]
    again = join(104, 0, member_id=leader, protocols=[{"name": "range", "metadata": "eA=="}])
    joined = {"r100": (leader, "NONE"), "r101": (other, "NONE")}
    assert about(s, *joins) == joined
    assert about(s, *joins, *syncs) == joined | {"r102": (other, "NONE"), "r103": (leader, "NONE")}
    assert about(s, *joins, syncs[0], again) == joined | {"r102": (other, "REBALANCE_IN_PROGRESS")}
    left = request(102, 0, api="leave_group", members=[{"member_id": leader}])
    assert about(s, joins[0], left) == {"r100": (leader, "UNKNOWN_MEMBER_ID"), "r102": (leader, "NONE")}


def test_rejected_record_is_kept_and_answered():
    first = call(None, join(0, 5_000))
    result = call(first.state, request(1, 6_000, api="fly", reply_partition=4), watermark_ms=5_000)
    response, rejected = result.outputs
    assert (response.channel, response.key, response.partition) == (Channel.RESPONSES, b"c1", 4)
    assert msgspec.json.decode(response.value)["error"] == "INVALID_REQUEST"
    assert (rejected.channel, rejected.key) == (Channel.REJECTED, b"orders")
    assert msgspec.json.decode(rejected.value)["offset"] == 1
    assert result.requests == []


def test_rejected_record_lets_time_pass():
    # The broker has stamped it: by then the initial delay was over, whatever the record says.
    first = call(None, join(0, 5_000))
    result = call(first.state, request(1, 8_000, api="fly"))
    assert "generation_completed" in {event.__struct_config__.tag for event in result.events}


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe"])
def test_key_that_is_no_group_id(key):
    record = join(0, 5_000)._replace(key=key)
    result = step(key, None, [record], 0, CONFIG, b"secret")
    assert (result.state, result.deadline_ms) == (None, None)
    assert [(output.channel, output.key) for output in result.outputs] == [
        (Channel.RESPONSES, b"c1"),
        (Channel.REJECTED, key),
    ]


def test_key_of_a_rejected_record_is_cut_as_its_value_is():
    config = GroupConfig(max_request_bytes=100)
    key = b"k" * 1_000
    result = step(key, None, [join(0, 0)._replace(key=key, value=None)], 0, config, b"secret")
    assert only(result.outputs).key == b"k" * 100


# -- checks that come before the group -------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "fields", "newest"),
    [
        (
            "join_group",
            {
                "session_timeout_ms": 10_000,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
            9,
        ),
        ("sync_group", {"generation_id": 1, "member_id": "m"} | PROTOCOL, 5),
        ("heartbeat", {"generation_id": 1, "member_id": "m"}, 4),
        ("leave_group", {"members": [{"member_id": "m"}]}, 5),
    ],
)
class TestBeforeTheGroup:
    @pytest.mark.parametrize("beyond", [-1, 1, 2**31 - 1])
    def test_unsupported_version(self, api, fields, newest, beyond):
        s = Scenario()
        version = beyond if beyond != 1 else newest + 1
        reply = only(s.send(api, "c1", **fields, api_version=version))
        assert (reply.error, reply.error_code) == ("UNSUPPORTED_VERSION", 35)
        assert reply.error_message == f"versions 0 to {newest} are supported - at `$.api_version`"
        assert s.state is None

    def test_newest_version_is_supported(self, api, fields, newest):
        replies = Scenario().send(api, "c1", **fields, api_version=newest)
        assert errors(replies)["c1"] != "UNSUPPORTED_VERSION"

    def test_empty_group_id(self, api, fields, newest):
        body = {"api": api, "request_id": "r", "client_id": "c", "group_id": "", **fields}
        record = Record("requests", 0, 0, 0, b"", msgspec.json.encode(body))
        result = step(b"", None, [record], 0, CONFIG, b"secret")
        reply = msgspec.json.decode(only(result.outputs).value)
        assert (reply["error"], reply["error_code"]) == ("INVALID_GROUP_ID", 24)
        assert reply["error_message"] == "group_id must not be empty"
        assert result.state is None

    def test_static_membership_came_with_a_version(self, api, fields, newest):
        first = 5 if api == "join_group" else 3
        if api == "leave_group":
            static = {"members": [{"group_instance_id": "i"}]}
        else:
            static = fields | {"group_instance_id": "i"}
        for version in range(first):
            s = Scenario()
            reply = only(s.send(api, "c1", **static, api_version=version))
            assert reply.error == "UNSUPPORTED_VERSION"
            expected = f"version {first} is the first with a group_instance_id - at `$.group_instance_id`"
            assert reply.error_message == expected
            assert s.state is None
        assert errors(Scenario().send(api, "c1", **static, api_version=first)) != {
            "c1": "UNSUPPORTED_VERSION"
        }


def ask_nameless_group(**fields):
    body = {"request_id": "r", "client_id": "c", "group_id": ""} | fields
    record = Record("requests", 0, 0, 0, b"", msgspec.json.encode(body))
    return msgspec.json.decode(only(step(b"", None, [record], 0, CONFIG, b"secret").outputs).value)


@pytest.mark.parametrize("member_id", ["", "nobody"])
def test_refused_join_echoes_the_member_id(member_id):
    join = {"session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": []}
    reply = ask_nameless_group(api="join_group", member_id=member_id, **join)
    assert (reply["error"], reply["member_id"]) == ("INVALID_GROUP_ID", member_id)


def test_missing_protocol_comes_before_the_group_id():
    # Kafka looks at it before the coordinator does.
    reply = ask_nameless_group(api="sync_group", generation_id=1, member_id="m")
    assert reply["error"] == "INCONSISTENT_GROUP_PROTOCOL"
    assert reply["error_message"] == "protocol_type and protocol_name must be given since version 5"


# -- stored state ----------------------------------------------------------------------------------


def test_stored_state_round_trips():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.ask("c3")
    s.join("c1")
    assert encode_group(decode_group(s.state)) == s.state


def newest_place(s: Scenario, channel: Channel) -> int | None:
    return [each.place for each in s.outputs if each.channel is channel][-1]


def test_an_answer_names_the_picture_that_a_list_has_to_have():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)

    def names_the_newest() -> bool:
        return newest_place(s, Channel.RESPONSES) == newest_place(s, Channel.GROUPS)

    s.ask("c1")
    assert names_the_newest()  # a group begins with an id that is handed out
    s.ask("c1")
    s.wait(3_000)
    assert names_the_newest()  # a deadline answers
    s.sync("c1", {})
    s.heartbeat("c1")
    assert names_the_newest()  # what is told after it is no older
    s.wait(9_999)
    s.heartbeat("c1")
    assert names_the_newest()
    s.wait(1)
    s.heartbeat("c1")
    assert newest_place(s, Channel.RESPONSES) is None  # everybody has read it by now
    s.leave("c1")
    s.send("delete_group", "admin")
    assert s.picture() is None
    assert names_the_newest()


def test_an_answer_that_is_given_before_a_change_names_its_picture():
    s = Scenario()
    s.stabilise("c1")
    s.wait(20_000)
    s.stabilise("c2")
    s.ask("c3")
    s.ask("c3")  # and waits for c2
    s.wait(1)
    before = len(s.outputs)
    s.leave("c3")
    made = s.outputs[before:]
    (picture,) = [each.place for each in made if each.channel is Channel.GROUPS]
    assert [each.place for each in made if each.channel is Channel.RESPONSES] == [picture] * 2


@pytest.mark.parametrize("other", [4, 7])
def test_state_of_another_version_is_refused(other):
    _version, *group = msgspec.msgpack.decode(call(None, join(0, 0)).state)
    state = msgspec.msgpack.encode((other, *group))
    with pytest.raises(
        ValueError, match=rf"^stored state has schema version {other}, this program reads 5 to 6$"
    ):
        decode_group(state)


def test_state_written_before_a_field_was_added_is_read():
    version, group, kind = msgspec.msgpack.decode(call(None, join(0, 0)).state)
    # As many fields as were there when nothing had a default yet.
    older = decode_group(msgspec.msgpack.encode((version, group[:3], kind)))
    assert (older.group_id, older.state, older.members) == ("orders", "Empty", {})
    assert version == SCHEMA_VERSION


def test_state_names_the_kind_of_its_group():
    assert msgspec.msgpack.decode(call(None, join(0, 0)).state)[2] == "classic"
