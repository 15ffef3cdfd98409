"""GroupMember against the real coordinator core, over a channel in memory instead of Kafka."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

import msgspec
import pytest
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from coordinator_state.config import GroupConfig
from coordinator_state.errors import Errors
from coordinator_state.log import Record
from coordinator_state.requests import AnyRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from coordinator_state.responses import AnyResponse, HeartbeatResponse
from coordinator_state.step import Channel as Kind
from coordinator_state.step import step
from group_coordinator import GroupMember, MemberState
from group_coordinator.client.errors import (
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
)
from group_coordinator.client.work import MalformedMetadataError

PATIENCE_S = 60
UNITS = ["u1", "u2", "u3", "u4"]
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_min_session_timeout_ms=3_000,
    group_max_session_timeout_ms=100_000,
)


class Coordinator:
    """The coordinator's core and its log. Answers at once, unless it is paused: then it reads later."""

    def __init__(self):
        self.lock = threading.RLock()
        self.states = {}
        self.unread = []
        self.offset = 0
        self.paused = False
        self.log = []
        self.topics = {"a": 4, "b": 2}
        self.channels = defaultdict(list)

    def append(self, request):
        with self.lock:
            self.log.append(request)
            value = msgspec.json.encode(request)
            record = Record("requests", 0, self.offset, now_ms(), request.group_id.encode(), value)
            self.offset += 1
            self.unread.append(record)
            self.read()

    def read(self):
        """Read what is in the log, and let time pass."""
        with self.lock:
            if self.paused:
                return
            records, self.unread = self.unread, []
            for key in {record.key for record in records} | set(self.states):
                own = [record for record in records if record.key == key]
                result = step(key, self.states.get(key), own, now_ms(), CONFIG, b"secret")
                self.states[key] = result.state
                if result.state is None:
                    del self.states[key]
                for output in result.outputs:
                    if output.channel is Kind.RESPONSES:
                        self.deliver(output.key.decode(), msgspec.json.decode(output.value, type=AnyResponse))

    def deliver(self, client_id, answer):
        for channel in self.channels[client_id]:
            channel.put(answer)
            channel.put(answer)  # answers are at-least-once

    def resume(self):
        with self.lock:
            self.paused = False
            self.read()

    def forget(self, group_id):
        with self.lock:
            del self.states[group_id.encode()]

    def requests(self, kind):
        with self.lock:
            return [request for request in self.log if isinstance(request, kind)]


class MemoryChannel:
    reply_partition = 0

    def __init__(self, coordinator, client_id):
        self.coordinator = coordinator
        self.inbox = []
        self.arrived = threading.Condition()
        self.receive_error = None
        self.lookup_errors = []
        self.closed = False
        coordinator.channels[client_id].append(self)

    def put(self, answer):
        with self.arrived:
            self.inbox.append(answer)
            self.arrived.notify_all()

    def send(self, request: AnyRequest):
        assert not self.closed
        self.coordinator.append(request)

    def receive(self, timeout_ms):
        if self.receive_error is not None:
            raise self.receive_error
        self.coordinator.read()
        with self.arrived:
            self.arrived.wait_for(lambda: self.inbox, min(timeout_ms, 20) / 1000)
            answers, self.inbox = self.inbox, []
            return answers

    def partition_counts(self, topics):
        if self.lookup_errors:
            raise self.lookup_errors.pop()
        return {topic: self.coordinator.topics[topic] for topic in topics if topic in self.coordinator.topics}

    def close(self, timeout_ms):
        self.closed = True


def now_ms():
    return time.monotonic_ns() // 1_000_000


class Listener(ConsumerRebalanceListener):
    """kafka-python's own kind of listener, keeping a journal."""

    def __init__(self, look=None):
        self.journal = []
        self.look = look or (lambda: None)

    def on_partitions_revoked(self, revoked):
        self.journal.append(("revoked", revoked, self.look()))

    def on_partitions_assigned(self, assigned):
        self.journal.append(("assigned", assigned, self.look()))

    def on_partitions_lost(self, lost):
        self.journal.append(("lost", lost, self.look()))

    @property
    def words(self):
        return [word for word, *_ in self.journal]


@pytest.fixture
def coordinator():
    return Coordinator()


@pytest.fixture
def make_member(coordinator):
    members = []

    def make(name, **settings):
        defaults = {
            "group_id": "orders",
            "client_id": name,
            "session_timeout_ms": 90_000,
            "heartbeat_interval_ms": 30,
            "channel": MemoryChannel(coordinator, name),
        }
        member = GroupMember(**defaults | settings)
        members.append(member)
        return member

    yield make
    for member in members:
        member.close()


def poll_until(condition, *members):
    """Poll the members in turn until the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, [(each.state, each.assignment) for each in members]
        for member in members:
            member.poll(timeout_ms=5)


def wait_until(condition):
    poll_until(condition, _Pause())


class _Pause:
    state = assignment = None

    def poll(self, timeout_ms):
        threading.Event().wait(timeout_ms / 1000)


def partitions(**counts):
    return {TopicPartition(topic, i) for topic, count in counts.items() for i in range(count)}


def settled(units, *members):
    """Whether the members share exactly the units."""

    def check():
        owned = [unit for member in members for unit in member.assignment]
        return sorted(owned) == sorted(units) and len({member.generation_id for member in members}) == 1

    return check


# -- rebalances --------------------------------------------------------------------------------------


def test_one_member_owns_everything(make_member):
    member = make_member("c1")
    member.subscribe(topics=["a", "b", "missing"])

    assert member.poll(timeout_ms=PATIENCE_S * 1000) == partitions(a=4, b=2)
    assert (member.state, member.is_leader, member.generation_id) == (MemberState.STABLE, True, 1)
    assert member.member_id.startswith("c1-")


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_members_share_and_take_over(make_member, assignor):
    members = [make_member(f"c{i}", assignors=[assignor]) for i in range(3)]
    units = [f"u{i}" for i in range(7)]
    for member in members:
        member.subscribe(units=units)

    poll_until(settled(units, *members), *members)
    members[0].close()
    poll_until(settled(units, *members[1:]), *members[1:])

    assert members[0].assignment == frozenset()


def test_nobody_owns_what_another_still_owns(make_member):
    members = [make_member(f"c{i}") for i in range(3)]
    units = [f"u{i}" for i in range(5)]
    owners = {}

    class Exclusive:
        def __init__(self, name):
            self.name = name

        def on_partitions_assigned(self, assigned):
            for unit in assigned:
                assert owners.setdefault(unit, self.name) == self.name

        def on_partitions_revoked(self, revoked):
            for unit in revoked:
                assert owners.pop(unit) == self.name

    for i, member in enumerate(members):
        member.subscribe(units=units, listener=Exclusive(i))
        poll_until(settled(units, *members[: i + 1]), *members[: i + 1])
    for i, member in enumerate(members[:-1]):
        member.close()
        poll_until(settled(units, *members[i + 1 :]), *members[i + 1 :])

    assert owners == dict.fromkeys(units, 2)


def test_revoked_runs_before_the_join_and_assigned_after_the_sync(make_member, coordinator):
    first, second = make_member("c1"), make_member("c2")

    def look():
        joins = [each for each in coordinator.requests(JoinGroupRequest) if each.client_id == "c1"]
        return len(joins), first.state, len(first.assignment)

    listener = Listener(look)
    first.subscribe(units=["u1", "u2"], listener=listener)
    poll_until(settled(["u1", "u2"], first), first)
    second.subscribe(units=["u1", "u2"])
    poll_until(settled(["u1", "u2"], first, second), first, second)

    both = frozenset(["u1", "u2"])
    assert listener.journal[:2] == [
        ("assigned", both, (2, MemberState.STABLE, 2)),  # one join for the id, one with it
        ("revoked", both, (2, MemberState.STABLE, 2)),
    ]
    assert listener.words[2:] == ["assigned"]


def test_assigned_and_revoked_come_in_pairs(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=[], listener=listener)
    poll_until(lambda: listener.words == ["assigned"], member)
    member.close()

    assert [(word, units) for word, units, _ in listener.journal] == [
        ("assigned", frozenset()),
        ("revoked", frozenset()),
    ]


def test_other_units_lead_to_a_rejoin(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member.subscribe(units=["u1"], listener=listener)
    assert member.poll() == {"u1"}
    assert member.generation_id == 1

    member.subscribe(units=["u1", "u2"], listener=listener)
    poll_until(settled(["u1", "u2"], member), member)

    assert listener.words == ["assigned", "revoked", "assigned"]


def test_more_partitions_lead_to_a_rejoin(make_member, coordinator):
    member = make_member("c1", metadata_max_age_ms=1)
    member.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), member), member)

    coordinator.topics["a"] = 5

    poll_until(settled(partitions(a=5), member), member)


def test_look_up_that_fails_is_tried_again(make_member, caplog):
    member = make_member("c1")
    member._channel.lookup_errors = [KafkaConnectionError("gone")]
    member.subscribe(topics=["a"])

    poll_until(settled(partitions(a=4), member), member)
    assert "cannot look up partitions" in caplog.text


def test_look_up_that_may_not_be_is_raised(make_member):
    member = make_member("c1")
    member._channel.lookup_errors = [TopicAuthorizationFailedError("a")]
    member.subscribe(topics=["a"])

    with pytest.raises(TopicAuthorizationFailedError):
        poll_until(lambda: False, member)


# -- losing membership -------------------------------------------------------------------------------


def test_lost_membership_is_reported_as_lost_and_joined_again(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)

    coordinator.forget("orders")

    poll_until(lambda: len(listener.words) == 3, member)
    assert listener.words == ["assigned", "lost", "assigned"]


def test_generation_is_the_assignments_until_the_listener_is_done(make_member, coordinator):
    member = make_member("c1")
    listener = Listener(lambda: member.generation_id)
    member.subscribe(units=["u1"], listener=listener)
    assert member.generation_id == -1
    poll_until(settled(["u1"], member), member)
    coordinator.forget("orders")
    poll_until(lambda: listener.words[-2:] == ["lost", "assigned"], member)

    assert [generation for _, _, generation in listener.journal] == [1, 1, 1]
    member.close()
    assert member.generation_id == -1


def test_listener_without_lost_hears_revoked(make_member, coordinator):
    heard = []

    class Minimal:
        def on_partitions_assigned(self, assigned):
            heard.append("assigned")

        def on_partitions_revoked(self, revoked):
            heard.append("revoked")

    member = make_member("c1")
    member.subscribe(units=["u1"], listener=Minimal())
    poll_until(settled(["u1"], member), member)
    coordinator.forget("orders")
    poll_until(lambda: len(heard) == 3, member)

    assert heard == ["assigned", "revoked", "assigned"]


def test_heartbeats_go_on_while_the_program_is_busy(make_member, coordinator):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    before = len(coordinator.requests(HeartbeatRequest))

    wait_until(lambda: len(coordinator.requests(HeartbeatRequest)) > before + 5)

    assert member.poll() == {"u1"}


def test_coordinator_that_was_away_expires_nobody(make_member, coordinator):
    member = make_member("c1", session_timeout_ms=3_000)
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    coordinator.paused = True
    before = now_ms()
    wait_until(lambda: now_ms() > before + 3_300)
    assert member.poll() == {"u1"}

    coordinator.resume()

    answered = len(coordinator.log)
    poll_until(lambda: len(coordinator.log) > answered + 3, member)
    assert (member.assignment, member.generation_id) == ({"u1"}, 1)


def test_program_that_does_not_poll_loses_its_work(make_member, coordinator, caplog):
    member, listener = make_member("c1", max_poll_interval_ms=500), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(lambda: listener.words, member)

    wait_until(lambda: coordinator.requests(LeaveGroupRequest))

    assert "max_poll_interval_ms" in caplog.text
    poll_until(lambda: "lost" in listener.words, member)


# -- static members ----------------------------------------------------------------------------------


def make_pair(make_member, **settings):
    """Two members that share four units: the first one is static and leads."""
    static, other = make_member("c1", group_instance_id="w1", **settings), make_member("c2", **settings)
    listener = Listener()
    static.subscribe(units=UNITS)
    poll_until(settled(UNITS, static), static)
    other.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, static, other), static, other)
    assert static.is_leader
    return static, other, listener


@pytest.mark.parametrize("leads", [True, False])
def test_static_member_that_starts_again_owns_what_it_owned(make_member, coordinator, leads):
    if leads:
        before, other, listener = make_pair(make_member)
    else:
        other, listener = make_member("c2"), Listener()
        other.subscribe(units=UNITS, listener=listener)
        poll_until(settled(UNITS, other), other)
        before = make_member("c1", group_instance_id="w1")
        before.subscribe(units=UNITS)
        poll_until(settled(UNITS, before, other), before, other)
    owned, heard = before.assignment, len(listener.journal)
    before.close()
    after = make_member("c1-again", group_instance_id="w1")
    after.subscribe(units=UNITS)
    poll_until(lambda: after.assignment, after, other)

    assert (owned, other.generation_id, leads) == (after.assignment, after.generation_id, after.is_leader)
    assert after.member_id != before.member_id
    assert coordinator.requests(LeaveGroupRequest) == []
    beats = len(coordinator.requests(HeartbeatRequest))
    poll_until(lambda: len(coordinator.requests(HeartbeatRequest)) > beats + 6, after, other)
    assert len(listener.journal) == heard, "the other one notices nothing"


def test_leader_that_starts_again_still_watches_the_topics(make_member, coordinator):
    before = make_member("c1", group_instance_id="w1")
    before.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), before), before)
    before.close()
    after, listener = make_member("c1", group_instance_id="w1", metadata_max_age_ms=1), Listener()
    after.subscribe(topics=["a"], listener=listener)
    poll_until(lambda: after.assignment, after)
    assert (partitions(a=4), 1) == (after.assignment, after.generation_id)
    for _ in range(2):  # it looks once to know what there is
        after.poll(timeout_ms=5)

    coordinator.topics["a"] = 5

    poll_until(settled(partitions(a=5), after), after)
    assert listener.words == ["assigned", "revoked", "assigned"]


def test_static_member_that_leaves_for_good_gives_its_work_up(make_member):
    static, other, _ = make_pair(make_member)
    static.close(leave=True)

    poll_until(settled(UNITS, other), other)


def test_dynamic_member_may_stay_when_it_is_closed(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, member), member)
    member.close(leave=False)

    assert coordinator.requests(LeaveGroupRequest) == []
    assert listener.words == ["assigned", "revoked"]


def test_program_whose_name_is_taken_loses_its_work_and_does_not_come_back(make_member, coordinator):
    first, listener = make_member("c1", group_instance_id="w1"), Listener()
    first.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, first), first)
    second = make_member("c2", group_instance_id="w1")
    second.subscribe(units=UNITS)
    poll_until(settled(UNITS, second), second)

    for _ in range(2):
        with pytest.raises(FencedInstanceIdError, match="'w1'"):
            poll_until(lambda: False, first)
    assert (["assigned", "lost"], frozenset()) == (listener.words, first.assignment)
    first.close(leave=True)
    poll_until(lambda: True, second)

    assert coordinator.requests(LeaveGroupRequest) == []
    assert settled(UNITS, second)()


def test_static_member_that_does_not_poll_loses_its_work_and_gets_it_back(make_member, coordinator, caplog):
    static, listener = make_member("c1", group_instance_id="w1", max_poll_interval_ms=500), Listener()
    static.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, static), static)
    wait_until(lambda: static.state is MemberState.UNJOINED)
    assert "max_poll_interval_ms" in caplog.text

    poll_until(lambda: listener.words == ["assigned", "lost", "assigned"], static)

    assert (set(UNITS), 1) == (static.assignment, static.generation_id)
    assert coordinator.requests(LeaveGroupRequest) == []


def test_static_member_that_subscribes_to_something_else_while_it_is_out_gets_it(make_member):
    static = make_member("c1", group_instance_id="w1", max_poll_interval_ms=500)
    static.subscribe(units=UNITS)
    poll_until(settled(UNITS, static), static)
    wait_until(lambda: static.state is MemberState.UNJOINED)
    static.subscribe(units=["u9"])

    poll_until(settled(["u9"], static), static)


# -- errors ------------------------------------------------------------------------------------------


def test_refusal_is_raised_by_every_poll(make_member):
    member = make_member("c1", session_timeout_ms=1_000)
    member.subscribe(units=["u1"])

    for _ in range(2):
        with pytest.raises(InvalidSessionTimeoutError, match="3000 and 100000"):
            poll_until(lambda: False, member)
    assert member.state is MemberState.FAILED


def test_topics_and_units_do_not_mix(make_member):
    member, other = make_member("c1"), make_member("c2")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    other.subscribe(topics=["a"])

    with pytest.raises(InconsistentGroupProtocolError, match="same kind of work"):
        poll_until(lambda: False, other)
    with pytest.raises(ValueError, match="cannot change"):
        member.subscribe(topics=["a"])


def test_refusal_takes_the_assignment(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    coordinator.paused = True
    beats = len(coordinator.requests(HeartbeatRequest))
    wait_until(lambda: len(coordinator.requests(HeartbeatRequest)) > beats)
    request = coordinator.requests(HeartbeatRequest)[-1]
    answer = HeartbeatResponse.to(request.reply_to, "orders", Errors.INVALID_REQUEST)
    coordinator.deliver("c1", answer)

    with pytest.raises(Exception, match="INVALID_REQUEST"):
        poll_until(lambda: False, member)
    assert (listener.words, member.assignment) == (["assigned", "lost"], frozenset())


def test_error_in_the_background_is_raised_by_poll(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member._channel.receive_error = TopicAuthorizationFailedError("coordinator.responses")

    with pytest.raises(TopicAuthorizationFailedError):
        poll_until(lambda: False, member)
    assert listener.words == ["assigned", "lost"]


def test_error_of_a_listener_is_raised_once_and_the_rebalance_goes_on(make_member):
    class Clumsy(Listener):
        def on_partitions_revoked(self, revoked):
            super().on_partitions_revoked(revoked)
            if self.words.count("revoked") == 1:
                raise ZeroDivisionError

    member, listener = make_member("c1"), Clumsy()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member.subscribe(units=["u2"], listener=listener)

    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: False, member)
    poll_until(settled(["u2"], member), member)
    assert listener.words == ["assigned", "revoked", "assigned"]


def test_garbage_of_another_member_is_raised_by_the_leaders_poll(make_member, coordinator):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    garbage = JoinGroupRequest(
        request_id="x",
        client_id="x",
        group_id="orders",
        api_version=1,
        session_timeout_ms=90_000,
        protocol_type="units",
        protocols=[{"name": "range", "metadata": b"\xff"}],
    )
    coordinator.append(garbage)

    with pytest.raises(MalformedMetadataError, match="member x-"):
        poll_until(lambda: False, member)


def test_what_makes_no_sense_is_refused(make_member):
    member = make_member("c1")

    class Asynchronous(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked): ...

        async def on_partitions_assigned(self, assigned): ...

    with pytest.raises(RuntimeError, match="subscribe"):
        member.poll()
    with pytest.raises(ValueError, match="either"):
        member.subscribe()
    with pytest.raises(ValueError, match="either"):
        member.subscribe(topics=["a"], units=["u"])
    with pytest.raises(TypeError, match="asynchronous"):
        member.subscribe(topics=["a"], listener=Asynchronous())
    with pytest.raises(ValueError, match="cooperative"):
        make_member("c2", assignors=["cooperative-sticky"])
    with pytest.raises(ValueError, match="group_instance_id must not be empty"):
        make_member("c2", group_instance_id="")


# -- closing -----------------------------------------------------------------------------------------


def test_close_revokes_leaves_and_is_final(make_member, coordinator):
    with make_member("c1") as member:
        listener = Listener(lambda: len(coordinator.requests(LeaveGroupRequest)))
        member.subscribe(units=["u1"], listener=listener)
        poll_until(settled(["u1"], member), member)
    member.close()

    assert listener.journal[1:] == [("revoked", frozenset(["u1"]), 0)]
    (leave,) = coordinator.requests(LeaveGroupRequest)
    assert leave.members[0].reason == "the member is being closed"
    assert member._channel.closed
    assert not member._background.is_alive()
    assert member.state is MemberState.CLOSED
    for call in (member.poll, lambda: member.subscribe(units=["u1"])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_close_before_anything_was_done(make_member, coordinator):
    make_member("c1").close()

    assert coordinator.log == []


def test_close_from_another_thread_ends_a_poll(make_member):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    results = []
    waiting = threading.Thread(target=lambda: results.append(member.poll(timeout_ms=600_000)))
    waiting.start()
    wait_until(lambda: member._news._waiters)

    member.close()
    waiting.join(PATIENCE_S)

    assert not waiting.is_alive()
    assert member.state is MemberState.CLOSED


def test_close_within_a_listener(make_member):
    class Quitter(Listener):
        def on_partitions_assigned(self, assigned):
            super().on_partitions_assigned(assigned)
            member.close()

    member, listener = make_member("c1"), Quitter()
    member.subscribe(units=["u1"], listener=listener)

    assert member.poll(timeout_ms=PATIENCE_S * 1000) == frozenset()
    assert listener.words == ["assigned", "revoked"]


def test_close_raises_what_the_listener_raises_after_leaving(make_member, coordinator):
    class Clumsy(Listener):
        def on_partitions_revoked(self, revoked):
            raise ZeroDivisionError

    member = make_member("c1")
    member.subscribe(units=["u1"], listener=Clumsy())
    poll_until(settled(["u1"], member), member)

    with pytest.raises(ZeroDivisionError):
        member.close()
    assert len(coordinator.requests(LeaveGroupRequest)) == 1
    assert member._channel.closed
