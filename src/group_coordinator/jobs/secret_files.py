"""Values of settings from files, as containers mount secrets: `NAME.file` is where the value of `NAME` is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE_SUFFIX = ".file"

_LARGEST = 1 << 20
"""Most bytes of such a file."""


def read_value_files(
    given: Mapping[str, object], is_setting: Callable[[str], bool] = lambda _: True
) -> dict[str, object]:
    """Replace each `NAME.file` in `given` by `NAME` with the file's text, without newlines at its end.

    Only names that are settings are replaced. Raises ValueError with one line if both are given, or if the
    file cannot be read, is empty or too large. The line has neither the text nor the path, which may be a
    secret that was given by mistake.
    """
    values = dict(given)
    for name, path in given.items():
        setting = name.removesuffix(FILE_SUFFIX)
        if setting == name or not is_setting(setting):
            continue
        if setting in given:
            raise ValueError(f"{setting} and {name} are both set: keep one of them")
        del values[name]
        values[setting] = read_value(name, str(path))
    return values


def read_value(name: str, path: str) -> str:
    """The value in the file of the setting `name`. Raises ValueError as `read_value_files` does."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LARGEST + 1)
        text = raw.decode().rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{name} names a file that cannot be read: {error.strerror}") from None
    except ValueError:
        # Its message quotes the bytes, or the path if that has a NUL.
        raise ValueError(f"{name} names a file that is not UTF-8 text") from None
    if len(raw) > _LARGEST:
        raise ValueError(f"{name} names a file that has more than {_LARGEST} bytes")
    if not text:
        raise ValueError(f"{name} names a file that is empty")
    return text
