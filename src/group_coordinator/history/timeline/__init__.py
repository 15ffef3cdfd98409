"""A group's story as a picture: one SVG, or one HTML file with the picture and what it shows as a table.

`band`, `lanes` and `lag` decide what is drawn where, and what is drawn together because it would be too small
to see; `svg` draws it. All are pure: equal stories give equal bytes.
"""

from __future__ import annotations

from group_coordinator.history.timeline.page import (
    MemberLink,
    rebalances_table,
    resets_table,
    sentences_list,
    timeline_html,
)
from group_coordinator.history.timeline.svg import timeline_svg

__all__ = [
    "MemberLink",
    "rebalances_table",
    "resets_table",
    "sentences_list",
    "timeline_html",
    "timeline_svg",
]
