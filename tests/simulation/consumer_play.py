"""Runs of the consumer protocol: the coordinator divides topics, and members come to them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.brokers import WATCH_MS, Brokers, Watcher
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    CALM_DELAY_MS,
    CALM_THINK_MS,
    LONGEST_DELAY_MS,
    LONGEST_RESTART_MS,
    LOOK_MS,
    draw_of_consumers,
)
from tests.simulation.consumer_checks import ConsumerChecks
from tests.simulation.consumers import Consumer, settings_of
from tests.simulation.play import Play

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.events import MemberRemoved
    from tests.simulation.conditions import Timeouts
    from tests.simulation.programs import Program
    from tests.simulation.world import World


class ConsumerPlay(Play):
    """There are topics of brokers, and units that only members know."""

    def __init__(self, world: World) -> None:
        super().__init__(world, draw_of_consumers(world.rng))
        self.brokers = Brokers(world)
        self._say_all_ms = world.rng.choice([20_000, 60_000])
        """How often members say all, though nothing has changed."""

    def checks(self) -> ConsumerChecks:
        """See `Play`."""
        return ConsumerChecks(self._world, self.brokers)

    def client(
        self,
        name: str,
        client_id: str,
        timeouts: Timeouts,
        instance_id: str | None,
        reply_partition: int,
    ) -> Consumer:
        """See `Play`."""
        assignor = self._world.rng.choice([None, None, None, "uniform", "range"])
        settings = settings_of(client_id, timeouts, instance_id, self._say_all_ms, assignor)
        return Consumer(self._world, self, name, settings, reply_partition)

    def begin(self) -> None:
        """See `Play`."""
        Watcher(self._world, self.brokers)

    def change_work(self) -> None:
        """See `Play`."""
        if self._world.rng.random() < 0.5:
            self.brokers.change()

    def calm_down(self) -> None:
        """Brokers agree."""
        self.brokers.former = self.brokers.topics

    def allowed_ms(self, event: MemberRemoved, client: Program) -> int | None:
        """See `Play`."""
        if self.conditions.room is not None and self.conditions.has_jumps:
            # The watermark stays before an outage until all is read that has come since. With little room in
            # a batch that takes long, and a jump as long as the outage looks right (seed 137).
            return None
        if event.reason == "session_expired":
            return self.conditions.config.group_consumer_session_timeout_ms
        if event.reason == "not_revoked" and not self.conditions.slow_batch:
            return int(client.settings.revocation_ms)
        return None

    def settling_ms(self, lateness_ms: int) -> int:
        """See `Play`.

        The sum of what may have to pass one after the other:
        - the last message of the storm arrives;
        - a member whose last question was lost asks again; or one that does not know that it has other
          partitions, since that answer was lost, says all;
        - a dead member's session ends, or what it was to give up is taken from it;
        - a static member that is started twice, or again after a crash, is refused until the session of its
          double has ended, and is started again;
        - the watcher is told of a change by both brokers, in a round each and one that was missed, and once
          more for a topic that was made again after that;
        - a member sees that there are more units;
        - what has changed since the work was divided waits for the interval, three times: for the members,
          the topics and the units;
        - each time a member hears with a heartbeat what it has to give up, and another with the next one that
          it gets that, so that three heartbeats follow each other;
        - and everything that happens is heard of a little late, log time by a clock that was set back.
        """
        slowest, config = self.conditions.slowest, self.conditions.config
        asked_again = max(slowest.request_ms, self._say_all_ms)
        dead = max(slowest.session_ms, slowest.rebalance_ms)
        watched = 6 * WATCH_MS + LONGEST_DELAY_MS
        beat_ms = config.group_consumer_heartbeat_interval_ms
        divided = 3 * (config.group_consumer_assignment_interval_ms + 3 * beat_ms)
        in_flight = 20 * (2 * CALM_DELAY_MS + 2 * CALM_BATCH_MS + 5 * CALM_THINK_MS)
        late = lateness_ms + in_flight
        if any(self.conditions.static):
            late += slowest.session_ms + asked_again + LONGEST_RESTART_MS
        return LONGEST_DELAY_MS + asked_again + dead + watched + LOOK_MS + divided + late

    def what_is_not_right(self, group: ConsumerGroup | None) -> str | None:
        """See `Play`."""
        clients = self._world.clients
        if group is None or group.state != "Stable":
            return f"the group is {group and group.state}"
        survivors = sorted(client.membership.member_id for client in clients)
        if survivors != sorted(group.members):
            return f"in the group are {sorted(group.members)} and not {survivors}"
        wrong = (client.what_is_not_right(group) for client in clients)
        return next((it for it in wrong if it is not None), None) or self._what_is_not_shared()

    def _what_is_not_shared(self) -> str | None:
        """Is every partition owned once, of each topic that somebody wants?"""
        clients, topics = self._world.clients, self.brokers.topics
        wanted = {name for client in clients for name in client.names if name in topics}
        expected = sorted(each for name in wanted for each in topics[name].keys(name))
        owned = sorted((name, topic_id, each) for it in clients for name, each, topic_id in it.believed)
        return None if owned == expected else f"owned are {owned} of {expected}"
