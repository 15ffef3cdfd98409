"""The pictures of the performance guide."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks.picture import draw_all

SVG = "{http://www.w3.org/2000/svg}"


def test_there_is_a_bar_for_each_figure_as_long_as_it_says(tmp_path: Path) -> None:
    groups = {"stock no-op": 500, "no-op": 4_000, "coordinator": 2_000}
    (tmp_path / "groups.json").write_text(json.dumps({"groups": groups}))

    (file,) = draw_all(tmp_path, tmp_path)

    picture = ET.parse(file).getroot()
    _, *bars = picture.iter(f"{SVG}rect")
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert [round(width / widths[1], 3) for width in widths] == [0.125, 1, 0.5]
    texts = list(picture.iter(f"{SVG}text"))
    assert [text.text for text in texts[-3:]] == ["500 · stock no-op", "4,000 · no-op", "2,000 · coordinator"]
    # Letters are 7 wide at most, and all of them have room.
    ends = [float(text.attrib["x"]) + 7 * len(text.text or "") for text in texts[-3:]]
    assert max(ends) < float(picture.attrib["width"])


def test_names_are_text(tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text(json.dumps({"groups": {"a < b & c": 1}}))

    (file,) = draw_all(tmp_path, tmp_path)

    assert "1 · a < b & c" in [text.text for text in ET.parse(file).iter(f"{SVG}text")]


def test_benchmarks_that_have_not_run_have_no_picture(tmp_path: Path) -> None:
    assert draw_all(tmp_path, tmp_path) == []
