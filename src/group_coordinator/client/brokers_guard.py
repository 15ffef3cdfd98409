"""The guard of a group that is here: a member of the brokers' group of that name, which keeps all others out.

It is a static member with a protocol type of its own. A broker refuses members of every other type, and
commits without a member. So the guard is a lease, and nobody has to hold it. Its session is as long as
brokers allow. Any program may renew it by a join under its name, which is no rebalance, and may release it.
Tried with Kafka 3.9, 4.2 and 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from group_coordinator.client.ask_coordinators import ask_coordinators, failure
from group_coordinator.client.channel import settings_of
from group_coordinator.client.closing import Closing
from group_coordinator.client.descriptions import MemberDescription
from group_coordinator.coordinator_state.sides import GUARD_TYPE

GUARD_SESSION_MS = 30 * 60 * 1000
"""The longest session that brokers allow by default (`group.max.session.timeout.ms`)."""
_REBALANCE_MS = 10_000
_OVERTAKEN = (FencedInstanceIdError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""Somebody else renews the guard, or releases it, at the same time."""
_ATTEMPTS = 3


class HasMembersError(InconsistentGroupProtocolError):  # type: ignore[misc]
    """The brokers' group has members of its own, which no guard takes the place of."""


def is_guard(member: MemberDescription) -> bool:
    """Whether a member is the guard."""
    return member.group_instance_id == GUARD_TYPE


class BrokersGuard(Closing):
    """Takes guards and releases them. `kafka_config`: kafka-python's settings. It needs Read on groups."""

    def __init__(self, *, request_timeout_ms: int = 30_000, **kafka_config: Any) -> None:
        self._timeout_ms = request_timeout_ms
        self._admin = KafkaAdminClient(**settings_of(KafkaAdminClient, kafka_config))

    def close(self) -> None:
        """Disconnect. The guards stay until their sessions end."""
        self._admin.close()

    def take(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """Take the guards of groups, or renew them; returns what has kept each from it, by group id.

        That is a HasMembersError if the group has members of its own.
        """
        results: dict[str, KafkaError | None] = dict.fromkeys(group_ids)
        left: Collection[str] = results
        for _ in range(_ATTEMPTS):
            results |= self._taken(left)
            left = [each for each, error in results.items() if isinstance(error, _OVERTAKEN)]
        return results

    def _taken(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        joined = self._ask(group_ids, _join)
        # To renew a guard is no rebalance that somebody has to finish.
        begun = {
            group_id: answer
            for group_id, answer in joined.items()
            if not isinstance(answer, KafkaError)
            and answer.leader == answer.member_id
            and not getattr(answer, "skip_assignment", False)
        }
        synced = self._ask(begun, lambda group_id: _sync(group_id, begun[group_id]))
        return {each: _refused(each, answer) for each, answer in (joined | synced).items()}

    def release(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """Release the guards of groups; returns what has kept each from it. One that has none is well."""
        left = self._ask(group_ids, _leave)
        return {each: answer if isinstance(answer, KafkaError) else None for each, answer in left.items()}

    def check(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """Look whether guards of these groups may be taken; returns the error of each of which they may not.

        It changes nothing: a heartbeat of nobody takes the same right.
        """
        asked = self._ask(group_ids, _beat)
        return {
            each: it if isinstance(it, GroupAuthorizationFailedError) else None for each, it in asked.items()
        }

    def _ask(self, group_ids: Iterable[str], request: Any) -> dict[str, Any]:
        def told(response: Any, ids: Sequence[str]) -> Mapping[str, Any]:
            return {ids[0]: failure([response.error_code]) or response}

        return ask_coordinators(self._admin, group_ids, lambda ids: request(ids[0]), told, self._timeout_ms)


def _refused(group_id: str, answer: Any) -> KafkaError | None:
    if isinstance(answer, InconsistentGroupProtocolError):
        return HasMembersError(f"group {group_id!r} has members at the brokers")
    if isinstance(answer, InvalidSessionTimeoutError):
        return InvalidSessionTimeoutError(
            f"the brokers do not allow a session of {GUARD_SESSION_MS // 60_000} min: raise "
            "group.max.session.timeout.ms to that"
        )
    return answer if isinstance(answer, KafkaError) else None


def _join(group_id: str) -> JoinGroupRequest:
    # Static members came with version 5.
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=GUARD_SESSION_MS,
        rebalance_timeout_ms=_REBALANCE_MS,
        member_id="",
        group_instance_id=GUARD_TYPE,
        protocol_type=GUARD_TYPE,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=GUARD_TYPE, metadata=b"")],
        reason="the group is at the coordinator",
        min_version=5,
    )


def _sync(group_id: str, joined: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=GUARD_TYPE,
        protocol_type=GUARD_TYPE,
        protocol_name=GUARD_TYPE,
        assignments=[],
        min_version=3,
    )


def _beat(group_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=0, member_id=GUARD_TYPE)


def _leave(group_id: str) -> LeaveGroupRequest:
    member = LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=GUARD_TYPE, reason=None)
    return LeaveGroupRequest(group_id=group_id, members=[member], min_version=3)
