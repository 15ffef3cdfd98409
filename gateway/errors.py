"""The errors of a gateway: one closes a connection, the other ends the process."""

from __future__ import annotations

__all__ = ["FrameError", "GatewayError"]


class FrameError(Exception):
    """A peer has sent bytes that are no frame of Kafka's protocol, or one that the gateway does not offer.

    A broker closes the connection then, and so does the gateway.
    """


class GatewayError(Exception):
    """The gateway cannot start; the message is one line and says what to do."""
