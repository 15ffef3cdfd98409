"""An OAuth server for a test: its token endpoint, and the keys that brokers check its tokens with."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["TokenServer"]

_KEY_BITS = 2048
_EXPONENT = 65_537


class Asked(NamedTuple):
    """A request for a token: the body, and whose it was; None for a client with another secret."""

    by_java: bool
    form: dict[str, list[str]]
    client: str | None
    login: str


class Given(NamedTuple):
    """A token, and whose it is."""

    client: str
    token: str


class TokenServer:
    """Gives each client of `clients` (id -> secret) a signed JWT (RS256) under its id.

    `certificate`: a PEM file with its key and certificate for "localhost"; none: it speaks plain HTTP.
    """

    def __init__(
        self, clients: Mapping[str, str], *, certificate: Path | None = None, password: str = ""
    ) -> None:
        self._clients = dict(clients)
        self.trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificate)}
        if certificate is None:
            self.trust.clear()
        """Options of Java's login module with which its certificate is trusted."""
        self.lifetime_s = 3_600.0
        self.answer: tuple[int, bytes] | None = None
        """Given in place of a token."""
        self.asked: list[Asked] = []
        self.given: list[Given] = []
        self._modulus, self._private = _key()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, json.dumps(server._keys()).encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                by_java = self.headers.get("User-Agent", "").startswith("Java")
                self._answer(*server._token(by_java, self.headers["Authorization"], body))

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate, password=password)
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        scheme, host = ("http", "127.0.0.1") if certificate is None else ("https", "localhost")
        self._root = f"{scheme}://{host}:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"{self._root}/token"

    @property
    def keys(self) -> str:
        """The URL of its public key (JWKS)."""
        return f"{self._root}/keys"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _token(self, by_java: bool, authorization: str, body: str) -> tuple[int, bytes]:
        login = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        client, _, secret = login.partition(":")
        is_known = self._clients.get(client) == secret
        self.asked.append(Asked(by_java, parse_qs(body), client if is_known else None, login))
        if self.answer is not None:
            return self.answer
        if not is_known:
            return 401, json.dumps(
                {"error": "invalid_client", "error_description": "unknown client"}
            ).encode()
        self.given.append(Given(client, self.jwt(client)))
        answer = {
            "access_token": self.given[-1].token,
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }
        return 200, json.dumps(answer).encode()

    def jwt(self, name: str) -> str:
        """A token of `name`, as brokers take it for `lifetime_s`."""
        now_s = int(time.time())
        claims = {"sub": name, "iat": now_s, "exp": now_s + self.lifetime_s, "jti": secrets.token_hex(8)}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "key"}, claims]
        signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_base64(self._signature(signed.encode()))}"

    def _signature(self, text: bytes) -> bytes:
        """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017)."""
        length = _KEY_BITS // 8
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(text).digest()
        padded = b"\0\1" + b"\xff" * (length - len(digest) - 3) + b"\0" + digest
        return pow(int.from_bytes(padded), self._private, self._modulus).to_bytes(length)

    def _keys(self) -> dict[str, Any]:
        exponent = _EXPONENT.to_bytes(3)
        modulus = self._modulus.to_bytes(_KEY_BITS // 8)
        key = {"kty": "RSA", "kid": "key", "use": "sig", "alg": "RS256"}
        return {"keys": [key | {"n": _base64(modulus), "e": _base64(exponent)}]}


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _key() -> tuple[int, int]:
    """An RSA key: modulus and private exponent."""
    while True:
        one, other = _prime(), _prime()
        phi = (one - 1) * (other - 1)
        if one != other and phi % _EXPONENT:
            return one * other, pow(_EXPONENT, -1, phi)


def _prime() -> int:
    """A number that is as good as certainly prime (Fermat's test), with its two highest bits set."""
    half = _KEY_BITS // 2
    while True:
        number = secrets.randbits(half) | 3 << (half - 2) | 1
        if all(number % small for small in (3, 5, 7, 11, 13)) and all(
            pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7)
        ):
            return number
