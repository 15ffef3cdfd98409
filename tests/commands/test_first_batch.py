"""A first batch that takes longer than sessions last, as on a machine with too much to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from group_coordinator.streaming.ticks import Tick
from tests.commands.asking import requests_to
from tests.commands.job import Job, gated_python
from tests.faults.history import read_topic
from tests.patience import wait_for
from tests.topics import Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]

GAP_MS = 4_000
SESSION_MS = 3 * GAP_MS  # as long as a batch may take while time counts
LAG = tuple((f"group_coordinator_input_lag_{unit}",) for unit in ("records", "seconds"))
RUNNING = "the coordinator is running"
FIRST = "catching up with the log"


def make_stable(requests: Requests, group_id: str) -> dict[str, object]:
    """A group of one member; what that one says of itself in a heartbeat."""
    joined = requests.answer(requests.join(group_id, api_version=3, session_timeout_ms=SESSION_MS))
    me = {name: joined[name] for name in ("member_id", "generation_id")}
    assignments = [{"member_id": joined["member_id"], "assignment": ""}]
    synced = requests.call("sync_group", group_id, api_version=3, **me, assignments=assignments)
    assert synced["error"] == "NONE"
    return me


def ticked_ms(bootstrap_servers: str, topic: str) -> int:
    """For how long the newest clock has ticked, by its records' times."""
    began = last = 0
    for record in read_topic(bootstrap_servers, topic):
        last = record.timestamp
        if msgspec.json.decode(record.value, type=Tick).tick == 1:
            began = last
    return last - began


@pytest.mark.parametrize(
    ("end", "has_standby"),
    [
        (Job.kill, False),
        (Job.terminate, False),
        (Job.kill, True),
    ],
)
def test_it_is_given_its_time_and_expires_nobody(
    start: Callable[..., Job],
    bootstrap_servers: str,
    tmp_path: Path,
    end: Callable[[Job], None],
    has_standby: bool,
) -> None:
    gap = ("--set", f"clock.max.gap.ms={GAP_MS}", "--set", f"group.max.session.timeout.ms={SESSION_MS}")
    python, gate = gated_python(tmp_path)
    next_one = partial(start, *gap, "--set", f"spark.pyspark.python={python}")
    job = start(*gap)
    job.wait_for(RUNNING)
    standby = next_one("--standby") if has_standby else None
    if standby is not None:
        standby.wait_for("standing by: ")
    with requests_to(bootstrap_servers, job) as requests:
        me = make_stable(requests, "g")
        end(job)
        job.exit_code()

        job = standby or next_one()
        # Killed, it has left a batch behind that runs again first, or none: both happen.
        job.wait_for(FIRST)
        # The member waits for the answer to one heartbeat, as Kafka's own clients do, and sends no other.
        beat = requests.send("heartbeat", "g", **me)
        wait_for(lambda: ticked_ms(bootstrap_servers, job.topics["clock"]) > SESSION_MS + GAP_MS)
        assert not [line for line in job.said if line == RUNNING or line.startswith("restarting")]
        gate.touch()

        job.wait_for(RUNNING)
        requests.wait_until(lambda: beat in requests.answered)
        assert requests.answered[beat]["error"] == "NONE"
        assert requests.call("heartbeat", "g", **me)["error"] == "NONE"
    assert not [line for line in job.said if "restarting" in line]


def test_of_a_new_checkpoint_does_not_hide_what_waits(
    start: Callable[..., Job], bootstrap_servers: str, tmp_path: Path
) -> None:
    python, gate = gated_python(tmp_path)
    # Without probes, which nobody reads either.
    job = start("--set", f"spark.pyspark.python={python}", "--set", "probes.enabled=false")
    job.wait_for("topics are ready")
    with requests_to(bootstrap_servers, job) as requests:
        join = requests.join("g", api_version=3)
        wait_for(lambda: job.metrics().get(LAG[0]) == 1)
        # As old as it is: an alert fires although no batch has ever ended.
        first_s = job.metrics()[LAG[1]]
        wait_for(lambda: job.metrics()[LAG[1]] > first_s + 2)
        assert not list(job.checkpoint.glob("commits/*"))
        gate.touch()
        requests.wait_until(lambda: join in requests.answered)
        wait_for(lambda: job.metrics().get(LAG[0]) == 0)
