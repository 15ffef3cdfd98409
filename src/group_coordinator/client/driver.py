"""`Driver` connects a membership, which only computes, with the world: channel, clock and threads.

    driver = Driver(membership, channel)            # one of `AnyMembership`
    driver.start()                                  # a thread sends heartbeats and reads answers
    with driver.held() as membership: ...           # look at it or change it; then its requests are sent
    driver.poll(look, deadline)                     # the program is alive, and waits for something to do
    driver.call(lambda membership: ...)             # a commit or fetch; ends its future
    driver.close(...)

This file knows nothing of what a group shares: the steps of a rebalance are in `rebalance.py`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from kafka.errors import KafkaError

from group_coordinator.client.any_membership import AnyMembership
from group_coordinator.client.channel import Channel
from group_coordinator.client.clock import now_ms
from group_coordinator.client.consumer_requests import says_only_alive
from group_coordinator.client.states import MemberState

T = TypeVar("T")
log = logging.getLogger(__name__)

# Longest wait of the background thread: how late it may notice a timer that another thread has set, or
# that it has to end.
_TICK_MS = 100


M = TypeVar("M", bound=AnyMembership)


class Driver(Generic[M]):
    """Drives one membership. Any thread may call any method.

    Outcomes of commits and fetches end kafka-python futures, which are the tokens of these calls.
    """

    def __init__(self, membership: M, channel: Channel) -> None:
        self.settings = settings = membership.settings
        self._channel = channel
        # Guards all of the rest; notified when something has changed.
        self._news = threading.Condition()
        self._membership = membership
        self._background_failure: Exception | None = None
        self._closing = False
        self._background = threading.Thread(
            target=self._run, name=f"group-member {settings.group_id} {settings.client_id}", daemon=True
        )

    @property
    def is_closing(self) -> bool:
        """Whether `begin_to_close` was called."""
        return self._closing

    @property
    def failure(self) -> Exception | None:
        """The error that has ended the membership for good, of the thread or of the coordinator."""
        return self._background_failure or self._membership.failure

    def start(self) -> None:
        """Start the background thread, unless it was started before."""
        with self._news:
            if not self._background.ident:
                self._background.start()

    @contextmanager
    def held(self) -> Iterator[M]:
        """Hold the membership; what it wants to say is sent at the end. Raises what `Channel.send` raises."""
        with self._news:
            yield self._membership
            self._send_requests()

    def poll(self, look: Callable[[M, int], T | None], deadline: int) -> T | None:
        """Say that the program is alive, and wait until `look` finds something to do.

        `look` gets the membership and the time in ms. Returns what it finds; None at `deadline`, or when
        the member is being closed.
        """
        with self._news:
            while not self._closing:
                now = now_ms()
                self._let_pass(now)
                self._membership.poll(now)
                found = look(self._membership, now)
                if found is not None or now >= deadline:
                    return found
                # A program that waits in here is not away: come back in time to say so.
                longest = self.settings.max_poll_interval_ms // 2
                self._news.wait(min(deadline - now, longest) / 1000)
        return None

    def call(self, call: Callable[[M], None]) -> None:
        """Commit or fetch. The call ends at once if no answer can come any more.

        Raises RuntimeError if the member is closed.
        """
        self.start()
        with self._news:
            if self._membership.state is MemberState.CLOSED:
                raise RuntimeError("this member is closed")
            call(self._membership)
            failure = self._background_failure
            try:
                self._send_requests()
            except KafkaError as error:
                failure = error
            if failure is not None:
                self._membership.offset_calls.end(failure)
        self._settle()

    # -- the end -------------------------------------------------------------------------------------

    def begin_to_close(self) -> None:
        """End every `poll`, in all threads."""
        with self._news:
            self._closing = True
            self._news.notify_all()

    def await_commits(self, deadline: int) -> None:
        """Wait until all commits are answered, or until `deadline`."""
        calls = self._membership.offset_calls
        with self._news:
            self._news.wait_for(lambda: not calls.awaits_commits, max(deadline - now_ms(), 0) / 1000)

    def close(self, timeout_ms: int, *, leave: bool | None) -> None:
        """Leave the group (see `Membership.close`), end the thread and disconnect."""
        try:
            with self.held() as membership:
                membership.close("the member is being closed", leave=leave)
        except KafkaError as error:
            group_id = self.settings.group_id
            log.warning("group %s: could not leave, it will notice: %s", group_id, error)
        finally:
            if self._background.ident:
                self._background.join(timeout_ms / 1000)
            self._settle()
            self._channel.close(timeout_ms)

    # -- the background thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._membership.state is not MemberState.CLOSED:
                answers = self._channel.receive(self._handle_timer())
                with self.held() as membership:
                    for answer in answers:
                        membership.receive(answer, now_ms())
                self._settle()
        except Exception as error:  # noqa: BLE001 - `GroupMember.poll` raises it, where somebody can see it
            with self._news:
                self._background_failure = error
                self._membership.offset_calls.end(error)
            self._settle()

    def _handle_timer(self) -> int:
        """Do what is due; return for how many ms nothing will be."""
        with self._news:
            now = now_ms()
            self._let_pass(now)
            timer = self._membership.next_timer()
        return _TICK_MS if timer is None else min(max(timer - now, 0), _TICK_MS)

    # -- what both kinds of threads do -----------------------------------------------------------------

    def _let_pass(self, now: int) -> None:
        """Do what is due, and say so if that is to give up on the program."""
        membership = self._membership
        was_joined = membership.state is not MemberState.UNJOINED
        membership.handle_timer(now)
        if was_joined and membership.state is MemberState.UNJOINED:
            group_id, longest = self.settings.group_id, self.settings.max_poll_interval_ms
            log.warning(
                "group %s: not polled for max_poll_interval_ms = %d, so its work is lost", group_id, longest
            )
        self._send_requests()

    def _send_requests(self) -> None:
        for request in self._membership.take_requests():
            if not says_only_alive(request):
                log.info("group %s: sends %s", self.settings.group_id, type(request).__name__)
            self._channel.send(request)

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
