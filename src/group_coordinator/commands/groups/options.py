"""The options of the command: which go together, and what their values mean."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState

RESET_TARGETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
    "from_file",
    "to_history",
    "undo",
)
# action -> the options that it takes, apart from those that all take.
_TAKES: dict[str, tuple[str, ...]] = {
    "list": ("state", "type", "watch"),
    "describe": ("group", "all_groups", "offsets", "members", "state", "verbose", "lag", "watch"),
    "delete": ("group", "all_groups", "reason"),
    "delete_offsets": ("group", "topic", "reason"),
    "reset_offsets": (
        *("group", "all_groups", "topic", "all_topics", "dry_run", "execute", "export", "reason"),
        *("history_path", "events_topic"),
        *RESET_TARGETS,
    ),
    "remove_member": ("group", "member_id", "group_instance_id", "reason"),
}
# Of each of these at most one.
_EXCLUSIVE: tuple[tuple[str, ...], ...] = (
    ("group", "all_groups"),
    ("topic", "all_topics"),
    ("dry_run", "execute"),
    ("offsets", "members", "state"),
    RESET_TARGETS,
)
# action -> of each of these at least one.
_NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "describe": (("group", "all_groups"),),
    "delete": (("group", "all_groups"),),
    "delete_offsets": (("group",), ("topic",)),
    "reset_offsets": (("group", "all_groups"), RESET_TARGETS),
    "remove_member": (("group",), ("member_id", "group_instance_id")),
}
_ONE_GROUP = ("delete_offsets", "remove_member")
_OF_BROKERS = ("list", "describe", "reset_offsets")


def checked_action(options: Mapping[str, Any]) -> str:
    """The action that is asked for. Raises click.UsageError for options that do not go together."""
    given = [name for name, value in options.items() if not (value is None or value is False or value == ())]
    actions = [name for name in given if name in _TAKES]
    if len(actions) != 1:
        raise click.UsageError(f"exactly one of these is needed: {_flags(_TAKES)}")
    (action,) = actions
    special = {name for names in _TAKES.values() for name in names}
    for name in given:
        if name in special and name not in _TAKES[action]:
            raise click.UsageError(f"{_flags([name])} cannot be used with {_flags([action])}")
    for alternatives in _EXCLUSIVE:
        rivals = [name for name in alternatives if name in given]
        if len(rivals) > 1:
            raise click.UsageError(f"{_flags(rivals[:1])} cannot be used with {_flags(rivals[1:])}")
    for names in _NEEDS.get(action, ()):
        if not set(names) & set(given):
            what = "one of these options" if len(names) > 1 else "also"
            raise click.UsageError(f"{_flags([action])} needs {what}: {_flags(names)}")
    _check_side(action, given, options)
    _check_details(action, given, options)
    return action


def _check_side(action: str, given: list[str], options: Mapping[str, Any]) -> None:
    if options["of"] != "brokers":
        return
    if action not in _OF_BROKERS:
        raise click.UsageError(
            f"{_flags([action])} cannot be used with --of brokers: kafka-consumer-groups.sh does that"
        )
    if action == "describe" and "state" in given:
        raise click.UsageError("--state cannot be used with --describe and --of brokers")
    if "reason" in given:
        raise click.UsageError("--reason cannot be used with --of brokers: they have no place for it")


def _check_details(action: str, given: list[str], options: Mapping[str, Any]) -> None:
    if action in _ONE_GROUP and len(options["group"]) > 1:
        raise click.UsageError(f"{_flags([action])} takes one --group")
    if action == "describe" and options["state"]:
        raise click.UsageError("--state takes no value with --describe")
    if "lag" in given and ("members" in given or "state" in given):
        raise click.UsageError("--lag can only be used with --offsets")
    has_topics = bool({"topic", "all_topics"} & set(given))
    if "from_file" in given and has_topics:
        raise click.UsageError("--from-file names the partitions: use it without --topic and --all-topics")
    if action == "reset_offsets" and not (has_topics or {"from_file", "undo"} & set(given)):
        raise click.UsageError("--reset-offsets needs one of these options: --topic, --all-topics")
    if action == "reset_offsets" and not {"to_history", "undo"} & set(given):
        for name in ("history_path", "events_topic"):
            if name in given:
                raise click.UsageError(f"{_flags([name])} can only be used with --to-history and --undo")
    if options["output"] != "table" and {"watch", "export"} & set(given):
        raise click.UsageError("--watch and --export cannot be used with --output")


def _flags(names: Any) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def parse_reason(text: str) -> str:
    """Read words that the coordinator takes. The next one in charge would miss an end that is cut off."""
    # It is defined with the requests, for which --help need not wait.
    from group_coordinator.coordinator_state.requests import MAX_REASON

    if len(text) > MAX_REASON:
        raise ValueError(f"a reason has at most {MAX_REASON} characters, not {len(text)}")
    return text


def parse_states(text: str) -> frozenset[str]:
    """Read the value of `--list --state`; "" is all, and so is what comes of it."""
    states = dict.fromkeys(state.value for kind in (GroupState, ConsumerState) for state in kind)
    return _listed(text, states, "state list", "states")


def parse_types(text: str) -> frozenset[str]:
    """Read the value of `--list --type`; "" is all, and so is what comes of it."""
    return _listed(text, ("Classic", "Consumer"), "types list", "types")


def _listed(text: str, names: Iterable[str], what: str, kind: str) -> frozenset[str]:
    """Names of these, with commas, in any case of letters. The messages are those of Kafka's tool."""
    valid = {name.lower(): name for name in names}
    given = [name.strip().lower() for name in text.split(",")] if text else []
    if not set(given) <= valid.keys():
        raise ValueError(f"Invalid {what} {text!r}. Valid {kind} are: {', '.join(valid.values())}")
    return frozenset(valid[name] for name in given)


_DURATION = re.compile(
    r"""(?P<sign>[-+]?)P
        ((?P<days>[-+]?\d+)D)?
        (T((?P<hours>[-+]?\d+)H)?((?P<minutes>[-+]?\d+)M)?((?P<seconds>[-+]?\d+(\.\d{0,9})?)S)?)?""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_datetime(text: str) -> int:
    """A point in time in ISO 8601, in ms since the epoch. Without a zone it is in UTC, as in Kafka."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """A duration as java.time.Duration reads it ("P1DT2H30M", "PT0.5S"), in ms."""
    match = _DURATION.fullmatch(text)
    parts = {unit: match[unit] for unit in _UNITS_MS if match[unit]} if match else {}
    if match is None or not parts or text[-1] in "tT":
        raise ValueError(f"{text!r} is not a duration such as P7D, PT2H30M or PT0.5S")
    ms = sum(Decimal(number) * _UNITS_MS[unit] for unit, number in parts.items())
    return int(-ms if match["sign"] == "-" else ms)


LagFilter = Callable[[object], bool]
"""Whether a row of this lag is wanted. One without a lag never is."""

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


def parse_lag(text: str) -> LagFilter:
    """Read the value of `--lag`, such as ">0"."""
    match = re.fullmatch(r"\s*([<>]=?|=)\s*(-?[0-9]+)\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not a condition such as '>0', '>=100' or '=0'")
    compare, limit = _COMPARE[match[1]], int(match[2])
    return lambda lag: isinstance(lag, int) and compare(lag, limit)
