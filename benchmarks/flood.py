"""What a flood of questions about one large group does to a coordinator, and to members of other groups.

The group has 20,000 offsets with 60 characters of metadata, which a few commits wrote. Each of the questions
is a record of 75 bytes, and its whole answer 2.7 MB. Members of other groups beat every 3 s meanwhile. Their
neighbour are the same members in the same round without a flood.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from kafka import KafkaConsumer, TopicPartition

from benchmarks.flow import Step, flow
from benchmarks.load import Request, call, producer, reader
from benchmarks.members import Members
from benchmarks.report import medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR
from benchmarks.watch import watched

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.streams import Stream

_INTERVAL_S = 3.0
_OFFSETS, _AT_ONCE = 20_000, 1_000
_GROUP = b"large"
ASIDE = 1
"""The partition of the answers to the flood: that of the members' answers is 0."""
_PATIENCE_S = 300
_LOOK_S = 0.05
Figures = dict[str, float]


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    members: int
    """Each in a group of its own, that of nobody else."""
    questions: tuple[int, ...]
    """In a flood. None at all is one more."""
    seconds: float


class _Answer(msgspec.Struct):
    request_id: str
    error: str = "NONE"


def run(plan: Plan, file: Path | None) -> dict[str, Figures]:
    """Measure, print and write; return the medians by number of questions."""
    members = Members(plan.members, 1)
    with Stage() as stage, stage.stream(COORDINATOR, members) as stream:
        aside = stream.load._replace(response_partition=ASIDE)
        errors = {
            msgspec.json.decode(each, type=_Answer).error
            for each in stage.pool.submit(call, aside, commits()).result()
        }
        assert errors == {"NONE"}, errors
        rounds: list[dict[str, Figures]] = []
        for number in range(plan.rounds):
            rounds.append({})
            for questions in (0, *plan.questions):
                flood = [question(f"{number}-{questions}-{each}") for each in range(questions)]
                rounds[-1][f"{questions:,}"] = _measure(stage, stream, members, plan.seconds, flood)
            tell("round", rounds[-1])
    medians: dict[str, Figures] = medians_of(rounds)
    show(
        f"A flood, and {plan.members} members that beat every 3 s (medians of {plan.rounds} rounds)",
        ["questions", *next(iter(medians.values()))],
        [[name, *(f"{value:,.1f}" for value in figures.values())] for name, figures in medians.items()],
    )
    write(file, {"plan": plan._asdict(), "medians": medians, "rounds": rounds})
    return medians


def _measure(stage: Stage, stream: Stream, members: Members, seconds: float, flood: list[Request]) -> Figures:
    aside = stream.load._replace(response_partition=ASIDE)
    beats = members.beats()
    with watched(stream) as samples:
        asked = stage.pool.submit(ask, aside, flood, len(beats))
        trips = flow(stream.load, beats, Step(len(beats), len(beats) / _INTERVAL_S, seconds))
        answers, took_s = asked.result()
    stream.check()
    return {
        "heartbeat p50, ms": trips.p50_ms,
        "heartbeat p99, ms": trips.p99_ms,
        "answered whole": answers["NONE"],
        "to ask again": answers["COORDINATOR_LOAD_IN_PROGRESS"],
        "until all are answered, s": took_s,
        "workers, most MB": max(each.workers_mb for each in samples),
        "JVM, most MB": max(each.jvm_mb for each in samples),
    }


# -- in the load's process -----------------------------------------------------------------------------


def ask(load: Load, flood: list[Request], behind: int) -> tuple[Counter[str], float]:
    """Send the flood in one flush, behind so many other requests; how it was answered, and in how many s."""
    told: Counter[str] = Counter()
    if not flood:
        return told, 0.0
    with closing(reader(load)) as answers, closing(producer(load)) as out:
        _wait_for(load, behind)
        left = {each.request_id for each in flood}
        begin = time.monotonic()
        for each in flood:
            out.send(load.request_topic, key=each.key, value=each.value)
        out.flush()
        while left:
            if time.monotonic() > begin + _PATIENCE_S:
                raise TimeoutError(f"{len(left)} questions are not answered")
            for record in (each for some in answers.poll(timeout_ms=1_000).values() for each in some):
                answer = msgspec.json.decode(record.value, type=_Answer)
                if answer.request_id in left:
                    left.remove(answer.request_id)
                    told[answer.error] += 1
        return told, time.monotonic() - begin


def _wait_for(load: Load, records: int) -> None:
    """Wait until there are so many more requests than now."""
    with closing(KafkaConsumer(bootstrap_servers=load.bootstrap_servers, group_id=None)) as log:
        partitions = [
            TopicPartition(load.request_topic, each) for each in log.partitions_for_topic(load.request_topic)
        ]
        end = sum(log.end_offsets(partitions).values()) + records
        deadline = time.monotonic() + _PATIENCE_S
        while sum(log.end_offsets(partitions).values()) < end:
            if time.monotonic() > deadline:
                raise TimeoutError("the members do not beat")
            time.sleep(_LOOK_S)


# -- requests ------------------------------------------------------------------------------------------


def commits() -> list[Request]:
    """The commits that make the group."""
    return [_commit(first) for first in range(0, _OFFSETS, _AT_ONCE)]


def _commit(first: int) -> Request:
    partitions = [
        {"partition_index": first + number, "committed_offset": 5, "committed_metadata": "m" * 60}
        for number in range(_AT_ONCE)
    ]
    return _request(f"commit-{first}", "offset_commit", topics=[{"name": "t", "partitions": partitions}])


def question(request_id: str) -> Request:
    """A question about all offsets of the group."""
    return _request(request_id, "offset_fetch")


def _request(request_id: str, api: str, **fields: object) -> Request:
    envelope = {"api": api, "request_id": request_id, "client_id": "bench", "group_id": _GROUP.decode()}
    return Request(request_id, _GROUP, msgspec.json.encode({**envelope, "reply_partition": ASIDE, **fields}))
