from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from group_coordinator.commands.cli import main
from group_coordinator.streaming import doctor
from group_coordinator.streaming.doctor import Finding, Verdict

GIVEN = ("--bootstrap-server", "kafka:9092", "--checkpoint", "/checkpoint")

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("own_environment")]


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    found: list[Finding] = []
    monkeypatch.setattr(doctor, "examine", lambda _settings, _ports: iter(found))
    return found


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_each_finding_is_a_line(findings: list[Finding]) -> None:
    findings += [Finding("java", Verdict.OK, "Java 17"), Finding("jars", Verdict.NOTE, "not \x1b[2Jthere")]
    result = ask(*GIVEN)
    assert result.exit_code == 0
    assert [line.split(maxsplit=2) for line in result.stdout.splitlines()] == [
        ["ok", "settings", "all are known, and go together"],
        ["ok", "java", "Java 17"],
        ["note", "jars", "not \\x1b[2Jthere"],
    ]


def test_what_is_wrong_is_the_exit_code(findings: list[Finding]) -> None:
    findings.append(Finding("kafka", Verdict.WRONG, "nothing listens there"))
    result = ask(*GIVEN, "--json")
    assert result.exit_code == 1
    told = {each["subject"]: (each["verdict"], each["told"]) for each in json.loads(result.stdout)}
    assert told["kafka"] == ("wrong", "nothing listens there")


def test_settings_that_are_wrong_are_all_that_is_found(findings: list[Finding]) -> None:
    findings.append(Finding("java", Verdict.OK, "Java 17"))
    result = ask(*GIVEN, "--set", "group.max.size=none")
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith("wrong    settings")
    assert "group.max.size" in line
