"""One secured broker for all of these tests, with everybody's user on it and nobody's rights."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.commands.job import Process
from tests.security.certificates import PASSWORD, make_client_key
from tests.security.disguises import disguises
from tests.security.rights import rights_of
from tests.security.secured_broker import SecuredBroker
from tests.security.token_server import TokenServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.security.rights import Right

USERS = ("coordinator", "gateway", "member", "operator", "reader", "stranger", "tenant-a", "tenant-b")


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    """An OAuth server that knows everybody by the same password as the broker, and speaks TLS."""
    key = make_client_key(tmp_path_factory.mktemp("tokens"), PASSWORD, "localhost")
    clients = {user: password_of(user) for user in USERS}
    with TokenServer(clients, certificate=key, password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory, tokens: TokenServer) -> Iterator[SecuredBroker]:
    passwords = {user: password_of(user) for user in USERS}
    with SecuredBroker(tmp_path_factory.mktemp("secured"), passwords, tokens) as broker:
        for user in USERS:
            broker.add_user(user, password_of(user))
        yield broker


def password_of(user: str) -> str:
    return f"what-only-{user}-knows"


def write_settings(file: Path, settings: dict[str, str]) -> Path:
    """A settings file, as passwords should be given; JSON strings are TOML strings."""
    file.write_text("".join(f"{json.dumps(name)} = {json.dumps(it)}\n" for name, it in settings.items()))
    return file


def gateway_rights(topics: dict[str, str]) -> list[Right]:
    """The rights that the guide lists for a gateway whose coordinator has these topics."""
    return rights_of("The gateway", {f"coordinator.{name}": topic for name, topic in topics.items()})


@contextmanager
def gateway_before(
    secured: SecuredBroker,
    directory: Path,
    topics: dict[str, str],
    rights: Iterable[Right] | None = None,
    *,
    by_token: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Process]:
    """A gateway with these rights, else those that the guide lists and no others.

    `topics`: of its coordinator. `by_token`: with a token in the place of a password. `more`: other settings.
    """
    secured.grant("gateway", gateway_rights(topics) if rights is None else rights)
    servers, of_user = secured.bootstrap_servers, secured.java_properties
    if by_token:
        servers, of_user = secured.token_servers, secured.token_properties
    java = of_user("gateway", password_of("gateway"))
    settings = {f"kafka.{name}": value for name, value in java.items()}
    # Its clients log in without TLS, whose own tests are elsewhere.
    settings["gateway.allow.plaintext.passwords"] = "true"
    settings |= {f"topics.{name}": topics[name] for name in ("requests", "responses", "groups")}
    settings |= more
    process = Process(
        directory,
        *("gateway", "--bootstrap-server", servers, "--listen", "127.0.0.1:0"),
        *("--config", str(write_settings(directory / "gateway.toml", settings)), "--metrics-port", "0"),
    )
    try:
        yield process
        process.terminate()
        assert process.exit_code() == 0
        said = "\n".join(process.said).encode()
        assert not [user for user in USERS for it in disguises(password_of(user)) if it in said]
    finally:
        process.kill()
