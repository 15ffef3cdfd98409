"""The settings of a member, for each protocol."""

from __future__ import annotations

from dataclasses import dataclass

from group_coordinator.coordinator_state.config import INT32_MAX


@dataclass(frozen=True, kw_only=True)
class AnySettings:
    """The names of a member, and how long it waits. Times are in ms and mean what they mean in Kafka.

    `group_instance_id`: makes a static member of that name. `max_poll_interval_ms`: the time in which the
    user has to come back. `request_timeout_ms`: the time after which an answer is taken for lost.
    `retry_backoff_ms`: the time before something is tried again. Raises ValueError for settings that cannot
    work.
    """

    group_id: str
    client_id: str
    client_host: str = ""
    group_instance_id: str | None = None
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 500


@dataclass(frozen=True, kw_only=True)
class MemberSettings(AnySettings):
    """The settings of a member of the classic protocol.

    `heartbeat_interval_ms`: by default a third of the session timeout. `max_poll_interval_ms` is also the
    rebalance timeout.
    """

    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.group_id or not self.client_id:
            raise ValueError("group_id and client_id must not be empty")
        if self.group_instance_id == "":
            raise ValueError("group_instance_id must not be empty; None is for a member that is not static")
        if not 0 < self.heartbeat_every_ms < self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be positive and less than session_timeout_ms")
        if min(self.max_poll_interval_ms, self.request_timeout_ms, self.retry_backoff_ms) <= 0:
            raise ValueError("timeouts must be positive")

    @property
    def heartbeat_every_ms(self) -> int:
        """The interval in force."""
        if self.heartbeat_interval_ms is not None:
            return self.heartbeat_interval_ms
        return self.session_timeout_ms // 3


@dataclass(frozen=True, kw_only=True)
class ConsumerMemberSettings(AnySettings):
    """The settings of a member of the consumer protocol, to which the coordinator says how often to beat.

    `server_assignor`: the coordinator's assignor that this member votes for; None: no vote.
    `rebalance_timeout_ms`: the time that it has to give up partitions; None: `max_poll_interval_ms`.
    `say_all_every_ms`: how often a heartbeat says all, although nothing has changed. So a lost answer costs
    no more than that.
    """

    server_assignor: str | None = None
    rebalance_timeout_ms: int | None = None
    say_all_every_ms: int = 300_000

    def __post_init__(self) -> None:
        if not self.group_id.strip() or not self.client_id:
            raise ValueError("group_id and client_id must not be empty")
        if self.group_instance_id is not None and not self.group_instance_id.strip():
            raise ValueError("group_instance_id must not be empty; None is for a member that is not static")
        times = (
            *(self.max_poll_interval_ms, self.request_timeout_ms, self.retry_backoff_ms),
            *(self.say_all_every_ms, self.revocation_ms),
        )
        if not all(0 < each <= INT32_MAX for each in times):
            raise ValueError(f"timeouts must be positive, and at most {INT32_MAX} ms")

    @property
    def revocation_ms(self) -> int:
        """The rebalance timeout in force."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms
