"""Text in a picture. Much of it comes from strangers: ids, names and reasons can hold anything."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from group_coordinator.jobs.printable import printable_label

_MAX = 400
"""Characters of one value; a reason may have thousands."""
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})", re.DOTALL)
# Of a monospaced font's size; the widest of those that are common.
_ADVANCE = 0.61


def clean(value: str, limit: int = _MAX) -> str:
    """Text that can be shown on one line, of at most `limit` characters. An escape counts as one of them."""
    return printable_label(shortened(value, limit))


def shortened(value: str, limit: int = _MAX) -> str:
    """The first `limit` characters, of which the last says that there are more."""
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def escape(text: str) -> str:
    """Text for XML and HTML, between tags as well as in an attribute."""
    return html.escape(text, quote=True)


CAUSES = {
    "member_joined": "joined",
    "member_left": "left",
    "member_replaced": "restarted",
    "session_expired": "session expired",
    "not_synced": "not synced",
    "subscription_changed": "subscription changed",
    "leader_rejoined": "leader rejoined",
    "not_revoked": "not revoked",
    "topics_changed": "topics changed",
    "unknown": "unknown",
}


def cause_in_words(cause: str) -> str:
    """The cause of a rebalance, behind a member's name or on its own. One that is not known is as it came."""
    return CAUSES.get(cause, cause)


# -- room --------------------------------------------------------------------------------------------------


def width(text: str, size: float) -> float:
    """The greatest width of a text in a monospaced font of that size."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return (len(text) + wide) * size * _ADVANCE


def fit(text: str, room: float, size: float) -> str:
    """As much of a text as there is room for; "" if that is nothing worth reading."""
    if width(text, size) <= room:
        return text
    kept, used = "", width("…", size)
    for each in text:
        used += width(each, size)
        if used > room:
            break
        kept += each
    return f"{kept}…" if kept else ""


# -- names -------------------------------------------------------------------------------------------------


def short_id(member_id: str, *names: str | None) -> str:
    """Return the random part of an id, which tells a member from others of its name."""
    for name in names:
        if name and member_id.startswith(f"{name}-"):
            member_id = member_id[len(name) + 1 :]
            break
    return clean(member_id, 9)


def counted(count: int, what: str) -> str:
    """`1 member`, `2 members`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def owned(partitions: Iterable[tuple[str | None, int | None]], *, units: bool) -> list[str]:
    """Say what a member owns, the best words first: `orders 0-3,7`, `5 partitions`, `0-3,7`, `5`.

    The numbers alone are there for several partitions of one topic. With `units` they are names, of which
    those with a number are put together: `unit-{0-3,7}`.
    """
    known = [(topic, partition) for topic, partition in partitions if topic is not None]
    if not known:
        return ["unreadable", "?", "?"]
    what = _units(topic for topic, _ in known) if units else _partitions(known)
    is_of_one = not units and len(known) > 1 and len({topic for topic, _ in known}) == 1
    numbers = [ranges([partition or 0 for _, partition in known])] if is_of_one else []
    return [what, counted(len(known), "unit" if units else "partition"), *numbers, str(len(known))]


def _partitions(known: Iterable[tuple[str, int | None]]) -> str:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in known:
        numbers[topic].append(partition or 0)
    return "; ".join(f"{clean(topic)} {ranges(numbers[topic])}" for topic in sorted(numbers))


def _units(names: Iterable[str]) -> str:
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    others: list[str] = []
    for name in names:
        if found := _NUMBERED.fullmatch(name):
            numbers[found[1]].append(int(found[2]))
        else:
            others.append(clean(name))
    for prefix, of_prefix in numbers.items():
        listed = ranges(of_prefix)
        others.append(f"{clean(prefix)}{{{listed}}}" if len(of_prefix) > 1 else f"{clean(prefix)}{listed}")
    return ", ".join(sorted(others))


def ranges(numbers: Sequence[int]) -> str:
    """`0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def number_range(numbers: Iterable[int]) -> str:
    """The first and the last one: `5 - 18`."""
    listed = list(numbers)
    return f"{listed[0]} - {listed[-1]}" if listed else "?"


# -- time --------------------------------------------------------------------------------------------------


def span_of_time(span: timedelta) -> str:
    """`230 ms`, `1.2 s`, `4 min 10 s`, `2 d 4 h`."""
    ms = round(span / timedelta(milliseconds=1))
    if ms < 1_000:  # noqa: PLR2004
        return f"{ms} ms"
    if ms < 60_000:  # noqa: PLR2004
        return f"{ms / 1000:.3g} s" if ms < 9_950 else f"{ms // 1000} s"  # noqa: PLR2004
    rest, parts = ms // 1000, list[str]()
    for seconds, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def writer(since: datetime, until: datetime) -> Callable[[datetime], str]:
    """Return a function that writes times of that range, with the day if it has several."""
    one_day = since.astimezone(UTC).date() == until.astimezone(UTC).date()

    def write(at: datetime) -> str:
        utc = at.astimezone(UTC)
        day = "" if one_day and utc.date() == since.astimezone(UTC).date() else f"{utc:%Y-%m-%d} "
        return f"{day}{utc:%H:%M:%S}.{utc.microsecond // 1000:03}"

    return write
