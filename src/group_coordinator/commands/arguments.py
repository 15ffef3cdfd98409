"""The values of options that more than one command has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback for an option: what is given is read by `parse`, whose ValueErrors say what is wrong."""

    def callback(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(map(parse, value))
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


class TopicArgument(NamedTuple):
    """`--topic T` or `--topic T:0,1`; `partitions` is None for all."""

    topic: str
    partitions: tuple[int, ...] | None


def parse_topic(text: str) -> TopicArgument:
    """Read the value of `--topic`."""
    topic, colon, numbers = text.rpartition(":")
    if not colon:
        return TopicArgument(text, None)
    for number in numbers.split(","):
        if not (topic and number.isascii() and number.isdecimal()):
            raise ValueError(f"invalid partition {number!r} in {text!r}: write TOPIC or TOPIC:0,1,2")
    return TopicArgument(topic, tuple(map(int, numbers.split(","))))
