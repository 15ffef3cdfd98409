"""Members of the consumer protocol against the real thing: Kafka, and the coordinator on Spark."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator import GroupConsumer, GroupMember, MemberState
from tests.client.memory import Listener, poll_until
from tests.patience import wait_for
from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

UNITS = [f"u{number}" for number in range(6)]
PARTITIONS = 6
SESSION_MS = 6_000

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def harness(spark, bootstrap_servers, tmp_path_factory):
    settings = {
        "group_consumer_heartbeat_interval_ms": 500,
        "group_consumer_session_timeout_ms": SESSION_MS,
        "group_consumer_assignment_interval_ms": 200,
    }
    directory = tmp_path_factory.mktemp("coordinator")
    with Harness(spark, bootstrap_servers, directory, **settings) as harness:
        harness.start_and_warm_up()
        yield harness


@pytest.fixture
def settings(harness, bootstrap_servers):
    return {
        "group_id": f"consumers-{next(_numbers)}",
        "bootstrap_servers": bootstrap_servers,
        "request_topic": harness.settings.topics_requests,
        "response_topic": harness.settings.topics_responses,
        "group_protocol": "consumer",
    }


@pytest.fixture
def make_member(settings):
    members = []

    def make(listener=None, **more):
        member = GroupMember(**settings | more)
        members.append(member)
        member.subscribe(units=UNITS, listener=listener)
        return member

    yield make
    for member in members:
        member.close()


PROGRAM = """
import json, sys
from group_coordinator import GroupMember
settings = json.loads(sys.argv[1])
member = GroupMember(**settings)
member.subscribe(units=json.loads(sys.argv[2]))
while True:
    print(json.dumps(sorted(member.poll(timeout_ms=50))), flush=True)
"""


class Program:
    """A program with a member, which can be killed."""

    def __init__(self, **settings):
        arguments = [json.dumps(settings), json.dumps(UNITS)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.assignment = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.assignment = json.loads(line)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()


class Owners:
    """The owners of all units; nobody may get what another one has."""

    def __init__(self):
        self.of = {}

    def listener(self, name):
        owners = self.of

        class Exclusive(Listener):
            def on_partitions_assigned(self, assigned):
                for unit in assigned:
                    assert owners.setdefault(unit, name) == name

            def on_partitions_revoked(self, revoked):
                for unit in revoked:
                    assert owners.pop(unit) == name

        return Exclusive()


def share(*members):
    def shared():
        owned = sorted(unit for each in members for unit in each.assignment)
        counts = {len(each.assignment) for each in members}
        return owned == UNITS and counts == {len(UNITS) // len(members)}

    poll_until(shared, *members)


def test_units_go_from_one_to_three_members_and_back(make_member):
    owners = Owners()
    members = []
    for name in range(3):
        members.append(make_member(owners.listener(name)))
        share(*members)
    assert {each.state for each in members} == {MemberState.STABLE}
    while len(members) > 1:
        members.pop(0).close()
        share(*members)

    assert owners.of == dict.fromkeys(UNITS, 2)


def test_the_work_of_one_that_was_killed_goes_to_the_others(make_member, settings):
    member = make_member()
    share(member)
    program = Program(**settings)
    try:
        poll_until(lambda: len(program.assignment) == len(member.assignment) == 3, member)
    finally:
        program.kill()
    share(member)


def test_a_static_member_that_starts_again_has_what_it_had(make_member):
    heard = Listener()
    first, other = make_member(group_instance_id="w1"), make_member(heard)
    share(first, other)
    owned, journal = first.assignment, list(heard.journal)
    first.close()
    again = make_member(group_instance_id="w1")
    share(again, other)

    assert (again.assignment, heard.journal) == (owned, journal)


def test_members_keep_their_work_while_the_coordinator_is_away_and_starts_again(make_member, harness):
    heard = Listener()
    members = [make_member(heard) for _ in range(3)]
    share(*members)
    journal, before = list(heard.journal), [each.assignment for each in members]
    harness.stop()
    outage = threading.Event()
    timer = threading.Timer(SESSION_MS * 1.5 / 1000, outage.set)
    timer.start()
    poll_until(outage.is_set, *members)
    harness.start(clock=False)
    members[0].commit(dict.fromkeys(members[0].assignment, 7), timeout_ms=60_000)
    share(*members)

    assert ([each.assignment for each in members], heard.journal) == (before, journal)
    assert [each.holds_assignment for each in members] == [True] * 3


# -- records -----------------------------------------------------------------------------------------


class Numbers:
    """A topic of a test's own, with numbers in it."""

    def __init__(self, bootstrap_servers):
        self.topic = f"consumed-{next(_numbers)}"
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])
        admin.close()
        self.producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        self.next = 0

    def produce(self, count):
        for _ in range(count):
            self.producer.send(self.topic, str(self.next).encode(), partition=self.next % PARTITIONS)
            self.next += 1
        self.producer.flush()


@pytest.fixture
def numbers(bootstrap_servers):
    numbers = Numbers(bootstrap_servers)
    yield numbers
    numbers.producer.close()


@pytest.fixture
def make_consumer(settings, numbers):
    consumers = []

    def make(**more):
        defaults = {"auto_offset_reset": "earliest", "max_poll_records": 7}
        consumer = GroupConsumer(numbers.topic, **defaults | settings | more)
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


def collect(values, enough, *consumers):
    """Poll in turn until it is enough."""

    def poll():
        for consumer in consumers:
            polled = consumer.poll(timeout_ms=50)
            values.extend(int(record.value) for records in polled.values() for record in records)

    wait_for(enough, meanwhile=poll, said=lambda: len(values))


def test_partitions_go_from_one_to_three_consumers_and_back_without_loss_or_repeat(make_consumer, numbers):
    values, consumers = [], []
    for count in (1, 2, 3):
        consumers.append(make_consumer())
        numbers.produce(60)
        collect(
            values,
            lambda each=PARTITIONS // count: all(len(it.assignment()) == each for it in consumers),
            *consumers,
        )
    while len(consumers) > 1:
        consumers.pop(0).close()
        numbers.produce(60)
        collect(
            values,
            lambda: (
                sum(len(it.assignment()) for it in consumers) == PARTITIONS
                and len(consumers[0].assignment()) == PARTITIONS // len(consumers)
            ),
            *consumers,
        )
    collect(values, lambda: len(values) >= numbers.next, *consumers)

    assert sorted(values) == list(range(numbers.next))
