"""The one list of known and wanted differences between the core's consumer groups and those of Kafka 4.4.

Each has a sequence that shows it, and what both sides say there. People read `docs/differences.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.consumer.advance import existing_topics
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.reconcile import reconcile
from group_coordinator.coordinator_state.consumer.states import GroupState
from group_coordinator.coordinator_state.consumer.subscriptions import Pattern
from tests.conformance.consumer.steps import script
from tests.conformance.differences import KnownDifference
from tests.conformance.sequence import Sequence

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from tests.conformance.setups import Setup

    Request = dict[str, Any]

__all__ = ["DIFFERENCES", "GONE_TOPICS"]


def _owner(group: ConsumerGroup, request: Request) -> str | None:
    """The member that has the instance id."""
    return group.static_members.get(request.get("group_instance_id") or "")


def _joins(request: Request) -> bool:
    return request["api"] == "consumer_group_heartbeat" and request["member_epoch"] == 0


def _joins_again_by_itself(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    is_own = _joins(request) and _owner(group, request) == request["member_id"]
    return is_own and not group.members[request["member_id"]].is_away


def _brings_an_instance_id(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    if not _joins(request) or not request.get("group_instance_id") or _owner(group, request) is not None:
        return False
    member = group.members.get(request["member_id"])
    return member is not None and not group.is_settled(member)


def _takes_the_place_of_another(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    owner = _owner(group, request) if _joins(request) else None
    return owner is not None and owner != request["member_id"] and request["member_id"] in group.members


def _joins_with_nothing(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    is_new = _joins(request) and request["member_id"] not in group.members
    is_nothing = not request.get("subscribed_topic_names") and not _is_resolved(group, request)
    is_due = group.state is GroupState.ASSIGNING and group.subscriptions.is_homogeneous
    return is_new and is_nothing and is_due


def _is_resolved(group: ConsumerGroup, request: Request) -> bool:
    """Whether the pattern that it says is one that members have, and is resolved."""
    return group.subscriptions.resolved.get(Pattern(request.get("subscribed_topic_regex") or "")) is not None


def _loses_topics_by_a_new_pattern(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    is_beat = request["api"] == "consumer_group_heartbeat" and request["member_epoch"] >= 0
    owner_id = _owner(group, request) or request.get("member_id") or ""
    member, text = group.members.get(owner_id), request.get("subscribed_topic_regex")
    if not is_beat or member is None or not text or _is_resolved(group, request):
        return False
    before = group.subscriptions.wanted(member.subscription)
    names = request.get("subscribed_topic_names")
    if before.pattern is None or before.pattern.text == text or set(names or before.names) != {*before.names}:
        return False
    return set(group.subscriptions.names(member.subscription)) != {*before.names}


def _is_nobody_in_a_full_group(group: ConsumerGroup, request: Request, setup: Setup) -> bool:
    if request["api"] != "consumer_group_heartbeat" or request["member_epoch"] <= 0:
        return False
    is_nobody = request["member_id"] not in group.members and _owner(group, request) is None
    return is_nobody and len(group.members) >= setup.core.group_consumer_max_size


def _joins_an_empty_group_in_vain(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    return request["api"] == "join_group" and request["member_id"] != "" and group.state is GroupState.EMPTY


def _has_not_heard(group: ConsumerGroup, request: Request, _setup: Setup) -> bool:
    """Whether it has the epoch before, and Kafka lets its member come further."""
    member = group.members.get(request.get("member_id") or "")
    if request["api"] != "consumer_group_heartbeat" or member is None or member.is_away:
        return False
    # One that does not say what it has is fenced.
    is_before = 0 < request["member_epoch"] == member.previous_epoch != member.epoch
    if not is_before or request.get("topic_partitions") is None:
        return False
    changeable = ("subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
    changes = (request.get(name) for name in changeable)
    if not group.is_at_rest or any(each is not None for each in changes):
        return True
    share = member.share
    further = reconcile(
        share,
        group.assignment_epoch,
        unpack(member.target),
        group.index.is_free,
        {number: set(each) for number, each in share.assigned.items()},
        existing_topics(group, member.subscription),
        subscription_changed=False,
    )
    return further is not share


GONE_TOPICS = KnownDifference(
    name="partitions of a topic that is gone",
    why="Its member may still have them. So one sees what the group waits for.",
    shown_by=Sequence("plain", script("make names=g, join names=g, drop names=g, beat owned=null")),
    kind="group, members",
    theirs="@2 - -> -",
    ours="@2 g01 -> -",
)
"""This one the core's side allows for: it leaves them out, too."""

DIFFERENCES = [
    KnownDifference(
        name="a static member joins again",
        why="It has lost an answer, or was fenced. 111 from oneself ends both Java's client and librdkafka.",
        shown_by=Sequence("plain", script("join instance=own, beat, join")),
        kind="beat",
        theirs="!111",
        ours="@2 a012345",
        begins=_joins_again_by_itself,
    ),
    KnownDifference(
        name="a member that waits brings an instance id",
        why="Kafka looks for its share under the instance id, finds none, and lets it wait for ever.",
        shown_by=Sequence(
            "plain", script("join, join 1, join 1 instance=own, beat owned=null, beat owned=told, beat 1")
        ),
        kind="group, group",
        theirs="Stable 3/3 uniform",
        ours="Reconciling 3/3 uniform",
        begins=_brings_an_instance_id,
    ),
    KnownDifference(
        name="a member takes the place of another",
        why="What it had before would be nobody's.",
        shown_by=Sequence(
            "plain", script("group 1 instance=own, join 1, settled 2, away, join 1 instance=0")
        ),
        kind="beat",
        theirs="@3 a012",
        ours="@4 a012345",
        begins=_takes_the_place_of_another,
    ),
    KnownDifference(
        name="a member without topics joins while a target is due",
        why="Kafka gives it partitions that it does not read, as if all in the group still read the same.",
        shown_by=Sequence("plain", script("join, join 1 names=none, leave 1, join 1 names=none")),
        kind="group, members",
        theirs="@2 a012345 -> a012",
        ours="@2 a012345 -> a012345",
        begins=_joins_with_nothing,
    ),
    KnownDifference(
        name="nobody's heartbeat in a full group",
        why="81 ends a client. After 25 it joins again, and waits for a place.",
        shown_by=Sequence("tight", script("joined 3, beat 3 epoch=1")),
        kind="beat",
        theirs="!81",
        ours="!25",
        begins=_is_nobody_in_a_full_group,
    ),
    KnownDifference(
        name="an unknown id joins an empty group",
        why="Kafka forgets the group, in memory only, though it refuses the join.",
        shown_by=Sequence("plain", script("join, leave, join_group 1 version=3, join")),
        kind="group, group",
        theirs="!69",
        ours="Empty 3/3 uniform",
        begins=_joins_an_empty_group_in_vain,
    ),
    KnownDifference(
        name="a member that says the epoch before its own",
        why="It has not heard where it is, and may say the same once more, as after an outage.",
        shown_by=Sequence(
            "plain",
            script(
                "group 1, join 1 names=none, beat 1, join 2, beat 1 owned=none, leave 2, "
                "beat 1 epoch=before owned=none, beat 1 epoch=before owned=none"
            ),
        ),
        kind="beat",
        theirs="@4",
        ours="@3",
        begins=_has_not_heard,
    ),
    KnownDifference(
        name="a member loses topics by a pattern that is not resolved",
        why="What it gives up would be nobody's, at least until the pattern is resolved.",
        shown_by=Sequence(
            "plain", script("join names=none regex=[ab], resolve, beat, beat, beat regex=[bc] owned=null")
        ),
        kind="group, group",
        theirs="Reconciling 2/2 uniform",
        ours="Reconciling 3/3 uniform",
        begins=_loses_topics_by_a_new_pattern,
    ),
    GONE_TOPICS,
    # This one is not drawn: who names which assignor is not shown.
    KnownDifference(
        name="as many members name one assignor as another",
        why="Kafka goes to and fro between the two, with a new epoch for each heartbeat.",
        shown_by=Sequence("plain", script("join assignor=range, join 1 assignor=uniform, beats 2, beats 2")),
        kind="group, group",
        theirs="Reconciling 4/4 uniform",
        ours="Reconciling 3/3 uniform",
    ),
]
