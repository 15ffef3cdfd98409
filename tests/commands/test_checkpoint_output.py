from __future__ import annotations

import json

import msgspec
import pytest

from group_coordinator.checkpoints.identity import Identity
from group_coordinator.checkpoints.inspection import GroupSize, GroupsSummary, Inspection
from group_coordinator.checkpoints.offset_log import PlannedBatch
from group_coordinator.commands.checkpoint.output import as_json, as_table
from group_coordinator.coordinator_state.outages import Outage

FOUND = Inspection(
    checkpoint="/var/lib/coordinator",
    identity=Identity(
        schema_version=2,
        request_topic="requests",
        clock_topic="clock",
        state_partitions=4,
        secret="",
        secret_sha256="digest",
    ),
    planned=(100, 202),
    committed=(101, 201),
    batch=PlannedBatch(
        batch_id=201,
        watermark_ms=1_577_836_800_500,
        timestamp_ms=1_577_836_801_000,
        offsets={"requests": {0: 12, 1: 7}, "clock": {0: 99}},
        next_watermark_ms=1_577_836_801_000,
        conf={"spark.sql.streaming.stateStore.providerClass": "org.example.SomeProvider"},
    ),
    groups=GroupsSummary(
        total=3,
        by_state={"Empty": 1, "Stable": 2},
        members=5,
        offsets=8,
        bytes=1_234_567,
        partitions={0: 1, 3: 2},
        largest=[GroupSize(group_id="a-long-group-id", state="Stable", members=5, offsets=8, bytes=999)],
    ),
    bytes=12_300,
    disk_bytes=456_000,
    outages=[Outage(1, 2)],
)


def test_the_table() -> None:
    assert """\
checkpoint         /var/lib/coordinator
size               12.3 kB (456 kB on the disk)
schema version     2
state partitions   4
batches planned    100 to 202
batches committed  101 to 201
state store        SomeProvider
batch              201
planned at         2020-01-01T00:00:01.000+00:00
watermark          2020-01-01T00:00:00.500+00:00
groups             3, 1.23 MB
members            5
offsets            8
outages            1

TOPIC     PARTITION  END-OFFSET
clock     0          99
requests  0          12
requests  1          7

STATE   #GROUPS
Empty   1
Stable  2

STATE-PARTITION  #GROUPS
0                1
3                2

LARGEST          STATE   #MEMBERS  #OFFSETS  SIZE
a-long-group-id  Stable  5         8         999 B
""" == as_table(FOUND)


def test_json_says_the_same_and_steers_no_terminal() -> None:
    hostile = "é\x1b[2J\x9b1m\x7f\u202e"
    largest = [msgspec.structs.replace(FOUND.groups.largest[0], group_id=hostile)]
    found = msgspec.structs.replace(FOUND, groups=msgspec.structs.replace(FOUND.groups, largest=largest))
    document = as_json(found)

    assert msgspec.json.decode(document, type=Inspection) == found
    assert r'"é\u001b[2J\u009b1m\u007f\u202e"' in document


def test_a_batch_that_is_running() -> None:
    batch = msgspec.structs.replace(FOUND.batch, next_watermark_ms=None, watermark_ms=0)
    lines = as_table(msgspec.structs.replace(FOUND, batch=batch, groups=None, outages=[])).splitlines()

    assert "batch              201 (running, or to be run again)" in lines
    assert "watermark          -" in lines
    assert "outages            0" in lines
    assert not any(line.startswith(("groups", "STATE", "LARGEST")) for line in lines)


def test_before_the_first_batch() -> None:
    nothing = msgspec.structs.replace(FOUND, batch=None, groups=None, planned=None, committed=None)
    lines = as_table(nothing).splitlines()

    assert "batches committed  -" in lines
    # No table without rows.
    assert not any("PARTITION" in line for line in lines)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (123_456, "123 kB"),
        (5 * 10**12, "5 TB"),
        (10**16, "1e+04 TB"),
    ],
)
def test_sizes(count: int, expected: str) -> None:
    in_a_store = msgspec.structs.replace(FOUND, bytes=count, disk_bytes=None)
    assert f"size               {expected}" in as_table(in_a_store).splitlines()


def test_json() -> None:
    found = json.loads(as_json(FOUND))

    assert found["batch"]["offsets"] == {"requests": {"0": 12, "1": 7}, "clock": {"0": 99}}
    assert found["groups"]["largest"][0]["bytes"] == 999
    assert found["planned"] == [100, 202]
