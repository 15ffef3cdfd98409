"""The coordinator's refusals as exceptions, which say what to do about them.

A `MembershipError` is for good: trying again cannot mend it. Refusals of commits alone are kafka-python's own
exceptions, which programs that commit know already.
"""

from __future__ import annotations

from typing import ClassVar

from kafka import errors as kafka
from kafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError, RebalanceInProgressError

from group_coordinator.coordinator_state.errors import Errors

__all__ = [
    "CommitFailedError",
    "FencedInstanceIdError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "InconsistentGroupProtocolError",
    "InvalidGroupIdError",
    "InvalidRequestError",
    "InvalidSessionTimeoutError",
    "MembershipError",
    "RebalanceInProgressError",
    "UnexpectedAnswerError",
    "UnreleasedInstanceIdError",
    "UnsupportedAssignorError",
    "UnsupportedVersionError",
    "cannot_commit",
    "commit_error",
    "fatal_error",
    "oversized_commit",
    "unanswered",
]


class MembershipError(Exception):
    """The coordinator will not have this member. `error` is Kafka's code, None if it has no name here."""

    error: Errors | None = None
    advice: ClassVar[str] = ""

    def __init__(self, group_id: str, detail: str | None = None) -> None:
        name = self.error.name if self.error is not None else "unexpected answer"
        super().__init__(_line(group_id, name, detail, self.advice))

    def __str__(self) -> str:
        # kafka-python's put their own name and number before it.
        return Exception.__str__(self)


class InconsistentGroupProtocolError(MembershipError):
    """The members have no assignor in common, or share another kind of work."""

    error = Errors.INCONSISTENT_GROUP_PROTOCOL
    advice = (
        "All members of a group must share the same kind of work (topics or units) and have at least one "
        "assignor in common: compare `subscribe()` and `assignors` with the other members', or use "
        "another group id."
    )


class InvalidSessionTimeoutError(MembershipError):
    """The coordinator does not allow this session timeout."""

    error = Errors.INVALID_SESSION_TIMEOUT
    advice = (
        "Choose a `session_timeout_ms` between the coordinator's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms."
    )


class InvalidGroupIdError(MembershipError):
    """The coordinator does not allow this group id."""

    error = Errors.INVALID_GROUP_ID
    advice = "Choose a `group_id` that is not empty."


class GroupMaxSizeReachedError(MembershipError):
    """The group is full."""

    error = Errors.GROUP_MAX_SIZE_REACHED
    advice = (
        "Run fewer members, or raise the coordinator's group.max.size (of the consumer protocol: "
        "group.consumer.max.size)."
    )


class FencedInstanceIdError(MembershipError, kafka.FencedInstanceIdError):  # type: ignore[misc]
    """Another program goes on as this static member. This one must do nothing in its name from now on."""

    error = Errors.FENCED_INSTANCE_ID
    advice = (
        "Another program runs under the same `group_instance_id` and has taken this member's place: end one "
        "of the two, or give each a name of its own."
    )


class UnreleasedInstanceIdError(MembershipError):
    """Another program runs as this static member, or ran until a moment ago and did not close."""

    error = Errors.UNRELEASED_INSTANCE_ID
    advice = (
        "Another program has the same `group_instance_id`: end it, or give each a name of its own. If it was "
        "killed, start again once its session (group.consumer.session.timeout.ms) has ended."
    )


class GroupIdNotFoundError(MembershipError):
    """A member of the consumer protocol cannot join, because the group has members of the classic one."""

    error = Errors.GROUP_ID_NOT_FOUND
    advice = (
        'Join with `group_protocol="classic"` as its members do, stop them first, or use another group id.'
    )


class UnsupportedAssignorError(MembershipError):
    """The coordinator does not have this assignor."""

    error = Errors.UNSUPPORTED_ASSIGNOR
    advice = "Choose a `server_assignor` of those in the coordinator's group.consumer.assignors."


class InvalidRequestError(MembershipError):
    """The coordinator could not read a request."""

    error = Errors.INVALID_REQUEST
    advice = (
        "A setting of this member is outside of what the contract allows (the answer names the field), or "
        "this client and the coordinator are of different versions."
    )


class UnsupportedVersionError(MembershipError):
    """The coordinator is older than this client."""

    error = Errors.UNSUPPORTED_VERSION
    advice = "Run a coordinator that is at least as new as this client."


class UnexpectedAnswerError(MembershipError):
    """An answer that the protocol does not have in this place."""

    advice = "Client and coordinator do not speak the same protocol: compare their versions."


_BY_CODE: dict[int, type[MembershipError]] = {
    each.error: each
    for each in (
        InconsistentGroupProtocolError,
        InvalidSessionTimeoutError,
        InvalidGroupIdError,
        GroupMaxSizeReachedError,
        FencedInstanceIdError,
        UnreleasedInstanceIdError,
        UnsupportedAssignorError,
        InvalidRequestError,
        UnsupportedVersionError,
    )
}


def fatal_error(code: int, name: str, message: str | None, group_id: str) -> MembershipError:
    """The exception for an answer's `error_code`, `error` and `error_message`."""
    known = _BY_CODE.get(code)
    if known is not None:
        return known(group_id, message)
    detail = f"{name}, code {code}"
    return UnexpectedAnswerError(group_id, f"{detail}: {message}" if message else detail)


_FAILED_ADVICE = (
    "The group has gone on without this member, and nothing was committed: poll to join again, and go on "
    "from what is committed then. If this happens often, poll more often, or raise `max_poll_interval_ms` "
    "and `session_timeout_ms`."
)
_STALE_ADVICE = (
    "Nothing was committed: some of these partitions are not this member's any more. Poll, and commit what "
    "is still this member's."
)
_REBALANCE_ADVICE = (
    "Nothing was committed: poll until there is an assignment, and commit what is still this member's."
)
_METADATA_ADVICE = (
    "The other offsets are committed. Commit shorter metadata, or raise the coordinator's "
    "offset.metadata.max.bytes."
)
_ROOM_ADVICE = (
    "The other offsets are committed. The group has no room for more: delete offsets that nobody needs, or "
    "raise the coordinator's max.group.offsets and max.group.bytes."
)
_AGAIN_ADVICE = "Nothing was done: do it again in a moment."
_OF_COMMITS: dict[int, tuple[type[KafkaError], str]] = {
    Errors.ILLEGAL_GENERATION: (CommitFailedError, _FAILED_ADVICE),
    Errors.UNKNOWN_MEMBER_ID: (CommitFailedError, _FAILED_ADVICE),
    Errors.GROUP_ID_NOT_FOUND: (CommitFailedError, _FAILED_ADVICE),
    Errors.STALE_MEMBER_EPOCH: (CommitFailedError, _STALE_ADVICE),
    Errors.REBALANCE_IN_PROGRESS: (RebalanceInProgressError, _REBALANCE_ADVICE),
    Errors.COORDINATOR_NOT_AVAILABLE: (kafka.CoordinatorNotAvailableError, _AGAIN_ADVICE),
    Errors.OFFSET_METADATA_TOO_LARGE: (kafka.OffsetMetadataTooLargeError, _METADATA_ADVICE),
    Errors.INVALID_COMMIT_OFFSET_SIZE: (kafka.InvalidCommitOffsetSizeError, _ROOM_ADVICE),
}


def commit_error(code: int, name: str, message: str | None, group_id: str) -> MembershipError | KafkaError:
    """The same for the answer to a commit, of which not every refusal is for good."""
    known = _OF_COMMITS.get(code)
    if known is None:
        return fatal_error(code, name, message, group_id)
    kind, advice = known
    error: KafkaError = kind(_line(group_id, name, message, advice))
    return error


def cannot_commit(group_id: str, *, rebalancing: bool) -> KafkaError:
    """The exception for a commit that need not be sent: its member owns nothing."""
    if rebalancing:
        return RebalanceInProgressError(_line(group_id, "the group is rebalancing", None, _REBALANCE_ADVICE))
    return CommitFailedError(_line(group_id, "this member is not in the group", None, _FAILED_ADVICE))


def oversized_commit(group_id: str, size: int, limit: int) -> KafkaError:
    """The exception for a commit that is too large to be sent."""
    name = f"a commit of {size} bytes is too large, the limit is {limit}"
    advice = "Nothing was committed: commit fewer offsets at a time, or shorter metadata."
    error: KafkaError = kafka.InvalidCommitOffsetSizeError(_line(group_id, name, None, advice))
    return error


def unanswered(group_id: str, what: str, advice: str) -> KafkaError:
    """The exception for a call whose answer did not come in time."""
    return KafkaTimeoutError(
        _line(group_id, f"the coordinator has not answered {what} in time", None, advice)
    )


def _line(group_id: str, name: str, detail: str | None, advice: str) -> str:
    what = f"{name} ({detail})" if detail else name
    return f"group {group_id!r}: {what}. {advice}"
