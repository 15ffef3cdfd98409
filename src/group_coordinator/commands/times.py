"""Times as people type them, and as they are told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGO = re.compile(r"(\d+)([smhdw])")
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(words: str, now: datetime, after: datetime | None = None) -> datetime:
    """A time: `2026-01-31T14:05`; `14:05` today, or yesterday if that is still to come; `24h` ago; `now`.

    With `after`, `14:05` is the first one after that: what begins at 22:00 ends at 06:00 of the next morning.
    UTC, unless it says otherwise. Raises ValueError.
    """
    if words == "now":
        return now
    try:
        if ago := _AGO.fullmatch(words):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if _CLOCK.fullmatch(words):
            day = now if after is None else after.astimezone(UTC)
            time = datetime.fromisoformat(f"{day.date()}T{words}+00:00")
            if after is None:
                return time if time <= now else time - timedelta(days=1)
            return time if time >= after else time + timedelta(days=1)
        time = datetime.fromisoformat(words)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{words!r} is no time: write 2026-01-31T14:05, 14:05, now, or 24h for as long ago "
            "(s, m, h, d, w)"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def parsed_time(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    """A callback for an option with a time. That of --to is after that of --from."""
    after = context.params.get("since") if option.name == "until" else None
    try:
        return None if value is None else parse_time(value, datetime.now(UTC), after)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def utc_text(at: datetime) -> str:
    """Write a time in UTC: `2026-01-31T14:05:00.000Z`."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
