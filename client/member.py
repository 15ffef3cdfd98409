"""`GroupMember`: membership in a group, for programs."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata

from group_coordinator.client.assignors import check_names
from group_coordinator.client.channel import Channel, KafkaChannel
from group_coordinator.client.closing import Closing
from group_coordinator.client.errors import unanswered
from group_coordinator.client.futures import wait_for
from group_coordinator.client.listeners import RebalanceListener, check_listener, tell_lost
from group_coordinator.client.membership import Generation, MemberSettings, Membership
from group_coordinator.client.offsets import Offsets, checked_offsets, checked_units
from group_coordinator.client.states import MemberState
from group_coordinator.client.work import DEFAULT_ASSIGNORS, TopicPartitions, Unit, Work, WorkUnits
from group_coordinator.coordinator_state.requests import HeartbeatRequest

__all__ = ["CommitCallback", "GroupMember"]

log = logging.getLogger(__name__)

# Longest wait of the background thread: how late it may notice a timer that another thread has set, or
# that it is to end.
_TICK_MS = 100


CommitCallback = Callable[[Offsets, Exception | None], object]
"""A function that is called at the end of a commit, with its offsets, and None or the error."""


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
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int | None = None,
        max_poll_interval_ms: int = 300_000,
        assignors: Sequence[str] = DEFAULT_ASSIGNORS,
        request_topic: str = "coordinator.requests",
        response_topic: str = "coordinator.responses",
        channel: Channel | None = None,
        **kafka_config: Any,
    ) -> None:
        instance = secrets.token_hex(6)
        host = socket.gethostname() if client_host is None else client_host
        if client_id is None:
            client_id = f"{host}-{os.getpid()}-{instance}"
        settings = MemberSettings(
            group_id=group_id,
            client_id=client_id,
            client_host=host,
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            request_timeout_ms=kafka_config.get("request_timeout_ms", 30_000),
        )
        self._group_id = group_id
        self._assignors = check_names(assignors)
        self._metadata_max_age_ms: int = kafka_config.get("metadata_max_age_ms", 300_000)
        self._channel = channel or KafkaChannel(
            client_id=client_id,
            instance=instance,
            request_topic=request_topic,
            response_topic=response_topic,
            bootstrap_servers=bootstrap_servers,
            **kafka_config,
        )

        # Guards the membership and what the threads tell each other; notified when something has changed.
        self._news = threading.Condition()
        self._membership = Membership(settings, instance, self._channel.reply_partition)
        self._background_failure: Exception | None = None
        self._closing = False
        self._background = threading.Thread(
            target=self._run, name=f"group-member {group_id} {client_id}", daemon=True
        )

        # Commits that have ended, and whose callbacks a thread of the user's has still to run.
        self._ended_commits: deque[Callable[[], object]] = deque()

        # Held by the thread that is in `poll` or `close`, callbacks included. What follows is only its own.
        self._turn = threading.RLock()
        self._work: Work | None = None
        self._listener: RebalanceListener | None = None
        self._assignment: frozenset[Any] = frozenset()
        self._assignment_generation_id = -1
        self._assigned_in: Generation | None = None
        # The last assignment there was, for assignors that leave work where it is.
        self._last_owned: frozenset[Any] = frozenset()
        self._last_generation_id = -1
        # The leader looks up how many partitions there are to share.
        self._look_up_due = 0
        self._no_look_up_before = 0

    # -- what it looks like --------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[Any]:
        """The work of this member: kafka-python `TopicPartition`s, or names of units."""
        return self._assignment

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave, empty before it did."""
        with self._news:
            return self._membership.member_id

    @property
    def generation_id(self) -> int:
        """The generation that `assignment` is of, -1 while there is none.

        Holds until the listener has returned from giving the work up, so that what is written there can be
        fenced by it.
        """
        return self._assignment_generation_id

    @property
    def is_leader(self) -> bool:
        """Whether this member divides the work in its generation."""
        with self._news:
            generation = self._membership.generation
            return generation is not None and generation.is_leader

    @property
    def state(self) -> MemberState:
        """Where in the protocol this member is."""
        with self._news:
            return self._membership.state

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
        work: Work
        if units is not None:
            work = WorkUnits(units, self._assignors)
        else:
            work = TopicPartitions(topics or (), self._channel.partition_counts, self._assignors)
        with self._turn, self._news:
            self._check_open()
            if self._work is not None and self._work.protocol_type != work.protocol_type:
                raise ValueError("a member cannot change between topics and units: close it and make another")
            self._listener = listener
            if self._work is None or self._work.subscription != work.subscription:
                self._work = work
                self._membership.request_rejoin("the subscription has changed")

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
        deadline = _now_ms() + timeout_ms
        with self._turn:
            self._check_open()
            if self._work is None:
                raise RuntimeError("subscribe to something before the first poll")
            self._start()
            while (step := self._next_step(deadline)) is not None:
                before = self._assigned_in
                step(self._work)
                if self._assigned_in is not before and self._assigned_in is not None:
                    break
            return self._assignment

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
            raise unanswered(self._group_id, "a commit", advice)
        _result(future)
        self._run_callbacks()

    def commit_async(
        self, offsets: Mapping[Unit, int | OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> Future:
        """Commit without waiting; see `commit`. Commits are made in the order in which they are called.

        Returns a future that ends with None or an error. `callback` hears the same, not in the background
        but in a thread of the program's: the next that calls `poll`, `commit` or `close`.
        """
        checked = checked_offsets(offsets)
        future = Future()
        if callback is not None:
            future.add_both(lambda _: self._ended_commits.append(lambda: callback(checked, future.exception)))
        if checked:
            self._call(lambda: self._membership.commit(checked, future))
        else:
            future.success(None)
        return future

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
        wanted = checked_units(units)
        ends_at = _now_ms() + self._or_default(timeout_ms)
        future = Future()
        if wanted:
            self._call(lambda: self._membership.offset_calls.fetch(wanted, future, ends_at))
        else:
            future.success({})
        return future

    def close(self, timeout_ms: int = 5_000, *, leave: bool | None = None) -> None:
        """Give up what is owned, leave the group and disconnect, within about `timeout_ms`.

        Commits that were not waited for are waited for, and their callbacks run.

        A static member does not leave: its place is kept until its session ends. `leave` decides otherwise:
        True leaves for good, False keeps the place of any member (Kafka's CloseOptions, KIP-1092).

        Any thread may call it, any number of times, of which the first counts; a `poll` in another thread
        returns early. Raises what the listener raises, after everything is closed.
        """
        deadline = _now_ms() + timeout_ms
        with self._news:
            self._closing = True
            self._news.notify_all()
        with self._turn:
            if self.state is MemberState.CLOSED:
                return
            try:
                self._give_up()
            finally:
                self._await_commits(deadline)
                self._disconnect(timeout_ms, leave=leave)
                self._run_callbacks()

    # -- the steps of a rebalance, in the caller's thread ----------------------------------------------

    def _next_step(self, deadline: int) -> Callable[[Work], None] | None:
        """Wait until there is something to do, or `deadline`."""
        with self._news:
            while not self._closing:
                now = _now_ms()
                self._let_pass(now)
                self._membership.poll(now)
                step = self._due_step(now)
                if step is not None or now >= deadline:
                    return step
                # Who waits in here is not away: come back in time to say so.
                longest = self._membership.settings.max_poll_interval_ms // 2
                self._news.wait(min(deadline - now, longest) / 1000)
        return None

    def _due_step(self, now_ms: int) -> Callable[[Work], None] | None:
        membership, assigned_in = self._membership, self._assigned_in
        failed = self._background_failure is not None or membership.failure is not None
        is_new = membership.assignment is not None and membership.generation is not assigned_in
        may_look_up = now_ms >= self._no_look_up_before
        must_lead = membership.leadership is not None
        must_look = assigned_in is not None and assigned_in.is_leader and now_ms >= self._look_up_due
        steps = (
            (bool(self._ended_commits), lambda _work: self._run_callbacks()),
            (failed, self._fail),
            (membership.needs_join, self._rejoin),
            (may_look_up and must_lead, self._lead),
            (is_new, self._take_over),
            (may_look_up and must_look, self._look_for_changes),
        )
        return next((step for is_due, step in steps if is_due), None)

    def _rejoin(self, work: Work) -> None:
        # Everything is given up before the join goes out: that is what makes it safe for the leader to
        # give it to others (the eager protocol).
        self._give_up()
        protocols = work.protocols(self._last_owned, self._last_generation_id)
        with self._news:
            if self._membership.needs_join:
                self._membership.join(work.protocol_type, protocols, _now_ms())
                self._send_requests()

    def _lead(self, work: Work) -> None:
        with self._news:
            generation, members = self._membership.generation, self._membership.leadership
        if generation is None or members is None:
            return
        try:
            assignments = work.assign(generation.protocol_name, members)
        except KafkaError as error:
            self._retry_look_up(error)
            return
        self._look_up_due = _now_ms() + self._metadata_max_age_ms
        with self._news:
            self._membership.assign(generation, assignments, _now_ms())
            self._send_requests()

    def _take_over(self, work: Work) -> None:
        with self._news:
            generation, assignment = self._membership.generation, self._membership.assignment
        if generation is None or assignment is None:
            return
        if generation.watched:
            work.watch(generation.watched)
        self._assignment = self._last_owned = frozenset(work.decode(assignment))
        self._assigned_in = generation
        self._assignment_generation_id = self._last_generation_id = generation.generation_id
        count, number = len(self._assignment), generation.generation_id
        log.info("group %s: owns %d in generation %d", self._group_id, count, number)
        if self._listener is not None:
            self._listener.on_partitions_assigned(self._assignment)

    def _give_up(self) -> None:
        """Tell the listener, if it was told of an assignment before: revoked, or lost already."""
        assigned_in, self._assigned_in = self._assigned_in, None
        if assigned_in is None:
            return
        with self._news:
            lost = self._membership.generation is not assigned_in or self._background_failure is not None
        try:
            if self._listener is not None:
                if lost:
                    tell_lost(self._listener, self._assignment)
                else:
                    self._listener.on_partitions_revoked(self._assignment)
        finally:
            # Only now: the listener may look at it to save what has to be saved.
            self._assignment = frozenset()
            self._assignment_generation_id = -1

    def _look_for_changes(self, work: Work) -> None:
        try:
            outdated = work.outdated()
        except KafkaError as error:
            self._retry_look_up(error)
            return
        self._look_up_due = _now_ms() + self._metadata_max_age_ms
        if outdated:
            with self._news:
                self._membership.request_rejoin("the number of partitions has changed")

    def _retry_look_up(self, error: KafkaError) -> None:
        if not error.retriable:
            raise error
        log.warning("group %s: cannot look up partitions, trying again: %s", self._group_id, error)
        self._no_look_up_before = _now_ms() + self._membership.settings.retry_backoff_ms

    def _fail(self, _work: Work) -> None:
        self._give_up()
        failure = self._background_failure or self._membership.failure
        if failure is not None:
            raise failure

    # -- commits and fetches -------------------------------------------------------------------------

    def _call(self, call: Callable[[], None]) -> None:
        self._start()
        with self._news:
            if self._membership.state is MemberState.CLOSED:
                raise RuntimeError("this member is closed")
            call()
            failure = self._background_failure
            try:
                self._send_requests()
            except KafkaError as error:
                failure = error
            if failure is not None:
                self._membership.offset_calls.end(failure)
        self._settle()

    def _settle(self) -> None:
        """End the futures of calls that have ended."""
        with self._news:
            outcomes = self._membership.offset_calls.take_outcomes()
        # Without the lock: what a program has added to a future runs in here.
        for outcome in outcomes:
            if outcome.error is None:
                outcome.token.success(outcome.offsets)
            else:
                outcome.token.failure(outcome.error)
        with self._news:
            self._news.notify_all()

    def _run_callbacks(self) -> None:
        while True:
            try:
                callback = self._ended_commits.popleft()
            except IndexError:  # not asked before: several threads may be in here
                return
            callback()

    def _or_default(self, timeout_ms: int | None) -> int:
        return self._membership.settings.request_timeout_ms if timeout_ms is None else timeout_ms

    # -- the background thread -----------------------------------------------------------------------

    def _start(self) -> None:
        with self._news:
            if not self._background.ident:
                self._background.start()

    def _run(self) -> None:
        try:
            while self._membership.state is not MemberState.CLOSED:
                answers = self._channel.receive(self._handle_timer())
                with self._news:
                    for answer in answers:
                        self._membership.receive(answer, _now_ms())
                    self._send_requests()
                self._settle()
        except Exception as error:  # noqa: BLE001 - it is raised again by `poll`, where somebody can see it
            with self._news:
                self._background_failure = error
                self._membership.offset_calls.end(error)
            self._settle()

    def _handle_timer(self) -> int:
        """Do what is due; return for how many ms nothing will be."""
        with self._news:
            now = _now_ms()
            self._let_pass(now)
            timer = self._membership.next_timer()
        return _TICK_MS if timer is None else min(max(timer - now, 0), _TICK_MS)

    def _let_pass(self, now_ms: int) -> None:
        """Do what is due at `now_ms`, and say so if that is to give up on the user."""
        membership = self._membership
        was_joined = membership.state is not MemberState.UNJOINED
        membership.handle_timer(now_ms)
        if was_joined and membership.state is MemberState.UNJOINED:
            longest = membership.settings.max_poll_interval_ms
            log.warning(
                "group %s: not polled for max_poll_interval_ms = %d, so its work is lost",
                self._group_id,
                longest,
            )
        self._send_requests()

    def _send_requests(self) -> None:
        for request in self._membership.take_requests():
            if not isinstance(request, HeartbeatRequest):
                log.info("group %s: sends %s", self._group_id, type(request).__name__)
            self._channel.send(request)

    # -- the end -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closing:
            raise RuntimeError("this member is closed")

    def _await_commits(self, deadline: int) -> None:
        calls = self._membership.offset_calls
        with self._news:
            self._news.wait_for(lambda: not calls.awaits_commits, max(deadline - _now_ms(), 0) / 1000)

    def _disconnect(self, timeout_ms: int, *, leave: bool | None) -> None:
        try:
            with self._news:
                self._membership.close("the member is being closed", leave=leave)
                self._send_requests()
        except KafkaError as error:
            log.warning("group %s: could not leave, it will notice: %s", self._group_id, error)
        finally:
            if self._background.ident:
                self._background.join(timeout_ms / 1000)
            self._settle()
            self._channel.close(timeout_ms)


def _result(future: Future) -> Any:
    if future.exception is not None:
        raise future.exception
    return future.value


def _now_ms() -> int:
    # Never goes back, unlike the time of day: all that is measured here are distances.
    return time.monotonic_ns() // 1_000_000
