from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _threads_that_end() -> Iterator[None]:
    """Wait for those that nobody waits for: in the tests that follow they would be guests.

    kafka-python draws random numbers, which Hypothesis does not like to see anybody do.
    """
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + PATIENCE_S
    while left := [
        each for each in threading.enumerate() if each not in before and each.name.startswith("ui-")
    ]:
        assert time.monotonic() < deadline, left
        left[0].join(0.5)
