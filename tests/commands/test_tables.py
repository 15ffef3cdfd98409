from __future__ import annotations

import csv
import io
import json

import pytest

from group_coordinator.commands.output import tell
from group_coordinator.commands.tables import Column, Failure, Line, Note, Report, Table
from group_coordinator.commands.terminal import show

GROUP = Column("GROUP", 8, grows=True)
LAG = Column("LAG", 4)
INSTANCE = Column("GROUP-INSTANCE-ID", optional=True)
EPOCH = Column("LEADER-EPOCH", 5, verbose=True)


def written(report: Report, form: str = "table") -> tuple[str, str]:
    """What goes to stdout and to stderr."""
    pieces = list(report.written(form))
    return tuple(
        "".join(text for text, write in pieces if (write is tell) is is_error) for is_error in (False, True)
    )


# -- tables for people -------------------------------------------------------------------------------


def test_columns_are_as_wide_as_kafkas_and_only_some_grow() -> None:
    table = Table((GROUP, LAG, Column("HOST")), [("a-long-name", 123456, "h1"), ("g", None, "h2")])

    assert [
        "",
        "GROUP       LAG  HOST",
        "a-long-name 123456 h1",
        "g           -    h2",
    ] == list(table.lines())


def test_margin_is_added_to_what_has_grown() -> None:
    assert ["", "GROUP      LAG", "g          1"] == list(
        Table((GROUP._replace(margin=2), LAG), [("g", 1)]).lines()
    )


def test_optional_column_is_there_if_a_row_has_a_value() -> None:
    columns = (GROUP, INSTANCE)

    assert ["", "GROUP", "g"] == list(Table(columns, [("g", None)]).lines())
    assert ["", "GROUP    GROUP-INSTANCE-ID", "g        -", "h        w1"] == list(
        Table(columns, [("g", None), ("h", "w1")]).lines()
    )


def test_verbose_columns_are_left_out_unless_asked_for() -> None:
    rows = [("g", 1, 2)]

    assert ["", "GROUP    LAG", "g        2"] == list(Table.of((GROUP, EPOCH, LAG), rows).lines())
    assert ["", "GROUP    LEADER-EPOCH LAG", "g        1     2"] == list(
        Table.of((GROUP, EPOCH, LAG), rows, verbose=True).lines()
    )


def test_bare_and_hidden_tables() -> None:
    assert ["g"] == list(Table((GROUP,), [("g",)], bare=True, apart=False).lines())
    assert [] == list(Table((GROUP,), [("g",)], hidden=True).lines())


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [({"b": [0, 1], "a": [2]}, "a:2;b:0,1"), ({}, "-"), (None, "-"), ("", ""), (0, "0")],
)
def test_values_are_written_as_kafka_writes_them(assignment: object, expected: str) -> None:
    assert f"GROUP\n{expected}\n".split("\n")[:2] == list(
        Table((GROUP._replace(width=0, grows=False),), [(assignment,)], apart=False).lines()
    )


# -- reports -----------------------------------------------------------------------------------------

REPORT = Report(
    [
        Failure("Group 'x' is gone."),
        Note("warning: Consumer group 'g' is rebalancing."),
        Table((GROUP, LAG), [("g", None), ('a,"b"', 2)]),
        Line("All is well."),
        Table((GROUP, LAG), [("h", {"t": [1, 2]})]),
    ]
)


def test_people_get_tables_and_messages_in_order() -> None:
    out, err = written(REPORT)

    assert out == ('\nGROUP    LAG\ng        -\na,"b"    2\nAll is well.\n\nGROUP    LAG\nh        t:1,2\n')
    assert err == "\nerror: Group 'x' is gone.\n\nwarning: Consumer group 'g' is rebalancing.\n"


def test_json_is_one_document_with_the_same_rows() -> None:
    out, err = written(REPORT, "json")

    assert [
        {"group": "g", "lag": None},
        {"group": 'a,"b"', "lag": 2},
        {"group": "h", "lag": {"t": [1, 2]}},
    ] == json.loads(out)
    assert out.endswith("\n]\n")
    assert err == "error: Group 'x' is gone.\nwarning: Consumer group 'g' is rebalancing.\n"


def test_csv_has_one_heading_and_the_same_rows() -> None:
    out, err = written(REPORT, "csv")

    assert out == 'GROUP,LAG\r\ng,\r\n"a,""b""",2\r\nh,"t:1,2"\r\n'
    assert [["GROUP", "LAG"], ["g", ""], ['a,"b"', "2"], ["h", "t:1,2"]] == list(csv.reader(io.StringIO(out)))
    assert err == "error: Group 'x' is gone.\nwarning: Consumer group 'g' is rebalancing.\n"


def test_nothing_is_an_empty_document() -> None:
    assert ("", "") == written(Report())
    assert ("[]\n", "") == written(Report(), "json")
    assert ("", "") == written(Report(), "csv")


def test_failures_alone_decide_the_exit_code() -> None:
    assert 0 == Report([Note("n"), Line("l"), Table((GROUP,), [])]).exit_code
    assert 1 == Report([Table((GROUP,), []), Failure("f")]).exit_code


@pytest.mark.parametrize(
    ("heading", "key"),
    [
        ("LOG-END-OFFSET", "log_end_offset"),
        ("#PARTITIONS", "partitions"),
        ("COORDINATOR (ID)", "coordinator_id"),
    ],
)
def test_keys_are_the_headings_in_snake_case(heading: str, key: str) -> None:
    assert key == Column(heading).key


def test_names_cannot_steer_a_terminal_or_pass_for_rows() -> None:
    hostile = "g\x1b[2J\r\u202e\x9b1m\nfalse 7"
    report = Report([Table((GROUP, LAG), [(hostile, 7)]), Failure(f"no {hostile}")])
    out, _ = written(report)
    assert out == "\nGROUP                           LAG\ng\\x1b[2J\\r\\u202e\\x9b1m\\nfalse 7 7\n"
    document = written(report, "json")[0]
    assert json.loads(document) == [{"group": hostile, "lag": 7}]
    assert r'"g\u001b[2J\r\u202e\u009b1m\nfalse 7"' in document


def test_what_is_shown_is_printable(capfd: pytest.CaptureFixture[str]) -> None:
    show(Report([Failure("no g\x1b[2J")]), "table")
    show(Report([Table((GROUP,), [("g\x1b",)])]), "csv")
    # Programs get the name as it is.
    assert capfd.readouterr() == ("GROUP\r\ng\x1b\r\n", "\nerror: no g\\x1b[2J\n")
