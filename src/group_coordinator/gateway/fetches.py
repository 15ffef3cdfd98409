"""Fetches of offsets whose topics or partitions may be no more.

If Kafka cannot tell, the client asks again. Where the gateway may not see a topic, its offsets are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.offsets.still_there import still_there, with_ids
from group_coordinator.coordinator_state.requests import OffsetFetchRequest
from group_coordinator.gateway.translation import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from group_coordinator.coordinator_state.offsets.still_there import Found
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.responses import FetchedOffsetsOfTopic


def judge(
    asked: Sequence[AnyRequest],
    responses: list[Any],
    find: Callable[[Iterable[str], Callable[[Mapping[str, Found]], None]], None],
    respond: Callable[[list[Any]], None],
) -> None:
    """Respond to OffsetFetches with the coordinator's `responses`, without what is no more.

    A topic may be made again at any time. So Kafka is asked after the responses have come, and what was known
    before does not count: `find` is `Topics.find_anew`. Where a client asks for all, each topic is asked for.
    Where it names partitions, an offset without an id is told as it is.
    """
    doubts = [
        set() if response.error_code else _in_doubt(response.topics, is_all=_is_of_all(request))
        for request, response in zip(asked, responses, strict=True)
    ]

    def judged(found: Mapping[str, Found]) -> None:
        for number, request in enumerate(asked):
            if doubts[number] <= found.keys():
                response = responses[number]
                response.topics = still_there(response.topics, found, is_all=_is_of_all(request))
            else:
                responses[number] = refusal(request, Errors.COORDINATOR_LOAD_IN_PROGRESS)
        respond(responses)

    find(set().union(*doubts), judged)


def _is_of_all(request: AnyRequest) -> bool:
    return isinstance(request, OffsetFetchRequest) and request.topics is None


def _in_doubt(topics: Iterable[FetchedOffsetsOfTopic], *, is_all: bool) -> set[str]:
    return {topic.name for topic in topics} if is_all else with_ids(topics)
