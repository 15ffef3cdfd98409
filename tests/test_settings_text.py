"""docs/settings.md is what the classes of the settings say.

To renew it after a change: `GOLDEN=write .venv/bin/pytest tests/test_settings_text.py`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import JobSettings
from group_coordinator.lag.settings import LagSettings
from group_coordinator.observe.settings import ObserveSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.golden import assert_kept
from tests.rooms import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = ROOT / "docs" / "settings.md"
HEAD = """\
# Settings

All settings, with their defaults. [The guide](run.md#settings) says where a program reads them from, and how
a secret comes from a file. Times whose names end in `ms` are milliseconds, and sizes are bytes.
`tests/test_settings_text.py` makes this page of the settings' classes.
"""


class Owner(NamedTuple):
    """A class of settings, and the heading of its table."""

    heading: str
    about: str
    settings: type[msgspec.Struct]


OWNERS = [
    Owner("All jobs", "Each command reads of these what it needs.", JobSettings),
    Owner("Coordinator", "`run` reads them, and so do `doctor` and `checkpoint`.", CoordinatorSettings),
    Owner(
        "Rules for groups",
        "`run` reads them. Names and defaults are Kafka's, where Kafka has them.",
        GroupConfig,
    ),
    Owner("History", "`write-history`, `history` and the page read them.", HistorySettings),
    Owner("Groups at the brokers", "`observe` reads them.", ObserveSettings),
    Owner("Page", "`ui` reads them, and so does `run`, which may serve the page.", PageSettings),
    Owner("Gateway", "`gateway` reads them.", GatewaySettings),
    Owner("Lag", "`measure-lag` reads them.", LagSettings),
]
OF_MANY_NAMES = {"kafka": "kafka.…", "spark": "spark.…", "responses_topics": "responses.topics.…"}
"""The fields that stand for any number of settings."""
NO_SETTINGS = {"files", "group"}
"""The fields that have the rules for groups, which have a table of their own, and where values came from."""


def texts_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring of each field that the class itself has."""
    (class_,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(class_, ast.ClassDef)
    texts = {}
    for field, following in zip(class_.body, class_.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    texts[field.target.id] = " ".join(text.split())
    return texts


def own_fields(kind: type[msgspec.Struct]) -> Iterator[msgspec.structs.FieldInfo]:
    """The fields that the class itself has, in its order."""
    inherited = {name for base in kind.__bases__ for name in getattr(base, "__struct_fields__", ())}
    return (field for field in msgspec.structs.fields(kind) if field.name not in inherited | NO_SETTINGS)


def as_written(value: object) -> str:
    """A value as a user writes it; nothing for what is empty."""
    match value:
        case bool():
            return f"`{str(value).lower()}`"
        case None | "" | msgspec.NODEFAULT:
            return ""
        case _:
            return f"`{value}`"


def table(kind: type[msgspec.Struct]) -> Iterator[str]:
    yield from ("| setting | default | what it does |", "|---|---|---|")
    texts = texts_of(kind)
    for field in own_fields(kind):
        name = OF_MANY_NAMES.get(field.name, field.name.replace("_", "."))
        yield f"| `{name}` | {as_written(field.default)} | {texts[field.name].replace('|', '&#124;')} |"


def page() -> str:
    sections = (
        f"\n## {heading}\n\n{about}\n\n" + "\n".join(table(settings)) + "\n"
        for heading, about, settings in OWNERS
    )
    return HEAD + "".join(sections)


def test_the_page_of_settings_is_what_their_classes_say() -> None:
    assert_kept(FILE, page())


def test_the_page_has_every_setting() -> None:
    written = [field.name for owner in OWNERS for field in own_fields(owner.settings)]
    kinds = (CoordinatorSettings, PageSettings, GatewaySettings, LagSettings, ObserveSettings, GroupConfig)
    assert sorted(written) == sorted(
        {name for kind in kinds for name in kind.__struct_fields__} - NO_SETTINGS
    )
