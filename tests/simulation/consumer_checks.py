"""What must be true all the time of a consumer group, whose members come to their work one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse
from tests.coordinator_state.consumer.invariants import held_by
from tests.coordinator_state.consumer.model import ConsumerModel
from tests.simulation.checks import Checks, Violation
from tests.simulation.consumers import Consumer, short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.client.consumer_requests import MemberPartition
    from group_coordinator.coordinator_state.clocks import Span
    from group_coordinator.coordinator_state.events import OffsetsCommitted
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.step import StepResult
    from tests.coordinator_state.model_time import Answer
    from tests.simulation.brokers import Brokers
    from tests.simulation.world import World


class ConsumerChecks(Checks):
    """The same, and nobody takes for its own what may be another's.

    A member that was put out believes in its partitions until it hears of that. Its commits are refused by
    then, as the model foretells. Where a message may overtake another, a member may seem to have given up
    what it has got again since. No coordinator could tell that from the truth, and Kafka's cannot either; so
    nothing is asked there of members to which that has happened.
    """

    def __init__(self, world: World, brokers: Brokers) -> None:
        super().__init__(world, ConsumerModel(world.conditions.config, world.outages))
        self._brokers = brokers

    def stepped(
        self,
        state: bytes | None,
        records: Iterable[Record],
        watermark: int,
        result: StepResult,
        span: Span,
    ) -> list[Answer]:
        """See `Checks`."""
        answers = super().stepped(state, records, watermark, result, span)
        if self._world.conditions.weather.is_reliable:
            for answer in answers:
                self._fences_nobody(answer)
        self.believed()
        return answers

    def _fences_nobody(self, answer: Answer) -> None:
        """If all arrives in order, silence and outages cost no member its epoch."""
        response = answer.response
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        news = response.members or ()
        if Errors.FENCED_MEMBER_EPOCH in (response.error_code, *(each.error_code for each in news)):
            raise Violation(f"a member was fenced though all that it sends arrives: {response}")

    def believed(self) -> None:
        """What a member takes for its own is its own in the coordinator's eyes, if it is a member there."""
        group = self.group
        members = group.members if isinstance(group, ConsumerGroup) and not group.is_dead else {}
        owners: dict[MemberPartition, str] = {}
        for client in self._world.clients:
            assert isinstance(client, Consumer)
            member = members.get(client.membership.member_id)
            if member is None or member.is_away or client.up_line.is_disordered:
                continue
            held = {(name, each, topic_id) for name, topic_id, each in held_by(group, member)}
            if others := client.believed - held:
                raise Violation(f"{client.name} believes that it owns {short(others)}, which it has given up")
            for each in client.believed:
                if (other := owners.setdefault(each, client.name)) != client.name:
                    raise Violation(f"{client.name} and {other} believe that they own {short([each])}")

    def _committed(self, event: OffsetsCommitted) -> None:
        """The same, but for topics that were made again: progress goes by their names."""
        for topic in event.topics:
            for each in topic.partitions:
                place = topic.name, each.partition_index
                if topic.name in self._brokers.made_again:
                    self._progress.pop(place, None)
                # The event has the group's epoch. Which of its own the member had is foretold by the model.
                self._granted.add((event.member_id or "", 0, place, each.committed_offset))
        super()._committed(event)
