"""The page as it runs, over topics and tables that are filled."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.history.rows import time_of
from group_coordinator.page.service import serving
from group_coordinator.page.settings import PageSettings
from tests.page.filled import Filled
from tests.page.standin import answering
from tests.patience import PATIENCE_S

__all__ = ["Served", "served"]

_AGO = timedelta(days=2)


class Served(NamedTuple):
    """Where the page is, the topics it reads, and when the groups had their past: two days before now."""

    url: str
    topics: dict[str, str]
    filled: Filled
    past: datetime


@contextmanager
def served(
    bootstrap_servers: str, directory: Path, prefix: str, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Served]:
    """Serve it while the context is open. `more`: settings."""
    now_ms = round(time.time() * 1000)
    filled = Filled(now_ms)
    topics = filled.write_topics(bootstrap_servers, prefix)
    filled.write_tables(directory, _AGO // timedelta(milliseconds=1))
    named = {name: topic for name, topic in topics.items() if name != "topics.work"}
    settings = PageSettings.load(
        None,
        {},
        {
            "bootstrap.servers": bootstrap_servers,
            "history.path": str(directory),
            "ui.port": 0,
            **named,
            **more,
        },
        needed=(),
    )
    said: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(answering(bootstrap_servers, topics, filled.states, filled.at_ms))
        _fall_behind(bootstrap_servers, topics)
        stack.enter_context(serving(settings, said.append))
        (line,) = said
        yield Served(line.removeprefix("the page is at ").rstrip("/"), topics, filled, time_of(now_ms) - _AGO)


def _fall_behind(servers: str, topics: dict[str, str]) -> None:
    """`billing` has committed 6 of 1,240 records in a partition."""
    partition = TopicPartition(topics["topics.work"], 1)
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for _ in range(1_240):
            producer.send(partition.topic, b"work", partition=partition.partition)
        producer.flush(PATIENCE_S)
    with AdminClient(
        bootstrap_servers=servers,
        request_topic=topics["topics.requests"],
        response_topic=topics["topics.responses"],
    ) as admin:
        admin.alter_group_offsets("billing", {partition: OffsetAndMetadata(6)})
