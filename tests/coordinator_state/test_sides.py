"""The record of the side that a group is on."""

from __future__ import annotations

import re

import msgspec
import pytest

from group_coordinator.coordinator_state.sides import SideRecord, other
from tests.rooms import ROOT


def test_the_sides_are_two() -> None:
    assert (other("brokers"), other("coordinator")) == ("coordinator", "brokers")


def test_the_contracts_example_is_a_record() -> None:
    contract = (ROOT / "docs" / "contract.md").read_text()
    (example,) = re.findall(r'^    (\{"version": 1, "group_id".*?\})$', contract, re.MULTILINE | re.DOTALL)
    record = msgspec.json.decode(example, type=SideRecord)
    assert (record.group_id, record.side, record.moving_to) == ("orders", "brokers", "coordinator")
    assert msgspec.to_builtins(record).keys() == msgspec.json.decode(example).keys()


@pytest.mark.parametrize("wrong", [{"version": 2}, {"side": "both"}, {"at_ms": -1}, {"moving_to": ""}])
def test_what_is_no_record_is_refused(wrong: dict[str, object]) -> None:
    right = {"group_id": "g", "side": "brokers", "at_ms": 5, "client_id": "c", "move_id": "m"}
    assert msgspec.convert(right, SideRecord).moving_to is None
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(right | wrong, SideRecord)
