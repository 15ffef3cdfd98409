"""What differs between runs of one kind of group and of another: programs, work, oracles and patience."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.events import MemberRemoved
    from tests.simulation.checks import Checks
    from tests.simulation.conditions import Conditions, Timeouts
    from tests.simulation.programs import Program
    from tests.simulation.world import World


class Play:
    """One run's part of that. `conditions` are drawn before anything happens."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self._world = world
        self.conditions = conditions

    def checks(self) -> Checks:
        """What must be true all the time."""
        raise NotImplementedError

    def client(
        self,
        name: str,
        client_id: str,
        timeouts: Timeouts,
        instance_id: str | None,
        reply_partition: int,
    ) -> Program:
        """Start a program."""
        raise NotImplementedError

    def begin(self) -> None:
        """The storm begins."""

    def change_work(self) -> None:
        """The weather changes, and what there is to share may, too."""

    def calm_down(self) -> None:
        """The storm is over."""

    def allowed_ms(self, event: MemberRemoved, client: Program) -> int | None:
        """How long a member may stay in the group without what it is removed for; None: nobody knows."""
        raise NotImplementedError

    def settling_ms(self, lateness_ms: int) -> int:
        """How long after the storm the survivors may take to be the group, each with its share.

        `lateness_ms`: how far log time may lie behind.
        """
        raise NotImplementedError

    def what_is_not_right(self, group: Any) -> str | None:
        """Whether the programs are the group, and everything is owned once."""
        raise NotImplementedError
