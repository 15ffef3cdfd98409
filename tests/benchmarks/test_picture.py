"""The pictures of the performance guide."""

from __future__ import annotations

import json
from itertools import pairwise
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


def test_figures_of_different_kinds_have_scales_of_their_own(tmp_path: Path) -> None:
    direct = {"mb_a_cpu_second": 0, "p50_ms": 0.1, "rss_mb": 0}
    medians = {"direct": direct, "gateway": {"mb_a_cpu_second": 3_000, "p50_ms": 0.2, "rss_mb": 50}}
    (tmp_path / "passing.json").write_text(json.dumps({"medians": medians}))

    (file,) = draw_all(tmp_path, tmp_path)

    picture = ET.parse(file).getroot()
    _, fetch, direct_bar, produce, memory = picture.iter(f"{SVG}rect")
    assert len({bar.attrib["width"] for bar in (fetch, produce, memory)}) == 1
    assert float(direct_bar.attrib["width"]) * 2 == float(produce.attrib["width"])
    assert fetch.attrib["fill"] == memory.attrib["fill"] != direct_bar.attrib["fill"]


def test_there_is_a_line_for_each_figure_of_the_samples(tmp_path: Path) -> None:
    samples = [{"minute": minute, "batch, ms": ms} for minute, ms in enumerate([10, 20, 40, 20, 30, 4])]
    (tmp_path / "endurance.json").write_text(json.dumps({"samples": samples}))

    (file,) = draw_all(tmp_path, tmp_path)

    picture = ET.parse(file).getroot()
    (line,) = picture.iter(f"{SVG}polyline")
    x, y = zip(*(map(float, point.split(",")) for point in line.attrib["points"].split()), strict=True)
    assert {round(right - left, 1) for left, right in pairwise(x)} == {round((x[-1] - x[0]) / 5, 1)}
    (base,) = (float(each.attrib["y1"]) for each in picture.iter(f"{SVG}line"))
    assert [round((base - each) / (base - y[2]), 3) for each in y] == [0.25, 0.5, 1, 0.5, 0.75, 0.1]
    assert [text.text for text in picture.iter(f"{SVG}text")][-2:] == ["batch, ms", "15.0 → 17.0"]


def test_one_sample_of_nothing_is_a_point_on_the_base(tmp_path: Path) -> None:
    (tmp_path / "endurance.json").write_text(json.dumps({"samples": [{"minute": 0, "batch, ms": 0}]}))

    (file,) = draw_all(tmp_path, tmp_path)

    picture = ET.parse(file).getroot()
    (line,) = picture.iter(f"{SVG}polyline")
    (base,) = picture.iter(f"{SVG}line")
    assert [float(each) for each in line.attrib["points"].split(",")] == [
        float(base.attrib["x1"]),
        float(base.attrib["y1"]),
    ]


def test_names_are_text(tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text(json.dumps({"groups": {"a < b & c": 1}}))

    (file,) = draw_all(tmp_path, tmp_path)

    assert "1 · a < b & c" in [text.text for text in ET.parse(file).iter(f"{SVG}text")]


def test_benchmarks_that_have_not_run_have_no_picture(tmp_path: Path) -> None:
    assert draw_all(tmp_path, tmp_path) == []
