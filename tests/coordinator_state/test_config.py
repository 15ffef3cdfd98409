"""Settings: bounds, and the size that topics and producers must allow."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig


def test_defaults_are_kafkas():
    config = GroupConfig()
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert config.group_max_size == 2**31 - 1
    assert config.offsets_retention_check_interval_ms == 600_000
    assert (config.offsets_retention_minutes, config.offsets_retention_ms) == (10_080, 7 * 86_400_000)
    assert config.offset_metadata_max_bytes == 4_096
    assert config.new_member_join_timeout_ms == 300_000


def test_the_longest_retention():
    config = msgspec.convert({"offsets_retention_minutes": 2**31 - 1}, GroupConfig)
    assert config.offsets_retention_ms == (2**31 - 1) * 60_000


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        # With an interval of nothing a group with a pending id would be looked at for ever.
        ("offsets_retention_check_interval_ms", 0),
        ("group_max_size", 0),
        ("offsets_retention_minutes", 0),
        ("offsets_retention_minutes", 2**31),
        ("offsets_retention_check_interval_ms", 2**31),
        ("group_initial_rebalance_delay_ms", -1),
        ("new_member_join_timeout_ms", -1),
    ],
)
def test_setting_out_of_bounds_is_refused(setting, value):
    with pytest.raises(msgspec.ValidationError, match=f"at `\\$.{setting}`"):
        msgspec.convert({setting: value}, GroupConfig)


def test_settings_do_not_change_while_they_are_used():
    with pytest.raises(AttributeError):
        GroupConfig().group_max_size = 1  # type: ignore[misc]


def test_largest_record_follows_the_limits_it_is_made_of():
    assert GroupConfig(max_group_bytes=10, max_request_bytes=3).max_record_bytes == 32


def test_batch_with_the_largest_request_has_its_key_and_a_head() -> None:
    config = GroupConfig(max_request_bytes=1_000, max_id_length=10)
    assert 1_000 + 4 * 10 < config.max_request_record_bytes <= 1_000 + 4 * 10 + 10_000


@pytest.mark.parametrize(("most", "expected"), [(2, 2), (99, 10)])
def test_what_is_decided_at_once_has_pictures_of_all_offsets(most, expected):
    config = GroupConfig(max_group_bytes=1_000, max_request_bytes=3, max_group_offsets=most, max_id_length=5)
    without = 2 * config.max_record_bytes + 1_000 + 20_000_000
    assert config.max_decided_bytes == without + expected * (300 + 60)


@pytest.mark.parametrize(
    ("most", "expected"), [(1_000_000, 990_000), (20_000, 10_000), (4_000, 2_000), (0, 0)]
)
def test_some_of_a_request_is_left_for_its_body_however_small_it_has_to_be(most, expected):
    assert GroupConfig(max_request_bytes=most).max_body_bytes == expected
