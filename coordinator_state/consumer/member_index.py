"""All members of a consumer group at once, as an assignment and a member that gets something ask about them.

Each part is made when it is first asked for, and follows the members after that. Most heartbeats need none.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.partitions import pack, unpack
from group_coordinator.coordinator_state.consumer.reconcile import both

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.consumer.reconcile import Share


class MemberIndex:
    """The members of one group, by what they have, are to have, and vote for."""

    def __init__(self, members: Mapping[str, ConsumerMember]) -> None:
        self._members = members

    # -- questions -------------------------------------------------------------------------------

    @cached_property
    def targets(self) -> dict[str, Partitions]:
        """The targets of all members, whose sets nobody changes. Each assignment reads them all."""
        return {member_id: unpack(member.target) for member_id, member in self._members.items()}

    @cached_property
    def _holders(self) -> Counter[tuple[int, int]]:
        """How many members have each partition, assigned or pending: none or one."""
        holders: Counter[tuple[int, int]] = Counter()
        for member in self._members.values():
            holders.update(_pairs(member.share))
        return holders

    @cached_property
    def _votes(self) -> Counter[str]:
        """How many members name each assignor."""
        return Counter(each.server_assignor for each in self._members.values() if each.server_assignor)

    def is_free(self, number: int, partition: int) -> bool:
        """Whether no member has this partition of a topic, neither assigned nor pending."""
        return not self._holders[number, partition]

    def preferred_assignor(self, assignors: Sequence[str]) -> str:
        """The assignor that most members name, of those a first one in `assignors`; that one if none does."""
        votes = self._votes
        return max(assignors, key=lambda name: (votes[name], -assignors.index(name)))

    def topics_held(self) -> set[int]:
        """The numbers of the topics that members have partitions of, or are to have."""
        held = {number for member in self._members.values() for number in both(member.share)}
        return held.union(*self.targets.values())

    # -- changes ---------------------------------------------------------------------------------

    def count(self, member: ConsumerMember, sign: int) -> None:
        """A member comes (1) or goes (-1)."""
        if member.server_assignor and "_votes" in self.__dict__:
            self._votes[member.server_assignor] += sign
        if "_holders" in self.__dict__:
            for pair in _pairs(member.share):
                self._holders[pair] += sign
        if "targets" in self.__dict__:
            self.targets.pop(member.member_id, None)
            if sign > 0:
                self.targets[member.member_id] = unpack(member.target)

    def change_share(self, before: Share, after: Share) -> None:
        """A member has another share."""
        if "_holders" in self.__dict__:
            for pair in _pairs(before):
                self._holders[pair] -= 1
            for pair in _pairs(after):
                self._holders[pair] += 1

    def change_targets(self, targets: dict[str, Partitions]) -> list[str]:
        """Let all members have these targets; return the ids of those whose target was another one."""
        before, self.targets = self.targets, targets
        # Most are not only alike, but the very same.
        changed = [it for it in self._members if targets[it] is not before[it] and targets[it] != before[it]]
        for member_id in changed:
            self._members[member_id].target = pack(targets[member_id])
        return changed


def _pairs(share: Share) -> Iterator[tuple[int, int]]:
    for held in (share.assigned, share.pending):
        for number, partitions in held.items():
            for partition in partitions:
                yield number, partition
