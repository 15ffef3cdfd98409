"""Chromium: the one on the PATH, else that of Debian's package, installed by whoever may.

Unlike Prometheus it needs a hundred other packages, so it cannot just be unpacked somewhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL_S = 540
_ADVICE = (
    "Install Chromium (Debian and Ubuntu, as root: apt-get install chromium), so that it is on the PATH, "
    "and run the tests again"
)
_ARGUMENTS = (
    "--no-sandbox",  # containers' root may not have one; it only ever sees this machine's pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class NoBrowserError(Exception):
    """It cannot be had; the message says why and what to do."""


def chromium() -> Path:
    """Where it is. As root it is installed if it is not there. Raises `NoBrowserError`."""
    if (found := _found()) is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoBrowserError(f"there is no Chromium. {_ADVICE}")
    # Another process of the tests may be doing the same.
    patient = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
    # One of the machine's registries may be away; whether the lists are enough shows below.
    _run(*patient, "update")
    said = _run(*patient, "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core")
    if (found := _found()) is None:
        raise NoBrowserError(f"apt-get cannot install chromium: {' '.join(said[-3:])}. {_ADVICE}")
    return found


def _found() -> Path | None:
    paths = (shutil.which(name) for name in _NAMES)
    return next((Path(path) for path in paths if path is not None), None)


def _run(*command: str) -> list[str]:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoBrowserError(f"{command[0]} took longer than {_INSTALL_S} s. {_ADVICE}") from None
    return done.stdout.strip().splitlines()


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, while the context is open."""
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield started
        finally:
            started.close()
