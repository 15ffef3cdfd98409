"""Names that stand for brokers, where clients find all of them at one port (SNI)."""

from __future__ import annotations

BOOTSTRAP = -1
"""Stands for any broker. No broker has a negative node id."""
NODE = "{node}"
"""Stands for the node id in the pattern of the brokers' names."""


class Names:
    """The names of one gateway: `bootstrap`, and by `pattern` one for each broker. Case does not matter."""

    def __init__(self, bootstrap: str, pattern: str) -> None:
        self._bootstrap, self._pattern = bootstrap.lower(), pattern
        self._before, _, self._behind = pattern.lower().partition(NODE)

    def of(self, node_id: int) -> str:
        """Return the name of this broker."""
        return self._pattern.replace(NODE, str(node_id))

    def stands_for(self, name: str) -> int | None:
        """Return the node id that a name stands for, or `BOOTSTRAP`; None if it is none of the gateway's."""
        # RFC 6066 wants the name without the dot at its end, which some clients leave there.
        asked = name.lower().removesuffix(".")
        if asked == self._bootstrap:
            return BOOTSTRAP
        node = asked.removeprefix(self._before).removesuffix(self._behind)
        # A number has one form only, so that each broker has one name.
        is_node = node.isascii() and node.isdecimal() and self.of(int(node)).lower() == asked
        return int(node) if is_node else None
