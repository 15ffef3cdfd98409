from __future__ import annotations

import random

import msgspec
import pytest

from tests.conformance.actors import Cast
from tests.conformance.generator import random_sequence
from tests.conformance.scripted import SCRIPTS
from tests.conformance.sequence import APIS, PROTOCOLS, Sequence, Step, read_sequence, write_sequence


def request_of(step: Step, cast: Cast | None = None):
    return (cast or Cast()).request(step, "orders", "r1")


def test_a_line_says_what_is_not_the_default() -> None:
    sequence = Sequence("plain", (Step(version=3), Step(actor=1, api="leave", also=(("0", None),))))

    line = write_sequence(sequence)

    assert line == ('{"setup":"plain","steps":[{"version":3},{"actor":1,"api":"leave","also":[["0",null]]}]}')
    assert read_sequence(line) == sequence


@pytest.mark.parametrize("seed", range(50))
def test_drawn_sequences_can_be_written_and_read(seed: int) -> None:
    sequence = random_sequence(random.Random(seed))

    assert read_sequence(write_sequence(sequence)) == sequence
    assert random_sequence(random.Random(seed)) == sequence


def test_scripts_can_be_written_and_read() -> None:
    for sequence in SCRIPTS.values():
        assert read_sequence(write_sequence(sequence)) == sequence


def test_a_misspelt_line_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `autor`"):
        read_sequence('{"setup":"plain","steps":[{"autor":1}]}')


def test_all_kinds_of_steps_are_drawn() -> None:
    steps = [step for seed in range(300) for step in random_sequence(random.Random(seed)).steps]

    assert {step.api for step in steps} == set(APIS)
    assert {step.protocols for step in steps} == PROTOCOLS.keys() - {"aa"}
    for field in msgspec.structs.fields(Step):
        assert len({getattr(step, field.name) for step in steps}) > 1, field.name


def test_a_client_that_is_told_goes_on() -> None:
    cast = Cast()
    sent = [request_of(Step(), cast)]
    answers = [
        {"api": "join_group", "error_code": 79, "member_id": "m"},
        {
            "api": "join_group",
            "error_code": 0,
            "member_id": "m",
            "generation_id": 4,
            "protocol_type": "consumer",
            "protocol_name": "b",
            "members": [{"member_id": "m"}, {"member_id": "n"}],
        },
        {"api": "sync_group", "error_code": 0},
        {"api": "heartbeat", "error_code": 27},
    ]
    for answer in answers:
        cast[0].hear(sent[-1], answer)
        sent.append(request_of(Step(), cast))

    assert [each["api"] for each in sent] == [
        "join_group",
        "join_group",
        "sync_group",
        "heartbeat",
        "join_group",
    ]
    assert [each.get("member_id") for each in sent] == ["", "m", "m", "m", "m"]
    assert (sent[2]["generation_id"], sent[2]["protocol_name"]) == (4, "b")
    assert [each["member_id"] for each in sent[2]["assignments"]] == ["m", "n"]


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
    ],
)
def test_a_version_has_its_fields(api: str, version: int, lacks: set[str]) -> None:
    newest = request_of(Step(api=api, instance="own"))
    older = request_of(Step(api=api, instance="own", version=version))

    assert newest.keys() - older.keys() == lacks


def test_a_leave_of_an_old_version_is_of_one_member() -> None:
    assert request_of(Step(api="leave", version=2, also=(("1", None),)))["members"] == [{"member_id": ""}]


def test_to_wait_is_no_request() -> None:
    assert request_of(Step(api="wait")) is None
