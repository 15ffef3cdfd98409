"""The errors of a gateway."""

from __future__ import annotations


class FrameError(Exception):
    """A peer has sent bytes that are no frame of Kafka's protocol, or one that the gateway does not offer.

    A broker closes the connection then, and so does the gateway.
    """


class GatewayError(Exception):
    """The gateway cannot do what its settings or a client want; the message is one line.

    At the start it ends the process, and says what to do. Later the gateway logs it, and goes on.
    """
