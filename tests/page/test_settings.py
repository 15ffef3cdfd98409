"""One settings file for all commands: each knows every room's settings, and refuses what is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import JobSettings, SettingsError
from group_coordinator.page.settings import PageSettings

FILE = """
bootstrap.servers = "kafka:9092"
group.max.size = 7
history.retention.days = 90
ui.host = "::1"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "coordinator.toml"
    file.write_text(FILE)
    return file


def test_settings_of_all_rooms(file: Path) -> None:
    settings = PageSettings.load(file, {"GROUP_COORDINATOR_UI_PORT": "0"}, {"topics.lag": "l"})

    assert settings == PageSettings(
        bootstrap_servers="kafka:9092",
        topics_lag="l",
        group=settings.group,
        history_retention_days=90,
        ui_host="::1",
        ui_port=0,
    )
    assert settings.group.group_max_size == 7


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("history.retention.day", "history.retention.days"),
        ("ui.prot", "ui.port"),
        ("group.max.siz", "group.max.size"),
    ],
)
def test_what_is_nobodys_setting_is_refused(file: Path, name: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"there is no setting {name}; did you mean {near}\\?"):
        PageSettings.load(file, {}, {name: 1}, needed=())


@pytest.mark.parametrize(("of", "name"), [(JobSettings, "history.path"), (HistorySettings, "ui.host")])
def test_a_room_does_not_know_those_above_it(of: type[JobSettings], name: str) -> None:
    with pytest.raises(SettingsError, match=f"there is no setting {name}"):
        of.load(None, {}, {name: "x"}, needed=())


def test_a_needed_setting_of_any_room(file: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"history\.path is not set: give --history-path, set GROUP_COORD"
    ):
        PageSettings.load(file, {}, {}, needed=("history.path",))
