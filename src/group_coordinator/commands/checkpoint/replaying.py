"""`checkpoint replay`: what it reads, and what it starts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.identity import secret_sha256
from group_coordinator.checkpoints.late import read_late_times, told_late
from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.places import offsets_at, parse_time
from group_coordinator.checkpoints.replay import replay
from group_coordinator.checkpoints.request_log import read_requests
from group_coordinator.checkpoints.topics import read_topics
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.function import FunctionArguments

if TYPE_CHECKING:
    from group_coordinator.checkpoints.export import Export, ExportHeader
    from group_coordinator.streaming.settings import CoordinatorSettings


def events(
    settings: CoordinatorSettings,
    export: Export,
    *,
    start: str | None,
    end: str,
    until: str | None,
    group_ids: Iterable[str],
    ledger: Path | None,
) -> Iterator[str]:
    """Yield the events that come after `export`, or from `start` on without its groups, as JSON.

    Raises `CheckpointError` and `KafkaError`.
    """
    header = export.header
    topic = header.identity.request_topic
    settings = msgspec.structs.replace(
        settings, topics_requests=topic, state_partitions=header.identity.state_partitions
    )
    secret = _secret(header, settings.member_id_secret)
    until_ms = None if until is None else parse_time(until)
    notes = header.notes if ledger is None else _read_notes(ledger)
    wanted = {group_id.encode() for group_id in group_ids}
    stored: dict[bytes | None, bytes] = {}
    if start is None:
        stored = {each.group_id.encode(): each.state for each in export.groups}

    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    names = (topic, *settings.output_topics.values())
    topics = read_topics(client_config, names)
    for name in names:
        if name not in topics:
            raise CheckpointError(f"there is no topic {name}: name the one that the coordinator has")
    before = header.identity.topic_ids.get(topic, topics[topic].topic_id)
    if before != topics[topic].topic_id:
        raise CheckpointError(
            f"topic {topic} is not the one that was exported: it was deleted and made again, and its records "
            "are gone"
        )
    arguments = FunctionArguments.of(
        settings, secret, {name: each.partitions for name, each in topics.items()}
    )
    first = offsets_at(client_config, topic, start) if start else header.offsets.get(topic, {})
    last = offsets_at(client_config, topic, end)
    since_ms = LATEST_MS if start else header.watermark_ms
    late = read_late_times(client_config, topic, first, last, settings.topics_events, since_ms)
    records = told_late(read_requests(client_config, topic, first, last), late)
    if wanted:
        records = (record for record in records if record.key in wanted)
        stored = {key: state for key, state in stored.items() if key in wanted}
    layout = arguments.layout
    known = PartitionOutages(notes.outages, notes.standstills, layout.request_partitions)
    for event in replay(records, stored, arguments.config, secret, until_ms, known, layout=layout):
        yield event.decode()


def _secret(header: ExportHeader, secret: str) -> bytes:
    secret = secret or header.identity.secret
    if not secret:
        raise CheckpointError(
            "the export has no secret for member ids: export with --with-secret, or set member.id.secret"
        )
    if secret_sha256(secret) != header.identity.secret_sha256:
        raise CheckpointError("member.id.secret is not the one of the export: set that one")
    return secret.encode()


def _read_notes(file: Path) -> Notes:
    try:
        return ForeignJson[Notes](Notes).read(file.read_bytes())
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None
    except UnreadableError as error:
        raise CheckpointError(f"{file} is no ledger of a checkpoint: {error}") from None
