"""The needs of a conversation: the connections that carry it, and the gateway that it is a part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.addresses import Address, Serving
    from group_coordinator.gateway.beat_kinds import Beat
    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.conversation import Conversation
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.limits import Budget, Pending
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.parties import Party
    from group_coordinator.gateway.sides import Sides
    from group_coordinator.gateway.turns import Turns
    from group_coordinator.jobs.topic_patterns import Matched


class Effects(Protocol):
    """The connections to a client and to its broker: all that a conversation does outside of itself."""

    def send(self, data: bytes | memoryview, /) -> None:
        """Send something to the client."""

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""

    def read(self, *, is_reading: bool) -> None:
        """Read from the client, or let it wait."""

    def is_closing(self) -> bool:
        """Whether the connection to the client ends, or has ended."""

    def has_hung_up(self) -> bool:
        """Whether the client has gone, which nobody tells while it is not read."""

    def close(self) -> None:
        """End the connection to the client once it has taken what was sent."""

    def abort(self) -> None:
        """End the connection to the client at once."""

    def connect_broker(self, serving: Serving) -> None:
        """Connect to the first of these brokers that can be reached."""

    def send_to_broker(self, data: bytes | bytearray | memoryview, /) -> None:
        """Send something to the broker, or keep it until there is a connection."""

    def unsent_to_broker(self) -> int:
        """Return the number of bytes that the broker has not taken yet."""

    def read_broker(self, *, is_reading: bool) -> None:
        """Read from the broker, or let it wait."""

    def soon(self, go: Callable[[], None]) -> None:
        """Call `go` when the caller has ended."""

    def later(self, seconds: float, go: Callable[[], None]) -> None:
        """Call `go` when so much time has passed."""


class Services(Protocol):
    """The gateway, as a conversation needs it."""

    sides: Sides
    """The side that each group is on."""
    metrics: GatewayMetrics
    """The counters of the gateway."""
    turns: Turns
    """The event loop's time."""
    pending: Pending
    """The local requests of all clients."""
    unfinished: Budget
    """Bytes of requests that are kept until they are whole."""
    unread: Budget
    """Bytes kept because a client or a broker does not read, or an earlier response is awaited."""

    def answer(self, request: Request, client: Client, reply: Callable[[Any], None]) -> None:
        """Answer a local request; `reply` is called once, with Kafka's response."""

    def match(self, pattern: str, then: Callable[[Matched | None], None]) -> None:
        """Tell `then` which topics a pattern matches, in a moment; None if Kafka does not say so in time."""

    def beat_again(self, beat: Beat, answer: Callable[[Any], None]) -> None:
        """Answer a heartbeat that was accepted before; `answer` is called once (`Local.beat_again`)."""

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest request of a group that is read whole."""

    def held_up(self, client: Client) -> None:
        """A later request of the client waits for its newest heartbeat."""

    def entered(self, conversation: Conversation) -> Party | None:
        """A client has connected; returns the party of its host, or None if there is no room for it."""

    def logged_in(self, conversation: Conversation, name: str | None) -> Party | None:
        """The broker has accepted the client's login under this name; None if it is not known.

        Returns the party of the user.
        """

    def refused(self, client: Client, api: str) -> None:
        """A client has asked for what is answered with an error, which ends it."""

    def failed(self, client: Client, reason: str) -> None:
        """A connection is closed for what its client, or its broker, has sent."""

    def address_of(self, node_id: int, own: Address) -> Address | None:
        """Return the gateway's address for a broker, which a response names at `own`; None if it has none."""

    def connected(self, node_id: int, *, is_connected: bool) -> None:
        """A connection to this broker was made, or could not be."""

    def closed(self, conversation: Conversation, reason: str) -> None:
        """The connection has gone."""
