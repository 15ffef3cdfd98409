from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime, tzinfo

import pytest
import structlog

from group_coordinator.jobs.logs import logging_as
from group_coordinator.jobs.settings import JobSettings


@pytest.fixture
def stderr() -> Iterator[io.StringIO]:
    """What the root logger writes, as the command line sets it up."""
    root = logging.getLogger()
    handler = logging.StreamHandler(io.StringIO())
    root.addHandler(handler)
    yield handler.stream
    root.removeHandler(handler)


def test_a_time_has_its_microseconds_although_there_are_none(
    stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime(2026, 1, 31, 14, 5, tzinfo=tz)

    monkeypatch.setattr(structlog.processors.datetime, "datetime", Clock)
    with logging_as(JobSettings(), print):
        logging.getLogger("group_coordinator").warning("noon")
    assert "2026-01-31T14:05:00.000000Z" in stderr.getvalue()


def without_time(text: str) -> list[str]:
    return [line.partition(" ")[2] for line in text.splitlines()]


def test_all_that_is_logged_has_one_form(stderr: io.StringIO) -> None:
    with logging_as(JobSettings(), print):
        logging.getLogger("group_coordinator.streaming.service").warning("it is %s", "odd")
        logging.getLogger("kafka.net").critical("no\nmore\x1b[2J")

    assert without_time(stderr.getvalue()) == [
        'level=warning logger=group_coordinator.streaming.service event="it is odd"',
        "level=critical logger=kafka.net event=no\\nmore\\u001b[2J",
    ]


def test_json(stderr: io.StringIO) -> None:
    with logging_as(JobSettings(log_format="json"), print):
        logging.getLogger("streaming").error("it failed", exc_info=ValueError("of no use"))

    (line,) = map(json.loads, stderr.getvalue().splitlines())
    assert list(line) == ["timestamp", "level", "logger", "event", "exception"]
    assert (line["level"], line["logger"], line["event"]) == ("error", "streaming", "it failed")
    assert line["exception"] == "ValueError: of no use"


def test_a_terminal_has_short_lines(stderr: io.StringIO) -> None:
    with logging_as(JobSettings(log_format="short"), print):
        logging.getLogger("group_coordinator.jobs.job").error("no\x1bmore\nat java.lang.Thread.run")
        logging.getLogger("py4j").warning("it-is-refused " * 6)
        logging.getLogger("py4j").warning("x " * 500)

    first, second, its_end, *third = stderr.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d error: no\\u001bmore", first)
    assert second.endswith("warning:" + " it-is-refused" * 4)
    assert its_end == " " * 9 + "it-is-refused it-is-refused"
    assert max(map(len, third)) <= 80
    assert len(third) == 4
    assert third[-1].endswith("x …")


def test_a_name_that_is_no_text_can_be_logged(stderr: io.StringIO) -> None:
    for form in ("logfmt", "json"):
        with logging_as(JobSettings(log_format=form), print):
            logging.getLogger("streaming").error("no file a\udc80b")

    logfmt, as_json = stderr.getvalue().splitlines()
    assert logfmt.endswith('event="no file a\\\\udc80b"')
    assert json.loads(as_json)["event"] == "no file a\\udc80b"


def test_the_level_is_for_our_own_lines(stderr: io.StringIO) -> None:
    def log() -> None:
        for name in (
            "group_coordinator.streaming.service",
            "group_coordinator.history.service",
            "py4j",
            "kafka.client",
        ):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
                logging.getLogger(name).log(level, "said")

    told = {}
    for level in ("debug", "info", "warning", "error"):
        with logging_as(JobSettings(log_level=level), print):
            log()
        found = without_time(stderr.getvalue())
        stderr.truncate(stderr.seek(0))
        told[level] = [line.split()[0].removeprefix("level=") for line in found if "streaming" in line]
        assert len([line for line in found if "history" in line]) == len(told[level])
        assert [line.split()[0] for line in found if "py4j" in line] == ["level=warning", "level=error"]

    levels = ["debug", "info", "warning", "error"]
    assert told == {level: levels[number:] for number, level in enumerate(levels)}


def test_afterwards_all_is_as_it_was(stderr: io.StringIO) -> None:
    logger = logging.getLogger("streaming")
    handlers = logging.getLogger().handlers
    before = [handler.formatter for handler in handlers], logger.level
    with logging_as(JobSettings(log_format="json", log_level="debug"), print):
        assert ([handler.formatter for handler in handlers], logger.level) != before

    assert ([handler.formatter for handler in handlers], logger.level) == before


def test_lines_for_people_stay_as_they_are() -> None:
    said: list[str] = []
    with logging_as(JobSettings(), said.append) as say:
        say("the coordinator is running")

    assert said == ["the coordinator is running"]


def test_lines_for_people_are_json_where_the_log_is_and_do_not_depend_on_the_level() -> None:
    said: list[str] = []
    with logging_as(JobSettings(log_format="json", log_level="error"), said.append) as say:
        say("the coordinator is running")
        say("error: the query failed:\nodd")

    told = [json.loads(line) for line in said]
    assert [(line["level"], line["event"]) for line in told] == [
        ("info", "the coordinator is running"),
        ("error", "the query failed:\nodd"),
    ]
    assert all("\n" not in line for line in said)
