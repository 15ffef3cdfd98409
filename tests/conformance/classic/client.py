"""Asks a broker what can be seen of a classic group."""

from __future__ import annotations

from typing import Any

from tests.conformance.classic.sequence import TOPICS
from tests.conformance.messages import offsets_by_partition
from tests.conformance.wire import DESCRIBE_VERSION, FETCH_VERSION, BrokerClient

__all__ = ["ClassicClient"]


class ClassicClient(BrokerClient):
    """A client of a broker whose groups have the classic protocol."""

    topics = TOPICS

    async def look(self, group_id: str) -> dict[str, Any]:
        """Say what can be seen of a group: its description and, as `offsets`, all that is committed.

        Two requests, one after the other: when the first is answered, all answers that came before it are
        on their way; when the second is, they have been read.

        A broker can be slow for one group or one connection alone, so each look is timed, too.
        """
        with self._timed():
            fetched = await self._told(
                group_id, "offset_fetch", FETCH_VERSION, topics=None, require_stable=False
            )
            described = await self._told(group_id, "describe_group", DESCRIBE_VERSION)
        return described | {"offsets": offsets_by_partition(fetched["topics"])}
