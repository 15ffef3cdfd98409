from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import pytest

from group_coordinator.commands.arguments import TopicArgument
from group_coordinator.commands.groups.options import (
    checked_action,
    parse_lag,
    parse_reason,
    parse_states,
    parse_types,
)

NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ["list", "describe", "delete", "delete_offsets", "reset_offsets", "remove_member"], False
    ),
    **dict.fromkeys(["all_groups", "all_topics", "offsets", "members", "verbose", "dry_run"], False),
    **dict.fromkeys(["execute", "export", "to_earliest", "to_latest", "to_current"], False),
    **dict.fromkeys(["state", "type", "lag", "watch", "reason", "to_offset", "to_datetime", "by_duration"]),
    **dict.fromkeys(["shift_by", "from_file", "to_history", "history_path", "events_topic"]),
    "undo": False,
    **dict.fromkeys(["group", "topic", "member_id", "group_instance_id"], ()),
    "output": "table",
    "of": "coordinator",
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
G: dict[str, Any] = {"group": ("g",)}
T: dict[str, Any] = {"topic": (TopicArgument("t", None),)}


@pytest.mark.parametrize(
    ("action", "options"),
    [
        ("list", {}),
        ("list", {"state": frozenset()}),
        ("list", {"state": frozenset(), "type": frozenset({"Consumer"})}),
        ("describe", G),
        ("describe", {"group": ("g", "h"), "offsets": True, "verbose": True, "lag": parse_lag(">0")}),
        ("describe", {"all_groups": True, "state": frozenset()}),
        ("describe", G | {"watch": 2.0}),
        ("delete", G),
        ("delete", {"all_groups": True, "output": "json"}),
        ("delete_offsets", G | T),
        ("reset_offsets", G | T | {"to_offset": 0}),
        ("reset_offsets", {"all_groups": True, "all_topics": True, "shift_by": 0, "dry_run": True}),
        ("reset_offsets", G | {"from_file": [], "execute": True, "export": True}),
        ("reset_offsets", G | T | {"to_history": NOON, "history_path": "h", "events_topic": "e"}),
        ("reset_offsets", G | {"undo": True, "history_path": "h", "reason": "r"}),
        ("reset_offsets", G | T | {"undo": True, "execute": True}),
        *(
            (each, {"of": "brokers"} | options)
            for each, options in (
                ("list", {}),
                ("describe", G),
                ("describe", G | {"members": True}),
                ("reset_offsets", G | T | {"to_latest": True}),
                ("reset_offsets", G | {"undo": True}),
            )
        ),
        ("delete", G | {"reason": "r"}),
        ("delete_offsets", G | T | {"reason": "r"}),
        ("remove_member", G | {"member_id": ("m",), "group_instance_id": ("i",), "reason": "r"}),
    ],
)
def test_what_goes_together(action: str, options: dict[str, Any]) -> None:
    assert action == checked_action(NOTHING | {action: True} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of these is needed: --list, --describe, --delete, --delete-offsets, "),
        ({"list": True, "describe": True}, "exactly one of these is needed"),
        ({"list": True} | G, "--group cannot be used with --list"),
        ({"list": True, "members": True}, "--members cannot be used with --list"),
        ({"describe": True, "type": frozenset()} | G, "--type cannot be used with --describe"),
        ({"list": True, "execute": True}, "--execute cannot be used with --list"),
        ({"describe": True}, "--describe needs one of these options: --group, --all-groups"),
        ({"describe": True, "all_groups": True} | G, "--group cannot be used with --all-groups"),
        (
            {"describe": True, "offsets": True, "state": frozenset()} | G,
            "--offsets cannot be used with --state",
        ),
        ({"describe": True, "state": frozenset(["Empty"])} | G, "--state takes no value with --describe"),
        (
            {"describe": True, "members": True, "lag": parse_lag(">0")} | G,
            "--lag can only be used with --offsets",
        ),
        ({"delete": True} | G | T, "--topic cannot be used with --delete"),
        ({"delete_offsets": True} | G, "--delete-offsets needs also: --topic"),
        ({"delete_offsets": True} | T, "--delete-offsets needs also: --group"),
        ({"delete_offsets": True, "group": ("g", "h")} | T, "--delete-offsets takes one --group"),
        ({"reset_offsets": True} | G | T, "--reset-offsets needs one of these options: --to-earliest, "),
        (
            {"reset_offsets": True, "to_latest": True} | T,
            "--reset-offsets needs one of these options: --group",
        ),
        ({"reset_offsets": True, "to_latest": True} | G, "needs one of these options: --topic, --all-topics"),
        (
            {"reset_offsets": True, "to_latest": True, "to_offset": 0} | G | T,
            "--to-latest cannot be used with --to-offset",
        ),
        (
            {"reset_offsets": True, "to_latest": True, "all_topics": True} | G | T,
            "--topic cannot be used with --all-topics",
        ),
        (
            {"reset_offsets": True, "to_latest": True, "dry_run": True, "execute": True} | G | T,
            "--dry-run cannot be used with --execute",
        ),
        (
            {"reset_offsets": True, "from_file": []} | G | T,
            "--from-file names the partitions: use it without",
        ),
        (
            {"reset_offsets": True, "to_latest": True, "export": True, "output": "csv"} | G | T,
            "--watch and --export cannot be used with --output",
        ),
        (
            {"reset_offsets": True, "to_history": NOON} | G,
            "needs one of these options: --topic, --all-topics",
        ),
        (
            {"reset_offsets": True, "to_history": NOON, "undo": True} | G | T,
            "--to-history cannot be used with",
        ),
        (
            {"reset_offsets": True, "to_latest": True, "history_path": "h"} | G | T,
            "--history-path can only be used with --to-history and --undo",
        ),
        (
            {"of": "brokers", "delete": True} | G,
            "--delete cannot be used with --of brokers: kafka-consumer-groups.sh does that",
        ),
        (
            {"of": "brokers", "describe": True, "state": frozenset()} | G,
            "--state cannot be used with --describe and --of brokers",
        ),
        (
            {"of": "brokers", "reset_offsets": True, "undo": True, "reason": "r"} | G,
            "--reason cannot be used with --of brokers: they have no place for it",
        ),
        ({"list": True, "undo": True}, "--undo cannot be used with --list"),
        ({"describe": True, "reason": "r"} | G, "--reason cannot be used with --describe"),
        ({"list": True, "watch": 1.0, "output": "json"}, "--watch and --export cannot be used with --output"),
        ({"delete": True, "watch": 1.0} | G, "--watch cannot be used with --delete"),
        ({"remove_member": True} | G, "needs one of these options: --member-id, --group-instance-id"),
    ],
)
def test_what_does_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        checked_action(NOTHING | options)
    assert message in caught.value.message


def test_a_reason_has_a_greatest_length() -> None:
    assert parse_reason("x" * 255) == "x" * 255
    with pytest.raises(ValueError, match="a reason has at most 255 characters, not 256"):
        parse_reason("x" * 256)


def test_states_are_read_in_any_case() -> None:
    assert {"Stable", "PreparingRebalance"} == parse_states("stable, preparingrebalance")
    assert {"Assigning", "Reconciling"} == parse_states("assigning,RECONCILING")
    assert set() == parse_states("")
    with pytest.raises(
        ValueError,
        match=r"state list 'x,Empty'\. Valid states are: Empty, Prepar.*, Dead, Assigning, Reconciling",
    ):
        parse_states("x,Empty")


def test_types_are_read_in_any_case() -> None:
    assert {"Consumer"} == parse_types("consumer")
    assert {"Classic", "Consumer"} == parse_types("CLASSIC, Consumer")
    assert set() == parse_types("")
    with pytest.raises(
        ValueError, match=r"^Invalid types list 'share'\. Valid types are: Classic, Consumer$"
    ):
        parse_types("share")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [(">0", [1]), (">= 0", [0, 1]), ("<0", [-1]), ("<=-1", [-1]), ("=0", [0]), (" > -1 ", [0, 1])],
)
def test_lag_is_compared_and_what_has_none_is_left_out(condition: str, expected: list[int]) -> None:
    is_wanted = parse_lag(condition)

    assert expected == [lag for lag in (-1, 0, 1, None) if is_wanted(lag)]


@pytest.mark.parametrize("condition", ["", "0", "=>0", ">", ">x", "==0", "> 0 0"])
def test_what_is_no_condition_is_said_so(condition: str) -> None:
    with pytest.raises(ValueError, match="is not a condition such as '>0', '>=100' or '=0'"):
        parse_lag(condition)
