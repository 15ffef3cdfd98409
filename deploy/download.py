"""One file from the web, whole and as expected or not at all. Needs the standard library and no more."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import build_opener

PART = ".part"
"""How the names of unfinished files end."""

_CHUNK = 1 << 16
# The largest jar, AWS's SDK, has 686 MB. The limits end what would otherwise fill the disk, or
# trickle for ever.
_LARGEST = 1024 * 1024 * 1024
_SILENCE_S = 30
_LONGEST_S = 600


class DownloadError(Exception):
    """The file cannot be had; the message is one line and names the address."""


class WrongFileError(DownloadError):
    """The file is another one."""


def download(url: str, target: Path, sha256: str) -> int:
    """Fetch `url` (http or https) into `target` if it has this SHA-256; return the size in bytes.

    `sha256` is in lower-case hex. `target` is whole or as it was before, whenever the process dies. The file
    is written beside it under a name of its own, and renamed once it is verified. Several processes may do so
    at once. The environment names proxies (HTTPS_PROXY, NO_PROXY).

    Raises DownloadError, WrongFileError, or OSError if the file cannot be written.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}{PART}")
    digest, size = hashlib.sha256(), 0
    try:
        with part.open("xb") as file:
            for chunk in _chunks(url):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        if (found := digest.hexdigest()) != sha256:
            raise WrongFileError(f"{url} has SHA-256 {found}, and not {sha256}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return size


def _chunks(url: str) -> Iterator[bytes]:
    ends_at = time.monotonic() + _LONGEST_S
    try:
        # Not urlopen: what it has once read of the environment it keeps for the life of the process.
        with build_opener().open(url, timeout=_SILENCE_S) as response:
            promised = int(response.headers.get("Content-Length", -1))
            received = 0
            # read1 returns what there is, because read would wait for a whole chunk, however slowly it comes.
            while chunk := response.read1(_CHUNK):
                received += len(chunk)
                if received > _LARGEST:
                    raise DownloadError(f"{url} has more than {_LARGEST >> 20} MB")
                if time.monotonic() > ends_at:
                    raise DownloadError(f"{url} takes more than {_LONGEST_S} s")
                yield chunk
            if received < promised:
                raise DownloadError(f"{url} ended after {received} of {promised} bytes")
    except HTTPError as error:
        error.close()
        raise DownloadError(f"{url} answers {error.code} {_one_line(error.reason)}") from error
    except URLError as error:
        raise DownloadError(f"{url} cannot be reached: {_one_line(error.reason)}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise DownloadError(f"{url} cannot be read: {_one_line(error) or type(error).__name__}") from error


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())
