"""Export, restore and replay under members that live on."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from group_coordinator import GroupMember
from tests.patience import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = [pytest.mark.spark, pytest.mark.verify]

UNITS = [f"unit-{number}" for number in range(6)]


def await_all(condition: Callable[[], bool], members: Iterable[GroupMember]) -> None:
    wait_for(condition, meanwhile=lambda: [member.poll(timeout_ms=20) for member in members])


def by_group(events: Iterable[bytes]) -> dict[str, list[bytes]]:
    grouped = defaultdict(list)
    for event in events:
        grouped[json.loads(event)["group_id"]].append(event)
    return dict(grouped)


def replayed(harness: Harness, file: Path, **options: Any) -> dict[str, list[bytes]]:
    from group_coordinator.checkpoints.json_lines import read_json_lines
    from group_coordinator.commands.checkpoint.replaying import events
    from tests.streaming.harness import SECRET

    settings = msgspec.structs.replace(harness.settings, member_id_secret=SECRET.decode())
    return by_group(event.encode() for event in events(settings, read_json_lines(file), **options))


# All that `replay` may be told, and is not.
UNTOLD = {"until": None, "group_ids": (), "ledger": None}


def test_members_notice_nothing_but_a_pause(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """From one checkpoint to another with more state partitions. And the log, replayed, says the same."""
    from group_coordinator.checkpoints.export import export_checkpoint
    from group_coordinator.checkpoints.json_lines import read_json_lines, write_json_lines
    from group_coordinator.checkpoints.places import offsets_at
    from group_coordinator.checkpoints.restore import restore_checkpoint
    from group_coordinator.checkpoints.restore_plan import plan_restore
    from group_coordinator.streaming.query import per_group
    from tests.checkpoints.conftest import claim
    from tests.streaming.harness import SECRET
    from tests.streaming.harness import Harness as Coordinator

    with Coordinator(spark, bootstrap_servers, tmp_path) as harness:
        claim(harness)
        harness.start_and_warm_up()
        where_kafka = {"bootstrap_servers": bootstrap_servers}
        harness.join("silent", "c9", api_version=3, session_timeout_ms=6_000)
        where: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "request_topic": harness.settings.topics_requests,
            "response_topic": harness.settings.topics_responses,
            "session_timeout_ms": 60_000,
            "heartbeat_interval_ms": 1_000,
        }
        with (
            GroupMember(group_id="g", **where) as first,
            GroupMember(group_id="g", group_instance_id="static", **where) as second,
        ):
            members = (first, second)
            for member in members:
                member.subscribe(units=UNITS)
            await_all(lambda: {3} == {len(member.assignment) for member in members}, members)
            first.commit({next(iter(first.assignment)): 7})
            # While the query runs.
            write_json_lines(
                export_checkpoint(spark, harness.settings.checkpoint), tmp_path / "running.jsonl"
            )
            harness.events.first(lambda event: event["event"] == "member_removed")
            assert harness.stop()

            before = [(member.member_id, member.generation_id, member.assignment) for member in members]
            write_json_lines(
                export_checkpoint(spark, harness.settings.checkpoint), tmp_path / "stopped.jsonl"
            )
            export = read_json_lines(tmp_path / "stopped.jsonl")
            plan = plan_restore(
                export.header,
                where_kafka,
                state_partitions=3,
                secret=SECRET.decode(),
            )
            restored = str(tmp_path / "restored")
            restore_checkpoint(spark, export, restored, plan.identity, plan.offsets, per_group)
            ends = offsets_at(where_kafka, harness.settings.topics_events, "latest")

            harness.settings = msgspec.structs.replace(
                harness.settings, checkpoint=restored, state_partitions=3
            )
            claim(harness)
            harness.start(clock=False)  # the clock of before goes on
            for member in members:
                member.commit({next(iter(member.assignment)): 8})
            await_all(lambda: True, members)
            assert before == [
                (member.member_id, member.generation_id, member.assignment) for member in members
            ]
            harness.events.until(lambda values: len(values) >= sum(ends.values()) + 2)
            later = [it.value for it in harness.events.records if it.offset >= ends[it.partition]]
            assert ["offsets_committed"] * 2 == [json.loads(event)["event"] for event in later]
            assert harness.stop()

        live = by_group(record.value for record in harness.events.records)
        last = export_checkpoint(spark, restored).header.offsets[harness.settings.topics_requests]
        options: dict[str, Any] = UNTOLD | {"end": json.dumps(last)}
        running, stopped = tmp_path / "running.jsonl", tmp_path / "stopped.jsonl"

        assert live == replayed(harness, running, **options, start="earliest")
        assert {"g": live["g"]} == replayed(
            harness, stopped, **options | {"group_ids": ["g"]}, start="earliest"
        )
        # From where it was exported, with the groups of then.
        assert {"g": live["g"][-2:]} == replayed(harness, stopped, **options, start=None)
        rest = replayed(harness, running, **options, start=None)
        assert all(events == live[group_id][-len(events) :] for group_id, events in rest.items())
