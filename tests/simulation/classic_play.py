"""Runs of the classic protocol: members that join together, and one of them divides the units."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from group_coordinator.client import membership
from group_coordinator.coordinator_state.classic.states import GroupState
from tests.simulation.checks import ClassicChecks
from tests.simulation.clients import Client, settings_of
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    CALM_DELAY_MS,
    CALM_THINK_MS,
    LONGEST_DELAY_MS,
    LONGEST_RESTART_MS,
    LOOK_MS,
    draw,
)
from tests.simulation.play import Play

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.events import MemberRemoved
    from tests.simulation.conditions import Timeouts
    from tests.simulation.programs import Program
    from tests.simulation.world import World


class ClassicPlay(Play):
    """There are so many units to share, which every leader sees."""

    def __init__(self, world: World) -> None:
        super().__init__(world, draw(world.rng))
        self.units = self.conditions.units
        self.units_divided: defaultdict[int, set[int]] = defaultdict(set)
        """Generation -> how many units there were when its leader divided them, which it may do twice."""

    def checks(self) -> ClassicChecks:
        """See `Play`."""
        return ClassicChecks(self._world)

    def client(
        self,
        name: str,
        client_id: str,
        timeouts: Timeouts,
        instance_id: str | None,
        reply_partition: int,
    ) -> Client:
        """See `Play`."""
        return Client(self._world, name, settings_of(client_id, timeouts, instance_id), reply_partition)

    def change_work(self) -> None:
        """See `Play`."""
        if self._world.rng.random() < 0.2:
            self.units = self._world.rng.randint(1, 8)
            self._world.note("simulation", "there are {} units to share", self.units)

    def allowed_ms(self, event: MemberRemoved, client: Program) -> int | None:
        """See `Play`."""
        if event.reason == "session_expired":
            return int(client.settings.session_timeout_ms)
        if event.reason in ("not_rejoined", "not_synced") and not self.conditions.slow_batch:
            return int(client.settings.max_poll_interval_ms)
        return None

    def settling_ms(self, lateness_ms: int) -> int:
        """See `Play`.

        The sum of what may have to pass one after the other:
        - the last message of the storm arrives;
        - a member whose last question or answer was lost asks again;
        - a join phase and a sync phase run their full time, waiting for somebody who has crashed in them;
        - a dead member that was just answered is given its session, or one that never was its patience;
        - one more join phase, for those who have come last; if it is an initial one it has its own delay;
        - a static member that has crashed is waited for once more, or one that runs twice is fenced by its
          double, which asks again only then, and is started again;
        - the members learn of the rebalance from a heartbeat, and so once more if a leader looks around;
        - and everything that happens is heard of a little late, log time by a clock that was set back.
        """
        slowest, config = self.conditions.slowest, self.conditions.config
        asked_again = max(slowest.rebalance_ms + membership._JOIN_LAPSE_MS, slowest.request_ms)
        dead = max(slowest.session_ms, config.new_member_join_timeout_ms)
        joined = max(slowest.rebalance_ms, config.group_initial_rebalance_delay_ms)
        heard_of = 2 * slowest.session_ms // 3 + LOOK_MS
        in_flight = 20 * (2 * CALM_DELAY_MS + 2 * CALM_BATCH_MS + 5 * CALM_THINK_MS)
        late = lateness_ms + in_flight
        if any(self.conditions.static):
            late += joined + slowest.session_ms + asked_again + LONGEST_RESTART_MS
        return LONGEST_DELAY_MS + asked_again + 2 * slowest.rebalance_ms + dead + joined + heard_of + late

    def what_is_not_right(self, group: ClassicGroup | None) -> str | None:
        """See `Play`."""
        clients = self._world.clients
        if group is None or group.state is not GroupState.STABLE:
            return f"the group is {group and group.state}"
        survivors = sorted(client.membership.member_id for client in clients)
        if survivors != sorted(group.members) or group.pending_members:
            return f"in the group are {[*group.members, *group.pending_members]} and not {survivors}"
        wrong = (client.what_is_not_right(group) for client in clients)
        return next((it for it in wrong if it is not None), None) or self._what_is_not_shared(group)

    def _what_is_not_shared(self, group: ClassicGroup) -> str | None:
        """Is every unit owned once? Those that there are, if the leader can know."""
        clients = self._world.clients
        leads_anew = any(client.leads_anew for client in clients)
        units = self.units_divided[group.generation_id] if leads_anew else {self.units}
        shared = sorted(unit for client in clients for unit in client.owned)
        is_right = len(shared) in units and shared == list(range(len(shared)))
        return None if is_right else f"owned are {shared} of {units} units"
