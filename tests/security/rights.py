"""The rights that docs/security.md lists, read from there: what is tested is what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kafka.admin import ACLOperation, ACLResourcePatternType, ResourcePattern, ResourceType

__all__ = ["Right", "rights_of"]

_GUIDE = Path(__file__).parents[2] / "docs" / "security.md"
_ROW = re.compile(r"\| (\w+) \| `([^`]+)` \| ([\w, ]+) \|")


class Right(NamedTuple):
    """A row of a table: what may be done with one resource."""

    pattern: ResourcePattern
    operations: tuple[ACLOperation, ...]


def rights_of(role: str, topics: dict[str, str] | None = None) -> list[Right]:
    """The table under the heading `role`. `topics`: names that differ from the guide's."""
    section = _GUIDE.read_text(encoding="utf-8").partition(f"### {role}\n")[2].partition("\n#")[0]
    rights = []
    for kind, name, operations in _ROW.findall(section):
        # PascalCase, as Kafka's tools write it, to kafka-python's constants.
        resource = ResourceType[re.sub(r"(?<!^)(?=[A-Z])", "_", kind).upper()]
        named = (topics or {}).get(name, name)
        if named.endswith("*") and named != "*":  # which stands for all and is a literal to Kafka
            pattern = ResourcePattern(resource, named[:-1], ACLResourcePatternType.PREFIXED)
        else:
            pattern = ResourcePattern(resource, named, ACLResourcePatternType.LITERAL)
        words = [re.sub(r"(?<!^)(?=[A-Z])", "_", word.strip()).upper() for word in operations.split(",")]
        rights.append(Right(pattern, tuple(ACLOperation[word] for word in words)))
    assert rights, f"the guide lists no rights of {role!r}"
    return rights
