"""The guides for operators say what the programs do: every line, probe, command, setting and figure."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main
from group_coordinator.coordinator_state.requests import (
    BeatingMember,
    HeartbeatRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.jobs.health import Activity
from group_coordinator.jobs.settings import JobSettings
from group_coordinator.lag.topic import _CONFIGS as LAG_CONFIGS
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import topic_specs
from tests.rooms import HOUSE, ROOT

GUIDES = {
    name: (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("run", "size", "monitor", "messages", "gateway", "security", "what-was-run")
}
SOURCES = [
    *sorted((HOUSE / "jobs").glob("*.py")),
    *sorted((HOUSE / "streaming").rglob("*.py")),
    *sorted((HOUSE / "checkpoints").glob("*.py")),
    HOUSE / "client" / "foreign.py",
    HOUSE / "client" / "tokens.py",
    HOUSE / "commands" / "run.py",
    HOUSE / "page" / "service.py",
]
GATEWAY = [*sorted((HOUSE / "gateway").glob("*.py"))]
LAG = [*sorted((HOUSE / "lag").glob("*.py"))]
# What is only said by `run --embedded`, to somebody who plays.
PLAYING = "_embed"


def lines_of(source: str) -> set[str]:
    """Texts that are said or logged, or that end the job, with … for what is filled in."""
    tree = ast.parse(source)
    played = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == PLAYING]
    skipped = {id(node) for each in played for node in ast.walk(each)}
    return {
        text(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node) not in skipped and node.args and speaks(node.func)
    } - {"…"}


def speaks(function: ast.expr) -> bool:
    match function:
        case (
            ast.Name(id="say" | "CoordinatorError" | "GatewayError" | "job_error")
            | ast.Attribute(attr="_say")
        ):
            return True
        case ast.Attribute(value=ast.Name(id="_log")):
            return True
        case ast.Attribute(value=ast.Name(id="log"), attr="info" | "warning" | "error" | "exception"):
            return True
    return False


def text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return re.sub("%[sd]", "…", value)
        case ast.JoinedStr(values=values):
            return "".join(text(value) for value in values)
        case _:
            return "…"


def test_lines_are_found() -> None:
    source = """
        say(f"metrics are at {port}")
        self._say(f"{n} left")
        _log.warning("%s is odd" " and long", x)
        _log.error("%s", error)
        raise CoordinatorError(f"Kafka: {e}") from None
        raise job_error("Java has ended") from None
        def _embed(): say("playing")
    """

    assert lines_of(textwrap.dedent(source)) == {
        "metrics are at …",
        "… left",
        "… is odd and long",
        "Kafka: …",
        "Java has ended",
    }


@pytest.mark.parametrize(
    ("heading", "sources", "least"),
    [("What it says", SOURCES, 10), ("What a gateway says", GATEWAY, 10), ("What measure-lag says", LAG, 7)],
)
def test_the_guide_has_every_line_and_no_other(heading: str, sources: list[Path], least: int) -> None:
    said = set().union(*(lines_of(path.read_text()) for path in sources))
    section = GUIDES["messages"].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))

    assert len(said) >= least
    assert described == said


def test_the_guide_has_everything_that_a_probe_says() -> None:
    section = GUIDES["monitor"].partition("\n## Health checks\n")[2].partition("\n## ")[0]

    column = "".join(re.findall(r"^\| [^|]+ \| (\d{3} [^|]+) \|", section, re.MULTILINE))
    said = set(re.findall("`([^`:]+)(?:: [^`]+)?`", column))
    assert said == {activity.value.partition(":")[0] for activity in Activity} | {"has stood still for … s"}


def test_the_guide_says_of_each_way_to_run_whether_and_when_it_was_run() -> None:
    _, *ways = table_below(GUIDES["run"], "\n## Ways to run it\n")
    assert len(ways) >= 8
    assert [way for *_, way in ways if not re.match("in all tests|not run|on a|with podman", way)] == []

    _, *runs = table_below(GUIDES["what-was-run"], "\n## Ways to run it\n")
    assert len(runs) >= 8
    assert [each for each in runs if not re.search(r"^\d.* [A-Z][a-z]+$|^each `make ", each[1])] == []


def test_the_guide_says_how_long_the_records_of_each_topic_are_kept() -> None:
    section = GUIDES["size"].partition("\n## How long records are kept\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)`[^|]* \| (\d+) (hour|day)s? \|", section, re.MULTILINE)
    told = {topic: int(count) * {"hour": 1, "day": 24}[unit] * 3_600_000 for topic, count, unit in rows}

    settings = CoordinatorSettings.load(None, {}, {"bootstrap.servers": "kafka:9092", "checkpoint": "c"})
    made = {spec.name: spec.initial for spec in topic_specs(settings)} | {settings.topics_lag: LAG_CONFIGS}
    assert told == {
        topic: int(configs["retention.ms"]) for topic, configs in made.items() if "retention.ms" in configs
    }
    compacted = re.findall(r"^`([\w.]+)` and `([\w.]+)` are compacted", section, re.MULTILINE)
    assert set(*compacted) == made.keys() - told.keys()


def test_the_guides_times_without_an_answer_are_those_that_were_measured() -> None:
    section = GUIDES["run"].partition("\n**How long until answers.**")[2].partition("\n## ")[0]
    killed, stopped, cold = re.findall(r"\| ([\d.]+) s \(([\d.]+ to [\d.]+)\) \|$", section, re.MULTILINE)

    measured = (ROOT / "docs" / "performance.md").read_text()
    medians = " | ".join(f"**{median}**" for median, _ in (killed, cold, stopped))
    assert f"| **all** (median) | {medians} |" in measured
    ranges = " | ".join(least_and_most for _, least_and_most in (killed, cold, stopped))
    assert f"| all (least and most) | {ranges} |" in measured


def test_the_guides_times_with_a_checkpoint_on_s3_are_those_that_were_measured() -> None:
    _, *rows = table_below(GUIDES["run"], "\n**Its cost.**")
    _, *measured = table_below((ROOT / "docs" / "performance.md").read_text(), "\n## A checkpoint on S3\n")

    assert len(rows) == 4
    assert [row[1:] for row in rows] == [row[1:3] for row in measured]


def table_below(page: str, place: str) -> list[list[str]]:
    """The cells of the first table that comes after this place, its heading first."""
    lines = page.partition(place)[2].partition("\n|")[2].partition("\n\n")[0].splitlines()
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [heading, *rows]


def test_the_guides_commands_are_commands() -> None:
    """Each with the options that are in the guides."""
    text = re.sub(r" *\\\n +", " ", "\n".join(GUIDES.values()))
    typed = re.findall(r"^ +(group-coordinator [a-z].*)$", text, re.MULTILINE)
    assert len(typed) >= 8
    for line in typed:
        _, *words = shlex.split(line.partition(" > ")[0], comments=True)
        # An option that is not there comes before the help.
        done = CliRunner().invoke(main, [*words, "--help"])
        assert done.exit_code == 0, f"{line}: {done.output}"


def test_the_guides_sizes_of_records_are_those_that_are_written() -> None:
    """Heartbeats as a gateway writes them, and a commit, of members with ids of 55 characters."""
    member = BeatingMember(generation_id=12, member_id="consumer-billing-1-" + str(UUID(int=0)))
    assert len(member.member_id) == 55
    head: dict[str, Any] = {"client_host": "10.0.0.1", "group_id": "billing-123", "reply_partition": 3}
    ids = {"request_id": "0" * 16 + "-123456", "client_id": "consumer-billing-1"}
    commit = OffsetCommitTopic(
        name="orders",
        partitions=[OffsetCommitPartition(partition_index=3, committed_offset=123_456)],
        topic_id="0" * 22,
    )
    written = {
        "alone": HeartbeatRequest(12, member.member_id, api_version=4, **ids, **head),
        "two": HeartbeatRequest(members=[member] * 2, **ids, **head),
        "three": HeartbeatRequest(members=[member] * 3, **ids, **head),
        "commit": OffsetCommitRequest(
            generation_id=12, member_id=member.member_id, api_version=9, topics=[commit], **ids, **head
        ),
    }
    sizes = {name: len(msgspec.json.encode(request)) for name, request in written.items()}

    (told,) = re.findall(
        r"(\d+) bytes with one heartbeat, or (\d+) and (\d+) for each of several.*commits of (\d+) bytes",
        GUIDES["size"],
    )
    each = sizes["three"] - sizes["two"]
    real = (sizes["alone"], sizes["two"] - 2 * each, each, sizes["commit"])
    assert list(map(int, told)) == pytest.approx(real, rel=0.1)


KINDS = {"gateway": GatewaySettings, "security": CoordinatorSettings, "run": CoordinatorSettings}
"""The settings that the examples of a guide are for."""


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        (kind, block)
        for guide, kind in KINDS.items()
        for block in re.findall(r"```toml\n(.*?)```", GUIDES[guide], re.DOTALL)
    ],
)
def test_the_guides_settings_are_settings(kind: type[JobSettings], block: str, tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in re.findall(r"/run/secrets/([\w-]+)", block):
        (secrets / name).write_text("secret")
    file.write_text(block.replace("/run/secrets", str(secrets)))

    others = CoordinatorSettings, PageSettings
    kind.load(file, {}, {"bootstrap.servers": "kafka:9092", "checkpoint": "c"}, others=others)
