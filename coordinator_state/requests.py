"""The requests of the contract (`docs/contract.md`), decoded strictly.

Names are those of Kafka's protocol messages in snake_case. Every field is checked for type and range on
the way in, and a field that is not in the contract is refused, so nothing behind this module has to
wonder what it was given.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from coordinator_state.config import INT32_MAX

__all__ = [
    "AnyRequest",
    "DescribeGroupRequest",
    "HeartbeatRequest",
    "JoinGroupRequest",
    "LeaveGroupRequest",
    "LeavingMember",
    "MemberAssignment",
    "Protocol",
    "ReplyTo",
    "Request",
    "SyncGroupRequest",
    "instance_ids",
]

Int32 = Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
Partition = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
# Empty would be one name for all that leave it empty, and each would throw out the one before.
InstanceId = Annotated[str, msgspec.Meta(min_length=1)] | None


_MAX_REASON = 255


class ReplyTo(msgspec.Struct, frozen=True, array_like=True):
    """Who asked, and how to answer: all that is kept of a parked request."""

    request_id: str
    client_id: str
    partition: int | None
    api_version: int


class Protocol(msgspec.Struct, frozen=True, array_like=False, forbid_unknown_fields=True):
    """One protocol (assignor) that a member offers, with its subscription as opaque bytes."""

    name: str
    metadata: bytes


class MemberAssignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the leader gives one member, as opaque bytes."""

    member_id: str
    assignment: bytes


class LeavingMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One member of a `leave_group` request. `reason` is KIP-800's, for people to read."""

    member_id: str = ""
    group_instance_id: InstanceId = None
    reason: str | None = None


def _reason(reason: str | None) -> str | None:
    """A client cuts it off here; for those that do not it is done now. Empty is as good as none."""
    return reason[:_MAX_REASON] if reason else None


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="api"):
    """What all requests have in common. `api_version` None means the newest."""

    NEWEST_VERSION: ClassVar[int]
    """Highest `api_version` that is understood; all versions from 0 on are."""
    STATIC_VERSION: ClassVar[int]
    """Lowest `api_version` in which a `group_instance_id` is given or told (KIP-345)."""

    request_id: str
    client_id: str
    group_id: str
    api_version: Int32 | None = None
    client_host: str = ""
    reply_partition: Partition | None = None

    @property
    def version(self) -> int:
        """The version that decides the behaviour."""
        return self.NEWEST_VERSION if self.api_version is None else self.api_version

    @property
    def reply_to(self) -> ReplyTo:
        """Where the answer goes."""
        return ReplyTo(self.request_id, self.client_id, self.reply_partition, self.version)


class JoinGroupRequest(Request, frozen=True, tag="join_group"):
    """JoinGroup (api key 11). Times in ms; an empty `member_id` asks for one."""

    NEWEST_VERSION: ClassVar[int] = 9
    STATIC_VERSION: ClassVar[int] = 5
    REASON_VERSION: ClassVar[int] = 8

    session_timeout_ms: Int32
    protocol_type: str
    protocols: list[Protocol]
    rebalance_timeout_ms: Int32 | None = None
    member_id: str = ""
    group_instance_id: InstanceId = None
    reason: str | None = None

    @property
    def client_reason(self) -> str | None:
        """Why, in the client's own words, if it says so (KIP-800)."""
        return _reason(self.reason) if self.version >= self.REASON_VERSION else None

    @property
    def effective_rebalance_timeout_ms(self) -> int:
        """The session timeout where the version has no rebalance timeout (v0), or none was given."""
        if self.version == 0 or self.rebalance_timeout_ms is None:
            return self.session_timeout_ms
        return self.rebalance_timeout_ms


class SyncGroupRequest(Request, frozen=True, tag="sync_group"):
    """SyncGroup (api key 14). Only the leader's `assignments` are read."""

    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    PROTOCOL_VERSION: ClassVar[int] = 5

    generation_id: Int32
    member_id: str
    group_instance_id: InstanceId = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[MemberAssignment] = []

    @property
    def names_protocol(self) -> bool:
        """Whether the version has `protocol_type` and `protocol_name`, and requires them (KIP-559)."""
        return self.version >= self.PROTOCOL_VERSION

    @property
    def lacks_protocol(self) -> bool:
        """Whether they are missing although they are required."""
        return self.names_protocol and None in (self.protocol_type, self.protocol_name)


class HeartbeatRequest(Request, frozen=True, tag="heartbeat"):
    """Heartbeat (api key 12)."""

    NEWEST_VERSION: ClassVar[int] = 4
    STATIC_VERSION: ClassVar[int] = 3

    generation_id: Int32
    member_id: str
    group_instance_id: InstanceId = None


class LeaveGroupRequest(Request, frozen=True, tag="leave_group"):
    """LeaveGroup (api key 13)."""

    NEWEST_VERSION: ClassVar[int] = 5
    STATIC_VERSION: ClassVar[int] = 3
    REASON_VERSION: ClassVar[int] = 5

    # Bounded because each entry, however short, is echoed at length.
    members: Annotated[list[LeavingMember], msgspec.Meta(max_length=10_000)]

    def client_reason(self, leaving: LeavingMember) -> str | None:
        """Why `leaving` goes, in its own words, if it says so (KIP-800)."""
        return _reason(leaving.reason) if self.version >= self.REASON_VERSION else None


class DescribeGroupRequest(Request, frozen=True, tag="describe_group"):
    """DescribeGroups (api key 15), of the one group that the record is about."""

    NEWEST_VERSION: ClassVar[int] = 6
    STATIC_VERSION: ClassVar[int] = 4


AnyRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | DescribeGroupRequest


def instance_ids(request: AnyRequest) -> dict[str, str]:
    """The instance ids that `request` names, by the paths of their fields."""
    named: dict[str, str | None]
    match request:
        case DescribeGroupRequest():
            named = {}
        case LeaveGroupRequest():
            named = {
                f"members[{i}].group_instance_id": each.group_instance_id
                for i, each in enumerate(request.members)
            }
        case _:
            named = {"group_instance_id": request.group_instance_id}
    return {path: it for path, it in named.items() if it is not None}
