"""The whole path: a producer's request, Kafka, Spark, Kafka, the reader of the answer. Nothing is a mock."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.partitioner.default import murmur2

from group_coordinator.coordinator_state.newest import place_in
from tests.memory import Memory
from tests.patience import wait_for
from tests.topics import sending

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
)


class Member:
    """A member that does just what the test says, through the real topics."""

    def __init__(self, harness: Harness, group_id: str, client_id: str, **join: Any) -> None:
        self._harness = harness
        self._group_id = group_id
        self._client_id = client_id
        self._join = join
        self._name = {key: join[key] for key in ("group_instance_id",) if key in join}
        self.member_id = ""
        self.joined: dict[str, Any] = {}

    def get_id(self) -> None:
        """The first half of joining: be given an id (KIP-394). A static member joins at once (KIP-345)."""
        if self._name:
            return
        answer = self._harness.answer(self._harness.join(self._group_id, self._client_id, **self._join))
        assert answer["error"] == "MEMBER_ID_REQUIRED"
        self.member_id = answer["member_id"]

    def send_join(self) -> str:
        """Join, or join again; the request's id."""
        return self._harness.join(self._group_id, self._client_id, member_id=self.member_id, **self._join)

    def take_join(self, request_id: str) -> None:
        """Wait for the answer to a join."""
        self.joined = self._harness.answer(request_id)
        assert self.joined["error"] == "NONE"
        self.member_id = self.joined["member_id"]

    def send_sync(self, assignment: dict[str, bytes] | None = None) -> str:
        """Sync in the generation that was joined; the leader says who gets what."""
        return self._harness.send(
            "sync_group",
            self._group_id,
            self._client_id,
            member_id=self.member_id,
            generation_id=self.joined["generation_id"],
            protocol_type=self.joined["protocol_type"],
            protocol_name=self.joined["protocol_name"],
            assignments=[
                {"member_id": member_id, "assignment": base64.b64encode(share).decode()}
                for member_id, share in (assignment or {}).items()
            ],
            **self._name,
        )

    def call(self, api: str, **fields: Any) -> dict[str, Any]:
        """Any other request, and its answer."""
        return self._harness.call(api, self._group_id, self._client_id, **fields)

    def beat(self) -> str:
        """A heartbeat; the error of its answer."""
        generation_id = self.joined["generation_id"]
        answer = self.call("heartbeat", member_id=self.member_id, generation_id=generation_id, **self._name)
        error: str = answer["error"]
        return error

    def leave(self) -> None:
        """Leave politely."""
        answer = self.call("leave_group", members=[{"member_id": self.member_id}])
        assert [0] == [member["error_code"] for member in answer["members"]]


def events_of(harness: Harness, group_id: str) -> list[dict[str, Any]]:
    return [event for event in harness.events.values() if event["group_id"] == group_id]


def await_states(harness: Harness, group_id: str, expected: list[str]) -> None:
    """Wait for as many moves as expected, and compare."""

    def moves(values: list[Any]) -> list[Any]:
        return [
            value for value in values if value["group_id"] == group_id and value["event"] == "state_changed"
        ]

    seen = moves(harness.events.until(lambda values: len(moves(values)) >= len(expected) - 1))
    assert expected == [seen[0]["from"], *(move["to"] for move in seen)]


def make_stable(harness: Harness, group_id: str, *members: Member) -> None:
    """From Empty: all get ids and join (the initial delay is 0, so one by one), and all sync."""
    for count in range(1, len(members) + 1):
        members[count - 1].get_id()
        requests = [member.send_join() for member in (members[count - 1], *members[: count - 1])]
        for member, request in zip((members[count - 1], *members[: count - 1]), requests, strict=True):
            member.take_join(request)
        sync_all(harness, *members[:count])


def sync_all(harness: Harness, *members: Member) -> None:
    """Everybody syncs, the followers first; each gets its own member id as its share."""
    leader_id = members[0].joined["leader"]
    followers = [member for member in members if member.member_id != leader_id]
    (leader,) = [member for member in members if member.member_id == leader_id]
    requests = [(member, member.send_sync()) for member in followers]
    shares = {member.member_id: member.member_id.encode() for member in members}
    requests.append((leader, leader.send_sync(shares)))
    for member, request in requests:
        answer = harness.answer(request)
        assert ("NONE", member.member_id.encode()) == (
            answer["error"],
            base64.b64decode(answer["assignment"]),
        )


def test_three_consumers_one_rebalance(harness: Harness) -> None:
    """Two more join while the first one, already told that it leads, is still dividing the work."""
    harness.start_and_warm_up()
    patient = {"session_timeout_ms": 30_000}
    c1, c2, c3 = (Member(harness, "orders", f"c{number}", **patient) for number in (1, 2, 3))
    for member in (c3, c2, c1):
        member.get_id()
    c3.take_join(c3.send_join())
    c2_join = c2.send_join()
    c1_join = c1.send_join()

    refused = harness.answer(c3.send_sync({c3.member_id: b"everything"}))
    assert "REBALANCE_IN_PROGRESS" == refused["error"]

    c3.take_join(c3.send_join())
    c2.take_join(c2_join)
    c1.take_join(c1_join)
    assert {2} == {member.joined["generation_id"] for member in (c1, c2, c3)}
    assert {c1.member_id, c2.member_id, c3.member_id} == {
        member["member_id"] for member in c3.joined["members"]
    }
    sync_all(harness, c1, c2, c3)
    await_states(harness, "orders", [EMPTY, PREPARING, COMPLETING, PREPARING, COMPLETING, STABLE])
    # The last event of that batch, which may be read later than the one before it.
    harness.events.first(lambda event: event["event"] == "assignment_propagated")
    propagated = [each for each in events_of(harness, "orders") if each["event"] == "assignment_propagated"]
    assert [3] == [len(event["assignments"]) for event in propagated]

    for member in (c1, c2, c3):
        member.leave()
    picture = harness.groups.first(lambda value: value["state"] == EMPTY and value["generation_id"] > 2)
    assert [] == picture["members"]


def test_three_consumers_two_rebalances(harness: Harness) -> None:
    """The first one is Stable when the other two come."""
    harness.start_and_warm_up()
    patient = {"session_timeout_ms": 30_000}
    c1, c2, c3 = (Member(harness, "orders", f"c{number}", **patient) for number in (1, 2, 3))
    make_stable(harness, "orders", c1)
    c2.get_id()
    c3.get_id()
    c2_join, c3_join = c2.send_join(), c3.send_join()
    assert "REBALANCE_IN_PROGRESS" == c1.beat()
    c1.take_join(c1.send_join())
    c2.take_join(c2_join)
    c3.take_join(c3_join)
    sync_all(harness, c1, c2, c3)
    await_states(harness, "orders", [EMPTY, PREPARING, COMPLETING, STABLE, PREPARING, COMPLETING, STABLE])
    assert ["NONE"] * 3 == [member.beat() for member in (c1, c2, c3)]


def test_three_consumers_three_rebalances(harness: Harness) -> None:
    """Each comes when the group is Stable."""
    harness.start()
    members = [Member(harness, "orders", f"c{number}") for number in (1, 2, 3)]
    make_stable(harness, "orders", *members)
    await_states(harness, "orders", [EMPTY, *[PREPARING, COMPLETING, STABLE] * 3])
    assert [3, 3, 3] == [member.joined["generation_id"] for member in members]


def test_lost_join_response_of_a_follower_in_stable(harness: Harness) -> None:
    harness.start()
    leader, follower = Member(harness, "orders", "c1"), Member(harness, "orders", "c2")
    make_stable(harness, "orders", leader, follower)
    generation = follower.joined["generation_id"]

    follower.take_join(follower.send_join())
    assert generation == follower.joined["generation_id"]
    assert [] == follower.joined["members"]

    answer = harness.answer(follower.send_sync())
    assert follower.member_id.encode() == base64.b64decode(answer["assignment"])


def test_a_static_member_that_starts_again_keeps_its_place(harness: Harness) -> None:
    """It leads, vanishes without a word and is back within its session. The other one notices nothing."""
    harness.start_and_warm_up()
    patient = {"session_timeout_ms": 30_000}
    before = Member(harness, "orders", "c1", group_instance_id="w1", **patient)
    other = Member(harness, "orders", "c2", **patient)
    make_stable(harness, "orders", before, other)
    generation = other.joined["generation_id"]

    after = Member(harness, "orders", "c1-again", group_instance_id="w1", **patient)
    after.take_join(after.send_join())
    assert (generation, after.member_id, True) == (
        after.joined["generation_id"],
        after.joined["leader"],
        after.joined["skip_assignment"],
    )
    assert before.member_id != after.member_id
    answer = harness.answer(after.send_sync())
    assert ("NONE", before.member_id.encode()) == (answer["error"], base64.b64decode(answer["assignment"]))

    errors = [member.beat() for member in (other, after, before)]
    assert ["NONE", "NONE", "FENCED_INSTANCE_ID"] == errors
    picture = harness.groups.until(lambda values: after.member_id in str(values[-1:]))[-1]
    assert (STABLE, generation, 2) == (picture["state"], picture["generation_id"], len(picture["members"]))
    await_states(harness, "orders", [EMPTY, *[PREPARING, COMPLETING, STABLE] * 2])


@pytest.mark.parametrize("harness", [{"state_partitions": 1}, {"state_partitions": 2}], indirect=True)
def test_a_silent_member_expires_although_nothing_else_happens(harness: Harness) -> None:
    """Only ticks move time here, also where the task that reads them decides."""
    harness.start_and_warm_up()
    member = Member(harness, "orders", "c1", session_timeout_ms=6_000)
    make_stable(harness, "orders", member)

    removed = harness.events.first(lambda event: event["event"] == "member_removed")
    synced = harness.events.first(lambda event: event["event"] == "assignment_propagated")
    assert ("session_expired", member.member_id) == (removed["reason"], removed["member_id"])
    assert 6_000 == removed["at_ms"] - synced["at_ms"]
    assert "UNKNOWN_MEMBER_ID" == member.beat()


@pytest.mark.parametrize("harness", [{"offsets_retention_check_interval_ms": 1_000}], indirect=True)
def test_an_unused_group_dies_and_leaves_a_tombstone(harness: Harness) -> None:
    harness.start_and_warm_up()
    member = Member(harness, "orders", "c1")
    make_stable(harness, "orders", member)
    member.leave()
    await_states(harness, "orders", [EMPTY, PREPARING, COMPLETING, STABLE, PREPARING, EMPTY, DEAD])
    harness.groups.until(lambda values: values[-1:] == [None])
    assert b"orders" == harness.groups.records[-1].key

    again = Member(harness, "orders", "c2")
    make_stable(harness, "orders", again)
    assert 1 == again.joined["generation_id"]


def commit(offset: int, **fields: Any) -> dict[str, Any]:
    """What an `offset_commit` for partition 3 of topic t says."""
    partition = {"partition_index": 3, "committed_offset": offset, "committed_metadata": "m"}
    return {"topics": [{"name": "t", "partitions": [partition]}]} | fields


@pytest.mark.parametrize("harness", [{"offsets_retention_check_interval_ms": 1_000}], indirect=True)
def test_offsets_are_committed_fetched_published_and_expire(harness: Harness) -> None:
    harness.start_and_warm_up()
    member = Member(harness, "orders", "c1")
    make_stable(harness, "orders", member)
    ids = {"member_id": member.member_id, "generation_id": member.joined["generation_id"]}
    assert (
        "ILLEGAL_GENERATION"
        == member.call("offset_commit", **commit(4, **ids | {"generation_id": 0}))["error"]
    )
    assert "NONE" == member.call("offset_commit", **commit(5, **ids))["error"]
    fetched = harness.call("offset_fetch", "orders", "tool")
    assert (
        "NONE"
        == harness.call(
            "offset_commit", "simple", "tool", **commit(6), api_version=4, retention_time_ms=2_000
        )["error"]
    )

    offset = {"committed_offset": 5, "committed_leader_epoch": -1, "metadata": "m"}
    assert [{"name": "t", "partitions": [{"partition_index": 3, **offset, "error_code": 0}]}] == fetched[
        "topics"
    ]
    harness.offsets.until(lambda values: values[-1:] == [None])
    published = [
        (json.loads(record.key), record.value and json.loads(record.value))
        for record in harness.offsets.records
    ]
    assert {"group_id": "orders", "topic": "t", "partition": 3, **offset}.items() <= published[0][1].items()
    assert [["orders", "t", 3], ["simple", "t", 3], ["simple", "t", 3]] == [key for key, _ in published]
    harness.events.first(lambda event: event["event"] == "offsets_expired")
    times = {event["event"]: event["at_ms"] for event in events_of(harness, "simple")}
    assert 2_000 == times["offsets_expired"] - times["offsets_committed"]
    # The time, and the offset behind it.
    committed, expired = (divmod(place_in(it.headers) or 0, 1 << 21) for it in harness.offsets.records[1:])
    assert committed[0] == times["offsets_committed"]
    assert expired == (times["offsets_expired"], 0)
    assert [] == harness.call("offset_fetch", "simple", "tool")["topics"]


def test_find_coordinator_knows_which_task_has_the_state(harness: Harness, spark: SparkSession) -> None:
    harness.start_and_warm_up()
    groups = [f"group-{number}" for number in range(8)]
    for group_id in groups:
        harness.call("offset_commit", group_id, **commit(1))
    found = {group_id: harness.call("find_coordinator", group_id) for group_id in groups}
    assert harness.stop()

    partitions = harness.partitions[harness.settings.topics_requests]
    by_key = {group_id: (murmur2(group_id.encode()) & 0x7FFFFFFF) % partitions for group_id in groups}
    assert by_key == {group_id: answer["partition"] for group_id, answer in found.items()}
    state = spark.read.format("statestore").load(harness.settings.checkpoint)
    in_state = {bytes(row["key"][0]).decode(): row["partition_id"] for row in state.collect()}
    assert in_state == {group_id: answer["state_partition"] for group_id, answer in found.items()}
    assert {0, 1} == set(in_state.values())


def test_an_outage_expires_nobody_who_kept_beating(harness: Harness) -> None:
    """The coordinator is away for longer than the session. What counts is when the heartbeats were sent."""
    harness.start_and_warm_up()
    beating = Member(harness, "orders", "c1")
    silent = Member(harness, "orders", "c2")
    make_stable(harness, "orders", beating, silent)
    generation = beating.joined["generation_id"]
    assert harness.stop()

    end = time.monotonic() + 12
    sent = []
    while time.monotonic() < end:
        sent.append(
            harness.send("heartbeat", "orders", "c1", member_id=beating.member_id, generation_id=generation)
        )
        harness.events.poll()  # takes 100 ms
    harness.start()

    removed = harness.events.first(lambda event: event["event"] == "member_removed")
    assert (silent.member_id, "session_expired") == (removed["member_id"], removed["reason"])
    answers = [harness.answer(request)["error"] for request in sent]
    assert {"NONE", "REBALANCE_IN_PROGRESS"} == set(answers)
    beating.take_join(beating.send_join())
    assert generation + 1 == beating.joined["generation_id"]
    assert [removed] == [
        event for event in events_of(harness, "orders") if event["event"] == "member_removed"
    ]


def test_no_request_is_dropped_as_late(harness: Harness, bootstrap_servers: str) -> None:
    """Requests that Kafka itself stamps ten minutes ago, in many groups, long after the watermark."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    topic = ConfigResource(
        ConfigResourceType.TOPIC,
        harness.settings.topics_requests,
        configs={"message.timestamp.type": "CreateTime"},
    )
    admin.alter_configs([topic])
    admin.close()
    harness.start()
    assert harness.query is not None
    wait_for_watermark(harness)

    for number in range(20):
        request = {
            "api": "heartbeat",
            "request_id": f"late-{number}",
            "client_id": "c1",
            "group_id": f"group-{number}",
            "generation_id": 1,
            "member_id": "m",
        }
        stamp = int(time.time() * 1000) - 600_000
        harness.put(f"group-{number}".encode(), json.dumps(request).encode(), timestamp_ms=stamp)
    assert ["UNKNOWN_MEMBER_ID"] * 20 == [harness.answer(f"late-{number}")["error"] for number in range(20)]
    assert {0} == {
        operator.numRowsDroppedByWatermark
        for progress in harness.query.recentProgress
        for operator in progress.stateOperators
    }


def wait_for_watermark(harness: Harness) -> None:
    def is_there() -> bool:
        progress = harness.query.lastProgress if harness.query else None
        return progress is not None and progress.eventTime.get("watermark", "1970") > "1971"

    wait_for(is_there, meanwhile=harness.events.poll)


NONSENSE: list[tuple[bytes | None, bytes | None]] = [
    (None, b"not JSON"),
    (None, b'{"request_id":"a","client_id":"c","api":"heartbeat","group_id":"g"}'),
    (b"\xff\xfe\xfd", b'{"group_id":"g"}'),
    (b"g", None),
    (b"g", b""),
    (b"", b"{}"),
    (b"g", b"null"),
    (b"g", b"[" * 100_000),
    (b"g", b'{"request_id":"a","client_id":"c","x":' + b"[" * 100_000),
    (b"g", b"\x00\xff"),
    (b"g", b'{"api":"heartbeat","request_id":"a","client_id":"\xff","group_id":"g"}'),
    (b"g", b'{"api":"heartbeat","request_id":"\\ud800","client_id":"c","group_id":"g"}'),
    (b"g", b'{"api":"join_group","session_timeout_ms":' + b"9" * 400 + b"}"),
    (b"g", b'"' + b"x" * 900_000 + b'"'),
    (b"g", b"{" + b'"api":"heartbeat",' * 10_000 + b'"z":1}'),
]


def test_nonsense_is_rejected_and_the_query_lives(harness: Harness) -> None:
    harness.start()
    for key, value in NONSENSE:
        harness.put(key, value)
    answer = harness.call("heartbeat", "g", member_id="m", generation_id=0)
    assert "UNKNOWN_MEMBER_ID" == answer["error"]

    rejected = harness.rejected.until(lambda values: len(values) >= len(NONSENSE))
    expected = Counter(None if value is None else base64.b64encode(value).decode() for _, value in NONSENSE)
    assert expected == Counter(record["value"] for record in rejected)
    assert all(record["reason"] for record in rejected)
    assert [] == harness.events.values()


def test_a_bad_request_is_answered_if_its_sender_can_be_made_out(harness: Harness) -> None:
    harness.start()
    cases = {
        "$.generation_id": {"generation_id": "1"},
        "$.api": {"api": "no_such_api"},
        "$.reply_partition": {"reply_partition": 2},
        "`surprise`": {"surprise": True},
        "`member_id`": {"generation_id": 1},
    }
    valid = {"generation_id": 1, "member_id": "m"}
    for field, wrong in cases.items():
        fields = {"api": "heartbeat", **({} if field == "`member_id`" else valid), **wrong}
        answer = harness.call(group_id="g", **fields)
        assert (42, "INVALID_REQUEST") == (answer["error_code"], answer["error"])
        assert field in answer["error_message"]

    harness.put(b"g", b'{"api":"heartbeat","request_id":"mine","client_id":"c1","group_id":"h"}')
    assert "INVALID_REQUEST" == harness.answer("mine")["error"]


@pytest.mark.parametrize("harness", [{"max_batch_records": 7}], indirect=True)
def test_a_backlog_is_read_in_bounded_batches(harness: Harness) -> None:
    sent = [
        harness.send("heartbeat", f"group-{number % 3}", member_id="m", generation_id=0)
        for number in range(30)
    ]
    harness.start()
    assert {harness.answer(request_id)["error"] for request_id in sent} == {"UNKNOWN_MEMBER_ID"}
    assert harness.query is not None
    assert max(batch.numInputRows for batch in harness.query.recentProgress) <= 7


class Answer(msgspec.Struct):
    """What is looked at of an answer that may be large."""

    api: str
    request_id: str
    error: str


def written(api: str, group_id: str, request_id: str, **fields: Any) -> tuple[bytes, bytes]:
    """Key and value of a request."""
    names = {"api": api, "request_id": request_id, "client_id": "c1", "group_id": group_id}
    return group_id.encode(), json.dumps(names | fields).encode()


HEAP_BYTES = 1 << 30
"""Of the session's JVM, by default."""


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.parametrize("times", [1, 10])
def test_a_flood_of_questions_about_large_groups_ends_nothing(harness: Harness, times: int) -> None:
    """Their answers are 2 GB and more, of which a batch gives 16 MB for each group. Members go on beating."""
    harness.start_and_warm_up()
    for first in range(0, 20_000, 1_000):
        partitions = [
            {"partition_index": first + number, "committed_offset": 5, "committed_metadata": "m" * 60}
            for number in range(1_000)
        ]
        committed = harness.call("offset_commit", "large", topics=[{"name": "t", "partitions": partitions}])
        assert committed["error"] == "NONE"
    # A join of this version makes a member at once.
    wide = [{"name": "range", "metadata": "bWV0" * 175_000}]
    # On a busy machine it takes more than 10 s until all of them beat.
    patient = {"api_version": 3, "session_timeout_ms": 30_000}
    groups = {"wide": harness.join("wide", protocols=wide, **patient)}
    groups |= {f"beating-{number}": harness.join(f"beating-{number}", **patient) for number in range(200)}
    members = {}
    for group_id, request_id in groups.items():
        joined = harness.answer(request_id)
        assert joined["error"] == "NONE"
        members[group_id] = {key: joined[key] for key in ("member_id", "generation_id")}
    synced = [
        harness.send("sync_group", group, api_version=3, assignments=[], **each)
        for group, each in members.items()
    ]
    assert {harness.answer(request_id)["error"] for request_id in synced} == {"NONE"}

    memory = Memory()
    flood = [("offset_fetch", "large", f"fetch-{number}") for number in range(750 * times)]
    flood += [("describe_group", "wide", f"describe-{number}") for number in range(435 * times)]
    told: Counter[tuple[str, str]] = Counter()
    left = {request_id for *_, request_id in flood}

    def hear() -> None:
        memory.look()
        for record in harness.responses.poll(20):
            answer = msgspec.json.decode(record.value or b"", type=Answer)
            if answer.request_id in left:
                left.remove(answer.request_id)
                told[answer.api, answer.error] += 1
        # Else the test would hold them all.
        harness.responses.records.clear()

    requests = harness.settings.topics_requests
    beats = [written("heartbeat", group_id, "beat", **member) for group_id, member in members.items()]
    with sending(harness.producer, requests, beats, 3):
        for each in flood:
            key, value = written(*each)
            harness.producer.send(requests, key=key, value=value)
        harness.producer.flush()
        wait_for(lambda: not left, meanwhile=hear)
    kinds = ("offset_fetch", "describe_group")
    assert set(told) == {(api, error) for api in kinds for error in ("NONE", "COORDINATOR_LOAD_IN_PROGRESS")}
    assert told["offset_fetch", "COORDINATOR_LOAD_IN_PROGRESS"] > 700 * times
    assert 50e6 < memory.worker < 1e9
    assert 200e6 < memory.jvm < HEAP_BYTES + 700e6
    harness.events.read_to_end()
    assert [event for event in harness.events.values() if event["event"] == "member_removed"] == []


@pytest.mark.verify
@pytest.mark.alone
@pytest.mark.parametrize("harness", [{"state_partitions": 1}], indirect=True)
def test_a_pile_of_large_requests_for_one_group_takes_bounded_memory(harness: Harness) -> None:
    """400 MB in one batch. Held at once they would be twice that, in Arrow and in Python."""
    protocols = [{"name": "", "metadata": ""}] * 38_000
    names = {"client_id": "c1", "group_id": "g", "request_id": "join", "protocol_type": "consumer"}
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    join = json.dumps({"api": "join_group", "protocols": protocols, **names, **times}, separators=(",", ":"))
    for number in range(400):
        harness.put(b"g", join.encode() if number % 4 else b"%03d" % number * 330_000)
    last = harness.send("heartbeat", "g", member_id="m", generation_id=0)

    memory = Memory()

    def look() -> None:
        memory.look()
        harness.responses.poll(20)

    def is_answered() -> bool:
        return any(b'"%s"' % last.encode() in (each.value or b"") for each in harness.responses.records)

    harness.start()
    wait_for(is_answered, meanwhile=look)
    assert 100e6 < memory.worker < 600e6


def test_answers_come_on_the_partition_asked_for(harness: Harness) -> None:
    """Without one, on the partition that Kafka's default partitioner gives the client id."""
    harness.start()
    fields = {"generation_id": 1, "member_id": "m"}
    asked = [
        harness.call("heartbeat", "g", f"client-{number}", reply_partition=number % 2, **fields)
        for number in range(8)
    ]
    default = [harness.call("heartbeat", "g", f"client-{number}", **fields) for number in range(8)]
    place = {json.loads(record.value)["request_id"]: record for record in harness.responses.records}

    assert [number % 2 for number in range(8)] == [place[each["request_id"]].partition for each in asked]
    partitions = harness.partitions[harness.settings.topics_responses]
    by_key = [(murmur2(f"client-{number}".encode()) & 0x7FFFFFFF) % partitions for number in range(8)]
    assert by_key == [place[each["request_id"]].partition for each in default]


def test_a_batch_that_runs_again_gives_the_same_bytes(harness: Harness) -> None:
    """As after a crash between the last answer and the commit: member ids and all."""
    requests = [harness.join("orders", f"c{number}") for number in range(5)]
    requests += [harness.join("returns", f"c{number}", api_version=3) for number in range(5)]
    # They are all there before, and so in one batch.
    harness.start(clock=False)
    assert harness.query is not None
    harness.query.processAllAvailable()
    harness.query.stop()
    harness.responses.until(lambda values: len(values) >= 6)  # one of "returns" is answered
    answered = len(harness.responses.records)

    forget_last_commit(harness)
    harness.start(clock=False)
    harness.query.processAllAvailable()
    after = harness.call("heartbeat", "orders", member_id="m", generation_id=0)

    responses = defaultdict(set)
    for record in harness.responses.records:
        responses[json.loads(record.value)["request_id"]].add(record.value)
    assert {*requests[:6], after["request_id"]} == set(responses)
    assert {1} == {len(values) for values in responses.values()}
    assert answered + 1 < len(harness.responses.records)

    events = defaultdict(set)
    for record in harness.events.until(lambda values: len(values) > 0):
        events[record["event_id"]].add(json.dumps(record))
    assert {1} == {len(values) for values in events.values()}


def forget_last_commit(harness: Harness) -> None:
    """Take away Spark's note that the last batch is done."""
    commits = Path(harness.settings.checkpoint) / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_the_same_log_replayed_gives_the_same_decisions(harness: Harness, tmp_path: Path) -> None:
    """A new checkpoint reads the log from its beginning, in other batches."""
    harness.start_and_warm_up()
    first = Member(harness, "orders", "c1")
    second = Member(harness, "orders", "c2")
    make_stable(harness, "orders", first, second)
    harness.events.first(lambda event: event["event"] == "member_removed")
    assert harness.stop()
    harness.events.until(lambda values: True)
    lived = list(harness.events.records)

    original = harness.settings
    harness.settings = msgspec.structs.replace(
        original, checkpoint=str(tmp_path / "replay"), topics_events=original.topics_groups
    )
    harness.start()
    wanted = [record.value for record in lived]

    def replayed(_: list[Any]) -> bool:
        return len([r for r in harness.groups.records if b'"event_id"' in (r.value or b"")]) >= len(wanted)

    harness.groups.until(replayed)
    events = [r.value for r in harness.groups.records if b'"event_id"' in (r.value or b"")]
    assert wanted == events[: len(wanted)]
