"""The coordinator's core in memory, and members' ways to it."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager

import msgspec
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import TopicPartition

from group_coordinator import GroupMember
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.requests import AnyRequest, ConsumerGroupHeartbeatRequest, TopicFacts
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import Channel as Kind
from group_coordinator.coordinator_state.step import step
from tests.patience import PATIENCE_S, wait_for

CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_consumer_assignment_interval_ms=0,
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
        self.config = CONFIG
        self.log = []
        self.events = []
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
                result = step(key, self.states.get(key), own, now_ms(), self.config, b"secret")
                self.states[key] = result.state
                if result.state is None:
                    del self.states[key]
                self.events += [each.value for each in result.outputs if each.channel is Kind.EVENTS]
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
        self.receive_error = self.send_error = None
        self.lookup_errors = []
        self.closed = False
        self.listen_to(client_id)

    def listen_to(self, client_id):
        if self not in self.coordinator.channels[client_id]:
            self.coordinator.channels[client_id].append(self)

    def put(self, answer):
        with self.arrived:
            self.inbox.append(answer)
            self.arrived.notify_all()

    def send(self, request: AnyRequest):
        assert not self.closed
        if self.send_error is not None:
            raise self.send_error
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

    def topic_facts(self, topics):
        counts = self.partition_counts(topics)
        return {topic: TopicFacts(topic, count, f"id-of-{topic}") for topic, count in counts.items()}

    def close(self, timeout_ms):
        self.closed = True


def beat(coordinator, group_id, member_id, epoch=0, **fields):
    """Send a heartbeat of the consumer protocol; epoch 0 joins, and reads topic a of two partitions."""
    joins = {
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["a"],
        "topic_partitions": [],
        "topics": [TopicFacts("a", 2, "id-of-a")],
    }
    coordinator.append(
        ConsumerGroupHeartbeatRequest(
            request_id=f"{member_id}-{len(coordinator.log)}",
            client_id=f"c-{member_id}",
            client_host="/10.0.0.7",
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            **(fields if epoch else joins),
        )
    )


@contextmanager
def member_maker(coordinator):
    """`make(group_id, client_id, topics=... or units=...)` is a member that owns something."""
    with ExitStack() as members:

        def make(group_id="orders", client_id="c1", group_instance_id=None, **what):
            member = GroupMember(
                group_id=group_id,
                client_id=client_id,
                client_host="h1",
                group_instance_id=group_instance_id,
                session_timeout_ms=90_000,
                heartbeat_interval_ms=30,
                channel=MemoryChannel(coordinator, client_id),
            )
            members.callback(member.close, leave=True)
            member.subscribe(**what)
            assert member.poll(timeout_ms=PATIENCE_S * 1000)
            return member

        yield make


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


def poll_until(condition, *members):
    """Poll the members in turn until the condition holds."""
    wait_for(
        condition,
        meanwhile=lambda: [member.poll(timeout_ms=5) for member in members],
        said=lambda: [(each.state, each.assignment) for each in members],
    )


def partitions(**counts):
    return {TopicPartition(topic, i) for topic, count in counts.items() for i in range(count)}
