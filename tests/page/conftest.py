from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.page.browser import NoBrowserError, chromium
from tests.page.browser import browser as started
from tests.patience import wait_for


@pytest.fixture(autouse=True)
def _threads_that_end() -> Iterator[None]:
    """Wait for those that nobody waits for: in the tests that follow they would be guests.

    kafka-python draws random numbers, which Hypothesis does not like to see anybody do.
    """
    before = set(threading.enumerate())
    yield
    wait_for(
        lambda: not [it for it in threading.enumerate() if it.name.startswith("ui-") and it not in before]
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        chromium()
    except NoBrowserError as error:
        # Nobody has to be root, or to let a test install a hundred packages, to run the other tests.
        pytest.skip(str(error))
    with started() as browser:
        yield browser
