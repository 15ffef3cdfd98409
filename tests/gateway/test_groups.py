from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway import groups as module
from group_coordinator.gateway.addresses import coordinator_of, hash_of
from group_coordinator.gateway.groups import Groups, ListedGroup


def groups() -> Groups:
    made = Groups()
    made.put("a", ListedGroup("Stable", "consumer"))
    made.put("b", ListedGroup("Empty", ""))
    made.put("c", ListedGroup("Dead", ""))
    made.put("c", None)
    made.is_ready = True
    return made


NODES = (1, 2, 5)


def listed(
    found: Groups, version: int = 5, node_id: int = 0, nodes: tuple[int, ...] = (0,), **filters: Any
) -> tuple[int, list[tuple[str, ...]]]:
    request = ListGroupsRequest(version=version, **filters)
    response = found.listed(request, node_id, nodes)
    told = codec.decode_response(16, version, codec.encode_response(response, 1))
    assert response.names == [each.group_id for each in told.groups]
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
        ({"states_filter": ["stable"]}, ["a", "n"]),
        ({"states_filter": [" Stable "]}, ["a", "n"]),
        ({"types_filter": [" classic "]}, []),
        ({"states_filter": ["STABLE", "Empty"]}, ["a", "b", "n"]),
        ({"types_filter": ["Classic"]}, ["a", "b"]),
        ({"types_filter": ["CONSUMER"]}, ["n"]),
        ({"types_filter": ["consumer", "classic"], "states_filter": ["stable"]}, ["a", "n"]),
        ({"types_filter": ["consumer"], "states_filter": ["Empty"]}, []),
        ({"types_filter": ["share"]}, []),
        ({"types_filter": ["share", "classic"], "states_filter": ["Empty"]}, ["b"]),
    ],
)
def test_filters(filters: dict[str, list[str]], expected: list[str]) -> None:
    found = groups()
    found.put("n", ListedGroup("Stable", "consumer", "consumer"))
    assert sorted(each[0] for each in listed(found, **filters)[1]) == expected


def test_a_group_that_changes_its_protocol_is_listed_anew() -> None:
    found = groups()
    assert listed(found)[1][1] == ("b", "", "Empty", "classic")
    found.put("b", ListedGroup("Empty", "consumer", "consumer"))
    assert ("b", "consumer", "Empty", "consumer") in listed(found)[1]
    assert [each[0] for each in listed(found, types_filter=["classic"])[1]] == ["a"]


def many(count: int) -> Groups:
    found = Groups()
    for number in range(count):
        found.put(f"group-{number}", ListedGroup("Stable", "consumer"))
    found.is_ready = True
    return found


def test_each_node_lists_its_share_also_when_there_are_others() -> None:
    found = many(50)
    for nodes in (NODES, (1, 2), (), NODES):
        for node_id in NODES:
            names = [each[0] for each in listed(found, node_id=node_id, nodes=nodes)[1]]
            assert names == [
                f"group-{number}"
                for number in range(50)
                if coordinator_of(hash_of(f"group-{number}"), nodes) == node_id
            ]
            assert bool(names) is (node_id in nodes)


def test_a_list_is_kept_until_one_of_its_groups_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = many(50)
    made: list[str] = []
    hashed: list[str] = []
    entry = module._entry
    monkeypatch.setattr(module, "_entry", lambda name, *each: made.append(name) or entry(name, *each))
    monkeypatch.setattr(module, "hash_of", lambda name: hashed.append(name) or hash_of(name))
    for _ in range(3):
        assert len(listed(found)[1]) == 50
        assert found._parts(0, 5) is found._parts(0, 5)
    assert len(made) == 50
    found.put("group-7", ListedGroup("Stable", "consumer"))
    kept = found._parts(0, 5)
    listed(found)
    assert (len(made), found._parts(0, 5) is kept) == (50, True), "nothing has changed"
    found.put("group-7", ListedGroup("Empty", "consumer"))
    found.put("group-8", None)
    assert listed(found, states_filter=["empty"])[1][0][0] == "group-7"
    assert len(listed(found)[1]) == 49
    assert made[50:] == ["group-7"], "the bytes of the others are kept"
    for version in range(3):
        listed(found, version)
    assert len(made[51:]) == 49, "versions with the same entries share them"
    found.put("new", ListedGroup("Empty", ""))
    listed(found, node_id=1, nodes=NODES)
    assert hashed == ["new"]


def test_what_was_listed_stays_as_it_was() -> None:
    found = many(3)
    response = found.listed(ListGroupsRequest(version=5), 0, (0,))
    before = response.encode()
    found.put("group-1", None)
    assert response.encode() == before
    assert response.only({"group-1", "group-2", "else"}).names == ["group-1", "group-2"]


def test_time_for_which_a_client_is_not_read_is_told() -> None:
    response = groups().listed(ListGroupsRequest(version=5), 0, (0,))
    response.throttle_time_ms = 1_234
    told = codec.decode_response(16, 5, codec.encode_response(response, 1))
    assert (told.throttle_time_ms, len(told.groups)) == (1_234, 2)


def test_before_all_is_read_the_list_is_loading() -> None:
    assert listed(Groups()) == (14, [])
