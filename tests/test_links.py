"""Links between the Markdown files lead to files and headings that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rooms import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "tests" / "conformance").glob("*.md")),
]


def anchors_of(page: Path) -> set[str]:
    """Those that GitHub makes of the headings: of several that are alike all but the first have a number."""
    seen = list[str]()
    for heading in re.findall(r"^#+ +(.+)$", without_programs(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        seen.append(re.sub(r"[^\w -]", "", text).replace(" ", "-"))
    return {f"{it}-{seen[:at].count(it)}" if it in seen[:at] else it for at, it in enumerate(seen)}


def without_programs(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_programs(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            dead.append(link)
    assert dead == []


def test_links_are_found() -> None:
    links = re.findall(r"\]\(([^)\s:]+)\)", "".join(map(without_programs, PAGES)))

    assert sum(link.startswith("#") for link in links) > 10
    assert sum(".md#" in link for link in links) > 50
