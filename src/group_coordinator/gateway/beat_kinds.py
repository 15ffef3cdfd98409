"""The two kinds of heartbeats that a gateway puts together: of the classic and of the consumer protocol.

`Beats` is the same for both. A kind says how members go to the log, and what answers them.

A classic heartbeat is answered with an error code. One of the consumer protocol only counts here if all that
it says is that its member is alive. It is answered with the member's epoch, and with its partitions if there
is news. If no verdict comes in time, it is answered with the epoch that it came with. The coordinator does
not fence the epoch before a member's own in such heartbeats. So the member may go on with it until a later
verdict answers one of them. If that never comes, the member is told to say everything again (15), because
nobody knows what it has not heard. Nor does a newer verdict replace the news of one that was not heard: the
coordinator tells a change once, and takes it for heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AliveMember,
    AnyRequest,
    BeatingMember,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
)

Key: TypeAlias = tuple[str, str]
"""Group and member."""


class Verdict(NamedTuple):
    """The answer to a heartbeat. `assignment` None: it is as before."""

    error_code: int
    epoch: int = 0
    """The member's epoch, or the generation that it came with."""
    assignment: Any = None
    member_id: str | None = None
    """As the coordinator has told it, of a heartbeat that goes to the log by itself."""
    message: str | None = None


REFUSED = Verdict(Errors.COORDINATOR_NOT_AVAILABLE.value)
"""The verdict on a beat that Kafka has not taken, and after one that is lost and tells once."""


@lru_cache(maxsize=1_000)
def unheard(at: int) -> Verdict:
    """The verdict on a beat of this generation or epoch if there is nothing to tell, as is mostly so."""
    return Verdict(Errors.NONE.value, at)


def is_rebalance(verdict: Verdict, at: int) -> bool:
    """Whether a verdict tells a member of a generation or epoch that the group rebalances."""
    if verdict.error_code:
        return verdict.error_code == Errors.REBALANCE_IN_PROGRESS
    return verdict.epoch != at or verdict.assignment is not None


def newest(kept: Verdict, newer: Verdict) -> Verdict:
    """The newer verdict, with what it takes for granted that the member has heard before."""
    if newer.error_code or newer.assignment is not None:
        return newer
    if kept.error_code:
        return kept if kept.error_code == REFUSED.error_code else newer
    return newer._replace(epoch=max(kept.epoch, newer.epoch), assignment=kept.assignment)


class BeatKind(NamedTuple):
    """The way of one kind of heartbeats to the log and back."""

    record: Callable[[Sequence[Beat], dict[str, Any]], AnyRequest]
    """The request for some heartbeats of one group. It is given the fields that all requests have."""
    verdicts: Callable[[Any, Sequence[tuple[Key, int]]], list[Verdict]]
    """The verdicts in the stream's answer, on these members with their generations or epochs."""
    tells_once: bool
    """Whether the coordinator tells a change once, and takes it for heard.

    If not, a verdict is worth nothing once the member has been answered by another.
    """


class Beat(NamedTuple):
    """The heartbeat of one member, which may come again and again."""

    kind: BeatKind
    request: AnyRequest
    """As it came."""
    member: BeatingMember | AliveMember
    """The member in a record of many."""
    key: Key
    """The group and the member."""
    at: int
    """Its generation or epoch; 0 of a program that joins in the consumer protocol."""
    most_bytes: int
    """The most bytes that it takes in a record, since JSON writes some characters with six."""

    @classmethod
    def of(cls, request: HeartbeatRequest) -> Beat:
        """The classic heartbeat of a request with one member."""
        (member,) = request.beats
        return cls(
            CLASSIC,
            request,
            member,
            (request.group_id, member.member_id),
            member.generation_id,
            _most_bytes(member),
        )

    @classmethod
    def of_consumer(cls, request: ConsumerGroupHeartbeatRequest) -> Beat:
        """The heartbeat of a member of the consumer protocol, which is alive."""
        member = AliveMember(
            member_id=request.member_id,
            member_epoch=request.epoch,
            group_instance_id=request.group_instance_id,
        )
        key = request.group_id, request.member_id
        return cls(CONSUMERS, request, member, key, request.epoch, _most_bytes(member))


def _most_bytes(member: BeatingMember | AliveMember) -> int:
    return 100 + 6 * (len(member.member_id) + len(member.group_instance_id or ""))


# -- the classic protocol --------------------------------------------------------------------------------


def _classic_record(together: Sequence[Beat], common: dict[str, Any]) -> AnyRequest:
    if len(together) == 1:
        # As it came, but for its id: the last one may still wait for its verdict.
        return msgspec.structs.replace(together[0].request, request_id=common["request_id"])
    return HeartbeatRequest(members=[beat.member for beat in together], **common)  # type: ignore[misc]


def _classic_verdicts(response: Any, beating: Sequence[tuple[Key, int]]) -> list[Verdict]:
    # The stream answers a request that it cannot read as a whole.
    members = getattr(response, "members", msgspec.UNSET)
    if members is msgspec.UNSET or not members:
        return [_on_classic(response.error_code, generation) for _, generation in beating]
    told = zip(members, beating, strict=True)
    return [_on_classic(each.error_code, generation) for each, (_, generation) in told]


def _on_classic(error_code: int, generation: int) -> Verdict:
    return Verdict(error_code, generation) if error_code else unheard(generation)


CLASSIC = BeatKind(_classic_record, _classic_verdicts, tells_once=False)


# -- the consumer protocol -------------------------------------------------------------------------------


def small(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    """The part of a request that its answer has to fit, to be kept. The rest may be large."""
    return msgspec.structs.replace(
        request,
        topics=[],
        resolved=None,
        subscribed_topic_names=None,
        subscribed_topic_regex=None,
        topic_partitions=None,
    )


def _consumers_record(together: Sequence[Beat], common: dict[str, Any]) -> AnyRequest:
    # A client may say so many times before it is answered: each member once.
    members: dict[str, Any] = {beat.member.member_id: beat.member for beat in together}
    return ConsumerGroupHeartbeatRequest(members=list(members.values()), **common)


def _consumers_verdicts(response: Any, beating: Sequence[tuple[Key, int]]) -> list[Verdict]:
    members = getattr(response, "members", msgspec.UNSET)
    if response.error_code or members is msgspec.UNSET:
        verdict = Verdict(
            response.error_code,
            getattr(response, "member_epoch", 0),
            getattr(response, "assignment", None),
            getattr(response, "member_id", None),
            response.error_message,
        )
        return [verdict] * len(beating)
    news = {each.member_id: each for each in members}
    return [
        Verdict(told.error_code, told.member_epoch, told.assignment)
        if (told := news.get(member_id)) is not None
        else unheard(epoch)
        for (_, member_id), epoch in beating
    ]


CONSUMERS = BeatKind(_consumers_record, _consumers_verdicts, tells_once=True)
