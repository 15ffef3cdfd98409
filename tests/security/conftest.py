"""One secured broker for all of these tests, with everybody's user on it and nobody's rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.security.secured_broker import SecuredBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USERS = ("coordinator", "member", "operator", "stranger", "tenant-a", "tenant-b")


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as broker:
        for user in USERS:
            broker.add_user(user, password_of(user))
        yield broker


def password_of(user: str) -> str:
    return f"what-only-{user}-knows"


def write_settings(file: Path, settings: dict[str, str]) -> Path:
    """A settings file, as passwords should be given; JSON strings are TOML strings."""
    file.write_text("".join(f"{json.dumps(name)} = {json.dumps(it)}\n" for name, it in settings.items()))
    return file
