from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.export import ExportHeader
from group_coordinator.checkpoints.identity import Identity, secret_sha256
from group_coordinator.checkpoints.restore_plan import RestorePlan, plan_restore
from group_coordinator.checkpoints.topics import read_topic_ids
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION

pytestmark = pytest.mark.spark

_numbers = itertools.count()


@pytest.fixture(scope="module")
def client_config(bootstrap_servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": bootstrap_servers}


@pytest.fixture(scope="module")
def topics(client_config: dict[str, Any]) -> list[str]:
    """Three of them with two partitions, each with five records in the first."""
    names = [f"plan{number}" for number in range(3)]
    admin = KafkaAdminClient(**client_config)
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1} for name in names})
    admin.wait_for_topics(names)
    admin.close()
    producer = KafkaProducer(**client_config)
    for name in names:
        for _ in range(5):
            producer.send(name, b"x", partition=0)
    producer.close()
    return names


def header(topics: list[str], topic_ids: dict[str, str], secret: str = "kept") -> ExportHeader:
    requests, clock = topics[:2]
    identity = Identity(
        schema_version=1,
        request_topic=requests,
        clock_topic=clock,
        state_partitions=2,
        secret=secret,
        secret_sha256=secret_sha256("kept"),
        topic_ids=topic_ids,
    )
    return ExportHeader(
        schema_version=1,
        batch_id=3,
        offsets={requests: {0: 3, 1: 0}, clock: {0: 2, 1: 0}},
        watermark_ms=7,
        groups=0,
        identity=identity,
    )


@pytest.fixture
def plan(topics: list[str], client_config: dict[str, Any]) -> Any:
    def plan(
        secret_in_export: str = "kept", ids: dict[str, str] | None = None, **choices: Any
    ) -> RestorePlan:
        known = read_topic_ids(client_config, topics[:2]) | (ids or {})
        return plan_restore(header(topics, known, secret_in_export), client_config, **choices)

    return plan


def refusal(plan: Any, *arguments: Any, **choices: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        plan(*arguments, **choices)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_as_it_was(plan: Any, topics: list[str], client_config: dict[str, Any]) -> None:
    identity, offsets = plan()

    assert {topics[0]: {0: 3, 1: 0}, topics[1]: {0: 2, 1: 0}} == offsets
    assert (SCHEMA_VERSION, *topics[:2], 2) == (
        identity.schema_version,
        identity.request_topic,
        identity.clock_topic,
        identity.state_partitions,
    )
    assert read_topic_ids(client_config, topics[:2]) == identity.topic_ids
    assert 2 == len(identity.topic_ids)


def test_another_number_of_state_partitions(plan: Any) -> None:
    assert 5 == plan(state_partitions=5).identity.state_partitions


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 5, 1: 0}),
        ('{"0": 4, "1": 0}', {0: 4, 1: 0}),
        ("2020-01-01T00:00:00", {0: 0, 1: 0}),
        ("9999-01-01T00:00:00+01:00", {0: 5, 1: 0}),
    ],
)
def test_another_request_topic(plan: Any, topics: list[str], place: str, expected: dict[int, int]) -> None:
    identity, offsets = plan(request_topic=topics[2], starting_offsets=place)

    assert {topics[2]: expected, topics[1]: {0: 2, 1: 0}} == offsets
    assert topics[2] == identity.request_topic
    assert {topics[1], topics[2]} == identity.topic_ids.keys()


def test_a_place_in_the_same_topic(plan: Any, topics: list[str]) -> None:
    assert {0: 0, 1: 0} == plan(starting_offsets="earliest").offsets[topics[0]]


def test_another_clock_is_read_from_its_end(plan: Any, topics: list[str]) -> None:
    identity, offsets = plan(clock_topic=topics[2])

    assert {topics[0]: {0: 3, 1: 0}, topics[2]: {0: 5, 1: 0}} == offsets
    assert topics[2] == identity.clock_topic


def test_a_topic_that_was_made_again_is_another_one(plan: Any, topics: list[str]) -> None:
    assert f"topic {topics[0]} is not the one that was exported: say with --starting-offsets" in refusal(
        plan, ids={topics[0]: "before"}
    )
    assert {0: 5, 1: 0} == plan(ids={topics[1]: "before"}).offsets[topics[1]]


def test_another_request_topic_needs_a_place(plan: Any, topics: list[str]) -> None:
    assert f"topic {topics[2]} is not the one that was exported: say with --starting-offsets" in refusal(
        plan, request_topic=topics[2]
    )


def test_a_topic_that_is_not_there(plan: Any) -> None:
    assert "there is no topic nowhere: create it, or name another one" == refusal(plan, clock_topic="nowhere")


@pytest.mark.parametrize("place", ['{"0": 4}', '{"0": 4, "1": -1}', '{"0": 4, "1": 0, "2": 0}', "{0}"])
def test_offsets_that_are_none(plan: Any, topics: list[str], place: str) -> None:
    assert (f"{place} is not an offset for each of the 2 partitions of {topics[0]}, as JSON") == refusal(
        plan, starting_offsets=place
    )


def test_a_place_that_is_none(plan: Any) -> None:
    assert (
        "'yesterday' is neither earliest nor latest, a time such as 2026-01-31T12:00:00, nor {\"0\": 123}"
    ) == refusal(plan, starting_offsets="yesterday")


# -- the secret for member ids -------------------------------------------------------------------------


def test_the_secret_of_the_export_is_kept(plan: Any) -> None:
    identity = plan().identity

    assert ("kept", secret_sha256("kept")) == (identity.secret, identity.secret_sha256)


@pytest.mark.parametrize("exported", ["kept", ""])
def test_the_secret_of_the_settings_is_not_written_down(plan: Any, exported: str) -> None:
    identity = plan(exported, secret="kept").identity

    assert ("", secret_sha256("kept")) == (identity.secret, identity.secret_sha256)


def test_without_the_secret(plan: Any) -> None:
    assert "the export has no secret for member ids: export with --with-secret, set" in refusal(plan, "")
    assert "member.id.secret is not the one of the export: set that one, or --new-secret" == refusal(
        plan, secret="other"
    )


def test_a_new_secret(plan: Any) -> None:
    drawn = [plan("", new_secret=True).identity for _ in range(2)]
    given = plan("", new_secret=True, secret="other").identity

    assert 3 == len({each.secret_sha256 for each in [*drawn, given]})
    assert [secret_sha256(each.secret) for each in drawn] == [each.secret_sha256 for each in drawn]
    assert ("", secret_sha256("other")) == (given.secret, given.secret_sha256)
