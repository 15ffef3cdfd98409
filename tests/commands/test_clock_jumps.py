"""A broker's clock that jumps, forward and back, while a member sends heartbeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from group_coordinator.checkpoints.replay import replay
from group_coordinator.coordinator_state.outages import Outages
from tests.commands.asking import requests_to
from tests.commands.job import Job
from tests.faults.history import collect, read_topic
from tests.patience import wait_for

pytestmark = pytest.mark.spark

CLOCK = "the clock of request partition 0's leader"


def stamp_by_sender(bootstrap_servers: str, topic: str) -> None:
    """Have the senders say what a broker's clock says, because no broker here has a clock of its own."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"message.timestamp.type": "CreateTime"})]
    )
    admin.close()


def test_nobody_expires_and_a_replay_gives_the_same(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    job = start("--set", "requests.partitions=1")
    job.wait_for("the coordinator is running")
    stamp_by_sender(bootstrap_servers, job.topics["requests"])
    with requests_to(bootstrap_servers, job) as requests:
        requests.ahead_ms = 0
        joined = requests.answer(requests.join("g", api_version=3))
        me = {name: joined[name] for name in ("member_id", "generation_id")}
        assignments = [{"member_id": joined["member_id"], "assignment": ""}]
        assert (
            requests.call("sync_group", "g", api_version=3, **me, assignments=assignments)["error"] == "NONE"
        )

        def beat() -> None:
            assert requests.call("heartbeat", "g", **me)["error"] == "NONE"

        for ahead_ms, told in [
            (12_000, "has jumped by +1"),
            (0, "is right again"),
            (-12_000, "has jumped by -1"),
        ]:
            requests.ahead_ms = ahead_ms
            wait_for(
                lambda told=told: f"{CLOCK} {told}" in "".join(job.said),
                meanwhile=beat,
                said=lambda: job.said,
            )
            beat()
        assert job.metrics()["group_coordinator_clock_shifts_total",] == 3

    job.terminate()
    assert job.exit_code() == 0
    history = collect(job.settings, read_topic(bootstrap_servers, job.topics["requests"]), [], {})
    assert all(b"member_removed" not in (event.value or b"") for event in history.events)
    replayed = replay(
        history.requests,
        {},
        history.config,
        history.secret,
        history.watermark_ms,
        Outages(history.outages),
        layout=history.layout,
    )
    assert list(dict.fromkeys(event.value for event in history.events)) == list(replayed)
