"""A broker's clock that jumps, forward and back, while a member sends heartbeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.asking import requests_to
from tests.commands.ending import end
from tests.commands.job import Job
from tests.deploy.prometheus import watched
from tests.gateway.cluster import another_of, replicate
from tests.own_clock import BrokerWithOwnClock
from tests.patience import PATIENCE_S, wait_for
from tests.topics import Reader, Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]

REQUESTS = "the clock of request partition 0's leader"


def stamp_by_sender(bootstrap_servers: str, topic: str) -> None:
    """Have the senders say what a broker's clock says, where no broker has a clock of its own."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"message.timestamp.type": "CreateTime"})]
    )
    admin.close()
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:

        def is_so() -> bool:
            # Probes are left out, whatever their times are.
            sent = producer.send(topic, PROBE, partition=0, timestamp_ms=1_000)
            return bool(sent.get(PATIENCE_S).timestamp == 1_000)

        # The controller has it then, and the leader hears of it a little later.
        wait_for(is_so)


class Member:
    """The one member of a group, from when it is made."""

    def __init__(self, job: Job, requests: Requests) -> None:
        self.job = job
        self._requests = requests
        joined = requests.answer(requests.join("g", api_version=3))
        self._me = {name: joined[name] for name in ("member_id", "generation_id")}
        assignments = [{"member_id": joined["member_id"], "assignment": ""}]
        synced = requests.call("sync_group", "g", api_version=3, **self._me, assignments=assignments)
        assert synced["error"] == "NONE"

    def beat(self) -> None:
        assert self._requests.call("heartbeat", "g", **self._me)["error"] == "NONE"

    def beat_until(self, told: str, times: int = 1) -> None:
        """Send heartbeats until the coordinator has said `told` so many times, and one more."""
        wait_for(
            lambda: "".join(self.job.said).count(told) >= times,
            meanwhile=self.beat,
            said=lambda: self.job.said,
        )
        self.beat()


def test_nobody_expires_because_a_request_partitions_leader_jumps(tmp_path: Path) -> None:
    """By much, or by little more than clocks may differ. The query goes on, and nothing is an outage."""
    jumps_ms = [12_000, -12_000, 4_500, -4_500]
    with ExitStack() as stack:
        first = stack.enter_context(EmbeddedBroker(tmp_path / "1"))
        servers = first.bootstrap_servers
        job = Job(servers, tmp_path, "jumps", "--set", "requests.partitions=1")
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        leader = stack.enter_context(another_of(tmp_path, first, 2, kind=BrokerWithOwnClock))
        replicate(servers, TopicPartition(job.topics["requests"], 0), [2])
        requests = stack.enter_context(requests_to(servers, job))
        prometheus = stack.enter_context(watched(job, tmp_path / "prometheus"))
        member = Member(job, requests)
        assert "CoordinatorClockJumps" not in prometheus.firing()
        begun, outages = len(job.said), job.metrics()["group_coordinator_outages_total",]
        for number, ahead_ms in enumerate(jumps_ms, start=1):
            leader.set_clock(ahead_ms)
            member.beat_until(f"{REQUESTS} is wrong by ", times=number)
            leader.set_clock(0)
            member.beat_until(f"{REQUESTS} is right again", times=number)
        said = job.said[begun:]
        told = re.findall(rf"{REQUESTS} is wrong by (\S+) s: its requests count as of now", "\n".join(said))
        # A request counts as of its batch, which is planned a little after it came.
        assert [float(by) for by in told] == [pytest.approx(it / 1000, abs=3) for it in jumps_ms]
        assert not [line for line in said if line.startswith("restarting the query")]
        metrics = job.metrics()
        assert metrics["group_coordinator_outages_total",] == outages
        assert metrics["group_coordinator_clock_skew_seconds",] == pytest.approx(0, abs=3)
        wait_for(lambda: "CoordinatorClockJumps" in prometheus.firing())
        events = [msgspec.json.decode(event) for event in end(job, servers)]
    kinds = Counter(event["event"] for event in events)
    assert kinds["member_removed"] == 0
    assert metrics["group_coordinator_events_total", "clock_corrected"] == kinds["clock_corrected"]
    # Both ways, each time.
    assert kinds["clock_corrected"] >= 2 * len(jumps_ms)


def test_a_replay_knows_of_requests_that_were_late(start: Callable[..., Job], bootstrap_servers: str) -> None:
    """A member syncs when the join phase has ended, and by the clock that stamps its sync it has not."""
    settings = ("requests.partitions=1", "clock.max.gap.ms=20000", "group.initial.rebalance.delay.ms=1000")
    job = start(*(word for it in settings for word in ("--set", it)))
    job.wait_for("the coordinator is running")
    stamp_by_sender(bootstrap_servers, job.topics["requests"])
    with requests_to(bootstrap_servers, job) as requests:
        requests.ahead_ms = 0
        joined = requests.answer(requests.join("g", api_version=3))
        # By less than clocks may differ. So it is taken as it is.
        requests.ahead_ms = -8_000
        synced = requests.call(
            "sync_group",
            "g",
            api_version=3,
            member_id=joined["member_id"],
            generation_id=joined["generation_id"],
            assignments=[{"member_id": joined["member_id"], "assignment": ""}],
        )
        assert synced["error"] == "NONE"
    events = [msgspec.json.decode(event) for event in end(job, bootstrap_servers)]
    kinds = [event["event"] for event in events]
    expected = ["generation_completed", "request_late", "state_changed", "assignment_propagated"]
    assert kinds[kinds.index("generation_completed") :][:4] == expected
    (late,) = [event for event in events if event["event"] == "request_late"]
    assert late["appended_ms"] < late["at_ms"]
    assert "clock_corrected" not in kinds


def put_watermark_ahead(job: Job, by_ms: int) -> None:
    """Have a coordinator that has ended leave what it leaves if all clocks were ahead, and are set back."""
    file = job.checkpoint / "commits" / max(job.batches("commits"), key=int)
    version, commit = file.read_text().splitlines()
    fields = msgspec.json.decode(commit)
    fields["nextBatchWatermarkMs"] += by_ms
    # Hadoop's checksum of what it was.
    file.with_name(f".{file.name}.crc").unlink()
    file.write_text(f"{version}\n{msgspec.json.encode(fields).decode()}")


def stop(job: Job) -> None:
    job.terminate()
    assert job.exit_code() == 0


def test_a_broker_that_is_an_hour_ahead_for_a_while_stops_no_time(tmp_path: Path) -> None:
    """Its clock stamps requests and ticks. When it is right again, the watermark is not ahead.

    If it is, as after clocks that were ahead all together, time goes on from there after a restart.
    """

    def start() -> Job:
        jobs.append(Job(servers, tmp_path, "own-clock", "--set", "requests.partitions=1"))
        return jobs[-1]

    jobs: list[Job] = []
    with BrokerWithOwnClock(tmp_path / "kafka") as broker:
        servers = broker.bootstrap_servers
        try:
            job = start()
            job.wait_for("the coordinator is running")
            with requests_to(servers, job) as requests:
                member = Member(job, requests)
                for ahead_ms, told in [(3_600_000, "is wrong by +3"), (0, "is right again")]:
                    broker.set_clock(ahead_ms)
                    member.beat_until(f"{REQUESTS} {told}")
                ticks = f"the clock of the leader of topic {job.topics['clock']}"
                assert f"{ticks} differs from log time by +3" in "".join(job.said)
                job.wait_for(f"{ticks} is right again")
                with Reader({"bootstrap_servers": servers}, job.topics["events"]) as events:
                    events.first(lambda event: event["event"] == "member_removed")
                    stop(job)
                    put_watermark_ahead(job, 3_600_000)
                    job = start()
                    member = Member(job, requests)
                    member.beat_until(f"{REQUESTS} is wrong by -3")
                    stop(job)
                    member.job = job = start()
                    member.beat_until("the coordinator is running")
                    events.until(lambda it: sum(each["event"] == "member_removed" for each in it) == 2)
            removed = end(job, servers)
            assert sum(b"member_removed" in event for event in removed) == 2
        finally:
            for job in jobs:
                job.kill()
