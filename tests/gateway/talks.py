"""Conversations without sockets and without an event loop, and the requests that tests have them take.

talk = Talk()
talk.client(beat(1))            the client sends something
talk.gateway.asked[0]()         the gateway answers
talk.broker(response(2))        the broker sends something
talk.pass_time(3)               seconds pass
assert talk.told() == [...]     what the client was sent since the last look
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from prometheus_client import CollectorRegistry

from group_coordinator.coordinator_state import requests
from group_coordinator.gateway import codec
from group_coordinator.gateway.addresses import Address, Serving
from group_coordinator.gateway.beat_kinds import Beat, Verdict
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.conversation import Conversation
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.limits import Budget, Limits, Pending, largest, longest
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.gateway.parties import Parties, Party
from group_coordinator.gateway.security import Security
from group_coordinator.gateway.sides import Sides
from group_coordinator.gateway.turns import Turns

FETCH = 1
MOST_PENDING = 20
SHARE = MOST_PENDING // 2
"""Of one client, if no other one asks."""
MOST_UNFINISHED = 1_000
MOST_UNREAD = 2_000_000
REQUEST_RATE = 1_000
PLAIN, SASL = Security(), Security(has_sasl=True)
BEAT = HeartbeatRequest(version=0, group_id="g", generation_id=1, member_id="m")
ACCEPTED = Beat.of(
    requests.HeartbeatRequest(request_id="r", client_id="c", group_id="g", generation_id=1, member_id="m")
)


# -- frames --------------------------------------------------------------------------------------------


def fetch(correlation_id: int, body: bytes = b"") -> bytes:
    """A request that is passed on unread."""
    head = FETCH.to_bytes(2) + (12).to_bytes(2) + correlation_id.to_bytes(4)
    return (len(head) + len(body)).to_bytes(4) + head + body


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4) + correlation_id.to_bytes(4) + body


def beat(correlation_id: int) -> bytes:
    return codec.encode_request(BEAT, correlation_id, "c")


def leave(correlation_id: int, members: int) -> bytes:
    member = LeaveGroupRequest.MemberIdentity(member_id="m")
    message = LeaveGroupRequest(version=3, group_id="g", members=[member] * members)
    return codec.encode_request(message, correlation_id, "c")


def handshake(correlation_id: int) -> bytes:
    message = SaslHandshakeRequest(version=1, mechanism="PLAIN")
    return codec.encode_request(message, correlation_id, "c")


def accepted(correlation_id: int) -> bytes:
    return codec.encode_response(
        SaslHandshakeResponse(version=1, error_code=0, mechanisms=[]), correlation_id
    )


def authenticate(correlation_id: int, name: bytes = b"alice") -> bytes:
    message = SaslAuthenticateRequest(version=2, auth_bytes=b"\0%b\0secret" % name)
    return codec.encode_request(message, correlation_id, "c")


def authenticated(correlation_id: int, lifetime_ms: int = 0, error_code: int = 0) -> bytes:
    message = SaslAuthenticateResponse(
        version=2, error_code=error_code, auth_bytes=b"", session_lifetime_ms=lifetime_ms
    )
    return codec.encode_response(message, correlation_id)


ALIVE = codec.encode_response(MetadataResponse(version=1, brokers=[], controller_id=1, topics=[]), 0)
"""The broker's answer to the gateway's own question."""
GRANTED = codec.encode_response(HeartbeatResponse(version=0, error_code=25), 0)
"""The broker's answer to the question for a right of a member."""


def asks_for_life(frame: bytes) -> bool:
    """Whether a request to the broker is the gateway's own question."""
    return frame[4:8] == bytes.fromhex("00030001")


def number(frame: bytes) -> int:
    """The correlation id of a response."""
    return int.from_bytes(frame[4:8])


def cut(data: bytes) -> list[bytes]:
    """The frames in what was sent, the last of which may be a part."""
    frames = []
    while data:
        end = 4 + int.from_bytes(data[:4])
        frames.append(data[:end])
        data = data[end:]
    return frames


# -- the gateway ---------------------------------------------------------------------------------------


class ScriptedGateway:
    """What a conversation needs. Its answers come when a test says so."""

    def __init__(
        self, soon: Callable[[Callable[[], None]], Any], clock: Callable[[], float], patterns: str = ""
    ) -> None:
        self.sides = Sides(patterns)
        self.metrics = GatewayMetrics(CollectorRegistry(), self.sides.offer)
        self.asked: list[Callable[[], None]] = []
        """Local requests; call one to answer it."""
        self.owed: list[int] = []
        """How many answers the first client waited for at each of them."""
        self.accepts = False
        """Whether heartbeats can be read by the coordinator."""
        self.matched: list[tuple[str, Callable[[Any], None]]] = []
        """Patterns of members; call the second to tell what one matches."""
        self.asked_again: list[Callable[[Verdict], None]] = []
        """Heartbeats that came again; call one with its error code."""
        self.clients: list[Client] = []
        self.held_up_for: list[Client] = []
        self.reasons: list[str] = []
        self.told: list[str] = []
        """Requests that were refused, and why connections were closed."""
        self.conversations: list[Conversation] = []
        self.connections_to_brokers: list[tuple[int, bool]] = []
        self.stopped: list[Conversation] = []
        self.pending = Pending(MOST_PENDING, 1_000_000, self.stopped.append)
        self.turns = Turns(soon, clock)
        self.hosts = Parties(0, REQUEST_RATE)
        self.users = Parties(0, REQUEST_RATE)
        self.unfinished: Budget[Conversation] = Budget("unfinished requests", "", MOST_UNFINISHED, longest)
        self.unread: Budget[Conversation] = Budget("unread responses", "", MOST_UNREAD, largest)

    def answer(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        self.clients.append(client)
        self.owed.append(len(self.conversations[0]._slots))
        if self.accepts:
            client.accepted = ACCEPTED
        is_leave = request.head.api_key == LeaveGroupResponse.API_KEY
        kind, version = (LeaveGroupResponse, 3) if is_leave else (HeartbeatResponse, 0)
        self.asked.append(lambda: reply(kind(version=version, throttle_time_ms=0, error_code=0)))

    def match(self, pattern: str, then: Callable[[Any], None]) -> None:
        self.matched.append((pattern, then))

    def beat_again(self, beat: Beat, answer: Callable[[Verdict], None]) -> None:
        assert beat is ACCEPTED
        self.asked_again.append(answer)

    @property
    def largest_frame(self) -> int:
        return Limits.whole_frame

    def held_up(self, client: Client) -> None:
        self.held_up_for.append(client)

    def entered(self, conversation: Conversation) -> Party | None:
        return self.hosts.enter(conversation.client.host, conversation, 0)

    def logged_in(self, conversation: Conversation, name: str | None) -> Party | None:
        conversation.client.principal = name
        return None if name is None else self.users.enter(name, conversation, 0)

    def refused(self, client: Client, api: str) -> None:
        self.told.append(f"{api} of {client.host}")

    def failed(self, client: Client, reason: str) -> None:
        self.metrics.frame_errors.inc()
        self.told.append(f"{client.host}: {reason}")

    def address_of(self, node_id: int, own: Address) -> Address | None:
        raise AssertionError(node_id, own)

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        self.connections_to_brokers.append((node_id, is_connected))

    def closed(self, conversation: Conversation, reason: str) -> None:
        self.unread.ends(conversation)
        self.reasons.append(reason)


# -- the connections -----------------------------------------------------------------------------------


class Loop:
    """Time, and what is to be done soon or later."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.each_look_s = 0.0
        """Seconds that pass before the clock is looked at, for work that takes time."""
        self._soon: deque[Callable[[], None]] = deque()
        self._later: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        self.now_s += self.each_look_s
        return self.now_s

    def soon(self, go: Callable[[], None]) -> None:
        self._soon.append(go)

    def later(self, seconds: float, go: Callable[[], None]) -> None:
        self._later.append((self.now_s + seconds, go))

    def run(self) -> None:
        """Do what is to be done now."""
        while self._soon:
            self._soon.popleft()()

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [each for each in self._later if each[0] <= self.now_s]
        self._later = [each for each in self._later if each[0] > self.now_s]
        for _, go in due:
            go()
        self.run()


class Wires:
    """The connections of a client and its broker: they keep what is sent, and tell how they have ended."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.conversation: Conversation
        self.to_client, self.to_broker = bytearray(), bytearray()
        self.is_read = self.broker_is_read = True
        self.client_unsent = self.broker_unsent = 0
        self.client_has_gone = False
        """Whether the next bytes to the client show that it has gone."""
        self.ended = ""
        self.connects_at_once = True
        self.asked_to_serve: list[Serving] = []

    def send(self, data: bytes | memoryview) -> None:
        self.to_client += data
        if self.client_has_gone:
            self.abort()

    def unsent(self) -> int:
        return self.client_unsent

    def read(self, *, is_reading: bool) -> None:
        assert is_reading is not self.is_read
        self.is_read = is_reading

    def is_closing(self) -> bool:
        return bool(self.ended)

    def has_hung_up(self) -> bool:
        return self.client_has_gone

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if not self.ended:
            self._loop.soon(self.conversation.ended)
        self.ended = self.ended or how

    def connect_broker(self, serving: Serving) -> None:
        self.asked_to_serve.append(serving)
        self.broker_is_read = True
        if self.connects_at_once:
            self._loop.soon(lambda: self.conversation.broker_connected(serving[0][0], is_connected=True))

    def send_to_broker(self, data: bytes | memoryview) -> None:
        assert self.asked_to_serve
        self.to_broker += data

    def unsent_to_broker(self) -> int:
        return self.broker_unsent

    def read_broker(self, *, is_reading: bool) -> None:
        assert is_reading is not self.broker_is_read
        self.broker_is_read = is_reading

    def soon(self, go: Callable[[], None]) -> None:
        self._loop.soon(go)

    def later(self, seconds: float, go: Callable[[], None]) -> None:
        self._loop.later(seconds, go)


class Talk:
    """A client of a gateway, and its broker. `beside`: another client of the same gateway."""

    def __init__(
        self, security: Security = PLAIN, beside: Talk | None = None, groups_at_brokers: str = ""
    ) -> None:
        self.loop = Loop() if beside is None else beside.loop
        self.gateway = (
            ScriptedGateway(self.loop.soon, self.loop.clock, groups_at_brokers)
            if beside is None
            else beside.gateway
        )
        self.wires = Wires(self.loop)
        self.serving: Serving = [(1, ("broker", 9092))]
        self.conversation = Conversation(
            self.wires, self.gateway, security, 1, lambda: self.serving, self.loop.now_s
        )
        self.wires.conversation = self.conversation
        self.gateway.conversations.append(self.conversation)
        self.conversation.begins("10.0.0.7")

    def client(self, data: bytes) -> None:
        """Let the client send this, and do what is to be done then."""
        self.conversation.receive(data, self.loop.now_s)
        self.loop.run()

    def broker(self, data: bytes) -> None:
        """Let the broker send this. The memory that it comes in is used again."""
        memory = bytearray(data)
        self.conversation.receive_from_broker(memoryview(memory), self.loop.now_s)
        memory[:] = b"?" * len(memory)
        self.loop.run()

    def lose_broker(self) -> None:
        self.conversation.broker_lost("it has gone")
        self.loop.run()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the gateway look for what is over."""
        self.loop.pass_time(seconds)
        self.conversation.expire(self.loop.now_s)
        self.loop.run()

    def answer(self, which: int = 0) -> None:
        """Let the gateway answer a local request."""
        self.gateway.asked[which]()
        self.loop.run()

    def answer_again(self, which: int = 0, error_code: int = 0) -> None:
        """Let the gateway answer a heartbeat that came again."""
        self.gateway.asked_again[which](Verdict(error_code))
        self.loop.run()

    def told(self) -> list[bytes]:
        """What the client was sent since the last look."""
        frames = cut(bytes(self.wires.to_client))
        self.wires.to_client.clear()
        return frames

    def numbers(self) -> list[int]:
        """The same by correlation ids."""
        return [number(each) for each in self.told()]

    def passed(self) -> list[bytes]:
        """What the broker was sent since the last look."""
        frames = cut(bytes(self.wires.to_broker))
        self.wires.to_broker.clear()
        return frames

    def log_in(self, lifetime_ms: int = 0) -> None:
        """Log the client in, and have it send a heartbeat, which is asked for then."""
        self.client(authenticate(1) + beat(2))
        self.broker(authenticated(1, lifetime_ms))
        self.broker(ALIVE)
        assert len(self.gateway.asked) == 1
        self.passed()
