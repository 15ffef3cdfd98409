"""The gateway's certificate, which may be renewed while it runs."""

from __future__ import annotations

import logging
import ssl
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.gateway.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.gateway.settings import GatewaySettings

log = logging.getLogger(__name__)


class Named(ssl.SSLObject):
    """The gateway's side of a TLS connection, which knows the name that the client has asked for (SNI)."""

    name = ""
    """Empty if the client has named no host, or nobody needs to know."""


class Certificates:
    """The certificates of both sides, in one TLS context. Raises `GatewayError` for unusable files."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        files = (settings.gateway_tls_certificate, settings.gateway_tls_key, settings.gateway_tls_client_ca)
        self._files = [file for file in files if file]
        self._versions = self._look()
        self.context = self._load()
        """For the next connection. Those that are there keep theirs."""

    def renew(self) -> None:
        """Load the files again if they have changed. If they cannot be used, what was loaded before stays."""
        versions = self._look()
        if versions == self._versions:
            return
        # Said once: it is tried again when they change again, as files are that are replaced one by one.
        self._versions = versions
        try:
            self.context = self._load()
        except GatewayError as error:
            # It is one line, without a traceback.
            log.error("the certificate is not renewed, the one before stays: %s", error)  # noqa: TRY400
        else:
            log.info("the certificate is renewed from %s", self._settings.gateway_tls_certificate)

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [version_of(file) for file in self._files]

    def _load(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(
                settings.gateway_tls_certificate,
                settings.gateway_tls_key or None,
                # Without one OpenSSL would ask for it on the terminal, and wait.
                password=settings.gateway_tls_key_password,
            )
        except (OSError, ValueError) as error:
            raise GatewayError(
                f"cannot use gateway.tls.certificate {settings.gateway_tls_certificate} with its key: "
                f"{_reason(error)}; both have to be PEM files, and belong to each other"
            ) from None
        if settings.gateway_tls_client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(settings.gateway_tls_client_ca)
            except (OSError, ValueError) as error:
                raise GatewayError(
                    f"cannot use gateway.tls.client.ca {settings.gateway_tls_client_ca}: {_reason(error)}; "
                    "it has to be a PEM file with certificates"
                ) from None
        if settings.names is not None:
            context.sslobject_class = Named
            context.sni_callback = _keep_name
        return context


def _keep_name(side: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
    """Let the handshake go on, whatever the name: asyncio would not send the alert of one that fails."""
    assert isinstance(side, Named)  # noqa: S101 - the context makes no others
    side.name = name or ""


@contextmanager
def foreign_names_ignored() -> Iterator[None]:
    """While the context is open, Python prints no traceback for a client whose name (SNI) is no ASCII.

    Python decodes the name before it calls back, and can tell nobody that it could not. The handshake fails,
    and the log has a line for that.
    """
    before = sys.unraisablehook

    def hook(ignored: sys.UnraisableHookArgs) -> None:
        error = ignored.exc_value
        if not (isinstance(error, UnicodeDecodeError) and error.encoding == "ascii"):
            before(ignored)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)


def version_of(file: str) -> tuple[int, int, int] | None:
    """Time, size and number, which tell a file from the one that was there before; None if there is none."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
