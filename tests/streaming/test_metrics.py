from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError
from prometheus_client import CollectorRegistry, Metric

from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.jobs.batch_metrics import BatchMetrics
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.unread import UnreadWatch
from group_coordinator.streaming.counts import Counts
from group_coordinator.streaming.metrics import CheckpointMetrics, DecisionMetrics, GroupMetrics, JobMetrics
from group_coordinator.streaming.metrics import groups as metrics_of_groups
from tests.patience import wait_for
from tests.streaming.registry import create_topic, samples

COUNTS = Counts(
    requests=Counter(join_group=5, heartbeat=7),
    responses=Counter(
        {
            ("join_group", "NONE"): 3,
            ("join_group", "MEMBER_ID_REQUIRED"): 2,
            ("unreadable", "INVALID_REQUEST"): 1,
        }
    ),
    rejected=4,
    offsets=Counter(committed=10, deleted=11, expired=12),
    events=Counter(member_added=9, member_removed=3, state_changed=14),
    members_removed=Counter(left=1, session_expired=2),
    state_changes=Counter(PreparingRebalance=6, Stable=8),
)


# -- decisions ---------------------------------------------------------------------------------------


def known(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Samples that are not 0."""
    return {name: value for name, value in samples(registry).items() if value}


def test_decisions_from_counts() -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: COUNTS))

    assert known(registry) == {
        ("group_coordinator_requests_total", "join_group"): 5,
        ("group_coordinator_requests_total", "heartbeat"): 7,
        ("group_coordinator_responses_total", "join_group", "NONE"): 3,
        ("group_coordinator_responses_total", "join_group", "MEMBER_ID_REQUIRED"): 2,
        ("group_coordinator_responses_total", "unreadable", "INVALID_REQUEST"): 1,
        ("group_coordinator_offsets_total", "committed"): 10,
        ("group_coordinator_offsets_total", "deleted"): 11,
        ("group_coordinator_offsets_total", "expired"): 12,
        ("group_coordinator_requests_rejected_total",): 4,
        ("group_coordinator_events_total", "member_added"): 9,
        ("group_coordinator_events_total", "member_removed"): 3,
        ("group_coordinator_events_total", "state_changed"): 14,
        ("group_coordinator_members_removed_total", "left"): 1,
        ("group_coordinator_members_removed_total", "session_expired"): 2,
        ("group_coordinator_state_changes_total", "PreparingRebalance"): 6,
        ("group_coordinator_state_changes_total", "Stable"): 8,
        ("group_coordinator_session_expirations_total",): 2,
    }


CAUSES = [each for each in RebalanceCause if each is not RebalanceCause.UNKNOWN]


def test_rebalances_by_cause() -> None:
    counts = Counts(
        rebalances=Counter(member_joined=4, session_expired=1),
        rebalance_durations=Counter(
            {("member_joined", 0): 1, ("member_joined", 4): 2, ("session_expired", 12): 1}
        ),
        rebalance_ms=Counter(member_joined=5_250, session_expired=301_000),
    )
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: counts))
    found = samples(registry)

    name = "group_coordinator_rebalance_duration_seconds"
    bounds = [
        "0.2",
        "0.5",
        "1.0",
        "2.0",
        "3.0",
        "5.0",
        "10.0",
        "20.0",
        "30.0",
        "60.0",
        "120.0",
        "300.0",
        "+Inf",
    ]
    durations = {cause: [found[f"{name}_bucket", cause, le] for le in bounds] for cause in CAUSES}
    assert durations.pop(RebalanceCause.MEMBER_JOINED) == [1, 1, 1, 1, *[3] * 9]
    assert durations.pop(RebalanceCause.SESSION_EXPIRED) == [*[0] * 12, 1]
    assert list(durations.values()) == [[0] * 13] * (len(CAUSES) - 2)
    assert (found[f"{name}_count", "member_joined"], found[f"{name}_sum", "member_joined"]) == (3, 5.25)
    assert (found[f"{name}_count", "session_expired"], found[f"{name}_sum", "session_expired"]) == (1, 301)
    begun = {key[1]: value for key, value in found.items() if key[0] == "group_coordinator_rebalances_total"}
    assert begun == dict.fromkeys(CAUSES, 0) | {"member_joined": 4, "session_expired": 1}


def test_what_is_known_beforehand_is_there_from_the_start() -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(Counts))
    found = samples(registry)

    assert set(found.values()) == {0}
    series = Counter(name[0].removeprefix("group_coordinator_") for name in found)
    assert series == {
        "requests_total": 13,
        "requests_rejected_total": 1,
        "events_total": 23,
        "state_changes_total": 7,
        "rebalances_total": 9,
        "rebalance_duration_seconds_bucket": 9 * 13,
        "rebalance_duration_seconds_count": 9,
        "rebalance_duration_seconds_sum": 9,
        "session_expirations_total": 1,
        "offsets_total": 3,
    }


def test_decisions_are_read_anew_each_time() -> None:
    counts = Counts(rejected=1)
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: counts))
    before = samples(registry)
    counts.rejected += 1

    name = ("group_coordinator_requests_rejected_total",)
    assert (before[name], samples(registry)[name]) == (1, 2)


# -- groups ------------------------------------------------------------------------------------------


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    yield producer
    producer.close()


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    return create_topic(bootstrap_servers, partitions=2, **{"cleanup.policy": "compact"})


def picture(state: str, members: int, **more: str) -> bytes:
    listed = [{"member_id": "m"}] * members
    return json.dumps({"group_id": "g", "state": state, "members": listed} | more).encode()


def groups(registry: CollectorRegistry) -> tuple[dict[str, float], float]:
    """Groups by state as far as there are any, and the members."""
    found = samples(registry)
    by_state = {key[1]: it for key, it in found.items() if key[0] == "group_coordinator_groups" and it}
    return by_state, found["group_coordinator_members",]


@pytest.mark.spark
def test_groups_by_their_newest_pictures(topic: str, producer: KafkaProducer, bootstrap_servers: str) -> None:
    for key, value in [
        (b"a", picture("PreparingRebalance", 1)),
        (b"a", picture("Stable", 2)),
        (b"b", picture("Stable", 3)),
        (b"c", picture("Empty", 0)),
    ]:
        producer.send(topic, key=key, value=value)
    producer.flush()
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 2, "Empty": 1}, 5))
        producer.send(topic, key=b"b", value=picture("CompletingRebalance", 4))
        producer.send(topic, key=b"d", value=picture("Reconciling", 2, group_type="consumer"))
        wait_for(
            lambda: (
                groups(registry) == ({"Stable": 1, "CompletingRebalance": 1, "Empty": 1, "Reconciling": 1}, 8)
            )
        )
        name = "group_coordinator_groups_of_type"
        found = samples(registry)
        assert (found[name, "classic"], found[name, "consumer"]) == (3, 1)


@pytest.mark.spark
def test_a_tombstone_ends_a_group(topic: str, producer: KafkaProducer, bootstrap_servers: str) -> None:
    producer.send(topic, key=b"never seen", value=None)
    producer.send(topic, key=b"a", value=picture("Stable", 2))
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 1}, 2))
        producer.send(topic, key=b"a", value=None)
        wait_for(lambda: groups(registry) == ({}, 0))


@pytest.mark.spark
def test_what_is_no_picture_is_passed_over(
    topic: str, producer: KafkaProducer, bootstrap_servers: str
) -> None:
    for value in (b"garbage", b"{}", b""):
        producer.send(topic, key=b"a", value=value)
    producer.send(topic, key=b"a", value=picture("Stable", 1))
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 1}, 1))


@pytest.mark.spark
def test_an_error_of_kafkas_does_not_end_them(
    topic: str, producer: KafkaProducer, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.send(topic, key=b"a", value=picture("Stable", 1))
    registry = CollectorRegistry()
    metrics = GroupMetrics(topic, python_client_config(bootstrap_servers, {}))
    poll, errors = metrics._consumer.poll, iter([TopicAuthorizationFailedError({topic})])
    monkeypatch.setattr(metrics_of_groups, "_PAUSE_S", 0)
    monkeypatch.setattr(metrics._consumer, "poll", lambda **how: fail_with(next(errors, None)) or poll(**how))
    with metrics:
        registry.register(metrics)
        wait_for(lambda: groups(registry) == ({"Stable": 1}, 1))


def fail_with(error: Exception | None) -> None:
    if error is not None:
        raise error


@pytest.mark.spark
def test_states_without_groups_are_zero(topic: str, bootstrap_servers: str) -> None:
    registry = CollectorRegistry()
    with GroupMetrics(topic, python_client_config(bootstrap_servers, {})) as metrics:
        registry.register(metrics)
        found = samples(registry)

    assert found == {
        ("group_coordinator_groups", "Empty"): 0,
        ("group_coordinator_groups", "PreparingRebalance"): 0,
        ("group_coordinator_groups", "CompletingRebalance"): 0,
        ("group_coordinator_groups", "Stable"): 0,
        ("group_coordinator_groups", "Assigning"): 0,
        ("group_coordinator_groups", "Reconciling"): 0,
        ("group_coordinator_groups_of_type", "classic"): 0,
        ("group_coordinator_groups_of_type", "consumer"): 0,
        ("group_coordinator_members",): 0,
    }


# -- all of them -------------------------------------------------------------------------------------


def _names(families: Iterable[Metric]) -> set[str]:
    return {family.name for family in families}


@pytest.mark.spark
def test_names_are_as_prometheus_wants_them(topic: str, bootstrap_servers: str) -> None:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: COUNTS))
    BatchMetrics(registry, "the-query-under-test")
    JobMetrics(registry)
    config = python_client_config(bootstrap_servers, {})
    with GroupMetrics(topic, config) as metrics, UnreadWatch(topic, config, lambda: {topic: {}}) as lag:
        registry.register(metrics)
        registry.register(lag)
        # These come once the topic was read.
        read = {f"group_coordinator_{it}" for it in ("groups", "groups_of_type", "input_lag_seconds")}
        families = wait_for(lambda: (found := list(registry.collect())) and read <= _names(found) and found)

    for family in families:
        assert re.fullmatch(r"group_coordinator(_[a-z]+)+", family.name)
        assert family.documentation.endswith(".")
        is_counter = all(re.search("_(total|created)$", sample.name) for sample in family.samples)
        assert is_counter == (family.type == "counter") or not family.samples


# -- the job ---------------------------------------------------------------------------------------


def test_outages_are_counted_and_measured() -> None:
    registry = CollectorRegistry()
    metrics = JobMetrics(registry)
    metrics.outage(Outage(1_000, 3_500))
    metrics.outage(Outage(10_000, 11_000))
    metrics.outage(Outage(11_500, 12_000), is_longer=True)
    metrics.standby.set(1)

    assert registry.get_sample_value("group_coordinator_outages_total") == 2
    assert registry.get_sample_value("group_coordinator_outage_seconds_total") == 4
    assert registry.get_sample_value("group_coordinator_standby") == 1


# -- the checkpoint's disk -----------------------------------------------------------------------------


def test_the_room_of_the_checkpoint(tmp_path: Path) -> None:
    checkpoint, registry = tmp_path / "checkpoint", CollectorRegistry()
    name = "group_coordinator_checkpoint"

    def shown() -> dict[str, float]:
        return {key[0].removeprefix(f"{name}_"): value for key, value in samples(registry).items()}

    with CheckpointMetrics(str(checkpoint), look_s=0.01) as metrics:
        registry.register(metrics)
        assert shown() == {}
        checkpoint.mkdir()
        wait_for(lambda: shown().get("files") == 0)
        (checkpoint / "metadata").write_bytes(b"x" * 100_000)
        # The file is there before what is in it.
        wait_for(lambda: shown()["bytes"] >= 100_000)
        assert shown()["files"] == 1
        assert shown()["bytes"] < 200_000
        assert 0 < shown()["free_bytes"] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


def test_a_disk_that_cannot_be_asked_leaves_the_figures_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectorRegistry()
    asked = []

    def refuse(path: object) -> None:
        asked.append(path)
        raise OSError("Stale file handle")

    with CheckpointMetrics(str(tmp_path), look_s=0.01) as metrics:
        registry.register(metrics)
        before = wait_for(lambda: samples(registry))
        monkeypatch.setattr(shutil, "disk_usage", refuse)
        # It goes on after the first refusal.
        wait_for(lambda: len(asked) >= 2)
        assert samples(registry).keys() == before.keys()
