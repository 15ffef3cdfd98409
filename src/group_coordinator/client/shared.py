"""One way to the coordinator and back for all members of a program, and one heartbeat for those of a group.

    members ── requests ──► SharedConnection ── one heartbeat for each group ──► coordinator
            ◄── answers ──                   ◄── one answer, with an error for each ──

A member notices nothing of it: what it gets is the answer to its own heartbeat.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from group_coordinator.client.any_membership import AnyAnswer
from group_coordinator.client.channel import Channel, KafkaChannel
from group_coordinator.client.clock import now_ms
from group_coordinator.client.closing import Closing
from group_coordinator.client.consumer_requests import says_only_alive
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    TopicFacts,
)
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse, HeartbeatResponse
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES

# Longest wait of the thread: how late it may notice that something has begun to linger.
_TICK_MS = 100
# So many fit into what the coordinator takes as one request, even with long ids.
_MOST_TOGETHER = 1_000
# Heartbeats whose answer may still come. Most never do, because heartbeats are quiet.
_MOST_AWAITED = 1_000
_AWAITED_MS = 60_000


class _ManyChannel(Channel, Protocol):
    """A channel for several client ids."""

    def listen_to(self, client_id: str) -> None:
        """Have `receive` also return answers to this client."""


_AnyHeartbeat = HeartbeatRequest | ConsumerGroupHeartbeatRequest


class _Beat(NamedTuple):
    """A heartbeat that is on its way, alone or with others, and whose it is."""

    member: _MemberChannel
    request: _AnyHeartbeat


class _Together(NamedTuple):
    """The heartbeats that one request was made of, and when."""

    sent_at: int
    beats: list[_Beat]
    request: _AnyHeartbeat


class SharedConnection(Closing):
    """One connection to Kafka for several members of a program, which send their heartbeats together.

        with SharedConnection(bootstrap_servers="localhost:9092") as connection:
            member = GroupMember(group_id="orders", channel=connection.channel())

    `heartbeat_linger_ms`: how long a heartbeat waits for those of other members of its group, which are then
    sent as one request. Choose it well below the members' `heartbeat_interval_ms`; 0: not at all. Other
    settings: as GroupMember's; the members need none of Kafka's any more. Close it after its members.

    Raises MissingTopicError, ValueError for a setting that kafka-python does not have, or a KafkaError.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = None,
        heartbeat_linger_ms: int = 100,
        request_topic: str = REQUESTS,
        response_topic: str = RESPONSES,
        channel: _ManyChannel | None = None,
        **kafka_config: Any,
    ) -> None:
        instance = secrets.token_hex(6)
        self._client_host = socket.gethostname()
        self._client_id = client_id or f"{self._client_host}-{os.getpid()}-{instance}"
        self._request_prefix = f"{self._client_id}-{instance}-"
        self._request_count = 0
        self._linger_ms = heartbeat_linger_ms
        self._kafka: _ManyChannel = channel or KafkaChannel(
            client_id=self._client_id,
            # Members have instances of their own.
            instance="",
            request_topic=request_topic,
            response_topic=response_topic,
            bootstrap_servers=bootstrap_servers,
            **kafka_config,
        )
        self._kafka.listen_to(self._client_id)

        # Guards all that follows; what is sent under it is in the order in which members have sent it.
        self._lock = threading.Lock()
        self._members: dict[str, _MemberChannel] = {}
        """By what their request ids begin with."""
        self._lingering: dict[str, list[_Beat]] = {}
        """Heartbeats that wait for others, by group."""
        self._flush_at: dict[str, int] = {}
        self._awaited: dict[str, _Together] = {}
        """Of which heartbeats a request is made, by its id; the oldest first."""
        self._failure: Exception | None = None
        self._closed = False
        self._look_ups = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"members of {self._client_id}", daemon=True)
        self._thread.start()

    def channel(self) -> Channel:
        """Make the way for one more member: its `channel`."""
        return _MemberChannel(self)

    def close(self, timeout_ms: int = 5_000) -> None:
        """Send what is still to be sent, and disconnect."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._flush(list(self._lingering))
        self._thread.join(timeout_ms / 1000)
        self._kafka.close(timeout_ms)

    # -- what its members' channels do -----------------------------------------------------------------

    @property
    def reply_partition(self) -> int:
        """The partition of the answers to all of them."""
        return self._kafka.reply_partition

    def send(self, member: _MemberChannel, request: AnyRequest) -> None:
        """Send, a heartbeat perhaps a little later. Raises what has made an earlier request fail."""
        with self._lock:
            self.check()
            prefix = request.request_id.rpartition("-")[0]
            if prefix not in self._members:
                self._members[prefix] = member
                self._kafka.listen_to(request.client_id)
            may_linger = self._linger_ms > 0 and not self._closed
            if may_linger and isinstance(request, _AnyHeartbeat) and says_only_alive(request):
                beats = self._lingering.setdefault(request.group_id, [])
                beats.append(_Beat(member, request))
                self._flush_at.setdefault(request.group_id, now_ms() + self._linger_ms)
                if len(beats) >= _MOST_TOGETHER:
                    self._flush([request.group_id])
            else:
                # Behind what was sent before: a heartbeat after a leave would be of nobody's.
                self._flush([request.group_id])
                self._kafka.send(request)

    def check(self) -> None:
        """Raise what has ended the thread."""
        if self._failure is not None:
            raise self._failure

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Look up topics, for one member after the other."""
        with self._look_ups:
            return self._kafka.partition_counts(topics)

    def topic_facts(self, topics: Collection[str]) -> Mapping[str, TopicFacts]:
        """Look up topics with their ids, for one member after the other."""
        with self._look_ups:
            return self._kafka.topic_facts(topics)

    def forget(self, member: _MemberChannel) -> None:
        """`member` is closed: its answers go nowhere."""
        with self._lock:
            self._members = {prefix: each for prefix, each in self._members.items() if each is not member}

    # -- heartbeats ------------------------------------------------------------------------------------

    def _flush(self, group_ids: Collection[str]) -> None:
        for group_id in group_ids:
            lingering = self._lingering.pop(group_id, [])
            self._flush_at.pop(group_id, None)
            for kind in (HeartbeatRequest, ConsumerGroupHeartbeatRequest):
                beats = [each for each in lingering if isinstance(each.request, kind)]
                if len(beats) == 1:
                    self._kafka.send(beats[0].request)
                elif beats:
                    self._kafka.send(self._together(group_id, beats))

    def _together(self, group_id: str, beats: list[_Beat]) -> _AnyHeartbeat:
        self._request_count += 1
        request_id = f"{self._request_prefix}{self._request_count}"
        request = type(beats[0].request)(
            members=[each for beat in beats for each in _members(beat.request)],
            request_id=request_id,
            client_id=self._client_id,
            client_host=self._client_host,
            reply_partition=self.reply_partition,
            group_id=group_id,
            quiet=True if all(beat.request.quiet is True for beat in beats) else msgspec.UNSET,
        )
        self._awaited[request_id] = _Together(now_ms(), beats, request)
        self._forget_the_oldest()
        return request

    def _forget_the_oldest(self) -> None:
        """Wait no longer for answers to old heartbeats: their members go by the answers to newer ones."""
        while True:
            oldest = next(iter(self._awaited))
            is_old = self._awaited[oldest].sent_at < now_ms() - _AWAITED_MS
            if not is_old and len(self._awaited) <= _MOST_AWAITED:
                return
            del self._awaited[oldest]

    def _apart(self, answer: AnyAnswer, beats: list[_Beat]) -> list[tuple[_MemberChannel, AnyAnswer]]:
        """The answer that each of the heartbeats would have got."""
        if isinstance(answer, HeartbeatResponse) and answer.members:
            errors = [Errors.for_code(each.error_code) for each in answer.members]
            return [
                (member, HeartbeatResponse.to(request.reply_to, request.group_id, error))
                for (member, request), error in zip(beats, errors, strict=True)
            ]
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code == Errors.NONE:
            news = {each.member_id: each for each in answer.members or ()}
            named = [[it.member_id for it in _members(request)] for _, request in beats]
            own = [[news[it] for it in ids if it in news] for ids in named]
            return [
                (member, _addressed(answer, request, members=its))
                for (member, request), its in zip(beats, own, strict=True)
            ]
        # An error of the whole request.
        return [(member, _addressed(answer, request)) for member, request in beats]

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed:
                with self._lock:
                    now = now_ms()
                    self._flush([group_id for group_id, at in self._flush_at.items() if at <= now])
                    wait_ms = min([_TICK_MS, *(at - now for at in self._flush_at.values())])
                for answer in self._kafka.receive(wait_ms):
                    self._deliver(answer)
        except Exception as error:  # noqa: BLE001 - each member raises it, where somebody can see it
            with self._lock:
                self._failure = error
                members = set(self._members.values())
            for member in members:
                member.wake()

    def _deliver(self, answer: AnyAnswer) -> None:
        with self._lock:
            together = self._awaited.get(answer.request_id)
            if together is not None:
                if not fits(together.request, answer):
                    return
                del self._awaited[answer.request_id]
            member = self._members.get(answer.request_id.rpartition("-")[0])
        if together is not None:
            for each, own in self._apart(answer, together.beats):
                each.put(own)
        elif member is not None:
            member.put(answer)


def _members(request: _AnyHeartbeat) -> Sequence[Any]:
    """What a heartbeat says of its members."""
    return request.beats if isinstance(request, HeartbeatRequest) else request.members or ()


def _addressed(answer: AnyAnswer, request: _AnyHeartbeat, **fields: Any) -> AnyAnswer:
    """An answer as if it were to `request`."""
    return msgspec.structs.replace(
        answer, request_id=request.request_id, client_id=request.client_id, **fields
    )


class _MemberChannel:
    """What one member has of a connection; see `Channel`."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection
        self._arrived = threading.Condition()
        self._answers: list[AnyAnswer] = []
        self._woken = False

    @property
    def reply_partition(self) -> int:
        return self._connection.reply_partition

    def send(self, request: AnyRequest) -> None:
        self._connection.send(self, request)

    def receive(self, timeout_ms: int) -> list[AnyAnswer]:
        with self._arrived:
            self._arrived.wait_for(lambda: self._answers or self._woken, timeout_ms / 1000)
            answers, self._answers = self._answers, []
        self._connection.check()
        return answers

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        return self._connection.partition_counts(topics)

    def topic_facts(self, topics: Collection[str]) -> Mapping[str, TopicFacts]:
        return self._connection.topic_facts(topics)

    def close(self, timeout_ms: int) -> None:  # noqa: ARG002 - the connection waits when it is closed
        self._connection.forget(self)

    def put(self, answer: AnyAnswer) -> None:
        """Hand over an answer to this member."""
        with self._arrived:
            self._answers.append(answer)
            self._arrived.notify_all()

    def wake(self) -> None:
        """Have `receive` return at once, from now on."""
        with self._arrived:
            self._woken = True
            self._arrived.notify_all()
