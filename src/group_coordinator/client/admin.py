"""`AdminClient`: look at groups, and change them, from outside."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka.admin import MemberToRemove
from kafka.errors import (
    CoordinatorLoadInProgressError,
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaError,
    KafkaTimeoutError,
    NoError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.channel import Channel, KafkaChannel, MissingTopicError
from group_coordinator.client.descriptions import (
    Coordinator,
    GroupDescription,
    consumers_described,
    described,
)
from group_coordinator.client.groups_log import GroupListing, chosen, read_groups, unique
from group_coordinator.client.lag_log import LagLog, Measurement
from group_coordinator.client.log_offsets import LogOffsets, reset_target
from group_coordinator.client.offset_lists import (
    NOTHING,
    committed,
    errors_of,
    to_commit,
    to_delete,
    to_fetch,
)
from group_coordinator.coordinator_state.naming import some_of
from group_coordinator.coordinator_state.offsets.still_there import still_there, with_ids
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    ConsumerGroupDescribeRequest,
    DeleteGroupRequest,
    DescribeGroupRequest,
    FindCoordinatorRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
)
from group_coordinator.coordinator_state.responses import (
    ConsumerGroupDescribeResponse,
    DeleteGroupResponse,
    DescribeGroupResponse,
    FindCoordinatorResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    Response,
)
from group_coordinator.coordinator_state.topics import GROUPS, LAG, REQUESTS, RESPONSES

_POLL_MS = 500
_CLOSE_MS = 5_000
_MAX_NAMED = 3
_MAX_OF_NAME = 64

RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)


class ResetOutcome(NamedTuple):
    """The outcome for one partition: NoError and the offset that is committed now, or the error."""

    error: type[KafkaError]
    offset: int


class NoAnswerError(KafkaTimeoutError):  # type: ignore[misc]
    """The coordinator has not answered in time. `unanswered`: the groups that were asked about in vain.

    A change may still be made: the request is in the log, and the coordinator will read it.
    """

    def __init__(self, unanswered: Iterable[str], total: int, timeout_ms: int, *, changes: bool) -> None:
        awaited = list(unanswered)
        self.unanswered = tuple(dict.fromkeys(awaited))
        named = some_of(self.unanswered, _MAX_NAMED, repr)
        advice = (
            "It may still be done once it runs: look before you ask again." if changes else "Is it running?"
        )
        super().__init__(
            f"the coordinator has answered {total - len(awaited)} of {total} requests, and no other "
            f"(for {named}) within {timeout_ms / 1000:g} s. {advice}"
        )

    def __str__(self) -> str:
        # kafka-python's put their own name before it.
        return Exception.__str__(self)


class AdminClient(LogOffsets):
    """Looks at groups and changes them. Methods and arguments are those of kafka-python's KafkaAdminClient.

    All groups of a call are asked about at once, so thousands of them are one batch of the coordinator. For
    use by one thread at a time.

    Settings: `request_timeout_ms`: longest wait for the next answer. `response_topic`: several to ask about
    groups of several tenants. `lag_topic`: "" if there is none. `kafka_config`: any settings of
    kafka-python's clients, e.g. `security_protocol`. `channel`: another way to the coordinator than Kafka,
    e.g. for tests.

    The result has an error for each group, member or partition: kafka-python's class for Kafka's error code,
    or NoError. Methods raise an error that concerns everything: NoAnswerError, InvalidRequestError for a
    limit of the coordinator, or another KafkaError. A question that the coordinator puts off is asked again.
    Nothing else is sent twice.

    Raises MissingTopicError, ValueError for a setting that kafka-python does not have, or a KafkaError.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = None,
        request_timeout_ms: int = 30_000,
        request_topic: str = REQUESTS,
        response_topic: str | Collection[str] = RESPONSES,
        groups_topic: str = GROUPS,
        lag_topic: str = LAG,
        channel: Channel | None = None,
        **kafka_config: Any,
    ) -> None:
        instance = secrets.token_hex(6)
        self._host = socket.gethostname()
        self._client_id = client_id or own_client_id()
        self._request_prefix = f"{instance}-"
        self._request_count = 0
        self._timeout_ms = request_timeout_ms
        self._groups_topic = groups_topic
        self._kafka_config = kafka_config | {
            "bootstrap_servers": bootstrap_servers,
            "client_id": self._client_id,
        }
        super().__init__(**self._kafka_config)
        self._lag_topic = lag_topic
        self._lag_log: LagLog | None = None
        self._channel = channel or KafkaChannel(
            instance=instance,
            request_topic=request_topic,
            response_topic=response_topic,
            **self._kafka_config,
        )

    @property
    def client_id(self) -> str:
        """The client id in its requests, which events and history tell."""
        return self._client_id

    def close(self) -> None:
        """Disconnect."""
        self._channel.close(_CLOSE_MS)
        super().close()
        if self._lag_log is not None:
            self._lag_log.close()

    # -- groups --------------------------------------------------------------------------------------

    def list_groups(
        self,
        states_filter: Collection[str] | None = None,
        types_filter: Collection[str] | None = None,
    ) -> list[GroupListing]:
        """All groups, or those in the given states and of the given types, sorted by id.

        States and types are in any case of letters; a type is "classic" or "consumer". Groups are read from
        the topic in which the coordinator keeps a picture of each. It need not be running.
        """
        partitions = self._channel.partition_counts([self._groups_topic]).get(self._groups_topic)
        if partitions is None:
            raise MissingTopicError(self._groups_topic)
        groups = read_groups(self._groups_topic, partitions, self._kafka_config, self._timeout_ms)
        return chosen(groups, states_filter, types_filter)

    def measured_lag(self, group_ids: Collection[str] | None = None) -> dict[str, Measurement]:
        """The newest measurements of `measure-lag`, of these groups or of all, by group id.

        A group has none if it is not measured, or was some time ago. They are read from a topic, of some
        minutes at most. Without the topic, or the right to read it, there are none.
        """
        if not self._lag_topic:
            return {}
        if self._lag_log is None:
            self._lag_log = LagLog(self._lag_topic, self._kafka_config, timeout_ms=self._timeout_ms)
        return self._lag_log.newest(group_ids)

    def describe_groups(self, group_ids: Collection[str]) -> dict[str, GroupDescription]:
        """Groups with their members, by id; what is wrong with one is its `error`.

        Groups of the consumer protocol, and those that are not there, are one batch of the coordinator more.
        """
        requests = [self._request(DescribeGroupRequest, group_id) for group_id in unique(group_ids)]
        return self._described(self._ask(requests, DescribeGroupResponse))

    def _described(self, answers: Iterable[DescribeGroupResponse]) -> dict[str, GroupDescription]:
        """The groups of these answers. Those of the consumer protocol are not there for DescribeGroup."""
        groups = {each.group_id: described(each) for each in answers}
        missing = [name for name, it in groups.items() if isinstance(it.error, GroupIdNotFoundError)]
        requests = [self._request(ConsumerGroupDescribeRequest, group_id) for group_id in missing]
        try:
            found = self._ask(requests, ConsumerGroupDescribeResponse)
        except InvalidRequestError:
            # A coordinator of the version before does not know this request, and has no such groups.
            found = []
        return groups | {each.group_id: consumers_described(each) for each in found}

    def describe_groups_and_offsets(
        self, group_ids: Collection[str]
    ) -> dict[str, tuple[GroupDescription, dict[TopicPartition, OffsetAndMetadata]]]:
        """`describe_groups` and `list_group_offsets` at once.

        Offsets of topics that were deleted since, as their ids tell, are left out, as a broker deletes them.
        """
        ids = unique(group_ids)
        answers = self._ask(
            [
                *(self._request(DescribeGroupRequest, group_id) for group_id in ids),
                *(self._request(OffsetFetchRequest, group_id) for group_id in ids),
            ],
            Response,
        )
        fetched = [each for each in answers if isinstance(each, OffsetFetchResponse)]
        groups = self._described(it for it in answers if isinstance(it, DescribeGroupResponse))
        offsets = self._of_topics_there(dict.fromkeys(ids), fetched)
        return {group_id: (groups[group_id], offsets[group_id]) for group_id in ids}

    def find_coordinator(self, group_ids: Collection[str]) -> dict[str, Coordinator]:
        """The coordinators of groups. The groups need not exist."""
        requests = [self._request(FindCoordinatorRequest, group_id) for group_id in unique(group_ids)]
        return {
            each.group_id: Coordinator(each.topic, each.partition, each.state_partition)
            for each in self._ask(requests, FindCoordinatorResponse)
        }

    def delete_groups(
        self, group_ids: Collection[str], *, reason: str | None = None
    ) -> dict[str, type[KafkaError]]:
        """Delete groups that have no members, with their offsets. `reason`: words that the history keeps."""
        requests = [
            self._request(DeleteGroupRequest, group_id, reason=reason) for group_id in unique(group_ids)
        ]
        answers = self._ask(requests, DeleteGroupResponse, changes=True)
        return {each.group_id: for_code(each.error_code) for each in answers}

    def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove]
    ) -> dict[str, type[KafkaError]]:
        """Take members out, by `member_id` or, static ones, `group_instance_id`; the result is by that id.

        A member that is still running joins again.
        """
        leaving = [
            LeavingMember(
                member_id=each.member_id or "",
                group_instance_id=each.group_instance_id,
                reason=each.reason,
            )
            for each in members
        ]
        requests = [self._request(LeaveGroupRequest, group_id, members=leaving)] if leaving else []
        results: dict[str, type[KafkaError]] = {}
        for answer in self._ask(requests, LeaveGroupResponse, changes=True):
            _raise_for(answer)
            for each in answer.members:
                results[each.member_id or each.group_instance_id or ""] = for_code(each.error_code)
        return results

    # -- committed offsets ---------------------------------------------------------------------------

    def list_group_offsets(
        self,
        group_specs: Mapping[str, Collection[TopicPartition] | None] | Collection[str],
        *,
        as_stored: bool = False,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of groups, by group id.

        `group_specs`: group id -> partitions, or None for all; or group ids, for all. A partition that was
        asked for and of which nothing is committed has offset -1. So has one whose topic was deleted since,
        as its id tells; of all it is left out. `as_stored`: tell these as well.
        """
        if not isinstance(group_specs, Mapping):
            group_specs = dict.fromkeys(unique(group_specs))
        requests = [
            self._request(OffsetFetchRequest, group_id, topics=topics)
            for group_id, partitions in group_specs.items()
            for topics in ([None] if partitions is None else to_fetch(partitions))
        ]
        answers = self._ask(requests, OffsetFetchResponse)
        return self._of_topics_there(group_specs, answers, as_stored=as_stored)

    def _of_topics_there(
        self,
        group_specs: Mapping[str, Collection[TopicPartition] | None],
        answers: list[OffsetFetchResponse],
        *,
        as_stored: bool = False,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        offsets = {
            group_id: dict.fromkeys(partitions or (), NOTHING) for group_id, partitions in group_specs.items()
        }
        known = set() if as_stored else {name for answer in answers for name in with_ids(answer.topics)}
        found = self.find_topics(known) if known else {}
        for answer in answers:
            _raise_for(answer)
            is_all = group_specs[answer.group_id] is None
            answer.topics = still_there(answer.topics, found, is_all=is_all)
            offsets[answer.group_id] |= committed(answer)
        return offsets

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Commit for a group that has no members; if it has some, UnknownMemberIdError for each partition."""
        return self.alter_offsets_of_groups({group_id: offsets})[group_id]

    def alter_offsets_of_groups(
        self,
        offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
        *,
        reason: str | None = None,
    ) -> dict[str, dict[TopicPartition, type[KafkaError]]]:
        """`alter_group_offsets` of many groups at once; kafka-python has nothing like it.

        `reason`: words that the history keeps.
        """
        requests = [
            self._request(OffsetCommitRequest, group_id, topics=topics, reason=reason)
            for group_id, of_group in offsets.items()
            for topics in to_commit(of_group)
        ]
        results: dict[str, dict[TopicPartition, type[KafkaError]]] = {each: {} for each in offsets}
        for answer in self._ask(requests, OffsetCommitResponse, changes=True):
            results[answer.group_id] |= errors_of(answer)
        return results

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, reason: str | None = None
    ) -> dict[TopicPartition, type[KafkaError]]:
        """Delete the committed offsets of partitions. `reason`: words that the history keeps.

        Topics that members are subscribed to stay (GroupSubscribedToTopicError). Raises GroupIdNotFoundError,
        or NonEmptyGroupError if the members share anything else than topics.
        """
        requests = [
            self._request(OffsetDeleteRequest, group_id, topics=topics, reason=reason)
            for topics in to_delete(partitions)
        ]
        results: dict[TopicPartition, type[KafkaError]] = {}
        for answer in self._ask(requests, OffsetDeleteResponse, changes=True):
            _raise_for(answer)
            results |= errors_of(answer)
        return results

    def reset_group_offsets(
        self, group_id: str, offset_specs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ResetOutcome]:
        """Commit, for a group that has no members, offsets that are in the logs: see `reset_target`."""
        logs = self.logs(offset_specs)
        targets = {each: reset_target(each, offset_specs[each], log).offset for each, log in logs.items()}
        errors = self.alter_group_offsets(
            group_id, {partition: OffsetAndMetadata(offset) for partition, offset in targets.items()}
        )
        return {
            partition: ResetOutcome(errors[partition], targets[partition])
            if partition in targets
            else ResetOutcome(UnknownTopicOrPartitionError, -1)
            for partition in offset_specs
        }

    # -- requests and answers ------------------------------------------------------------------------

    def _request(self, kind: type[RequestT], group_id: str, **fields: Any) -> RequestT:
        self._request_count += 1
        return kind(
            request_id=f"{self._request_prefix}{self._request_count}",
            client_id=self._client_id,
            client_host=self._host,
            group_id=group_id,
            reply_partition=self._channel.reply_partition,
            **fields,
        )

    def _ask(
        self, requests: Sequence[AnyRequest], kind: type[ResponseT], *, changes: bool = False
    ) -> list[ResponseT]:
        """Send all, then wait for all answers; they come back in the order of the requests."""
        for request in requests:
            self._channel.send(request)
        awaited = {request.request_id: request for request in requests}
        answers: dict[str, ResponseT] = {}
        put_off: set[str] = set()
        deadline = time.monotonic() + self._timeout_ms / 1000
        while awaited:
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                group_ids = [request.group_id for request in awaited.values()]
                raise NoAnswerError(group_ids, len(requests), self._timeout_ms, changes=changes)
            for answer in self._channel.receive(min(left_ms, _POLL_MS)):
                asked = awaited.get(answer.request_id)
                if asked is None or answer.group_id not in (None, asked.group_id):
                    continue  # it has been taken, or is somebody else's
                if answer.error_code == CoordinatorLoadInProgressError.errno:
                    put_off.add(answer.request_id)
                    continue
                del awaited[answer.request_id]
                if answer.error_code == InvalidRequestError.errno or not isinstance(answer, kind):
                    raise InvalidRequestError(f"group {asked.group_id!r}: {answer.error_message}")
                answers[answer.request_id] = answer
                deadline = time.monotonic() + self._timeout_ms / 1000
            if len(put_off) == len(awaited):
                # All others are answered, so a batch of the coordinator has ended since these were put off.
                for request_id in put_off:
                    self._channel.send(awaited[request_id])
                put_off.clear()
        return [answers[request.request_id] for request in requests]


def own_client_id(program: str = "admin") -> str:
    """Return a client id that no other has, with the operating system's user and this host.

    `program`: the word that it begins with. A `_` stands for each character that not all of Kafka's clients
    and metrics take.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        user = str(os.getuid())
    names = (user, socket.gethostname())
    user, host = (re.sub(r"[^\w.-]", "_", each[:_MAX_OF_NAME], flags=re.ASCII) for each in names)
    return f"{program}-{user}@{host}-{os.getpid()}-{secrets.token_hex(6)}"


def _raise_for(answer: Response) -> None:
    error = for_code(answer.error_code)
    if error is not NoError:
        raise error(f"group {answer.group_id!r}: {answer.error_message or error.description}")
