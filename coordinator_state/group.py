"""The interface that groups of all kinds have.

The rules for offsets, deadlines and the requests of tools are the same for all kinds of groups. They use the
methods below, and know no more of a group. The kinds are listed in `kinds.py`.

Source: the interface org.apache.kafka.coordinator.group.Group.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.errors import Errors
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest
    from group_coordinator.coordinator_state.responses import GroupPicture


class DeadlineKind(IntEnum):
    """The kinds of deadlines; of those due in the same millisecond, lower ones come first."""

    JOIN = 0
    """The join phase is over. First, because a newcomer's time may end with the phase it waits for."""
    SESSION = 1
    """The session of a member expires."""
    PENDING = 2
    """An id that was handed out has not been used to join."""
    SYNC = 3
    """The time to sync is over."""
    REVOCATION = 4
    """A member has not given up in time what another one is to have."""
    CLEANUP = 5
    """Unused offsets, and the group if it is Empty, are checked for deletion."""


DEADLINES = {
    DeadlineKind.JOIN: "join_deadline_ms",
    DeadlineKind.SESSION: "session_deadline_ms",
    DeadlineKind.SYNC: "sync_deadline_ms",
    DeadlineKind.REVOCATION: "revocation_deadline_ms",
    DeadlineKind.CLEANUP: "cleanup_deadline_ms",
}
"""The field with a deadline: of a member, or of the group. An id that was handed out has none."""


class HasSession(Protocol):
    """A member of any kind of group, as its session sees it. Times in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    session_deadline_ms: int | None
    untold_until_ms: int
    """Until then it is not told that its session has nearly expired (`near_expiry.py`)."""

    @property
    def is_parked(self) -> bool:
        """Whether it waits for an answer."""


class HasTimeout(HasSession, Protocol):
    """A member that has asked for the length of its session. The others' is a setting."""

    session_timeout_ms: int


class Group(Protocol):
    """One group. Times are in ms of log time."""

    KIND: ClassVar[str]
    """The tag of its kind in the stored state; see `kinds.py`."""

    group_id: str
    now_ms: int
    """How far the group has been advanced. Log time does not go back: a record with an earlier time
    (a broker's clock was set back) is handled as of here."""
    offsets: bytes
    """The committed offsets, as `CommittedOffsets` reads and writes them."""
    cleanup_deadline_ms: int | None
    """When to check for unused offsets, and whether the group itself is unused."""
    is_ahead: bool
    """Whether a deadline or an outage has brought the group to `now_ms`, and no request since. So an earlier
    one is late."""
    clocks: dict[int, int]
    """By how much, in ms, append times count later, by request partition; without those that are right."""
    place: int
    """The place in the log of its newest change, as `Turn.place` has it."""
    pictured: int
    """The same of the newest change that its picture shows; 0 if none is known."""

    @property
    def generation_id(self) -> int:
        """Its generation; of the consumer protocol's groups, the group epoch."""

    @property
    def state(self) -> str:
        """Its state, as Kafka's tools spell it."""

    def seal(self) -> None:
        """Put what was read of its stored parts, and changed since, back into them."""

    # -- what a tool asks --------------------------------------------------------------------------

    @property
    def is_dead(self) -> bool:
        """Whether it is deleted. Then it is only there for its time and its place."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def is_unused(self) -> bool:
        """Whether it has no members, and no handed-out id that may become one."""

    def picture(self, config: GroupConfig) -> GroupPicture:
        """The group as tools show it."""

    def die(self) -> None:
        """Move to the state Dead, and drop all deadlines. Only an empty group can."""

    # -- what offsets depend on --------------------------------------------------------------------

    def may_commit(self, request: OffsetCommitRequest) -> Errors:
        """Whether its sender may commit; a negative generation is nobody's (validateOffsetCommit)."""

    def may_fetch(self, member_id: str | None, member_epoch: int) -> Errors:
        """Whether this sender may see the offsets; a member id of None is nobody's (validateOffsetFetch)."""

    def may_delete_offsets(self) -> tuple[Errors, str | None]:
        """Whether offsets of topics that no member reads may be deleted (validateOffsetDelete)."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`; if that is not known, True to be safe."""

    def unused_since_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """The time since which no member has used an offset of `topic`; None while one does.

        `commit_timestamp_ms`: when it was committed (offsetExpirationCondition).
        """

    def heard_from(self, member_id: str) -> HasTimeout | None:
        """Note that this member has committed; return it if a commit extends its session."""

    # -- deadlines ---------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[tuple[int, DeadlineKind, str]]:
        """All deadlines that are set: the time, the kind, and the member id (or "")."""

    def deadline(self, kind: DeadlineKind, member_id: str) -> int | None:
        """The time of one deadline; None if it is not set."""

    def set_deadline(self, kind: DeadlineKind, member_id: str, at_ms: int | None) -> None:
        """Set one deadline, or clear it with None. It cannot be set for a member that is not there."""
