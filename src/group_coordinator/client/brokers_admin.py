"""`BrokersAdmin`: what `AdminClient` does with groups of the coordinator, for groups at the brokers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kafka.errors import KafkaError, TopicAuthorizationFailedError, for_code
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.structs import OffsetAndMetadata, TopicPartition
from msgspec.structs import asdict

from group_coordinator.client.ask_coordinators import ask_coordinators, failure, passing
from group_coordinator.client.ask_offsets import topics_of
from group_coordinator.client.descriptions import GroupDescription, told_by_broker
from group_coordinator.client.groups_log import GroupListing, chosen, unique
from group_coordinator.client.log_offsets import LogOffsets
from group_coordinator.client.messages import message_of
from group_coordinator.client.offset_lists import (
    NOTHING,
    committed,
    errors_of,
    to_commit,
    to_delete,
    to_fetch,
)
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.requests import OffsetCommitTopic, OffsetDeleteTopic

_DESCRIBED_AT_ONCE = 200
_FETCHED_AT_ONCE = 50
"""Groups that one request asks about. Each may have thousands of partitions."""

Committed = dict[TopicPartition, OffsetAndMetadata]
Errors = dict[TopicPartition, type[KafkaError]]
T = TypeVar("T")


class BrokersAdmin(LogOffsets):
    """Looks at groups at the brokers, and changes them. Methods, results and errors are `AdminClient`'s.

    All groups of a call are asked about at once. All requests may be sent twice, because the second time they
    change nothing. `request_timeout_ms`: longest wait for all answers of a call. `kafka_config`: any settings
    of kafka-python's clients. Brokers of Kafka 3.0 or newer. It connects at once.
    """

    def __init__(self, *, request_timeout_ms: int = 30_000, **kafka_config: Any) -> None:
        super().__init__(request_timeout_ms=request_timeout_ms, **kafka_config)
        self._timeout_ms = request_timeout_ms
        self._connected()

    # -- groups --------------------------------------------------------------------------------------

    def list_groups(
        self,
        states_filter: Collection[str] | None = None,
        types_filter: Collection[str] | None = None,
    ) -> list[GroupListing]:
        """All groups, or those in the given states and of the given types, sorted by id: see `AdminClient`.

        Raises a KafkaError if one of the brokers does not answer.
        """
        groups = (
            # Brokers before Kafka 4.0 have no types, but members of `group.protocol=consumer` in none.
            GroupListing(
                each["group_id"],
                each["group_state"],
                each["protocol_type"],
                each.get("group_type", "classic").lower(),
            )
            for each in self._connected().list_groups()
        )
        return sorted(chosen(groups, states_filter, types_filter), key=lambda each: each.group_id)

    def describe_groups(self, group_ids: Collection[str]) -> dict[str, GroupDescription]:
        """Groups with their members, by id; what is wrong with one is its `error`.

        A group of another type than classic is not there (GroupIdNotFoundError): see `list_groups`.
        """
        found: dict[str, GroupDescription | KafkaError] = self._ask(
            unique(group_ids),
            lambda ids: DescribeGroupsRequest(groups=list(ids)),
            lambda response, _: {
                each.group_id: passing([each.error_code]) or told_by_broker(each) for each in response.groups
            },
            _DESCRIBED_AT_ONCE,
        )
        return {
            each: GroupDescription(each, GroupState.DEAD, "", "", -1, "", (), it)
            if isinstance(it, KafkaError)
            else it
            for each, it in found.items()
        }

    def describe_groups_and_offsets(
        self, group_ids: Collection[str]
    ) -> dict[str, tuple[GroupDescription, Committed]]:
        """`describe_groups` and `list_group_offsets`."""
        groups, offsets = self.describe_groups(group_ids), self.list_group_offsets(group_ids)
        return {each: (group, offsets[each]) for each, group in groups.items()}

    # -- committed offsets ---------------------------------------------------------------------------

    def list_group_offsets(
        self,
        group_specs: Mapping[str, Collection[TopicPartition] | None] | Collection[str],
        *,
        as_stored: bool = False,  # noqa: ARG002 - a broker deletes the offsets of topics that are deleted
        require_stable: bool = False,
    ) -> dict[str, Committed]:
        """Return the committed offsets of groups, by group id: see `AdminClient`.

        `require_stable`: wait for open transactions that have committed offsets. One that is still open then
        is an UnstableOffsetCommitError. Name the partitions, because a broker that is asked for all of them
        leaves out those of which nothing was committed before.
        """
        specs = group_specs if isinstance(group_specs, Mapping) else dict.fromkeys(unique(group_specs))
        found: dict[str, Committed | KafkaError] = self._ask(
            specs,
            lambda ids: _fetch({each: specs[each] for each in ids}, require_stable=require_stable),
            lambda response, _: {
                each.group_id: failure([each.error_code])
                or passing(_codes(each))
                or failure(_codes(each))
                or committed(each)
                for each in response.groups
            },
            _FETCHED_AT_ONCE,
        )
        return {
            each: dict.fromkeys(partitions or (), NOTHING) | _or_raise(each, found[each])
            for each, partitions in specs.items()
        }

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Errors:
        """Commit for a group that has no members; if it has some, UnknownMemberIdError for each partition."""
        return self.alter_offsets_of_groups({group_id: offsets})[group_id]

    def alter_offsets_of_groups(
        self, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> dict[str, Errors]:
        """`alter_group_offsets` of many groups at once."""
        return self._change(
            {group_id: to_commit(of_group) for group_id, of_group in offsets.items()}, _commit
        )

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> Errors:
        """Delete the committed offsets of partitions: see `AdminClient`."""
        return self._change({group_id: to_delete(partitions)}, _delete)[group_id]

    def sees_all_topics(self) -> bool:
        """Whether this program may describe all topics.

        If not, brokers leave the offsets of the others out of what a group has committed, without a word.
        """
        # Only about a topic that is not there they tell this.
        name = f"group-coordinator-{secrets.token_hex(16)}"
        (told,) = topics_of(self._connected(), [name], self._timeout_ms)
        return for_code(told["error_code"]) is not TopicAuthorizationFailedError

    # -- requests and answers ------------------------------------------------------------------------

    def _ask(
        self,
        group_ids: Iterable[str],
        request: Callable[[Sequence[str]], Any],
        told: Callable[[Any, Sequence[str]], Mapping[str, T | KafkaError]],
        at_once: int = 1,
    ) -> dict[str, T | KafkaError]:
        return ask_coordinators(self._connected(), group_ids, request, told, self._timeout_ms, at_once)

    def _change(
        self, parts: Mapping[str, list[list[Any]]], request: Callable[[str, list[Any]], Any]
    ) -> dict[str, Errors]:
        """Send the parts of each group one after the other; returns the error of each partition."""
        results: dict[str, Errors] = {each: {} for each in parts}
        for number in range(max(map(len, parts.values()), default=0)):
            now = {each: of_group[number] for each, of_group in parts.items() if number < len(of_group)}
            answers: dict[str, Errors | KafkaError] = self._ask(
                now,
                lambda ids, now=now: request(ids[0], now[ids[0]]),  # type: ignore[misc]
                lambda response, ids: {ids[0]: _told(response)},
            )
            for group_id, answer in answers.items():
                results[group_id] |= _or_raise(group_id, answer)
        return results


def _or_raise(group_id: str, answer: T | KafkaError) -> T:
    if isinstance(answer, KafkaError):
        raise type(answer)(f"group {group_id!r}: {message_of(answer)}")
    return answer


def _codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def _told(response: Any) -> Errors | KafkaError:
    """The error of each partition."""
    return failure([getattr(response, "error_code", 0)]) or passing(_codes(response)) or errors_of(response)


def _fetch(
    specs: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool
) -> OffsetFetchRequest:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = kind.OffsetFetchRequestTopics
    groups = [
        kind(
            group_id=group_id,
            topics=None
            if partitions is None
            else [topic(**asdict(each)) for part in to_fetch(partitions) for each in part],
        )
        for group_id, partitions in specs.items()
    ]
    # Version 10 has the ids of topics instead of their names.
    return OffsetFetchRequest(groups=groups, require_stable=require_stable, min_version=8, max_version=9)


def _commit(group_id: str, topics: Sequence[OffsetCommitTopic]) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            kind(name=topic.name, partitions=[partition(**asdict(each)) for each in topic.partitions])
            for topic in topics
        ],
        max_version=9,
    )


def _delete(group_id: str, topics: Sequence[OffsetDeleteTopic]) -> OffsetDeleteRequest:
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = kind.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            kind(name=topic.name, partitions=[partition(**asdict(each)) for each in topic.partitions])
            for topic in topics
        ],
    )
