"""Tokens for Kafka's SASL mechanism OAUTHBEARER, from an OAuth server (client credentials, RFC 6749).

Sources: KIP-768, and HttpJwtRetriever and ExpiringCredentialRefreshingLogin of Apache Kafka 4.2.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import logging
import re
import ssl
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
"""Longest wait for a connection, and for each part of an answer."""
_LARGEST_ANSWER = 1 << 20
"""Most bytes of an answer that are read."""
_LONGEST_REASON = 200
"""Most characters of an OAuth server's own words in an error."""
_PAUSE_S = 1.0
"""The server is not asked again so soon after it gave no token, however many connections want one."""
_FRESH_PART = 0.8
"""After this part of a token's life the next one is fetched (Java's sasl.login.refresh.window.factor)."""
# RFC 6750. Another character could end the message that the token is sent in.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_REFUSALS = frozenset({400, 401, 403, 404, 405})
"""Statuses that mean the same request will fail again."""


class TokenError(Exception):
    """There is no token; the message is one line, names the token endpoint and has no secret."""

    def __str__(self) -> str:
        return str(self.args[0])


class TokenRefusedError(TokenError, SaslAuthenticationFailedError):  # type: ignore[misc]
    """The settings have to change: the server refuses the client, or its answer has no token to use."""


class _TokenDelayedError(TokenError, KafkaConnectionError):  # type: ignore[misc]
    """The server cannot be reached or fails, and may answer later."""


class Token(NamedTuple):
    """A token, and its time in seconds since 1970: from the request for it to its expiry."""

    text: str
    asked_s: float
    ends_s: float

    def is_valid(self, now_s: float) -> bool:
        """Whether a broker still takes it."""
        return now_s < self.ends_s

    def is_fresh(self, now_s: float) -> bool:
        """Whether no other has to be fetched yet."""
        return now_s < self.asked_s + _FRESH_PART * (self.ends_s - self.asked_s)


class _Answer(msgspec.Struct):
    """An OAuth server's answer, as far as it is needed (RFC 6749, 5.1)."""

    access_token: str = ""
    expires_in: float | None = None
    """Seconds."""


class _Refusal(msgspec.Struct):
    """The same when it refuses (5.2)."""

    error: str = ""
    error_description: str = ""


class _Claims(msgspec.Struct):
    """The claims of a JWT, as far as they are needed (RFC 7519)."""

    exp: float | None = None
    """Seconds since 1970."""


_answers = ForeignJson[_Answer](_Answer, strict=False)
"""Some servers give numbers as text."""
_refusals = ForeignJson[_Refusal](_Refusal)
_claims = ForeignJson[_Claims](_Claims)


def read_token(answer: bytes, asked_s: float) -> Token:
    """Read the token in an answer that was asked for at `asked_s`, in seconds since 1970.

    Its expiry is `expires_in` of the answer, else the claim `exp` in it. Raises ValueError with what is
    wrong, in words that follow "the token endpoint".
    """
    found = _answers.read_or_none(answer)
    if found is None:
        raise ValueError("answers with something else than a token in JSON")
    if not _TOKEN.fullmatch(found.access_token):
        raise ValueError("answers without an access_token that can be sent")
    ends_s = _expiry(found.access_token) if found.expires_in is None else asked_s + found.expires_in
    if ends_s is None:
        raise ValueError("does not say when its token expires: neither expires_in nor the claim exp is there")
    if ends_s <= asked_s:
        raise ValueError("gives a token that has expired: compare its clock with this machine's")
    return Token(found.access_token, asked_s, ends_s)


def _expiry(token: str) -> float | None:
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - a JWT has header, payload and signature
        return None
    payload = parts[1]
    try:
        claims = _claims.read(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, UnreadableError):
        return None
    return claims.exp


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for kafka-python (`sasl_oauth_token_provider`) by client id and secret.

    One provider can be for many clients and threads, which then share its token. After 80 % of the token's
    life a thread fetches the next one, while connections still use the old one. Nothing is fetched while
    nobody connects or logs in again.

    Args:
        endpoint: http or https URL of the token endpoint.
        client_id: as the OAuth server knows the program.
        client_secret: its password there.
        scope: asked for, if there is one.
        extensions: SASL extensions that brokers want with each login, such as `logicalCluster`.
        tls: trust in the endpoint's certificate; by default in the authorities that Python trusts.
        url_encoded: whether client id and secret are URL-encoded before they are sent, as RFC 6749 says and
            not all servers understand.
        clock: seconds since 1970.

    Raises ValueError for an endpoint that is no such URL.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        client_id: str,
        client_secret: str,
        scope: str = "",
        extensions: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        url_encoded: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        url = urlsplit(endpoint)
        if url.scheme not in {"http", "https"} or not url.hostname or url.username is not None:
            raise ValueError("a token endpoint is an http or https URL with a host, and without a user")
        self._endpoint, self._extensions, self._clock = endpoint, dict(extensions or {}), clock
        self._address = url.hostname, url.port
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._tls = (tls or ssl.create_default_context()) if url.scheme == "https" else None
        encoded = map(quote_plus, (client_id, client_secret)) if url_encoded else (client_id, client_secret)
        login = base64.b64encode(":".join(encoded).encode()).decode()
        self._headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        wanted = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._body = urlencode(wanted)
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._is_renewing = False
        self._failure: TokenError | None = None
        self._failed_s = 0.0

    def token(self) -> str:
        """Return a token that has not expired; waits for the server only if there is none.

        Raises `TokenRefusedError` if the server refuses the client, and else another `TokenError`.
        """
        with self._lock:
            now_s = self._clock()
            token = self._token
            has_failed = self._failure is not None and 0 <= now_s - self._failed_s < _PAUSE_S
            if token is None or not token.is_valid(now_s):
                if self._failure is not None and has_failed:
                    raise self._failure.with_traceback(None)
                return self._renew().text
            if not (token.is_fresh(now_s) or has_failed or self._is_renewing):
                self._is_renewing = True
                threading.Thread(target=self._renew_early, args=(token,), name="token", daemon=True).start()
            return token.text

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return self._extensions

    def _renew_early(self, old: Token) -> None:
        try:
            self._renew()
        except TokenError as error:
            left_s = max(old.ends_s - self._clock(), 0)
            log.warning("keeping the old token, which expires in %d s: %s", left_s, error)
        finally:
            self._is_renewing = False

    def _renew(self) -> Token:
        try:
            token = self._fetch()
        except TokenError as error:
            self._failure, self._failed_s = error, self._clock()
            raise
        self._token, self._failure = token, None
        return token

    def _fetch(self) -> Token:
        asked_s = self._clock()
        host, port = self._address
        connection = (
            http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
            if self._tls is None
            else http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=self._tls)
        )
        try:
            # A redirect is not followed: the secret is for this server only.
            connection.request("POST", self._path, self._body, self._headers)
            with connection.getresponse() as response:
                status, answer = response.status, response.read(_LARGEST_ANSWER + 1)
        except ssl.SSLCertVerificationError as error:
            raise TokenRefusedError(f"the token endpoint {self._endpoint} is not trusted: {error}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise _TokenDelayedError(
                f"the token endpoint {self._endpoint} gives no answer: {reason}"
            ) from None
        finally:
            connection.close()
        if status != http.client.OK:
            kind = TokenRefusedError if status in _REFUSALS else _TokenDelayedError
            reason = f"answers with status {status}{_reason(answer)}"
            raise kind(f"the token endpoint {self._endpoint} {reason}")
        if len(answer) > _LARGEST_ANSWER:
            raise TokenRefusedError(
                f"the token endpoint {self._endpoint} answers with more than {_LARGEST_ANSWER} bytes"
            )
        try:
            return read_token(answer, asked_s)
        except ValueError as error:
            raise TokenRefusedError(f"the token endpoint {self._endpoint} {error}") from None


def check_token(kafka_config: Mapping[str, Any]) -> None:
    """Raise `TokenRefusedError` if kafka-python's settings have a `TokenProvider` that will get no token.

    kafka-python would ask it again and again, until its time is over. A server that is away for a moment is
    asked again with the next connection.
    """
    provider = kafka_config.get("sasl_oauth_token_provider")
    if isinstance(provider, TokenProvider):
        with suppress(_TokenDelayedError):
            provider.token()


def _reason(answer: bytes) -> str:
    """Return the words of an OAuth server about its refusal, in brackets; nothing if there are none."""
    refusal = _refusals.read_or_none(answer[:_LARGEST_ANSWER])
    if refusal is None:
        return ""
    words = " - ".join(filter(None, (refusal.error, refusal.error_description)))
    shown = "".join(letter if letter.isprintable() else " " for letter in words[:_LONGEST_REASON])
    return f" ({shown})" if shown else ""
