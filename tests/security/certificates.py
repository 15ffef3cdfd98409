"""Certificates for a test: an authority that exists for it alone, and a broker's certificate signed by it."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.deploy.java import find_java
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PASSWORD", "Certificates", "make_certificates", "make_client_key"]

PASSWORD = "of-the-keystore"


class Certificates(NamedTuple):
    """`authority`: PEM, for clients to trust. `keystore`: PKCS12 under `PASSWORD`, for the broker to show."""

    authority: Path
    keystore: Path


def make_certificates(directory: Path) -> Certificates:
    """Make both with Java's own tool, which is wherever a broker can run; for 127.0.0.1, for some days."""
    authority, keystore = directory / "authority.pem", directory / "broker.p12"

    def keytool(command: str, *options: str) -> None:
        store = ("-keystore", str(keystore), "-storetype", "PKCS12", "-storepass", PASSWORD)
        subprocess.run(
            [str(find_java().with_name("keytool")), command, *store, *options],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )

    key = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "7")
    keytool(
        "-genkeypair", "-alias", "authority", *key, "-dname", "CN=authority", "-ext", "bc:critical=ca:true"
    )
    signed = ("-signer", "authority", "-ext", "san=ip:127.0.0.1")
    keytool("-genkeypair", "-alias", "broker", *key, "-dname", "CN=broker", *signed)
    keytool("-exportcert", "-alias", "authority", "-rfc", "-file", str(authority))
    # What is left is the one key that the broker can show; its certificate has the authority's with it.
    keytool("-delete", "-alias", "authority")
    return Certificates(authority, keystore)


def make_client_key(directory: Path, password: str, *names: str) -> Path:
    """Make a PEM file with a certificate and its private key, encrypted with `password`.

    It is a client's, or with `names` that of the server with these.
    """
    keystore, pem = directory / "client.p12", directory / "client.pem"
    command = [str(find_java().with_name("keytool"))]
    store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass", password, "-alias", "client"]
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "7", "-dname", "CN=client"]
    key += ["-ext", "san=" + ",".join(f"dns:{each}" for each in names)] if names else []
    # The old encryption, because Kafka in Java 17 does not read the new one (PBES2) from a PEM file.
    old = "-J-Dkeystore.pkcs12.legacy"
    subprocess.run(
        [*command, old, "-genkeypair", *store, *key],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    certificate = subprocess.run(
        [*command, "-exportcert", "-rfc", *store],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
        text=True,
    ).stdout
    label = "ENCRYPTED PRIVATE KEY"
    encoded = base64.encodebytes(_encrypted_key(keystore.read_bytes())).decode()
    pem.write_text(f"-----BEGIN {label}-----\n{encoded}-----END {label}-----\n{certificate}")
    return pem


def _encrypted_key(keystore: bytes) -> bytes:
    """keytool gives no key away, but in a PKCS12 file (RFC 7292) it lies as PKCS8 has it, encrypted."""
    _, authenticated_safe, *_ = _parts(_content(keystore))
    contents = _content(_content(_parts(_content(authenticated_safe))[1]))
    for content_info in _parts(_content(contents)):
        kind, content = _parts(_content(content_info))[:2]
        if kind == _DATA:
            (bag, *_) = _parts(_content(_content(_content(content))))
            _, value, *_ = _parts(_content(bag))
            return _content(value)
    raise AssertionError("there is no key in the keystore")


_DATA = bytes.fromhex("06092a864886f70d010701")


def _content(der: bytes) -> bytes:
    """The content of one DER element."""
    return der[_header(der) :]


def _parts(der: bytes) -> list[bytes]:
    """DER elements, one behind the other."""
    parts = []
    while der:
        end = _header(der) + _length(der)
        parts.append(der[:end])
        der = der[end:]
    return parts


def _header(der: bytes) -> int:
    return 2 + (der[1] & 0x7F if der[1] & 0x80 else 0)


def _length(der: bytes) -> int:
    return int.from_bytes(der[2 : _header(der)]) if der[1] & 0x80 else der[1]
