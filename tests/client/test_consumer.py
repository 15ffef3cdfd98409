"""GroupConsumer against the real coordinator core; records come from lists instead of Kafka."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import pytest
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import IllegalStateError, KafkaTimeoutError, NoOffsetForPartitionError
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata, TopicPartition

from group_coordinator import CommitFailedError, GroupConsumer, GroupMember
from group_coordinator.client import consumer as consumer_module
from group_coordinator.client.errors import UnsupportedVersionError
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    ConsumerGroupHeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from group_coordinator.coordinator_state.responses import OffsetCommitResponse, OffsetFetchResponse
from tests.client.memory import Listener, MemoryChannel, poll_until
from tests.patience import PATIENCE_S, wait_for

A = [TopicPartition("a", i) for i in range(4)]


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class ListRecords:
    """As much of `AssignedRecords` as is used, over lists: what it does about positions is kafka-python's."""

    logs: ClassVar[dict] = {}
    made: ClassVar[list] = []

    def __init__(self, **config):
        self.config = config
        self.positions = {}
        self.resets = {}
        self.stopped = set()
        self.closed = False
        self.made.append(self)

    def assign(self, partitions):
        # As in kafka-python, a partition that stays keeps its position.
        self.positions = {each: self.positions.get(each) for each in partitions}
        self.resets = {each: reset for each, reset in self.resets.items() if each in self.positions}
        self.stopped &= self.positions.keys()

    def seek(self, partition, offset):
        assert partition in self.positions
        self.positions[partition] = offset
        self.resets.pop(partition, None)

    def without_position(self):
        return {each for each, at in self.positions.items() if at is None and each not in self.resets}

    def consumed(self):
        return {each: OffsetAndMetadata(at, "", -1) for each, at in self.positions.items() if at is not None}

    def position(self, partition, timeout_ms):
        if partition not in self.positions:
            raise IllegalStateError("Partition is not assigned")
        self._reset()
        return self.positions[partition]

    def seek_to_beginning(self, *partitions):
        self.resets |= dict.fromkeys(partitions or self.positions, "earliest")

    def seek_to_end(self, *partitions):
        self.resets |= dict.fromkeys(partitions or self.positions, "latest")

    def _reset(self):
        if self.config["auto_offset_reset"] == "none" and self.without_position():
            raise NoOffsetForPartitionError(self.without_position())
        for each in self.without_position():
            self.resets[each] = self.config["auto_offset_reset"]
        for each, reset in list(self.resets.items()):
            self.seek(each, 0 if reset == "earliest" else len(self.logs.get(each, ())))

    def poll(self, timeout_ms, max_records, update_offsets=True):
        self._reset()
        polled, room = {}, max_records or 500
        for each, at in self.positions.items():
            values = [] if each in self.stopped else self.logs.get(each, [])[at : at + room]
            if values:
                polled[each] = [Record(*each, at + i, value) for i, value in enumerate(values)]
                self.positions[each] = at + len(values)
                room -= len(values)
        if not polled:
            time.sleep(min(timeout_ms, 5) / 1000)
        return polled

    def pause(self, *partitions):
        self.stopped |= set(partitions)

    def resume(self, *partitions):
        self.stopped -= set(partitions)

    def paused(self):
        return self.stopped

    def topics(self):
        return {each.topic for each in self.logs}

    def close(self, autocommit=True, timeout_ms=None):
        assert not autocommit
        self.closed = True


@pytest.fixture
def logs(monkeypatch):
    """What is in the partitions; in each of a's there is `<partition>-<offset>`, ten times."""
    monkeypatch.setattr(consumer_module, "AssignedRecords", ListRecords)
    monkeypatch.setattr(
        ListRecords, "logs", {each: [f"{each.partition}-{i}" for i in range(10)] for each in A}
    )
    monkeypatch.setattr(ListRecords, "made", [])
    return ListRecords.logs


@pytest.fixture
def make_consumer(coordinator, logs):
    consumers = []

    def make(name, *topics, **settings):
        defaults = {
            "group_id": "orders",
            "client_id": name,
            "session_timeout_ms": 90_000,
            "heartbeat_interval_ms": 30,
            "auto_offset_reset": "earliest",
            "channel": MemoryChannel(coordinator, name),
        }
        consumer = GroupConsumer(*topics, **defaults | settings)
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


def read(consumer, count, **arguments):
    """Poll until there are `count` records; return partition -> values."""
    values = {}

    def poll():
        for partition, records in consumer.poll(timeout_ms=20, **arguments).items():
            values.setdefault(partition, []).extend(record.value for record in records)

    wait_for(lambda: sum(map(len, values.values())) >= count, meanwhile=poll, said=lambda: values)
    return values


def join(*consumers):
    """Settle who owns what, without reading anything."""
    members = [each._member for each in consumers]

    def settled():
        owned = [partition for each in members for partition in each.assignment]
        return sorted(owned) == A and len({each.generation_id for each in members}) == 1

    poll_until(settled, *members)


def committed(coordinator):
    """What is committed for the partitions of a, as somebody else sees it."""
    with GroupMember(group_id="orders", client_id="eye", channel=MemoryChannel(coordinator, "eye")) as member:
        return [each and each.offset for each in member.committed(A).values()]


# -- reading -----------------------------------------------------------------------------------------


def test_reads_all_there_is_in_order(make_consumer, logs):
    consumer = make_consumer("c1", "a")

    assert read(consumer, 40) == logs
    assert (consumer.assignment(), consumer.subscription()) == (set(A), {"a"})
    assert [10] * 4 == [consumer.position(each) for each in A]
    assert consumer.poll(timeout_ms=5) == {}


def test_poll_returns_no_more_than_was_asked_for_and_what_comes_later(make_consumer, logs):
    consumer = make_consumer("c1", "a")
    (polled,) = read(consumer, 1, max_records=1).values()
    assert polled == ["0-0"]
    read(consumer, 39)

    logs[A[2]].append("new")

    assert consumer.poll(timeout_ms=PATIENCE_S * 1000) == {A[2]: [Record(*A[2], 10, "new")]}


def test_poll_without_waiting_gets_there_as_well(make_consumer):
    consumer = make_consumer("c1", "a")
    polled = []

    wait_for(lambda: polled.append(consumer.poll()) or polled[-1])

    assert dict.fromkeys(A, 10) == {each: len(records) for each, records in polled[-1].items()}


def test_iteration_goes_record_by_record_until_it_is_silent(make_consumer, coordinator):
    with make_consumer("c1", "a", consumer_timeout_ms=300) as consumer:
        for record in consumer:
            if record.value == "1-4":
                break
        assert [10, 5, 0, 0] == [consumer.position(each) for each in A]
        rest = [record.value for record in consumer]

    assert rest == [f"{p}-{i}" for p in range(1, 4) for i in range(10) if (p, i) > (1, 4)]
    assert committed(coordinator) == [10] * 4
    assert list(consumer) == [], "closed"


def test_paused_partitions_are_not_read(make_consumer, logs):
    consumer = make_consumer("c1", "a")
    join(consumer)
    consumer.pause(*A[1:])
    assert consumer.paused() == set(A[1:])
    assert read(consumer, 10) == {A[0]: logs[A[0]]}
    assert consumer.poll(timeout_ms=5) == {}

    consumer.resume(*A[1:])

    assert read(consumer, 30).keys() == set(A[1:])


# -- where to begin ----------------------------------------------------------------------------------


def test_restart_goes_on_at_the_committed_offset(make_consumer, coordinator):
    first = make_consumer("c1", "a")
    read(first, 3, max_records=3)
    first.close()
    second = make_consumer("c2", "a")

    assert committed(coordinator) == [3, 0, 0, 0]
    assert next(second).value == "0-3"


def test_partitions_are_handed_over_without_loss_or_repeat(make_consumer, logs):
    consumers = [make_consumer("c1", "a")]
    seen = []

    def collect(max_records):
        for consumer in consumers:
            polled = consumer.poll(timeout_ms=5, max_records=max_records)
            seen.extend(record.value for records in polled.values() for record in records)

    wait_for(lambda: collect(3) or seen)
    consumers.append(make_consumer("c2", "a"))
    wait_for(lambda: collect(1) or len(consumers[1].assignment()) == 2)
    consumers.pop(0).close()
    wait_for(lambda: collect(7) or len(seen) >= 40)

    assert sorted(seen) == sorted(value for log in logs.values() for value in log)


def test_static_restart_gets_its_partitions_and_positions_back(make_consumer, coordinator):
    first, other = make_consumer("c1", "a", group_instance_id="w1"), make_consumer("c2", "a")
    join(first, other)
    owned, heard = first.assignment(), Listener()
    other.subscribe(["a"], listener=heard)
    (before,) = read(first, 3, max_records=3).values()
    first.close()
    again = make_consumer("c3", "a", group_instance_id="w1")

    (after,) = read(again, 1, max_records=1).values()

    assert (owned, after) == (again.assignment(), [f"{before[0][0]}-3"])
    assert heard.words == [], "the other one notices nothing"
    assert coordinator.requests(LeaveGroupRequest) == []


@pytest.mark.parametrize(("reset", "position"), [("earliest", 0), ("latest", 10)])
def test_partition_without_a_commit_begins_where_the_setting_says(make_consumer, logs, reset, position):
    consumer = make_consumer("c1", "a", auto_offset_reset=reset)
    join(consumer)

    assert [position] * 4 == [consumer.position(each) for each in A]
    logs[A[3]].append("new")
    assert read(consumer, 41 - 4 * position)[A[3]][-1] == "new"


def test_partition_without_a_commit_may_be_an_error_until_somebody_seeks(make_consumer):
    consumer = make_consumer("c1", "a", auto_offset_reset="none")
    join(consumer)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError):
            wait_for(consumer.poll)

    for each in A:
        consumer.seek(each, 9)

    assert read(consumer, 4) == {each: [f"{each.partition}-9"] for each in A}


def test_where_nothing_is_committed_the_others_begin_at_their_commit_all_the_same(make_consumer):
    first = make_consumer("c1", "a", enable_auto_commit=False)
    join(first)
    first.commit({A[1]: 7, A[2]: OffsetAndMetadata(0)})
    first.close()
    second = make_consumer("c2", "a", auto_offset_reset="latest")
    join(second)

    assert [10, 7, 0, 10] == [second.position(each) for each in A]


def test_listener_may_say_where_to_begin(make_consumer, coordinator):
    class Seeker(Listener):
        def on_partitions_assigned(self, assigned):
            for each in assigned:
                consumer.seek(each, 8)
            super().on_partitions_assigned(assigned)

    consumer, listener = make_consumer("c1"), Seeker()
    consumer.subscribe(["a"], listener=listener)

    assert read(consumer, 8) == {each: [f"{each.partition}-8", f"{each.partition}-9"] for each in A}
    assert listener.journal[0][:2] == ("assigned", frozenset(A))
    assert coordinator.requests(OffsetFetchRequest) == [], "nobody else has to be asked"


def test_listener_may_ask_where_it_begins(make_consumer):
    first = make_consumer("c1", "a")
    read(first, 40)
    first.close()
    consumer = make_consumer("c2")
    listener = Listener(lambda: consumer.position(A[0]))
    consumer.subscribe(["a"], listener=listener)
    join(consumer)
    consumer.seek_to_end()
    consumer.seek_to_beginning(A[1])
    assert [10, 0] == [consumer.position(each) for each in A[:2]]
    consumer.seek(A[0], 3)
    consumer.close()

    assert [10, 3] == [position for _, _, position in listener.journal]


def test_nothing_is_read_and_no_position_is_known_until_the_group_has_answered(
    make_consumer, coordinator, caplog
):
    consumer = make_consumer("c1", "a", request_timeout_ms=50)
    join(consumer)
    coordinator.paused = True
    asked = lambda: len(coordinator.requests(OffsetFetchRequest))  # noqa: E731

    wait_for(lambda: consumer.poll(timeout_ms=5) or asked() == 3)

    assert consumer.position(A[0], timeout_ms=5) is None
    assert "it is not known yet where to begin" in caplog.text
    coordinator.resume()
    assert len(read(consumer, 40)) == 4


def test_refusal_to_say_where_to_begin_is_raised(make_consumer, coordinator):
    consumer = make_consumer("c1", "a")
    join(consumer)
    coordinator.paused = True
    consumer.poll()
    (request,) = coordinator.requests(OffsetFetchRequest)
    answer = OffsetFetchResponse.to(request.reply_to, "orders", Errors.UNSUPPORTED_VERSION)
    coordinator.deliver("c1", answer)

    with pytest.raises(UnsupportedVersionError, match="at least as new"):
        wait_for(consumer.poll)


# -- rebalances --------------------------------------------------------------------------------------


def test_nothing_is_read_between_assignments(make_consumer, coordinator):
    first = make_consumer("c1", "a", enable_auto_commit=False)
    read(first, 4, max_records=4)
    second = make_consumer("c2", "a")
    poll_until(lambda: first._member._driver._membership.needs_join, second._member)
    coordinator.paused = True  # so that there is no end of it

    for _ in range(5):
        assert (first.poll(timeout_ms=5), first.assignment()) == ({}, set())
    assert first.group_metadata().state == MemberState.REBALANCING


def test_records_that_were_waited_for_while_the_partitions_were_lost_are_not_returned(
    make_consumer, coordinator, monkeypatch
):
    class Slow(ListRecords):
        def poll(self, timeout_ms, max_records, update_offsets=True):
            if self.positions[A[0]] == 4:
                coordinator.forget("orders")
                wait_for(lambda: consumer._member.state == "Unjoined")
            return super().poll(timeout_ms, max_records)

    monkeypatch.setattr(consumer_module, "AssignedRecords", Slow)
    consumer = make_consumer("c1", "a", enable_auto_commit=False)
    assert read(consumer, 4, max_records=4) == {A[0]: ["0-0", "0-1", "0-2", "0-3"]}

    assert consumer.poll(timeout_ms=0) == {}
    assert read(consumer, 1, max_records=1) == {A[0]: ["0-0"]}


def test_listener_can_do_all_with_what_is_revoked_and_is_told_when_it_is_lost(make_consumer, coordinator):
    class Committer(Listener):
        def on_partitions_revoked(self, revoked):
            consumer.commit({each: consumer.position(each) for each in revoked})
            super().on_partitions_revoked(revoked)

    consumer, listener = make_consumer("c1", enable_auto_commit=False), Committer()
    consumer.subscribe(["a"], listener=listener)
    read(consumer, 40)
    consumer.subscribe(["a", "b"], listener=listener)
    wait_for(lambda: consumer.poll() or listener.words == ["assigned", "revoked", "assigned"])
    assert committed(coordinator) == [10] * 4

    coordinator.forget("orders")

    wait_for(lambda: consumer.poll() or listener.words[3:] == ["lost", "assigned"])
    assert read(consumer, 40), "what was committed is gone with the group"


def test_listener_is_not_needed(make_consumer, coordinator):
    consumer = make_consumer("c1", "a")
    read(consumer, 40)
    coordinator.forget("orders")

    assert read(consumer, 40)


def test_partitions_whose_last_commit_is_refused_are_lost(make_consumer, coordinator):
    consumer, listener = make_consumer("c1", heartbeat_interval_ms=80_000), Listener()
    consumer.subscribe(["a"], listener=listener)
    read(consumer, 40)
    coordinator.forget("orders")
    consumer.subscribe(["b"], listener=listener)

    wait_for(lambda: consumer.poll() or len(listener.words) == 3)

    assert listener.words == ["assigned", "lost", "assigned"]


# -- auto-commit -------------------------------------------------------------------------------------


def test_auto_commit_commits_what_was_returned_before_and_has_moved(make_consumer, coordinator, logs):
    consumer = make_consumer("c1", "a", auto_commit_interval_ms=50)
    read(consumer, 3, max_records=3)
    consumer.pause(*A)
    assert coordinator.requests(OffsetCommitRequest) == []

    wait_for(lambda: consumer.poll(timeout_ms=5) or committed(coordinator) == [3, 0, 0, 0])
    consumer.resume(A[3])
    wait_for(lambda: consumer.poll(timeout_ms=5, max_records=1) or committed(coordinator) == [3, 0, 0, 10])

    commits = [
        (topic.name, each.partition_index, each.committed_offset)
        for request in coordinator.requests(OffsetCommitRequest)
        for topic in request.topics
        for each in topic.partitions
    ]
    assert len(commits) == len(set(commits)), "nothing is committed twice"


def test_position_that_was_restored_is_not_committed_again(make_consumer, coordinator):
    first = make_consumer("c1", "a")
    read(first, 40)
    first.close()
    before = len(coordinator.requests(OffsetCommitRequest))
    with make_consumer("c2", "a", auto_commit_interval_ms=0) as second:
        join(second)
        assert second.position(A[0]) == 10
        for _ in range(3):
            second.poll(timeout_ms=5)

    assert len(coordinator.requests(OffsetCommitRequest)) == before


def test_nothing_is_committed_by_itself_unless_it_is_wanted(make_consumer, coordinator):
    for name, settings, autocommit in (
        ("c1", {"enable_auto_commit": False, "auto_commit_interval_ms": 0}, True),
        ("c2", {}, False),
    ):
        consumer = make_consumer(name, "a", **settings)
        read(consumer, 40)
        consumer.poll(timeout_ms=5)
        consumer.close(autocommit=autocommit)

    assert coordinator.requests(OffsetCommitRequest) == []


def test_error_in_the_program_commits_nothing(make_consumer, coordinator):
    def work():
        with make_consumer("c1", "a") as consumer:
            for record in consumer:
                int(record.value)

    with pytest.raises(ValueError, match="0-0"):
        work()

    assert coordinator.requests(OffsetCommitRequest) == []


def test_lost_partitions_are_not_committed(make_consumer, coordinator):
    consumer = make_consumer("c1", "a")
    read(consumer, 40)
    coordinator.forget("orders")
    wait_for(lambda: consumer._member.state == "Unjoined")
    consumer.close()

    assert coordinator.requests(OffsetCommitRequest) == []


def test_auto_commit_that_fails_is_told_and_made_good(make_consumer, coordinator, caplog):
    consumer = make_consumer("c1", "a", auto_commit_interval_ms=0)
    read(consumer, 40)
    coordinator.paused = True
    consumer.poll()
    request = coordinator.requests(OffsetCommitRequest)[-1]
    answer = OffsetCommitResponse.to(request.reply_to, "orders", Errors.COORDINATOR_NOT_AVAILABLE)
    coordinator.deliver("c1", answer)
    wait_for(lambda: consumer.poll(timeout_ms=5) or "the auto-commit failed" in caplog.text)

    wait_for(lambda: consumer.poll(timeout_ms=5) or len(coordinator.requests(OffsetCommitRequest)) == 2)

    assert request.topics == coordinator.requests(OffsetCommitRequest)[-1].topics
    coordinator.resume()


def test_close_does_not_wait_forever_for_its_commit_which_counts_all_the_same(make_consumer, coordinator):
    consumer = make_consumer("c1", "a")
    read(consumer, 40)
    coordinator.paused = True
    consumer.close(timeout_ms=50)
    (records,) = ListRecords.made
    assert records.closed

    coordinator.resume()

    assert committed(coordinator) == [10] * 4


# -- committing by hand ------------------------------------------------------------------------------


def test_commit_is_of_all_positions_unless_told_otherwise(make_consumer, coordinator):
    heard = []
    consumer = make_consumer(
        "c1",
        "a",
        enable_auto_commit=False,
        default_offset_commit_callback=lambda *end: heard.append(("default", *end)),
    )
    read(consumer, 40)
    consumer.commit()
    assert committed(coordinator) == [10] * 4
    consumer.commit({A[0]: OffsetAndMetadata(4, "note", 2)})
    assert consumer.committed(A[0]) == 4
    assert consumer.committed(A[0], metadata=True) == OffsetAndMetadata(4, "note", 2)
    assert consumer.committed(TopicPartition("b", 0)) is None

    consumer.commit_async()
    consumer.commit_async({A[0]: 1}, lambda *end: heard.append(("own", *end)))
    wait_for(lambda: consumer.poll() or len(heard) == 2)

    assert heard == [
        ("default", {each: OffsetAndMetadata(10, "", -1) for each in A}, None),
        ("own", {A[0]: OffsetAndMetadata(1, "", -1)}, None),
    ]


def test_commit_after_being_thrown_out_fails(make_consumer, coordinator):
    consumer = make_consumer("c1", "a")
    read(consumer, 40)
    coordinator.forget("orders")

    with pytest.raises(CommitFailedError):
        consumer.commit()
    assert committed(coordinator) == [None] * 4


# -- what it looks like ------------------------------------------------------------------------------


def test_group_metadata_is_kafka_pythons(make_consumer):
    consumer = make_consumer("c1", "a", group_instance_id="w1")
    before = consumer.group_metadata()
    join(consumer)
    joined = consumer.group_metadata()

    assert before == ConsumerGroupMetadata("orders", -1, "", "w1", MemberState.UNJOINED)
    assert joined == ConsumerGroupMetadata("orders", 1, joined.member_id, "w1", MemberState.STABLE)
    assert joined.member_id.startswith("w1-")


def test_records_are_read_with_the_settings_for_records_and_for_connections(make_consumer):
    consumer = make_consumer(
        "c1", fetch_min_bytes=7, value_deserializer=str, request_timeout_ms=9_000, bootstrap_servers="kafka:1"
    )
    assert consumer.subscription() is None
    (records,) = ListRecords.made

    assert records.config == {
        "client_id": "c1",
        "bootstrap_servers": "kafka:1",
        "request_timeout_ms": 9_000,
        "fetch_min_bytes": 7,
        "value_deserializer": str,
        "allow_auto_create_topics": False,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "group_id": None,
    }


def test_what_makes_no_sense_is_refused(make_consumer):
    class Asynchronous(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked): ...

        async def on_partitions_assigned(self, assigned): ...

    with pytest.raises(ValueError, match="'smallest' is none of earliest, latest, none"):
        make_consumer("c1", auto_offset_reset="smallest")
    with pytest.raises(ValueError, match="must not be negative"):
        make_consumer("c1", auto_commit_interval_ms=-1)
    with pytest.raises(ValueError, match="give the names of assignors as `assignors`"):
        make_consumer("c1", partition_assignment_strategy=[])
    with pytest.raises(TypeError, match="asynchronous"):
        make_consumer("c1").subscribe(["a"], listener=Asynchronous())
    with pytest.raises(TypeError, match="list of strings"):
        make_consumer("c1").subscribe("a")


def test_nothing_stays_open_when_it_cannot_be_made(make_consumer, coordinator, monkeypatch):
    class Unreachable(ListRecords):
        def __init__(self, **config):
            raise KafkaTimeoutError

    monkeypatch.setattr(consumer_module, "AssignedRecords", Unreachable)
    channel = MemoryChannel(coordinator, "c1")

    with pytest.raises(KafkaTimeoutError):
        make_consumer("c1", channel=channel)
    assert channel.closed


def test_a_pattern_finds_topics_that_come_later(make_consumer, logs, coordinator):
    consumer = make_consumer("c1", metadata_max_age_ms=0)
    listener = Listener()
    consumer.subscribe(pattern="a|b", listener=listener)
    assert read(consumer, 40) == logs
    assert consumer.subscription() == {"a"}

    new = TopicPartition("b", 0)
    logs[new] = ["first"]
    coordinator.topics["b"] = 1
    assert read(consumer, 1)[new] == ["first"]
    assert consumer.subscription() == {"a", "b"}
    assert consumer.assignment() == {*A, new}


def test_topics_and_a_pattern_do_not_go_together(make_consumer):
    with pytest.raises(ValueError, match="either topics or a pattern"):
        make_consumer("c1").subscribe(["a"], pattern="a")


# -- kafka-python's consumer ---------------------------------------------------------------------------------

# They are for programs that share no work; docs/clients.md says so.
NOT_THERE = {"assign", "unsubscribe"}


def methods_of(kind):
    return {name: it for name, it in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_it_has_the_methods_of_kafka_python_with_their_arguments():
    ours, theirs = methods_of(GroupConsumer), methods_of(KafkaConsumer)
    assert theirs.keys() - ours.keys() == NOT_THERE
    for name in theirs.keys() - NOT_THERE:
        wanted = list(inspect.signature(theirs[name]).parameters)
        assert list(inspect.signature(ours[name]).parameters)[: len(wanted)] == wanted, name


def test_what_is_missing_is_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    assert [name for name in NOT_THERE if f"`{name}`" not in guide] == []


def test_questions_about_logs_go_to_the_brokers(make_consumer):
    consumer = make_consumer("c1")
    asked = []

    class Asked:
        def __getattr__(self, name):
            return lambda *arguments: asked.append((name, *arguments))

    consumer._records, records = Asked(), consumer._records
    try:
        consumer.topics()
        consumer.partitions_for_topic("a")
        consumer.beginning_offsets(A, 7)
        consumer.end_offsets(A)
        consumer.offsets_for_times({A[0]: 5}, 7)
        consumer.highwater(A[0])
        consumer.metrics()
        consumer.bootstrap(7)
        consumer.bootstrap_connected()
    finally:
        consumer._records = records
    assert asked == [
        ("topics",),
        ("partitions_for_topic", "a"),
        ("beginning_offsets", A, 7),
        ("end_offsets", A, None),
        ("offsets_for_times", {A[0]: 5}, 7),
        ("highwater", A[0]),
        ("metrics", False),
        ("bootstrap", 7, False),
        ("bootstrap_connected",),
    ]


# -- groups of the consumer protocol -------------------------------------------------------------------


@pytest.fixture
def make_kip848(make_consumer, coordinator):
    coordinator.config = msgspec.structs.replace(coordinator.config, group_consumer_heartbeat_interval_ms=30)
    of_coordinator = {"session_timeout_ms": None, "heartbeat_interval_ms": None}

    def make(name, *topics, **settings):
        return make_consumer(name, *topics, group_protocol="consumer", **of_coordinator | settings)

    return make


def evenly(*consumers):
    """Poll until the partitions are divided; without reading anything."""
    members = [each._member for each in consumers]

    def divided():
        owned = [partition for each in members for partition in each.assignment]
        return sorted(owned) == A and max(len(each.assignment) for each in members) == 4 // len(members)

    poll_until(divided, *members)


def test_a_member_of_the_consumer_protocol_reads_and_goes_on_where_it_was(make_kip848, logs, coordinator):
    first = make_kip848("c1", "a")
    assert read(first, 40) == logs
    metadata = first.group_metadata()
    assert (metadata.state, metadata.member_id) == (MemberState.STABLE, first._member.member_id)
    assert metadata.generation_id == first._member.generation_id > 0
    first.close()

    assert committed(coordinator) == [10] * 4
    logs[A[0]].append("new")
    assert read(make_kip848("c2", "a"), 1) == {A[0]: ["new"]}


def test_partitions_that_stay_go_on_being_read(make_kip848, coordinator):
    first, second = make_kip848("c1", "a"), make_kip848("c2", "a")
    read(first, 3, max_records=3)
    first.pause(A[0])
    records = first._records
    evenly(first, second)

    kept, gone = first.assignment(), second.assignment()
    assert {records.positions[each] for each in kept} <= {0, 3}
    assert records.positions.keys() == kept
    assert first.paused() == {A[0]} & kept
    assert [each for each in committed(coordinator) if each is not None][:1] in ([3], [0])
    assert read(second, 20).keys() == gone


def test_partitions_of_the_consumer_protocol_are_handed_over_without_loss_or_repeat(make_kip848, logs):
    consumers = [make_kip848("c1", "a")]
    seen = []

    def collect(max_records):
        for consumer in consumers:
            polled = consumer.poll(timeout_ms=5, max_records=max_records)
            seen.extend(record.value for records in polled.values() for record in records)

    wait_for(lambda: collect(3) or seen)
    consumers.append(make_kip848("c2", "a"))
    wait_for(lambda: collect(1) or len(consumers[1].assignment()) == 2)
    consumers.pop(0).close()
    wait_for(lambda: collect(7) or len(seen) >= 40)

    assert sorted(seen) == sorted(value for log in logs.values() for value in log)


def test_who_was_thrown_out_of_a_consumer_group_hears_that_all_is_lost(make_kip848, logs, coordinator):
    consumer, listener = make_kip848("c1"), Listener()
    consumer.subscribe(["a"], listener=listener)
    evenly(consumer)
    coordinator.forget("orders")
    poll_until(lambda: listener.words[1:] == ["lost", "assigned"], consumer)
    logs[A[0]].append("new")

    assert read(consumer, 1)[A[0]][-1] == "new"


def test_a_pattern_is_resolved_by_the_client(make_kip848, coordinator):
    consumer = make_kip848("c1")
    consumer.subscribe(pattern="^a")
    evenly(consumer)

    (join, *_) = coordinator.requests(ConsumerGroupHeartbeatRequest)
    assert (join.subscribed_topic_names, join.subscribed_topic_regex) == (["a"], None)


@pytest.mark.parametrize(
    ("protocol", "instead"), [("classic", "as `assignors`"), ("consumer", "give `server_assignor`")]
)
def test_a_strategy_is_refused_with_what_to_do(make_consumer, protocol, instead):
    with pytest.raises(ValueError, match=instead):
        make_consumer("c1", "a", group_protocol=protocol, partition_assignment_strategy=[])
