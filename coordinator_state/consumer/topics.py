"""The topics of a group as its members see them."""

from __future__ import annotations

import msgspec

__all__ = ["Topic"]


class Topic(msgspec.Struct, frozen=True, array_like=True):
    """A topic that a group knows, or units that its members share.

    `number` is the group's own for it. `topic_id` is Kafka's id, empty for units that no broker knows.
    `partitions`: how many.
    """

    number: int
    name: str
    topic_id: str
    partitions: int
