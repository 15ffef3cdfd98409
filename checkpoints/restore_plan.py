"""The plan of a restored checkpoint: where it goes on in the topics, and under which identity."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.identity import Identity, secret_sha256
from group_coordinator.checkpoints.places import offsets_at
from group_coordinator.checkpoints.topics import read_topics
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.checkpoints.export import ExportHeader
    from group_coordinator.checkpoints.topics import Topic
    from group_coordinator.jobs.batches import Offsets


class RestorePlan(NamedTuple):
    """The identity of the new checkpoint, and the next records that it reads."""

    identity: Identity
    offsets: Offsets


def plan_restore(
    header: ExportHeader,
    client_config: Mapping[str, Any],
    *,
    request_topic: str | None = None,
    clock_topic: str | None = None,
    state_partitions: int | None = None,
    starting_offsets: str | None = None,
    secret: str = "",
    new_secret: bool = False,
) -> RestorePlan:
    """Plan a restore; what is None is to be as in the export.

    `starting_offsets`: where to begin in the request topic, as `offsets_at` has it; needed if that is not the
    topic of the export. A clock topic other than that of the export is read from its end, because the
    watermark has its past. `secret`: the one of the settings, if it is there. `new_secret`: any other than
    the export's will do. Raises `CheckpointError` and `KafkaError`.
    """
    before = header.identity
    request_topic = request_topic or before.request_topic
    clock_topic = clock_topic or before.clock_topic
    topics = read_topics(client_config, (request_topic, clock_topic))
    for topic in (request_topic, clock_topic):
        if topic not in topics:
            raise CheckpointError(f"there is no topic {topic}: create it, or name another one")

    offsets = {}
    if starting_offsets is not None:
        offsets[request_topic] = offsets_at(client_config, request_topic, starting_offsets)
    elif _is_same(before, before.request_topic, request_topic, topics):
        offsets[request_topic] = header.offsets.get(request_topic, {})
    else:
        raise CheckpointError(
            f"topic {request_topic} is not the one that was exported: say with --starting-offsets where to "
            'begin: earliest, latest, a time such as 2026-01-31T12:00:00, or {"0": 123}'
        )
    if _is_same(before, before.clock_topic, clock_topic, topics):
        offsets[clock_topic] = header.offsets.get(clock_topic, {})
    else:
        offsets[clock_topic] = offsets_at(client_config, clock_topic, "latest")

    kept, digest = _secret(before, secret, new_secret=new_secret)
    identity = Identity(
        schema_version=SCHEMA_VERSION,
        request_topic=request_topic,
        clock_topic=clock_topic,
        state_partitions=state_partitions or before.state_partitions,
        secret=kept,
        secret_sha256=digest,
        topic_ids={name: topic.topic_id for name, topic in topics.items() if topic.topic_id is not None},
    )
    return RestorePlan(identity, offsets)


def _is_same(before: Identity, name_before: str, name: str, topics: Mapping[str, Topic]) -> bool:
    topic_id = topics[name].topic_id
    return name == name_before and before.topic_ids.get(name, topic_id) == topic_id


def _secret(before: Identity, secret: str, *, new_secret: bool) -> tuple[str, str]:
    """The secret to be kept in the checkpoint, and the digest of the one that is used."""
    if new_secret:
        drawn = "" if secret else secrets.token_hex(32)
        return drawn, secret_sha256(secret or drawn)
    if secret and secret_sha256(secret) != before.secret_sha256:
        raise CheckpointError("member.id.secret is not the one of the export: set that one, or --new-secret")
    if not secret and not before.secret:
        raise CheckpointError(
            "the export has no secret for member ids: export with --with-secret, set member.id.secret, or "
            "take --new-secret. Members that join after the export then get other ids than they were told"
        )
    return ("" if secret else before.secret), before.secret_sha256
