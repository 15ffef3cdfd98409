"""The user name in a client's own login (SASL), read as Kafka's broker reads it.

The gateway checks no password and no signature. The broker does, and a name that was read here counts only
after the broker has accepted the login. So a message that the broker would read as another name must give no
name here. An unusual message gives none.

Source: RFC 4616, RFC 5802, RFC 7628; PlainSaslServer, ScramMessages, ScramSaslServer, ScramFormatter and
OAuthBearerClientInitialResponse of Apache Kafka 4.2.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Mechanism(NamedTuple):
    """A way to log in: where the client's name is, and when the broker has accepted it."""

    name_in: Callable[[bytes], str | None]
    """The name in the client's first message; None if it has none that is sure."""
    rounds: int
    """How many messages of the client the broker answers without an error when it accepts them."""
    ends_empty: bool
    """Whether the last answer has no bytes. With OAUTHBEARER one that has is a refusal (RFC 7628)."""

    def is_accepted(self, rounds: int, answer: bytes) -> bool:
        """Whether the broker accepts the login with this answer, which is no error, to so many messages."""
        return rounds == self.rounds and not (self.ends_empty and answer)


def _plain(message: bytes) -> str | None:
    """PLAIN: `[authzid] NUL authcid NUL password`; an authzid has to be the authcid."""
    parts = message.split(b"\0")
    if len(parts) != 3:  # noqa: PLR2004 - as many as there are
        return None
    authzid, authcid, _password = parts
    return _text(authcid) if authzid in (b"", authcid) else None


_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_SCRAM = re.compile(
    rb"n,(?:a=(?P<authzid>%b))?,(?:m=[\x01-\x2b\x2d-\x7f]+,)?n=(?P<name>%b),r=[\x21-\x2b\x2d-\x7e]+"
    rb"(?P<extensions>(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*)" % (_SASL_NAME, _SASL_NAME)
)


def _scram(message: bytes) -> str | None:
    """SCRAM: `n,,n=name,r=nonce`; a comma in the name is `=2C`, an equals sign `=3D`."""
    found = _SCRAM.fullmatch(message)
    if found is None:
        return None
    extensions = found["extensions"].lower().split(b",")
    if b"tokenauth=true" in extensions:
        # The name is that of a delegation token, and the broker alone knows whose it is (KIP-48).
        return None
    name = found["name"].replace(b"=2C", b",").replace(b"=3D", b"=")
    return _text(name) if found["authzid"] in (None, name) else None


_BEARER = re.compile(
    rb"n,(?:a=(?P<authzid>%b))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01" % _SASL_NAME
)
_AUTH = re.compile(rb"bearer +[\w-]+\.(?P<payload>[\w-]+)\.[\w-]*", re.IGNORECASE)


class _Payload(msgspec.Struct):
    """As much of a token's payload as is of interest here."""

    sub: str


_payloads = ForeignJson[_Payload](_Payload)


def _bearer(message: bytes) -> str | None:
    """OAUTHBEARER: `n,,^Aauth=Bearer token^A^A`, where the token is a JWT with the claim `sub` (RFC 7519)."""
    found = _BEARER.fullmatch(message)
    if found is None:
        return None
    pairs = [pair.partition(b"=") for pair in found["pairs"].split(b"\x01")]
    given = [value for key, _, value in pairs if key == b"auth"]
    token = _AUTH.fullmatch(given[0]) if len(given) == 1 else None
    if token is None:
        return None
    payload = token["payload"]
    try:
        name = _payloads.read(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4))).sub
    except (binascii.Error, UnreadableError):
        return None
    # Some of Kafka's validators cut blanks off (ClaimValidationUtils), others do not.
    is_sure = name == name.strip("".join(map(chr, range(0x21))))
    return (name or None) if is_sure and found["authzid"] in (None, name.encode()) else None


def _text(name: bytes) -> str | None:
    try:
        return name.decode() or None
    except UnicodeDecodeError:
        return None


_SCRAM_LOGIN = Mechanism(_scram, 2, ends_empty=False)
MECHANISMS: Mapping[str, Mechanism] = {
    "PLAIN": Mechanism(_plain, 1, ends_empty=True),
    "SCRAM-SHA-256": _SCRAM_LOGIN,
    "SCRAM-SHA-512": _SCRAM_LOGIN,
    "OAUTHBEARER": Mechanism(_bearer, 1, ends_empty=True),
}
"""Those whose names are known, by the name in the client's SaslHandshake."""
