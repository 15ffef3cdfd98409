"""The form of a log line, in the driver and on the executors, by `log.level` and `log.format`.

structlog makes the lines, but is not configured for the process. A program that this runs in may call
`structlog.configure` itself.
"""

from __future__ import annotations

import logging
import textwrap
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec
from structlog.processors import LogfmtRenderer, TimeStamper, add_log_level, format_exc_info
from structlog.stdlib import ProcessorFormatter, add_logger_name

from group_coordinator.jobs.printable import printable_json, with_short_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from structlog.typing import EventDict, Processor, WrappedLogger

    from group_coordinator.jobs.settings import JobSettings

_FIRST = ("timestamp", "level", "logger", "event")
_ERROR = "error: "
_WIDTH = 80
_MOST_LINES = 4
# The fields of an event that a short line has, in this order, with a word before each.
_TOLD = {
    "member": "",
    "replaced_by": "replaced by ",
    "leader": "leader ",
    "reason": "",
    "api": "",
    "error": "",
    "error_message": "",
    "record": "",
}


# Of one length: ISO 8601 as Python writes it leaves the microseconds out where there are none.
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def line_processors(form: str) -> tuple[Processor, ...]:
    """Return what makes one line of an event and its fields, in the `form` that `log.format` names."""
    if form == "short":
        return add_log_level, TimeStamper(fmt="%H:%M:%S", utc=False), _short
    render = _json if form == "json" else LogfmtRenderer(bool_as_flag=False)

    def on_one_line(logger: WrappedLogger, method: str, fields: EventDict) -> str:
        return printable_json(str(render(logger, method, fields)), keep="")

    return add_log_level, TimeStamper(fmt=_TIME), _in_order, on_one_line


@contextmanager
def logging_as(settings: JobSettings, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """While the context is open, what `logging`'s root logger writes has the form that the settings name.

    This project logs what is of `log.level` or above. Others log what they did before. The context is what
    says a line to people: as a line of the log where that is JSON, and otherwise as `say` does. That does not
    depend on the level.
    """
    processors = line_processors(settings.log_format)
    formatter = ProcessorFormatter(
        processors=[ProcessorFormatter.remove_processors_meta, _encodable, *processors],
        foreign_pre_chain=[add_logger_name, format_exc_info],
    )

    def say_json(line: str) -> None:
        fields: EventDict = {"event": line.removeprefix(_ERROR)}
        method = "error" if line.startswith(_ERROR) else "info"
        for processor in (_encodable, *processors):
            fields = processor(None, method, fields)  # type: ignore[assignment] # the last one makes the text
        say(str(fields))

    with ExitStack() as stack:
        for handler in logging.getLogger().handlers:
            stack.callback(handler.setFormatter, handler.formatter)
            handler.setFormatter(formatter)
        own = logging.getLogger("group_coordinator")
        stack.callback(own.setLevel, own.level)
        own.setLevel(settings.log_level.upper())
        yield say_json if settings.log_format == "json" else say


def _in_order(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    return {name: fields[name] for name in _FIRST if name in fields} | dict(fields)


def _encodable(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    """Names of files may have what is no character."""
    return {name: str(it).encode(errors="backslashreplace").decode() for name, it in fields.items()}


def _json(_logger: WrappedLogger, _method: str, fields: EventDict) -> str:
    # A value without a form in JSON is no reason to end a query.
    return msgspec.json.encode(fields, enc_hook=str).decode()


def _short(_logger: WrappedLogger, _method: str, fields: EventDict) -> str:
    """What happened to which group, and why, for a terminal; logfmt and JSON have all the rest."""
    level = "" if fields["level"] == "info" else f"{fields['level']}: "
    if "logger" in fields:  # it speaks for itself
        text = str(fields["event"]).partition("\n")[0]
    else:
        what = str(fields["event"]).replace("_", " ")
        if "to" in fields:
            what = f"{fields['from']} -> {fields['to']}"
        elif fields["event"] == "generation_completed":
            what = f"generation {fields['generation']} completed"
        told = ", ".join(f"{word}{fields[name]}" for name, word in _TOLD.items() if name in fields)
        text = f"{fields['group']}: {what}" + (f": {told}" if told else "")
    text = with_short_ids(text)
    time = f"{fields['timestamp']} "
    line = printable_json(f"{time}{level}{text}", keep="")
    # In full, because the reason is at the end. Later lines of it begin below the text.
    return textwrap.fill(
        line,
        _WIDTH,
        subsequent_indent=" " * len(time),
        max_lines=_MOST_LINES,
        placeholder=" …",
        break_on_hyphens=False,
    )
