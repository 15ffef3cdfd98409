"""Subscriptions as Kafka's consumers send them (ConsumerProtocolSubscription, version 0)."""

from __future__ import annotations

import struct


def subscription(*topics: str, version: int = 0, more: bytes = b"") -> bytes:
    """Bytes of a subscription to `topics`; `more` stands for what later versions add at the end."""
    names = [topic.encode() for topic in topics]
    return b"".join(
        [
            struct.pack(">hi", version, len(names)),
            *(struct.pack(f">h{len(name)}s", len(name), name) for name in names),
            struct.pack(">i", -1),
            more,
        ]
    )
