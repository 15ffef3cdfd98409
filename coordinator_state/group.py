"""What a group of any kind is to those that do not care which kind it is.

The offsets, the deadlines and the requests of tools are the same for groups of all kinds. They ask the
questions below, and know no more of a group. The kinds are listed in `kinds.py`.

Source: the interface org.apache.kafka.coordinator.group.Group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.coordinator_state.deadlines import DeadlineKind
    from group_coordinator.coordinator_state.errors import Errors
    from group_coordinator.coordinator_state.responses import GroupPicture

__all__ = ["Group", "HasSession"]


class HasSession(Protocol):
    """A member of any kind of group, as its session sees it. Times in ms."""

    member_id: str
    session_timeout_ms: int


class Group(Protocol):
    """One group. Times are in ms of log time."""

    KIND: ClassVar[str]
    """The tag of its kind in the stored state; see `kinds.py`."""

    group_id: str
    now_ms: int
    """How far the group has been advanced. Log time does not go back: a record with an earlier time
    (a broker's clock was set back) is handled as of here."""
    generation_id: int
    offsets: bytes
    """What is committed, as `CommittedOffsets` reads and writes it."""
    cleanup_deadline_ms: int | None
    """When to look for what nobody uses: offsets, and the group itself if it is empty."""

    @property
    def state(self) -> str:
        """Its state, as Kafka's tools spell it."""

    # -- what a tool asks --------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def is_unused(self) -> bool:
        """Whether it has no members, and nobody was given an id to become one."""

    def picture(self) -> GroupPicture:
        """The group as people and tools may see it."""

    def die(self) -> None:
        """Move to the state Dead. Only an empty group does."""

    # -- what offsets depend on --------------------------------------------------------------------

    def may_commit(self, member_id: str, group_instance_id: str | None, generation_id: int) -> Errors:
        """Whether this sender may commit; a negative generation is nobody's (validateOffsetCommit)."""

    def may_delete_offsets(self) -> tuple[Errors, str | None]:
        """Whether offsets of topics that no member reads may be deleted (validateOffsetDelete)."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads `topic`; if that is not known, True to be safe."""

    def unused_since_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """Since when nobody has used an offset of `topic`; None while it is in use.

        `commit_timestamp_ms`: when it was committed (offsetExpirationCondition).
        """

    def heard_from(self, member_id: str) -> HasSession | None:
        """Note that this member has committed; returns it if that keeps its session."""

    # -- deadlines ---------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[tuple[int, DeadlineKind, str]]:
        """All that are set: when, which kind, and the id of the member if it is one's."""

    def deadline(self, kind: DeadlineKind, member_id: str) -> int | None:
        """When it is due; None if it is not set."""

    def set_deadline(self, kind: DeadlineKind, member_id: str, at_ms: int | None) -> None:
        """Set it, or clear it with None. A deadline of a member that is not there cannot be set."""
