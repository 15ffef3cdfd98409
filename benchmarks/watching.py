"""What the watcher of topics costs: rounds of questions about many topics, to a broker that has no others.

It is a process of its own that has its answers ready. It stands in for one with as many topics, which
would take gigabytes. All that the coordinator's process does is measured, from its socket to the records.
"""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from benchmarks.report import show, write
from group_coordinator.coordinator_state.responses import KnownTopic
from group_coordinator.jobs.topic_questions import Asking
from group_coordinator.streaming.watching.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

_INTERVAL_S = 5.0
_HEAD_BYTES = 8
_REPLICAS = 3


class Plan(NamedTuple):
    """How much of what."""

    topics: int
    partitions: int
    rounds: int


def run(plan: Plan, file: Path | None) -> dict[str, float]:
    """Measure, print and write; return the percent of a core by what has changed since the round before."""
    here, there = multiprocessing.Pipe()
    broker = multiprocessing.get_context("spawn").Process(target=_serve, args=(plan, there), daemon=True)
    broker.start()
    try:
        watching = _Watching(plan, here.recv())
        first_s = watching.round()
        rounds = {
            what: [watching.round_with(here if changes else None) for _ in range(plan.rounds)]
            for what, changes in (("nothing has changed", False), ("each partition has another leader", True))
        }
        watching.close()
    finally:
        broker.kill()
        broker.join()
    percents = {what: 100 * statistics.median(each) / _INTERVAL_S for what, each in rounds.items()}
    show(
        f"Percent of a core for a look at {plan.topics:,} topics of {plan.partitions} partitions each 5 s "
        f"(medians of {plan.rounds} rounds; the first round took {first_s:.2f} s of a core)",
        ["", "percent"],
        [[what, f"{percent:.1f}"] for what, percent in percents.items()],
    )
    write(file, {"plan": plan._asdict(), "percent": percents, "rounds_s": rounds, "first_s": first_s})
    return percents


class _Watching:
    """One group names all topics, and knows what the broker says."""

    def __init__(self, plan: Plan, port: int) -> None:
        self._asking = Asking({"bootstrap_servers": f"127.0.0.1:{port}"})
        self._watch = Watch(_INTERVAL_S, 1 << 20)
        self._watch.begin(0)
        self._now_s = 0.0
        self._watch.pictured(
            "g",
            0,
            [
                KnownTopic(name=_name(each), topic_id=str(UUID(int=each + 1)), partitions=plan.partitions)
                for each in range(plan.topics)
            ],
        )

    def round(self) -> float:
        """Go through one round; return the seconds of CPU time that it took."""
        self._now_s += 2 * _INTERVAL_S
        before = time.process_time()
        due = self._watch.due(self._now_s)
        for part in due.parts:
            self._watch.told(part, self._asking.ask(part.names))
        records = self._watch.due(self._now_s + 1).records
        took = time.process_time() - before
        if not due.parts or records:
            raise RuntimeError("there has to be a round, and nothing to tell")
        return took

    def round_with(self, changing: Connection | None) -> float:
        """The same, after a change of all leaders if they are to change."""
        if changing is not None:
            changing.send(None)
            changing.recv()
        return self.round()

    def close(self) -> None:
        self._asking.close()


def _name(number: int) -> str:
    return f"topic-of-many-{number:06}"


# -- the broker, in a process of its own -----------------------------------------------------------------


def _serve(plan: Plan, pipe: Connection) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        pipe.send(port)
        import threading

        answers = _Answers(plan, port)
        threading.Thread(target=_change, args=(pipe, answers), daemon=True).start()
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_answer, args=(connection, answers.to), daemon=True).start()


def _change(pipe: Connection, answers: _Answers) -> None:
    while True:
        pipe.recv()
        answers.change()
        pipe.send(None)


def _answer(connection: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    with closing(connection), connection.makefile("rb") as requests:
        while size := requests.read(4):
            connection.sendall(answer(requests.read(int.from_bytes(size))))


class _Answers:
    """Answers to ApiVersions and Metadata. `change`: all partitions have another leader from then on."""

    def __init__(self, plan: Plan, port: int) -> None:
        self._plan, self._port, self._leader = plan, port, 1
        self._ready: dict[tuple[str, ...], bytes] = {}

    def change(self) -> None:
        self._leader += 1
        for names in self._ready:
            self._ready[names] = self._metadata(names)

    def to(self, request: bytes) -> bytes:
        key, version = (int.from_bytes(request[at : at + 2]) for at in (0, 2))
        correlation = request[4:_HEAD_BYTES]
        if key == ApiVersionsRequest.API_KEY:
            kind = ApiVersionsResponse.ApiVersion
            keys = [
                kind(api_key=it.API_KEY, min_version=0, max_version=12 if it is MetadataRequest else 3)
                for it in (ApiVersionsRequest, MetadataRequest)
            ]
            response = ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
            body = correlation + bytes(response.encode(version=min(version, 3)))
        else:
            asked = MetadataRequest.decode(request, version=version, header=True)
            names = tuple(each.name for each in asked.topics or ())
            if names not in self._ready:
                self._ready[names] = self._metadata(names)
            body = correlation + b"\0" + self._ready[names]
        return len(body).to_bytes(4) + body

    def _metadata(self, names: tuple[str, ...]) -> bytes:
        kind, broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
        replicas = list(range(1, 1 + _REPLICAS))
        partitions: list[Any] = [
            kind.MetadataResponsePartition(
                error_code=0,
                partition_index=each,
                leader_id=self._leader,
                leader_epoch=0,
                replica_nodes=replicas,
                isr_nodes=replicas,
                offline_replicas=[],
            )
            for each in range(self._plan.partitions)
        ]
        topics = [
            kind(
                error_code=0,
                name=name,
                topic_id=UUID(int=int(name.rpartition("-")[2]) + 1),
                is_internal=False,
                partitions=partitions,
            )
            for name in names
        ]
        response = MetadataResponse(
            throttle_time_ms=0,
            brokers=[broker(node_id=1, host="127.0.0.1", port=self._port, rack=None)],
            cluster_id="stand-in",
            controller_id=1,
            topics=topics,
        )
        return bytes(response.encode(version=12))
