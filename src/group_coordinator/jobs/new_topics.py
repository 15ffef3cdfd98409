"""Make topics in Kafka."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafka.errors import (
    ClusterAuthorizationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka.admin import KafkaAdminClient


class NoTopicError(Exception):
    """A topic is not there, and cannot be made; the message is one line."""


def make_topics(
    admin: KafkaAdminClient, topics: Mapping[str, tuple[int, Mapping[str, str]]], replication_factor: int
) -> None:
    """Make topics, each with so many partitions and these configs, and wait until they are there.

    One that somebody else makes at the same time stays as it is. Raises `NoTopicError`, or a KafkaError.
    """
    options = {
        name: {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs}
        for name, (partitions, configs) in topics.items()
    }
    try:
        with suppress(TopicAlreadyExistsError):
            admin.create_topics(options)
    except (ClusterAuthorizationFailedError, TopicAuthorizationFailedError):
        raise NoTopicError(
            f"rights are missing: Create on the cluster, to create {', '.join(topics)}. Grant it, or create "
            "them yourself"
        ) from None
    admin.wait_for_topics(list(topics))
