"""`GroupMember`: membership in a group, for programs.

Three parts do its work. `driver.py` has the background thread and the way to the coordinator, `rebalance.py`
or `reconciliation.py` the steps of a rebalance, and `commits.py` the offsets. `group_protocol.py` chooses.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka.future import Future
from kafka.structs import OffsetAndMetadata

from group_coordinator.client.channel import Channel, KafkaChannel
from group_coordinator.client.clock import now_ms
from group_coordinator.client.closing import Closing
from group_coordinator.client.commits import CommitCallback, Commits
from group_coordinator.client.errors import unanswered
from group_coordinator.client.futures import wait_for
from group_coordinator.client.group_protocol import protocol_of
from group_coordinator.client.listeners import RebalanceListener, check_listener
from group_coordinator.client.states import MemberState
from group_coordinator.client.work import Unit
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES


class GroupMember(Closing):
    """One member of a group, and the only one that its `client_id` and process need to be.

    A background thread sends heartbeats and reads answers, however busy the program is; everything else
    happens in `poll`, in the caller's thread. That has to be called at least every `max_poll_interval_ms`.

    Settings, with Kafka's names and defaults, times in ms:
    `client_id`: by default made from host and process id. `client_host`: shown to people who look at the
    group; by default the host's name. `group_instance_id`: makes a static member, see below.
    `session_timeout_ms`: the coordinator expires a member that sends no heartbeat for so long.
    `heartbeat_interval_ms`: by default a third of that. `assignors`: names of kafka-python's assignors
    ("range", "roundrobin", "sticky"), the most wanted first. `kafka_config`: any settings of kafka-python's
    clients, e.g. `security_protocol`. `channel`: one of a `SharedConnection`, for programs with many members;
    or another way to the coordinator than Kafka, e.g. for tests.

    A static member (KIP-345) is for programs that are restarted, for example to be updated. It does not leave
    when it is closed. When it starts again under its `group_instance_id`, it owns what it owned before,
    without a rebalance. The name must be unique per running member. If two programs have one name, the first
    one gets a FencedInstanceIdError from `poll`, and has to stop. `session_timeout_ms` is then how long it
    may be away. Nobody gets its work until then, so nobody does it: choose a time that a restart fits into.
    As there is no rebalance, what a restart changes (the subscription; if it leads, the list of units and the
    number of partitions) takes effect with the next one.

    `group_protocol="consumer"` is Kafka's newer protocol (KIP-848). The coordinator divides the work, and
    members go on with what they keep. All members of a group have the same protocol. The listener is told
    differences alone. `server_assignor`: the coordinator's assignor ("uniform", "range") that this member
    votes for. `rebalance_timeout_ms`: the time that it has to give work up, by default
    `max_poll_interval_ms`. Session and interval are settings of the coordinator, and there are no
    `assignors`. A member gets units of its own list alone. A static member says on closing that it will be
    back. If it was killed instead, its name is taken until its session ends, and an
    UnreleasedInstanceIdError says so.

    How far the work has come can be kept in the group: `commit` says it, and `committed` tells it to the next
    owner. Units that are no partitions have offsets as well; the program decides what they count. To consume
    records, use `GroupConsumer`, which does that by itself.

    Raises ValueError, MissingTopicError or a KafkaError.
    """

    def __init__(  # noqa: PLR0913 - settings, all of them by name
        self,
        *,
        group_id: str,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = None,
        client_host: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: str = "classic",
        session_timeout_ms: int | None = None,
        heartbeat_interval_ms: int | None = None,
        max_poll_interval_ms: int = 300_000,
        rebalance_timeout_ms: int | None = None,
        assignors: Sequence[str] | None = None,
        server_assignor: str | None = None,
        request_topic: str = REQUESTS,
        response_topic: str = RESPONSES,
        channel: Channel | None = None,
        **kafka_config: Any,
    ) -> None:
        instance = secrets.token_hex(6)
        host = socket.gethostname() if client_host is None else client_host
        if client_id is None:
            client_id = f"{host}-{os.getpid()}-{instance}"
        settings = {
            "group_id": group_id,
            "client_id": client_id,
            "client_host": host,
            "group_instance_id": group_instance_id,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": heartbeat_interval_ms,
            "max_poll_interval_ms": max_poll_interval_ms,
            "rebalance_timeout_ms": rebalance_timeout_ms,
            "assignors": assignors,
            "server_assignor": server_assignor,
            "request_timeout_ms": kafka_config.get("request_timeout_ms", 30_000),
        }
        self._protocol = protocol_of(group_protocol, settings)
        self._settings = self._protocol.settings
        self._channel = channel or KafkaChannel(
            client_id=client_id,
            instance=instance,
            request_topic=request_topic,
            response_topic=response_topic,
            bootstrap_servers=bootstrap_servers,
            **kafka_config,
        )

        look_up_every_ms = kafka_config.get("metadata_max_age_ms", 300_000)
        self._driver, self._rebalance = self._protocol.parts(instance, self._channel, look_up_every_ms)
        self._commits = Commits(self._driver)
        # Held by the thread that is in `poll` or `close`, callbacks included: the rebalance is only its own.
        self._turn = threading.RLock()

    # -- what it looks like --------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[Any]:
        """The work of this member: kafka-python `TopicPartition`s, or names of units."""
        return self._rebalance.assignment

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, empty before it did. In the consumer protocol it is its own."""
        with self._driver.held() as membership:
            member_id: str = membership.member_id
        return member_id

    @property
    def generation_id(self) -> int:
        """The generation, or epoch, that `assignment` is of, -1 while there is none.

        Holds until the listener has returned from giving the work up, so that what is written there can be
        fenced by it.
        """
        return self._rebalance.generation_id

    @property
    def is_leader(self) -> bool:
        """Whether this member divides the work in its generation. In the consumer protocol none does."""
        return self._rebalance.is_leader

    @property
    def holds_assignment(self) -> bool:
        """Whether `assignment` is still this member's, as far as is known before the next `poll`."""
        return self._rebalance.may_work

    @property
    def state(self) -> MemberState:
        """The state of this member in the protocol.

        In the consumer protocol it is CompletingRebalance while the member gives up or takes over work.
        """
        with self._driver.held() as membership:
            state: MemberState = membership.state
        return state

    # -- what programs do ----------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        units: Collection[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Say what to share: the partitions of `topics`, or `units`. Takes effect at the next `poll`.

        May be called again with another list, which leads to a rebalance; not with another kind of work.
        Of `units`, the leader's list is what gets shared. `listener` replaces the earlier one.
        """
        check_listener(listener)
        if (topics is None) == (units is None):
            raise ValueError("subscribe to either topics or units")
        protocol, channel = self._protocol, self._channel
        work = protocol.topics(topics or (), channel) if units is None else protocol.units(units)
        with self._turn:
            self._check_open()
            self._rebalance.subscribe(work, listener)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Look up the partitions of a topic now; None if it does not exist. Raises a KafkaError."""
        count = self._channel.partition_counts([topic]).get(topic)
        return None if count is None else set(range(count))

    def poll(self, timeout_ms: int = 0) -> frozenset[Any]:
        """Take part in the group; return what this member owns now (see `assignment`).

        Waits up to `timeout_ms` for news, and returns as soon as there is a new assignment. Runs what a
        rebalance takes: the listener, the join, as leader the assignor, and the sync. `timeout_ms=0` does
        what is due and does not wait.

        Raises a MembershipError if the coordinator refuses this member for good. Raises
        MalformedMetadataError if another member's data cannot be read, a KafkaError, and what the listener or
        a commit's callback raises.
        """
        deadline = now_ms() + timeout_ms
        with self._turn:
            self._check_open()
            if not self._rebalance.is_subscribed:
                raise RuntimeError("subscribe to something before the first poll")
            self._driver.start()
            while (step := self._driver.poll(self._due_step, deadline)) is not None:
                before = self._rebalance.assigned_in
                step()
                if self._rebalance.assigned_in not in (None, before):
                    break
            return self._rebalance.assignment

    def commit(self, offsets: Mapping[Unit, int | OffsetAndMetadata], timeout_ms: int | None = None) -> None:
        """Commit how far units have been worked on, and wait until that is stored.

        `offsets`: unit -> the next offset to be worked on, or kafka-python's OffsetAndMetadata. Waits up to
        `timeout_ms`, by default `request_timeout_ms`. Any thread may call it, also a listener.

        Raises kafka-python's CommitFailedError if this member is not in the group any more, and
        RebalanceInProgressError while it has no assignment yet: nothing was committed.
        OffsetMetadataTooLargeError or InvalidCommitOffsetSizeError for some of the units: the others were
        committed. KafkaTimeoutError if no answer has come: the commit is in the log, and counts when the
        coordinator reads it. Or a MembershipError or KafkaError, as `poll` does.
        """
        future = self.commit_async(offsets)
        if not wait_for(future, self._or_default(timeout_ms)):
            advice = "It is in the log and counts when it is read; is the coordinator running?"
            raise unanswered(self._settings.group_id, "a commit", advice)
        _result(future)
        self._commits.run_callbacks()

    def commit_async(
        self, offsets: Mapping[Unit, int | OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> Future:
        """Commit without waiting; see `commit`. Commits are made in the order in which they are called.

        Returns a future that ends with None or an error. `callback` hears the same, not in the background
        but in a thread of the program's: the next that calls `poll`, `commit` or `close`.
        """
        return self._commits.commit(offsets, callback)

    def committed(
        self, units: Collection[Unit], timeout_ms: int | None = None
    ) -> dict[Unit, OffsetAndMetadata | None]:
        """Look up what the group has committed: unit -> OffsetAndMetadata, None if nothing was.

        Waits up to `timeout_ms`, by default `request_timeout_ms`; raises KafkaTimeoutError then. Any thread
        may call it, also a listener, and before the first `poll`.
        """
        future = self.committed_async(units, timeout_ms)
        wait_for(future)
        committed: dict[Unit, OffsetAndMetadata | None] = _result(future)
        return committed

    def committed_async(self, units: Collection[Unit], timeout_ms: int | None = None) -> Future:
        """Look up without waiting; see `committed`. Returns a future of the same."""
        return self._commits.fetch(units, now_ms() + self._or_default(timeout_ms))

    def close(self, timeout_ms: int = 5_000, *, leave: bool | None = None) -> None:
        """Give up what is owned, leave the group and disconnect, within about `timeout_ms`.

        Commits that were not waited for are waited for, and their callbacks run.

        A static member does not leave: its place is kept until its session ends. `leave` decides otherwise:
        True leaves for good, False keeps the place of any member (Kafka's CloseOptions, KIP-1092).

        Any thread may call it, any number of times, of which the first counts; a `poll` in another thread
        returns early. Raises what the listener raises, after everything is closed.
        """
        deadline = now_ms() + timeout_ms
        self._driver.begin_to_close()
        with self._turn:
            if self.state is MemberState.CLOSED:
                return
            try:
                self._rebalance.give_up()
            finally:
                self._driver.await_commits(deadline)
                self._driver.close(timeout_ms, leave=leave)
                self._commits.run_callbacks()

    # -- inside ----------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._driver.is_closing:
            raise RuntimeError("this member is closed")

    def _due_step(self, membership: Any, now: int) -> Callable[[], None] | None:
        if self._commits.has_callbacks:
            return self._commits.run_callbacks
        step: Callable[[], None] | None = self._rebalance.due_step(membership, now)
        return step

    def _or_default(self, timeout_ms: int | None) -> int:
        return self._settings.request_timeout_ms if timeout_ms is None else timeout_ms


def _result(future: Future) -> Any:
    if future.exception is not None:
        raise future.exception
    return future.value
