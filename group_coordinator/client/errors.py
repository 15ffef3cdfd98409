"""Refusals that trying again cannot mend: one exception for each, with what to do about it."""

from __future__ import annotations

from typing import ClassVar

from coordinator_state.errors import Errors

__all__ = [
    "FencedInstanceIdError",
    "GroupMaxSizeReachedError",
    "InconsistentGroupProtocolError",
    "InvalidGroupIdError",
    "InvalidRequestError",
    "InvalidSessionTimeoutError",
    "MembershipError",
    "UnexpectedAnswerError",
    "UnsupportedVersionError",
    "fatal_error",
]


class MembershipError(Exception):
    """The coordinator will not have this member. `error` is Kafka's code, None if it has no name here."""

    error: Errors | None = None
    advice: ClassVar[str] = ""

    def __init__(self, group_id: str, detail: str | None = None) -> None:
        name = self.error.name if self.error is not None else "unexpected answer"
        what = f"{name} ({detail})" if detail else name
        super().__init__(f"group {group_id!r}: {what}. {self.advice}")


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
    advice = "Run fewer members, or raise the coordinator's group.max.size."


class FencedInstanceIdError(MembershipError):
    """Another program goes on as this static member. This one must do nothing any more in its name."""

    error = Errors.FENCED_INSTANCE_ID
    advice = (
        "Another program runs under the same `group_instance_id` and has taken this member's place: end one "
        "of the two, or give each a name of its own."
    )


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
