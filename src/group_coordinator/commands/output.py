"""The place where commands write: text for people, JSON, and text that programs read byte for byte.

An output can lack letters (Latin-1), be closed, or be a disk that is full.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

import click

from group_coordinator.jobs.printable import json_escape, printable, printable_json

_ESCAPING = "group_coordinator.escape"
_OF_OUTPUT = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json_escape(error.object[error.start : error.end]), error.end


def open_streams() -> None:
    r"""Have all three standard streams open, and stdout take any letter: as \u65e5 if its encoding lacks it.

    The next file or connection would take the place of one that is closed, and get what is printed.
    """
    for descriptor, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            # A command has to notice that nobody gets its output. Of stderr nobody could be told.
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            setattr(sys, name, open(descriptor, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115
    codecs.register_error(_ESCAPING, _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ESCAPING)


def refuse_other_bytes(arguments: Sequence[str]) -> None:
    """Refuse arguments and settings that are not text. Raises `click.UsageError`."""
    settings = {name: it for name, it in os.environ.items() if name.startswith("GROUP_COORDINATOR_")}
    for what, text in [*((f"argument {it!r}", it) for it in arguments), *settings.items()]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise click.UsageError(
                f"{what} is not text in UTF-8: write it in the terminal's encoding"
            ) from None


def put(text: str) -> None:
    """Write text that is printable to stdout at once."""
    _write(sys.stdout, text)


def tell(text: str) -> None:
    """Write text that is printable to stderr. Nobody can be told that there is no room for it."""
    try:
        click.echo(text, err=True, nl=False, color=True)
    except OSError as error:
        if error.errno not in _OF_OUTPUT:
            raise


def put_as_it_is(text: str) -> None:
    """Write text for programs, always in UTF-8; on a terminal it is made printable."""
    binary: IO[bytes] | None = getattr(sys.stdout, "buffer", None)
    if sys.stdout.isatty() or binary is None:
        _write(sys.stdout, printable(text))
    else:
        _write(binary, text.encode(errors="surrogatepass"))


def put_json(text: str) -> None:
    """Write JSON that is printable, in ASCII if stdout is not in UTF-8: JSON is UTF-8 wherever it is read."""
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    put(text if is_utf8 else text.encode("ascii", _ESCAPING).decode())


def json_of(value: object, *, indent: int = 0) -> str:
    """Return `value` as JSON that is safe for a terminal; without an indent in one line."""
    import msgspec

    return printable_json(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def why_refused(error: OSError) -> str:
    """Say in a line what could not be written or read, and write no more to stdout.

    Python would write what is left in its buffer again at its end, and complain again.
    """
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.filename is None and error.errno in _OF_OUTPUT:
        return f"cannot write the output: {error.strerror}"
    return f"{error.strerror}: {error.filename}" if error.filename and error.strerror else str(error)


def _write(stream: IO[str] | IO[bytes], what: str | bytes) -> None:
    stream.write(what)  # type: ignore[arg-type] # each its own kind
    stream.flush()
