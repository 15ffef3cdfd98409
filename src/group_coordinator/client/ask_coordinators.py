"""One way to ask the brokers' own coordinators about groups.

kafka-python asks once, and one group whose coordinator moves or is loading is an error for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    UnstableOffsetCommitError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from group_coordinator.client.ask_offsets import Deadline, raise_if_final, send_to

_AGAIN_S = 0.1
_AGAIN = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    # A transaction is open that has committed offsets.
    UnstableOffsetCommitError,
)

T = TypeVar("T")


def ask_coordinators(
    client: KafkaAdminClient,
    group_ids: Iterable[str],
    request: Callable[[Sequence[str]], Any],
    told: Callable[[Any, Sequence[str]], Mapping[str, T | KafkaError]],
    timeout_ms: float,
    at_once: int = 1,
) -> dict[str, T | KafkaError]:
    """Ask the coordinator of each group; returns what it has told, or the error, by group id.

    `request`: the request for up to `at_once` groups. It may be sent again. `told`: what its response tells.
    A group whose coordinator cannot tell yet is asked about again. When time is up, its error is the last
    one. Raises a KafkaError that concerns all groups.
    """
    question = _Question(client, request, told, Deadline(timeout_ms), at_once)
    # There are no public names for the requests of a client.
    results: dict[str, T | KafkaError] = client._manager.run(question.ask, list(group_ids))  # noqa: SLF001
    return results


def failure(codes: Iterable[int], message: str | None = None) -> KafkaError | None:
    """The first error among a response's codes; None if all is well."""
    return next((for_code(each)(message or for_code(each).description) for each in codes if each), None)


def passing(codes: Iterable[int]) -> KafkaError | None:
    """The first error that goes when the coordinator is asked again; None if there is none."""
    return failure(each for each in codes if for_code(each) in _AGAIN)


class _Question(Generic[T]):
    """Asks in the thread of a client's connections, all coordinators at once."""

    def __init__(
        self,
        client: KafkaAdminClient,
        request: Callable[[Sequence[str]], Any],
        told: Callable[[Any, Sequence[str]], Mapping[str, T | KafkaError]],
        deadline: Deadline,
        at_once: int,
    ) -> None:
        self._manager = client._manager  # noqa: SLF001
        self._request, self._told, self._deadline, self._at_once = request, told, deadline, at_once
        self._results: dict[str, T | KafkaError] = {}
        self._left: dict[str, KafkaError] = {}
        """The groups of which nothing is known yet, and why."""

    async def ask(self, group_ids: Iterable[str]) -> dict[str, T | KafkaError]:
        timeout_s = self._deadline.timeout_ms / 1_000
        self._left = {
            each: KafkaTimeoutError(f"no coordinator of group {each!r} has answered within {timeout_s:g} s")
            for each in group_ids
        }
        while self._left:
            by_node: defaultdict[int, list[str]] = defaultdict(list)
            for group_id, node in (await self._coordinators()).items():
                by_node[node].append(group_id)
            parts = [
                (node, ids[start : start + self._at_once])
                for node, ids in by_node.items()
                for start in range(0, len(ids), self._at_once)
            ]
            answers = [self._send(node, self._request(ids)) for node, ids in parts]
            for (_, ids), answer in zip(parts, answers, strict=True):
                if (response := await self._received(answer)) is not None:
                    for group_id, result in self._told(response, ids).items():
                        self._take(group_id, result)
            if not self._left:
                break
            if not self._deadline.left_ms:
                return self._results | self._left
            await self._manager._net.sleep(_AGAIN_S)  # noqa: SLF001
        return self._results

    async def _coordinators(self) -> dict[str, int]:
        """The nodes of those coordinators that are known now."""
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP.value, coordinator_keys=list(self._left), min_version=4
        )
        response = await self._received(self._send(self._manager.least_loaded_node(), request))
        nodes: dict[str, int] = {}
        for each in () if response is None else response.coordinators:
            if (error := failure([each.error_code], each.error_message)) is None:
                nodes[each.key] = each.node_id
            else:
                self._take(each.key, error)
        return nodes

    def _take(self, group_id: str, result: T | KafkaError) -> None:
        if isinstance(result, _AGAIN):
            self._left[group_id] = result
        else:
            del self._left[group_id]
            self._results[group_id] = result

    def _send(self, node: int | None, request: Any) -> Any:
        return self._manager.call_soon(send_to, self._manager, node, request)

    async def _received(self, answer: Any) -> Any:
        """The response; None if none has come."""
        try:
            return await self._manager.wait_for(answer, self._deadline.left_ms)
        except KafkaError as error:
            raise_if_final(error)
            self._manager.cluster.request_update()
            return None
