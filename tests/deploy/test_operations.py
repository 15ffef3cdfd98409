"""The operations guide knows every line that the coordinator can say or log."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from group_coordinator.jobs.health import Activity
from group_coordinator.page.settings import PageSettings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "operations.md").read_text()
SOURCES = [
    *sorted((ROOT / "jobs").glob("*.py")),
    *sorted((ROOT / "streaming").rglob("*.py")),
    *sorted((ROOT / "checkpoints").glob("*.py")),
    ROOT / "client" / "tokens.py",
    ROOT / "commands" / "run.py",
    ROOT / "page" / "service.py",
]
GATEWAY = [*sorted((ROOT / "gateway").glob("*.py"))]
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
    ("heading", "sources"), [("What it says", SOURCES), ("What a gateway says", GATEWAY)]
)
def test_the_guide_has_every_line_and_no_other(heading: str, sources: list[Path]) -> None:
    said = set().union(*(lines_of(path.read_text()) for path in sources))
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))

    assert len(said) >= 10
    assert described == said


def test_the_guide_has_everything_that_a_probe_says() -> None:
    section = GUIDE.partition("\n## Health checks\n")[2].partition("\n## ")[0]

    column = "".join(re.findall(r"^\| [^|]+ \| (\d{3} [^|]+) \|", section, re.MULTILINE))
    said = set(re.findall("`([^`:]+)(?:: [^`]+)?`", column))
    assert said == {activity.value.partition(":")[0] for activity in Activity} | {"has stood still for … s"}


def test_the_guide_says_of_each_way_to_run_when_it_was_run() -> None:
    section = GUIDE.partition("\n## Ways to run it\n")[2].partition("\n### ")[0]
    _, *rows = re.findall(r"^\|.*\| ([^|]+) \|$", section, re.MULTILINE)

    assert len(rows) >= 8
    assert [row for row in rows if not re.match(r"on \d+ [A-Z][a-z]+ 20\d\d|not run", row)] == []


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL))
def test_the_guides_settings_are_settings(block: str, tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in re.findall(r"/run/secrets/([\w-]+)", block):
        (secrets / name).write_text("secret")
    file.write_text(block.replace("/run/secrets", str(secrets)))

    PageSettings.load(file, {}, {"bootstrap.servers": "kafka:9092", "checkpoint": "c"})
