from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway.groups import Groups, ListedGroup


def groups() -> Groups:
    made = Groups()
    made.put("a", ListedGroup("Stable", "consumer"))
    made.put("b", ListedGroup("Empty", ""))
    made.put("c", ListedGroup("Dead", ""))
    made.put("c", None)
    made.is_ready = True
    return made


def listed(found: Groups, version: int = 5, **filters: Any) -> tuple[int, list[tuple[str, ...]]]:
    request = ListGroupsRequest(version=version, **filters)
    response = found.listed(request, lambda group_id: group_id != "other")
    told = codec.decode_response(16, version, codec.encode_response(response, 1))
    return told.error_code, [
        (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in told.groups
    ]


def test_all_groups_are_listed() -> None:
    assert listed(groups()) == (0, [("a", "consumer", "Stable", "classic"), ("b", "", "Empty", "classic")])


@pytest.mark.parametrize("version", range(6))
def test_in_every_version(version: int) -> None:
    error, found = listed(groups(), version)
    assert (error, [each[:2] for each in found]) == (0, [("a", "consumer"), ("b", "")])
    assert found[0][2] == ("Stable" if version >= 4 else "")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"states_filter": ["stable"]}, ["a"]),
        ({"states_filter": ["STABLE", "Empty"]}, ["a", "b"]),
        ({"types_filter": ["Classic"]}, ["a", "b"]),
        ({"types_filter": ["consumer"]}, []),
        ({"types_filter": ["share", "classic"], "states_filter": ["Empty"]}, ["b"]),
    ],
)
def test_filters(filters: dict[str, list[str]], expected: list[str]) -> None:
    assert [each[0] for each in listed(groups(), **filters)[1]] == expected


def test_each_node_lists_its_share() -> None:
    found = groups()
    found.put("other", ListedGroup("Stable", "consumer"))
    assert [each[0] for each in listed(found)[1]] == ["a", "b"]


def test_before_all_is_read_the_list_is_loading() -> None:
    assert listed(Groups()) == (14, [])
