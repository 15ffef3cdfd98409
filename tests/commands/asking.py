"""Requests by hand to a coordinator that runs as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.commands.job import Job
from tests.topics import Requests


@contextmanager
def requests_to(bootstrap_servers: str, job: Job) -> Iterator[Requests]:
    topics, config = job.topics, {"bootstrap_servers": bootstrap_servers}
    with closing(Requests(config, topics["requests"], topics["responses"])) as requests:
        yield requests
