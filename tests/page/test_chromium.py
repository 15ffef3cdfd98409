from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.page import browser
from tests.page.browser import NoBrowserError, chromium


def test_the_one_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert chromium() == program


def test_who_may_not_install_it_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)

    with pytest.raises(NoBrowserError, match=r"there is no Chromium\. Install Chromium .* on the PATH"):
        chromium()


def test_root_installs_it_and_is_told_why_it_cannot_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$*" >>{log}\necho "E: Unable to locate package chromium"\nexit 100\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(NoBrowserError, match="cannot install chromium: E: Unable to locate package chromium"):
        chromium()
    assert [line.split()[3] for line in log.read_text().splitlines()] == ["update", "install"]

    found = iter([None, tmp_path / "chromium"])
    monkeypatch.setattr(browser, "_found", lambda: next(found))
    assert chromium() == tmp_path / "chromium"
