"""The brokers that the core's consumer groups are compared with, started when the first test needs them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conformance.consumer.runner import Broker, start_brokers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    """The broker of each setup."""
    with ExitStack() as stack:
        yield start_brokers(stack, tmp_path_factory.mktemp("consumer"))
