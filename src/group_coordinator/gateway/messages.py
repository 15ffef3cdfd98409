"""Kafka's messages that kafka-python does not have: those of the consumer protocol (KIP-848).

Their fields are in `schemas/`, in the form in which kafka-python has all others.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "group_coordinator.gateway.schemas"


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg, misc]
    """A member joins, is alive, gives up partitions or leaves (api key 68)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg, misc]
    """The answer to it: the member's epoch, and its assignment if there is news."""


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg, misc]
    """A question for the members and the state of groups (api key 69)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg, misc]
    """The answer to it."""
