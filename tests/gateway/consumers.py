"""What members of the consumer protocol send, and Kafka's topics with their ids."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.gateway import codec
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest

__all__ = ["IDS", "KAFKA", "alive", "full", "owns", "sent"]

IDS = {"a": UUID(int=10), "b": UUID(int=11)}
KAFKA = {"a": Found(4, str(IDS["a"])), "b": Found(2, str(IDS["b"]))}


def alive(epoch: int, member_id: str = "m", version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that only says that its member is alive."""
    given = {"group_id": "orders", "member_id": member_id, "member_epoch": epoch}
    return ConsumerGroupHeartbeatRequest(version=version, **(given | fields))


def full(epoch: int = 0, member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """All that a member has to say, as it joins or after an error."""
    given = {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["a"], "topic_partitions": []}
    return alive(epoch, member_id, **(given | fields))


def owns(**topics: list[int]) -> list[Any]:
    """What a member says it owns: partitions by the names of topics."""
    kind = ConsumerGroupHeartbeatRequest.TopicPartitions
    return [kind(version=1, topic_id=IDS[name], partitions=it) for name, it in topics.items()]


def sent(message: Any, correlation_id: int = 1) -> bytes:
    """Its frame."""
    return codec.encode_request(message, correlation_id, "c")
