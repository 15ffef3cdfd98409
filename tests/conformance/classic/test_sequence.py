from __future__ import annotations

import random

import msgspec
import pytest

from tests.conformance.classic.actors import Cast
from tests.conformance.classic.generator import random_sequence
from tests.conformance.classic.scripted import SCRIPTS
from tests.conformance.classic.sequence import APIS, OFFSETS, PROTOCOLS, Step
from tests.conformance.sequence import Sequence, read_sequence, write_sequence


def request_of(step: Step, cast: Cast | None = None):
    return (cast or Cast()).request(step, "orders", "r1")


def test_a_line_says_what_is_not_the_default() -> None:
    sequence = Sequence("plain", (Step(version=3), Step(actor=1, api="leave", also=(("0", None),))))

    line = write_sequence(sequence)

    assert line == ('{"setup":"plain","steps":[{"version":3},{"actor":1,"api":"leave","also":[["0",null]]}]}')
    assert read_sequence(line, Step) == sequence


@pytest.mark.parametrize("seed", range(50))
def test_drawn_sequences_can_be_written_and_read(seed: int) -> None:
    sequence = random_sequence(random.Random(seed))

    assert read_sequence(write_sequence(sequence), Step) == sequence
    assert random_sequence(random.Random(seed)) == sequence


def test_scripts_can_be_written_and_read() -> None:
    for sequence in SCRIPTS.values():
        assert read_sequence(write_sequence(sequence), Step) == sequence


def test_a_misspelt_line_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `autor`"):
        read_sequence('{"setup":"plain","steps":[{"autor":1}]}', Step)


def test_all_kinds_of_steps_are_drawn() -> None:
    steps = [step for seed in range(300) for step in random_sequence(random.Random(seed)).steps]

    assert {step.api for step in steps} == set(APIS)
    assert {step.protocols for step in steps} == PROTOCOLS.keys() - {"aa", "a!"}
    assert {step.offsets for step in steps} == OFFSETS.keys() - {"strange"}
    for field in msgspec.structs.fields(Step):
        assert len({getattr(step, field.name) for step in steps}) > 1, field.name


def test_a_fetch_of_all_names_none_in_the_versions_that_can() -> None:
    request = request_of(Step(api="fetch", offsets="all", version=1))

    assert (request["topics"], request["api_version"]) == (None, 2)


@pytest.mark.parametrize(
    ("api", "version", "lacks"),
    [
        ("join", 0, {"rebalance_timeout_ms", "group_instance_id", "reason"}),
        ("join", 4, {"group_instance_id", "reason"}),
        ("join", 7, {"reason"}),
        ("join", 8, set()),
        ("sync", 2, {"group_instance_id", "protocol_type", "protocol_name"}),
        ("sync", 4, {"protocol_type", "protocol_name"}),
        ("heartbeat", 2, {"group_instance_id"}),
        ("commit", 6, {"group_instance_id"}),
        ("commit", 7, set()),
        ("fetch", 6, {"require_stable"}),
        ("list", 3, {"states_filter"}),
    ],
)
def test_a_version_has_its_fields(api: str, version: int, lacks: set[str]) -> None:
    newest = request_of(Step(api=api, instance="own"))
    older = request_of(Step(api=api, instance="own", version=version))

    assert newest.keys() - older.keys() == lacks


def test_a_commit_of_an_old_version_has_a_retention_time_and_no_epochs() -> None:
    newest, older = (request_of(Step(api="commit", version=version)) for version in (9, 4))

    assert older.keys() - newest.keys() == {"retention_time_ms"}
    lacks = newest["topics"][0]["partitions"][0].keys() - older["topics"][0]["partitions"][0].keys()
    assert lacks == {"committed_leader_epoch"}


@pytest.mark.parametrize(
    ("api", "version", "clamped"),
    [("join", 99, 9), ("commit", 0, 2), ("fetch", 0, 1), ("delete_offsets", 3, 0), ("commit", None, 9)],
)
def test_a_version_that_there_is_not_is_replaced_by_the_nearest(api: str, version: int, clamped: int) -> None:
    assert request_of(Step(api=api, version=version))["api_version"] == clamped


def test_a_leave_of_an_old_version_is_of_one_member() -> None:
    assert request_of(Step(api="leave", version=2, also=(("1", None),)))["members"] == [{"member_id": ""}]


def test_to_wait_is_no_request() -> None:
    assert request_of(Step(api="wait")) is None
