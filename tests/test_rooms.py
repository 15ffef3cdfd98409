"""The house in CONTRIBUTING.md is the one that the imports make."""

from __future__ import annotations

import re

import grimp

from tests.rooms import ROOMS, ROOT


def imported_rooms() -> dict[str, set[str]]:
    """Room -> the rooms that its modules import."""
    graph = grimp.build_graph("group_coordinator", cache_dir=None)
    rooms: dict[str, set[str]] = {}
    for room in ROOMS:
        package = f"group_coordinator.{room}"
        modules = (package, *graph.find_descendants(package))
        imported = {name for module in modules for name in graph.find_modules_directly_imported_by(module)}
        rooms[room] = {name.split(".")[1] for name in imported} - {room}
    return rooms


def reached(arrows: dict[str, set[str]], room: str) -> set[str]:
    """The rooms to which arrows lead from a room, over others or not."""
    found: set[str] = set()
    ahead = set(arrows[room])
    while ahead:
        found |= ahead
        ahead = {each for one in ahead for each in arrows[one]} - found
    return found


def test_no_arrow_leads_back() -> None:
    imports = imported_rooms()
    assert not [room for room in ROOMS if room in reached(imports, room)]


def test_no_two_modules_or_folders_import_each_other_at_run_time() -> None:
    graph = grimp.build_graph("group_coordinator", exclude_type_checking_imports=True, cache_dir=None)
    packages = [module for module in graph.modules if graph.find_children(module)]
    assert {name: back for name in packages if (back := graph.nominate_cycle_breakers(name))} == {}


def test_the_picture_has_the_arrows_that_are_not_ways_over_others() -> None:
    imports = imported_rooms()
    needed = {
        (room, other)
        for room, others in imports.items()
        for other in others
        if not any(other in reached(imports, between) for between in others - {other})
    }

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    drawn = re.findall(r"^    (\w+) --> (\w+)$", picture, re.MULTILINE)
    assert sorted(drawn) == sorted(needed)
    assert {room for arrow in drawn for room in arrow} == set(ROOMS)


def test_the_table_has_every_room() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)/`", row.split("|")[1])}
    assert listed - {"examples", "tests", "benchmarks"} == set(ROOMS)
