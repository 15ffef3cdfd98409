"""A member that tells what happens to it."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterable
from typing import Any

import click
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.errors import MembershipError
from group_coordinator.client.member import GroupMember
from group_coordinator.client.states import MemberState
from group_coordinator.client.work import MalformedMetadataError, natural
from group_coordinator.commands.command_config import config_to_connect
from group_coordinator.commands.output import put
from group_coordinator.commands.terminal import fail
from group_coordinator.jobs.printable import printable_label
from group_coordinator.jobs.signals import stop_event

_POLL_MS = 200
_SILENCE_S = 1.5
_SILENCE_AGAIN_S = 10.0
_SESSION_TIMEOUT_MS = 10_000


def join(
    units: int | None,
    topics: tuple[str, ...],
    *,
    bootstrap_servers: str,
    command_config: str | None,
    session_timeout_ms: int | None,
    assignors: tuple[str, ...],
    **settings: Any,
) -> None:
    """Join a group, and tell of it until SIGTERM or Ctrl-C. `settings`: others of `GroupMember`."""
    group, instance_id = settings["group_id"], settings["group_instance_id"]
    has_epochs = settings["group_protocol"] == "consumer"
    if session_timeout_ms is None and not has_epochs:
        session_timeout_ms = _SESSION_TIMEOUT_MS
    settings |= {"session_timeout_ms": session_timeout_ms, "assignors": assignors or None}
    joining = _make(bootstrap_servers, command_config, topics, **settings)
    stopping = stop_event(signal.SIGINT, signal.SIGTERM)
    narrator = _Narrator(joining, has_epochs=has_epochs)
    if units is not None:
        joining.subscribe(units=[f"unit-{i}" for i in range(units)], listener=narrator)
    else:
        joining.subscribe(topics, listener=narrator)
    _say(f"joining group {group}" if instance_id is None else f"joining group {group} as {instance_id}")
    try:
        while not stopping.is_set():
            joining.poll(timeout_ms=_POLL_MS)
            narrator.look()
        if instance_id is None:
            _say(f"leaving group {group}")
        elif session_timeout_ms is None:
            _say(f"stopping; {instance_id} may come back to group {group} until its session ends")
        else:
            _say(f"stopping; {instance_id} has {session_timeout_ms / 1000:g} s to come back to group {group}")
        joining.close()
    except (MembershipError, MalformedMetadataError, KafkaError) as error:
        fail(error)
    _say("left" if instance_id is None else "stopped")


def _make(
    bootstrap_servers: str, command_config: str | None, topics: Collection[str], **settings: Any
) -> GroupMember:
    """Connect a member, and see that there are topics to share; or end with one line."""
    config = config_to_connect(bootstrap_servers, command_config)
    _say(f"connecting to Kafka at {bootstrap_servers}")
    try:
        made = GroupMember(**settings, **config)
        absent = [topic for topic in topics if made.partitions_for_topic(topic) is None]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except MissingTopicError as error:
        fail(error)
    except KafkaError as error:
        fail(ConnectionError(f"cannot use Kafka at {bootstrap_servers}: {error}"))
    if absent:
        made.close()
        fail(f"there is no topic {absent[0]} at {bootstrap_servers}: create it, or share another --topic")
    return made


class _Narrator:
    """Tells what happens to a member: what it is told as a listener, and what it sees when it looks.

    `has_epochs`: the group is of the consumer protocol. Then a newer epoch alone is nothing to tell, and a
    member that gives something up goes on with the rest.
    """

    def __init__(self, watched: GroupMember, *, has_epochs: bool) -> None:
        self._member = watched
        self._has_epochs = has_epochs
        self._generation_id = -1
        self._waiting_since = self._silent_since = time.monotonic()
        self._silence_s = _SILENCE_S

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self.look()
        _say(f"assigned {_listed(assigned)}")

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        _say(f"revoked {_listed(revoked)}")
        if not self._has_epochs:
            self._begin_anew()

    def on_partitions_lost(self, lost: Collection[Any]) -> None:
        _say(f"lost {_listed(lost)}: the group went on without this member")
        self._begin_anew()

    def look(self) -> None:
        """Tell that it has joined, also in a new generation, or of a wait that has become long."""
        watched, told = self._member, self._generation_id
        generation_id = watched.generation_id
        if generation_id not in (-1, told):
            self._generation_id = generation_id
            if told == -1 or not self._has_epochs:
                _say(f"joined as {watched.member_id}, {self._place(generation_id)}")
            self._wait_anew()
        elif watched.state is not MemberState.STABLE:
            self._tell_of_waiting()

    def _place(self, generation_id: int) -> str:
        if self._has_epochs:
            return f"epoch {generation_id}"
        return f"generation {generation_id}, {'leader' if self._member.is_leader else 'follower'}"

    def _begin_anew(self) -> None:
        # The next generation may have the number of this one, e.g. if a static member comes back into it.
        self._generation_id = -1
        self._wait_anew()

    def _wait_anew(self) -> None:
        self._waiting_since = self._silent_since = time.monotonic()
        self._silence_s = _SILENCE_S

    def _tell_of_waiting(self) -> None:
        now = time.monotonic()
        if now - self._silent_since < self._silence_s:
            return
        if self._has_epochs or not self._member.member_id:
            whom = "the coordinator to answer"
        elif self._member.state is MemberState.COMPLETING_REBALANCE:
            whom = "the leader to divide the work"
        else:
            whom = "the coordinator to begin a generation"
        _say(f"waiting for {whom} ({now - self._waiting_since:.0f} s)")
        self._silent_since, self._silence_s = now, _SILENCE_AGAIN_S


def _listed(units: Iterable[Any]) -> str:
    names = [f"{u.topic}-{u.partition}" if isinstance(u, TopicPartition) else str(u) for u in units]
    return f"[{', '.join(sorted(names, key=natural))}]"


def _say(line: str) -> None:
    put(f"{time.strftime('%H:%M:%S')} {printable_label(line)}\n")
