"""The fields of all requests, and the checks that need no look at a group."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import Int32, ReplyTo, Response

Partition = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
# Empty would be one name for all that leave it empty, and each would throw out the one before.
InstanceId = Annotated[str, msgspec.Meta(min_length=1)] | None
TopicName = Annotated[str, msgspec.Meta(min_length=1)]
TopicId = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]

MAX_REASON = 255
"""Characters of a reason: a client cuts it off here (KIP-800)."""

# Kafka has none here, so no client is out there that sends longer ones.
WhyChanged = Annotated[str, msgspec.Meta(max_length=MAX_REASON)] | None


class Request(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="api",
    # Most of the log is heartbeats: what says nothing takes no room in it.
    omit_defaults=True,
):
    """The fields of all requests. `api_version` None means the newest."""

    OLDEST_VERSION: ClassVar[int] = 0
    NEWEST_VERSION: ClassVar[int]
    """Lowest and highest `api_version` that is understood; all between them are."""
    STATIC_VERSION: ClassVar[int] = 0
    """Lowest `api_version` in which a `group_instance_id` is given or told (KIP-345)."""
    IS_READING: ClassVar[bool] = False
    """Whether it only asks, so that it may be put off (`max.read.bytes`)."""
    NEEDS_GROUP_ID: ClassVar[bool] = False
    """Whether the group without a name is refused: it can have offsets, but no members."""
    RESPONSE: ClassVar[type[Response]]
    """The answer to it."""

    request_id: str
    client_id: str
    group_id: str
    api_version: Int32 | None = None
    client_host: str = ""
    reply_partition: Partition | None = None
    principal: str | msgspec.UnsetType | None = msgspec.UNSET
    """The sender's user name at the brokers, if the writer of the request knows it. Unset costs no bytes."""

    @property
    def version(self) -> int:
        """The version that decides the behaviour."""
        return self.NEWEST_VERSION if self.api_version is None else self.api_version

    @property
    def reply_to(self) -> ReplyTo:
        """The partition that the answer goes to."""
        return ReplyTo(self.request_id, self.client_id, self.reply_partition, self.version)

    @property
    def member_named(self) -> str:
        """The member that it is about; empty if it is about none, or several."""
        return ""

    @property
    def instance_ids(self) -> dict[str, str]:
        """The instance ids in it, by the paths of their fields."""
        return {}

    @property
    def names(self) -> dict[str, str]:
        """Ids and names that not all requests have, by the paths of their fields."""
        return self.instance_ids

    @property
    def partitions_named(self) -> int:
        """The number of partitions that it is about. Each is answered."""
        return 0

    def precheck(self) -> tuple[Errors, str | None]:
        """The error that refuses it before any look at the group, if one does."""
        oldest, newest = self.OLDEST_VERSION, self.NEWEST_VERSION
        if not oldest <= self.version <= newest:
            message = f"versions {oldest} to {newest} are supported - at `$.api_version`"
            return Errors.UNSUPPORTED_VERSION, message
        if (lacking := self.lacks()) is not None:
            return lacking
        if self.NEEDS_GROUP_ID and not self.group_id:
            return Errors.INVALID_GROUP_ID, "group_id must not be empty"
        if self.version < self.STATIC_VERSION and self.instance_ids:
            message = f"version {self.STATIC_VERSION} is the first with a group_instance_id"
            return Errors.UNSUPPORTED_VERSION, f"{message} - at `$.group_instance_id`"
        return Errors.NONE, None

    def lacks(self) -> tuple[Errors, str] | None:
        """The error if it lacks a field that its version requires."""
        return None

    def refused(self, error: Errors, message: str | None) -> Response:
        """The answer if the request is refused unseen."""
        return self.RESPONSE.to(self.reply_to, self.group_id, error, message)


class MemberRequest(Request, frozen=True, kw_only=True):
    """A request of one member."""

    member_id: str = ""
    group_instance_id: InstanceId = None

    @property
    def member_named(self) -> str:
        """The member."""
        return self.member_id

    @property
    def instance_ids(self) -> dict[str, str]:
        """The member's, if it has one."""
        return instance(self.group_instance_id)


def instance(instance_id: str | None) -> dict[str, str]:
    """An instance id by the path of its field; nothing if there is none."""
    return {} if instance_id is None else {"group_instance_id": instance_id}
