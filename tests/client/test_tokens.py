from __future__ import annotations

import base64
import json
import logging
import threading
from typing import TYPE_CHECKING

import pytest
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError

from group_coordinator import TokenError, TokenProvider, TokenRefusedError
from group_coordinator.client.tokens import Token, check_token, read_token
from tests.gateway.ports import ports_in_a_row
from tests.patience import wait_for
from tests.security.token_server import TokenServer

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2 & more"
ASKED_S = 1_000.0


def jwt(claims: object) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(it).encode()).decode().rstrip("=") for it in ({}, claims)]
    return f"{'.'.join(parts)}.c2ln"


def answer(**fields: object) -> bytes:
    return json.dumps({"access_token": "abc", "token_type": "bearer"} | fields).encode()


@pytest.mark.parametrize(
    ("found", "token"),
    [
        (answer(expires_in=60), Token("abc", ASKED_S, 1_060.0)),
        (answer(expires_in="60"), Token("abc", ASKED_S, 1_060.0)),
        (answer(access_token=jwt({"exp": 1_500})), Token(jwt({"exp": 1_500}), ASKED_S, 1_500.0)),
        (
            # By the clock of this machine: the server's may be off.
            answer(access_token=jwt({"exp": 500}), expires_in=60),
            Token(jwt({"exp": 500}), ASKED_S, 1_060.0),
        ),
    ],
)
def test_an_answer_is_read(found: bytes, token: Token) -> None:
    assert read_token(found, ASKED_S) == token


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (b"<html>", "answers with something else than a token in JSON"),
        (b"[]", "answers with something else than a token in JSON"),
        (b'{"access_token": "\xff"}', "answers with something else than a token in JSON"),
        (b'{"a": ' + b"[" * 100_000, "answers with something else than a token in JSON"),
        (b'{"error": "x"}', "answers without an access_token that can be sent"),
        (answer(access_token="a\x01b", expires_in=1), "answers without an access_token that can be sent"),
        (answer(), "does not say when its token expires: neither expires_in nor the claim exp is there"),
        (answer(access_token="a.b.c"), "does not say when its token expires: neither expires_in"),
        (answer(access_token=jwt({"sub": "me"})), "does not say when its token expires: neither expires_in"),
        (answer(access_token=jwt({"exp": 1_000})), "gives a token that has expired: compare its clock"),
        (answer(expires_in=0), "gives a token that has expired: compare its clock"),
    ],
)
def test_an_answer_without_a_usable_token(found: bytes, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        read_token(found, ASKED_S)


def test_the_life_of_a_token() -> None:
    token = Token("abc", 100.0, 200.0)

    assert [token.is_fresh(it) for it in (100, 179, 180, 200)] == [True, True, False, False]
    assert [token.is_valid(it) for it in (100, 180, 199, 200)] == [True, True, True, False]


class Time:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now_s = ASKED_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def _server() -> Iterator[TokenServer]:
    with TokenServer({"me": SECRET}) as server:
        yield server


@pytest.fixture
def server(_server: TokenServer) -> TokenServer:
    _server.asked.clear()
    _server.answer = None
    return _server


@pytest.fixture
def clock() -> Time:
    return Time()


def provider(server: TokenServer, clock: Time, **changes: object) -> TokenProvider:
    arguments = {"client_id": "me", "client_secret": SECRET, "clock": clock} | changes
    return TokenProvider(server.endpoint, **arguments)


def test_a_token_is_fetched_once_and_then_shared(server: TokenServer, clock: Time) -> None:
    tokens = provider(server, clock, scope="read write")

    assert tokens.token() == tokens.token()
    ((_, form, client, _),) = server.asked
    assert (form, client) == ({"grant_type": ["client_credentials"], "scope": ["read write"]}, "me")


def test_without_a_scope_none_is_asked_for(server: TokenServer, clock: Time) -> None:
    provider(server, clock).token()

    assert server.asked[0].form == {"grant_type": ["client_credentials"]}


def test_id_and_secret_can_be_url_encoded(server: TokenServer, clock: Time) -> None:
    with pytest.raises(TokenRefusedError):
        provider(server, clock, url_encoded=True).token()

    assert server.asked[0].login == "me:hunter2+%26+more"


def test_brokers_are_told_the_extensions(server: TokenServer, clock: Time) -> None:
    assert provider(server, clock, extensions={"logicalCluster": "lkc"}).extensions() == {
        "logicalCluster": "lkc"
    }


def test_the_next_token_comes_before_the_old_one_expires(server: TokenServer, clock: Time) -> None:
    tokens = provider(server, clock)
    first = tokens.token()
    clock.now_s += 0.9 * server.lifetime_s

    assert tokens.token() == first  # nobody waits
    wait_for(lambda: tokens.token() != first)
    assert len(server.asked) == 2


def test_an_expired_token_is_not_given(server: TokenServer, clock: Time) -> None:
    tokens = provider(server, clock)
    first = tokens.token()
    clock.now_s += server.lifetime_s

    assert tokens.token() != first


def test_the_old_token_is_kept_while_there_is_no_new_one(
    server: TokenServer, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = provider(server, clock)
    first = tokens.token()
    clock.now_s += 0.9 * server.lifetime_s
    endpoint = f"the token endpoint {server.endpoint}"
    server.answer = (503, b"")

    assert tokens.token() == first
    wait_for(lambda: bool(caplog.records))
    assert caplog.messages == [
        f"keeping the old token, which expires in 360 s: {endpoint} answers with status 503"
    ]
    assert tokens.token() == first
    assert len(server.asked) == 2  # it is not asked again at once
    server.answer = None
    clock.now_s += 1
    wait_for(lambda: tokens.token() != first)


def test_a_server_that_fails_is_not_asked_by_each_connection(server: TokenServer, clock: Time) -> None:
    tokens = provider(server, clock)
    server.answer = (503, b"")
    for _ in range(3):
        with pytest.raises(TokenError, match=r"answers with status 503$"):
            tokens.token()
    assert len(server.asked) == 1
    server.answer = None
    clock.now_s += 1

    assert tokens.token()


def test_threads_share_one_request(server: TokenServer, clock: Time) -> None:
    tokens, found = provider(server, clock), []
    threads = [threading.Thread(target=lambda: found.append(tokens.token())) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len(set(found)) == 1
    assert len(found) == 5
    assert len(server.asked) == 1


def test_a_refusal_has_the_servers_words_and_no_secret(server: TokenServer, clock: Time) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        provider(server, clock, client_secret="guessed").token()

    assert str(caught.value) == (
        f"the token endpoint {server.endpoint} answers with status 401 (invalid_client - unknown client)"
    )
    # kafka-python does not try again, and a coordinator ends.
    assert isinstance(caught.value, SaslAuthenticationFailedError)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ((200, b"<html>"), "answers with something else than a token in JSON"),
        ((302, b""), "answers with status 302"),
        ((302, b'{"error": "\xff"}'), "answers with status 302"),
        ((302, b'{"a": ' + b"[" * 100_000), "answers with status 302"),
        ((500, b'{"error": "out of\\norder"}'), "answers with status 500 (out of order)"),
        ((400, json.dumps({"error": "x" * 300}).encode()), f"answers with status 400 ({'x' * 200})"),
        ((200, b" " * (1 << 20) + answer(expires_in=60)), "answers with more than 1048576 bytes"),
    ],
)
def test_answers_without_a_token(
    server: TokenServer, clock: Time, found: tuple[int, bytes], message: str
) -> None:
    server.answer = found

    with pytest.raises(TokenError) as caught:
        provider(server, clock).token()
    assert str(caught.value) == f"the token endpoint {server.endpoint} {message}"


def test_a_server_that_is_away_may_come_back(clock: Time) -> None:
    endpoint = f"http://127.0.0.1:{ports_in_a_row(1)}/token"
    tokens = TokenProvider(endpoint, client_id="me", client_secret=SECRET, clock=clock)

    with pytest.raises(TokenError, match=r"gives no answer: .*refused") as caught:
        tokens.token()
    assert isinstance(caught.value, KafkaConnectionError)
    check_token({"sasl_oauth_token_provider": tokens})  # kafka-python asks again


def test_a_refused_client_is_told_before_kafka_is_asked(server: TokenServer, clock: Time) -> None:
    check_token({})
    with pytest.raises(TokenRefusedError):
        check_token({"sasl_oauth_token_provider": provider(server, clock, client_id="nobody")})


@pytest.mark.parametrize("endpoint", ["", "idp.example/token", "file:///token", "https://me:x@idp.example/"])
def test_an_endpoint_is_a_url(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^a token endpoint is an http or https URL"):
        TokenProvider(endpoint, client_id="me", client_secret=SECRET)


def test_nobody_sees_the_secret_in_a_log(
    server: TokenServer, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = provider(server, clock)
    token = tokens.token()

    assert not [it for it in (repr(tokens), caplog.text) if SECRET in it or token in it]
