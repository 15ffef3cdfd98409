"""The error that closes a connection."""

from __future__ import annotations

__all__ = ["FrameError"]


class FrameError(Exception):
    """A peer has sent bytes that are no frame of Kafka's protocol, or one that the gateway does not offer.

    A broker closes the connection then, and so does the gateway.
    """
