from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.consumer.told import answer_in_short, group_in_short, patch, patched
from tests.conformance.consumer.topics import Topics

INTERVAL_MS = 5_000
BEAT = {"api": "consumer_group_heartbeat", "member_id": "0"}
SOME = [{"topic_id": "B", "partitions": [1]}, {"topic_id": "A", "partitions": [5, 0]}]


@pytest.fixture
def topics() -> Topics:
    return Topics({"a": ("A", 6), "b": ("B", 4)}, "group")


def beat(**other: Any) -> dict[str, Any]:
    usual = {"error_code": 0, "member_id": "0", "member_epoch": 3, "heartbeat_interval_ms": INTERVAL_MS}
    return usual | {"assignment": None} | other


def nothing(**other: Any) -> dict[str, Any]:
    return beat(member_id=None, member_epoch=0, heartbeat_interval_ms=0) | other


@pytest.mark.parametrize(
    ("answer", "short"),
    [
        (beat(), "@3"),
        (beat(assignment=[]), "@3 -"),
        (beat(assignment=SOME), "@3 a05 b1"),
        (beat(member_epoch=-1, heartbeat_interval_ms=0), "@-1"),
        (nothing(error_code=110), "!110"),
    ],
)
def test_an_answer_as_always_is_short(topics: Topics, answer: dict[str, Any], short: str) -> None:
    assert answer_in_short(BEAT, answer, topics, INTERVAL_MS) == short


@pytest.mark.parametrize(
    "answer",
    [
        beat(heartbeat_interval_ms=1),
        beat(member_id="1"),
        beat(member_epoch=-1),
        beat(error_code=110),
        nothing(error_code=110, member_epoch=4),
        nothing(error_code=110, assignment=[]),
    ],
)
def test_an_answer_that_is_not_as_always_says_so(topics: Topics, answer: dict[str, Any]) -> None:
    short = answer_in_short(BEAT, answer, topics, INTERVAL_MS)

    assert isinstance(short, dict)
    assert short["error_code"] == answer["error_code"]


def test_partitions_of_a_commit_have_their_errors_or_that_of_all(topics: Topics) -> None:
    parts = [{"partition_index": 0}, {"partition_index": 1}]
    request = {"api": "offset_commit", "topics": [{"name": "a", "partitions": parts}]}
    told = {"name": "a", "partitions": [{"partition_index": 1, "error_code": 0}]}

    answer = {"error_code": 25, "topics": [told]}

    assert answer_in_short(request, answer, topics, INTERVAL_MS) == {"a0": 25, "a1": 0}


def test_a_group_is_told_whatever_the_order_of_its_members(topics: Topics) -> None:
    fetched: dict[str, Any] = {"topics": []}
    members = [member("1"), member("0", assignment=SOME, group_instance_id="i0")]
    group = {
        "error_code": 0,
        "group_state": "Stable",
        "group_epoch": 3,
        "assignment_epoch": 2,
        "assignor_name": "uniform",
    }

    shown = group_in_short(group | {"members": members}, fetched, topics)

    assert shown == group_in_short(group | {"members": members[::-1]}, fetched, topics)
    assert shown["group"] == "Stable 3/2 uniform"
    assert shown["members"]["0"] == {"at": "@3 a05 b1 -> -", "is": "c /h type=1 names=ab instance=i0"}


def test_a_pattern_is_told_as_a_script_says_it(topics: Topics) -> None:
    described = {"error_code": 0, "group_state": "Stable", "group_epoch": 1, "assignment_epoch": 1}
    described |= {"assignor_name": "uniform", "members": [member("0", subscribed_topic_regex="a|g-group")]}

    shown = group_in_short(described, {"topics": []}, topics)

    assert shown["members"]["0"]["is"] == "c /h type=1 names=ab regex=a|g%"


def member(member_id: str, **other: Any) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "group_instance_id": None,
        "rack_id": None,
        "member_epoch": 3,
        "client_id": "c",
        "client_host": "/h",
        "subscribed_topic_names": ["b", "a"],
        "subscribed_topic_regex": "",
        "assignment": [],
        "target_assignment": [],
        "member_type": 1,
    } | other


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"group": "Empty", "members": {"0": {"at": "@1"}}}),
        ({"group": "Empty", "members": {"0": {"at": "@1"}, "1": {}}}, {"members": {"0": {"at": "@2"}}}),
        ({"group": "!69"}, {"group": "!69"}),
    ],
)
def test_a_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert patched(before, patch(before, after)) == after
