"""Requests and answers over HTTP, as far as the page and its API need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec

_FIRST_YEAR, _LAST_YEAR = 1970, 9_000
_MOST_FIELDS = 20
_SHORT = "id"
"""Another name for `group_id`, which links to the page have had."""
_A_TIME = "a time in UTC, such as 2026-01-31T14:05:00"

Query = Mapping[str, str]
"""The query of an address: of a name that is given more than once the first value."""
Time = Annotated[
    str, msgspec.Meta(extra_json_schema={"format": "date-time", "examples": ["2026-01-31T14:05:00Z"]})
]
"""A time in a query, as ISO 8601; in UTC if it names no zone."""
Asked = TypeVar("Asked", bound=msgspec.Struct)


class BadQueryError(Exception):
    """The address is wrong; the message says how."""


class NotFoundError(Exception):
    """There is no such thing; the message says what."""


class Answer(NamedTuple):
    """An answer. `body`: all of it, or parts that are sent as they come."""

    body: bytes | Iterator[bytes]
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> Query:
    """Read the query of an address. Raises `BadQueryError`."""
    try:
        given = parse_qs(text, keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadQueryError("the query of the address is too long") from None
    query = {name: values[0] for name, values in given.items()}
    if _SHORT in query:
        query.setdefault("group_id", query.pop(_SHORT))
    return query


def asked(query: Query, kind: type[Asked]) -> Asked:
    """The query as `kind`, whose fields are all that it may have. Raises `BadQueryError`."""
    known = _names(kind)
    for name in query:
        if name not in known:
            raise BadQueryError(f"there is no {name!r} here: {', '.join(known)} may be given")
    given: dict[str, Any] = dict(query)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadQueryError(_told(str(error), kind)) from None


def _names(kind: type[msgspec.Struct]) -> list[str]:
    """The names of the fields, as an address has them."""
    return [each.encode_name for each in msgspec.structs.fields(kind)]


def _told(message: str, kind: type[msgspec.Struct]) -> str:
    """Say what was expected, in the words of the address; msgspec has told in those of its types."""
    # It names the place as `$.limit`, and of what is missing the name.
    name = next((each for each in _names(kind) if message.endswith((f"`$.{each}`", f"field `{each}`"))), "")
    wanted = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"].get(name, {})
    wanted = next((each for each in wanted.get("anyOf", ()) if each != {"type": "null"}), wanted)
    match wanted:
        case {"enum": values}:
            return f"{name} must be one of {', '.join(map(str, values))}"
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"{name} must be a number from {least:,} to {most:,}"
        case {"type": "boolean"}:
            return f"{name} must be true or false"
    return f"{name} must be given" if name else message


def time_in(name: str, text: str) -> datetime:
    """A time of a query. Raises `BadQueryError`, also if it is at an end of the calendar."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    # Far enough from both ends to look at what is around it.
    if at is None or not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise BadQueryError(f"{name} must be {_A_TIME}")
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
