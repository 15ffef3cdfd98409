"""The brokers that the core is compared with, started when the first test needs them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conformance.runner import start_brokers

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the broker of each setup is."""
    with ExitStack() as stack:
        yield start_brokers(stack, tmp_path_factory.mktemp("conformance"))
