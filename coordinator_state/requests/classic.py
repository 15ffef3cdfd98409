"""The requests of the classic protocol's groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.base import (
    MAX_REASON,
    InstanceId,
    MemberRequest,
    Request,
    instance,
)
from group_coordinator.coordinator_state.responses import (
    DescribeGroupResponse,
    HeartbeatResponse,
    Int32,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberResult,
    Response,
    SyncGroupResponse,
)


class Protocol(msgspec.Struct, frozen=True, array_like=False, forbid_unknown_fields=True):
    """One protocol (assignor) that a member offers, with its subscription as opaque bytes."""

    name: str
    metadata: bytes


class MemberAssignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The leader's assignment for one member, as opaque bytes."""

    member_id: str
    assignment: bytes


class JoinGroupRequest(MemberRequest, frozen=True, tag="join_group"):
    """JoinGroup (api key 11). Times in ms; an empty `member_id` asks for one."""

    RESPONSE: ClassVar[type[Response]] = JoinGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 9
    STATIC_VERSION: ClassVar[int] = 5
    REASON_VERSION: ClassVar[int] = 8

    session_timeout_ms: Int32
    protocol_type: str
    protocols: list[Protocol]
    rebalance_timeout_ms: Int32 | None = None
    reason: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """Its instance id, and what it offers."""
        offered = {f"protocols[{i}].name": each.name for i, each in enumerate(self.protocols)}
        return {**self.instance_ids, "protocol_type": self.protocol_type, **offered}

    @property
    def client_reason(self) -> str | None:
        """The reason in the client's own words, if it gives one (KIP-800)."""
        return _reason(self.reason) if self.version >= self.REASON_VERSION else None

    def refused(self, error: Errors, message: str | None) -> Response:
        """The answer if the request is refused unseen; it echoes the member id."""
        return JoinGroupResponse.to(self.reply_to, self.group_id, error, message, member_id=self.member_id)

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """The session timeout where the version has no rebalance timeout (v0), or none was given."""
        if self.version == 0 or self.rebalance_timeout_ms is None:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms


class SyncGroupRequest(MemberRequest, frozen=True, tag="sync_group"):
    """SyncGroup (api key 14). Only the leader's `assignments` are read."""

    RESPONSE: ClassVar[type[Response]] = SyncGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    PROTOCOL_VERSION: ClassVar[int] = 5

    generation_id: Int32
    member_id: str
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[MemberAssignment] = msgspec.field(default_factory=list)

    @property
    def names_protocol(self) -> bool:
        """Whether the version has `protocol_type` and `protocol_name`, and requires them (KIP-559)."""
        return self.version >= self.PROTOCOL_VERSION

    def lacks(self) -> tuple[Errors, str] | None:
        """The error if it does not name its protocol although the version requires it."""
        if self.names_protocol and None in (self.protocol_type, self.protocol_name):
            message = "protocol_type and protocol_name must be given since version 5"
            return Errors.INCONSISTENT_GROUP_PROTOCOL, message
        return None


class BeatingMember(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One member of a `heartbeat` request of several."""

    generation_id: Int32
    member_id: str
    group_instance_id: InstanceId = None


class HeartbeatRequest(Request, frozen=True, tag="heartbeat"):
    """Heartbeat (api key 12) of one member, or, which Kafka has not, of `members` that share a program."""

    RESPONSE: ClassVar[type[Response]] = HeartbeatResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 4
    STATIC_VERSION: ClassVar[int] = 3

    generation_id: Int32 | msgspec.UnsetType = msgspec.UNSET
    member_id: str | msgspec.UnsetType = msgspec.UNSET
    group_instance_id: InstanceId = None
    # Bounded because each entry, however short, is echoed at length.
    members: Annotated[list[BeatingMember], msgspec.Meta(max_length=10_000)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    quiet: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether an answer is wanted only if it tells of an error, its own or one of `members`."""

    def __post_init__(self) -> None:
        """Refuse what names a member in both ways, or in none; msgspec makes that a `ValidationError`."""
        own = (self.generation_id, self.member_id, self.group_instance_id)
        if self.members is not msgspec.UNSET:
            if own != (msgspec.UNSET, msgspec.UNSET, None):
                message = "Each of `members` has a `generation_id` and a `member_id` of its own"
                raise ValueError(message)
        elif msgspec.UNSET in own:
            missing = "generation_id" if self.generation_id is msgspec.UNSET else "member_id"
            message = f"Object missing required field `{missing}`"
            raise ValueError(message)

    @property
    def beats(self) -> list[BeatingMember]:
        """The members that it is of, one or several."""
        if self.members is not msgspec.UNSET:
            return self.members
        return [
            BeatingMember(
                # Without `members` both are given.
                generation_id=self.generation_id,  # type: ignore[arg-type]
                member_id=self.member_id,  # type: ignore[arg-type]
                group_instance_id=self.group_instance_id,
            )
        ]

    @property
    def member_named(self) -> str:
        """The member, if it is of one."""
        return self.member_id or ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids of the members that have one."""
        if self.members is not msgspec.UNSET:
            return _instances_of(self.members)
        return instance(self.group_instance_id)


class LeavingMember(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """One member of a `leave_group` request. `reason` is KIP-800's, for people to read."""

    member_id: str = ""
    group_instance_id: InstanceId = None
    reason: str | None = None


class LeaveGroupRequest(Request, frozen=True, tag="leave_group"):
    """LeaveGroup (api key 13)."""

    RESPONSE: ClassVar[type[Response]] = LeaveGroupResponse
    NEEDS_GROUP_ID: ClassVar[bool] = True
    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    REASON_VERSION: ClassVar[int] = 5

    # Bounded because each entry, however short, is echoed at length.
    members: Annotated[list[LeavingMember], msgspec.Meta(max_length=10_000)]

    @property
    def member_named(self) -> str:
        """The member, if it is one that leaves."""
        return self.members[0].member_id if len(self.members) == 1 else ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids of the members that have one."""
        return _instances_of(self.members)

    def client_reason(self, leaving: LeavingMember) -> str | None:
        """The reason of `leaving` in its own words, if it gives one (KIP-800)."""
        return _reason(leaving.reason) if self.version >= self.REASON_VERSION else None


class DescribeGroupRequest(Request, frozen=True, tag="describe_group"):
    """DescribeGroups (api key 15), of the one group that the record is about."""

    IS_READING: ClassVar[bool] = True
    RESPONSE: ClassVar[type[Response]] = DescribeGroupResponse
    NEWEST_VERSION: ClassVar[int] = 6
    STATIC_VERSION: ClassVar[int] = 4


def results(members: Iterable[LeavingMember | BeatingMember], errors: Iterable[Errors]) -> list[MemberResult]:
    """The results for the members of a request."""
    return [
        MemberResult(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error.value
        )
        for each, error in zip(members, errors, strict=True)
    ]


def _reason(reason: str | None) -> str | None:
    """A client cuts it off here; for those that do not it is done now. Empty is as good as none."""
    return reason[:MAX_REASON] if reason else None


def _instances_of(members: Iterable[LeavingMember | BeatingMember]) -> dict[str, str]:
    return {
        f"members[{i}].group_instance_id": each.group_instance_id
        for i, each in enumerate(members)
        if each.group_instance_id is not None
    }
