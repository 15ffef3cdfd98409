"""What a broker sends each of many members that beat every 3 s: bytes of its sockets, as the kernel has them.

* `answered`: each heartbeat asks for an answer, and a fetch waits for 0.5 s, as members did before `quiet`.
* `quiet`: members as they are. Those of a group beat at the same instants, which are those of ticks.

Each with so many partitions of the responses. Some members are real ones, whose sockets are looked at. The
heartbeats of the others come from a load, and their answers go where those of such members would. What one
member is sent does not depend on whether the others read. So all are sent what the real ones are, times their
number.
"""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
import psutil

from benchmarks.flow import LEAD_S
from benchmarks.load import producer
from benchmarks.members import Beat, Members
from benchmarks.report import medians_of, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR
from group_coordinator import GroupMember
from group_coordinator.client.channel import KafkaChannel
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.coordinator_state.requests import HeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.streams import Stream
    from group_coordinator.coordinator_state.requests import AnyRequest

_GROUP_SIZE = 100
_INTERVAL_MS = 3_000
_SESSION_MS = 60_000
_DELAY_MS = 3_000
"""So that the members of a group join together on a busy machine as well."""
_TICK_MS = 2
_PATIENCE_S = 120
_ENOUGH = 0.9
"""Of the heartbeats, how many the stream must have taken."""
_SPAWN = multiprocessing.get_context("spawn")


class Way(NamedTuple):
    """What heartbeats ask for, and how many partitions the responses have."""

    quiet: bool
    partitions: int

    def __str__(self) -> str:
        return f"{'quiet' if self.quiet else 'answered'}, {self.partitions} partitions"


class Plan(NamedTuple):
    """How much of what. `sample`: the real members, among those of each size."""

    rounds: int
    sizes: tuple[int, ...]
    partitions: tuple[int, ...]
    sample: int
    warm_up_s: float
    seconds: float
    settings: dict[str, str]

    @property
    def ways(self) -> list[Way]:
        """All of them: members as they were first."""
        return [Way(quiet, each) for quiet in (False, True) for each in self.partitions]


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, dict[str, float]]]:
    """Measure, print and write; return the medians by size, and by way."""
    with Stage(apart=True) as stage, ExitStack() as stack:
        members = {each: Members(-(-max(plan.sizes) // _GROUP_SIZE), _GROUP_SIZE) for each in plan.partitions}
        streams = {}
        for partitions, theirs in members.items():
            settings = {
                "responses.partitions": partitions,
                "group.initial.rebalance.delay.ms": _DELAY_MS,
            } | plan.settings
            stream = streams[partitions] = stack.enter_context(stage.stream(COORDINATOR, theirs, settings))
            warm_up = Way(False, partitions)
            with (
                stage.turn(stream),
                _load(stream.load, _beats(theirs, warm_up), max(plan.sizes), warm_up),
            ):
                time.sleep(plan.warm_up_s)
        rounds: list[dict[str, dict[str, dict[str, float]]]] = []
        for _ in range(plan.rounds):
            found: dict[str, dict[str, dict[str, float]]] = {}
            for size in plan.sizes:
                for way in plan.ways:
                    stream, beats = streams[way.partitions], _beats(members[way.partitions], way)
                    figures = _measure(stage, stream, way, beats, size, plan)
                    tell(f"{size} members, {way}", figures)
                    found.setdefault(str(size), {})[str(way)] = figures
            rounds.append(found)
    medians: dict[str, dict[str, dict[str, float]]] = medians_of(rounds)
    for size_, of_size in medians.items():
        show(
            f"{size_} members (medians of {plan.rounds} rounds)",
            ["", *next(iter(of_size.values()))],
            [[way_, *(f"{each:,.2f}" for each in figures.values())] for way_, figures in of_size.items()],
        )
    write(file, {"plan": plan._asdict(), "medians": medians, "rounds": rounds})
    return medians


def _measure(
    stage: Stage, stream: Stream, way: Way, beats: list[Beat], size: int, plan: Plan
) -> dict[str, float]:
    with (
        stage.turn(stream),
        _load(stream.load, beats, size - plan.sample, way),
        _sample(stream.load, way, plan.sample) as pid,
    ):
        time.sleep(LEAD_S)
        port = int(stream.load.bootstrap_servers.rpartition(":")[2])

        def sent() -> int:
            theirs = {each.laddr.port for each in psutil.Process(pid).net_connections("tcp")}
            return sum(sent for peer, sent in _bytes_sent(port).items() if peer in theirs)

        def read() -> tuple[int, float, float]:
            return sent(), stream.cpu_seconds(), stream.metrics()["requests_total"]

        before, begin = read(), time.perf_counter()
        time.sleep(plan.seconds)
        after, seconds = read(), time.perf_counter() - begin
    sent_bytes, cpu_s, heard = (now - then for now, then in zip(after, before, strict=True))
    if heard < _ENOUGH * size * seconds * 1000 / _INTERVAL_MS:
        raise RuntimeError(f"the stream took {heard:.0f} heartbeats of {size} members in {seconds:.0f} s")
    each = sent_bytes / plan.sample / seconds
    return {
        "kB/s for a member": each / 1e3,
        "MB/s for all": each * size / 1e6,
        "stream, percent of a core": 100 * cpu_s / seconds,
    }


def _bytes_sent(port: int) -> dict[int, int]:
    """What the broker at this port has sent so far on each of its connections, by the client's port."""
    told = subprocess.run(
        ["ss", "--tcp", "--numeric", "--info", "--no-header", "--oneline", f"sport = :{port}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = {}
    for line in told.splitlines():
        peer, sent = line.split()[4], re.search(r"bytes_sent:(\d+)", line)
        if sent is not None:
            found[int(peer.rpartition(":")[2])] = int(sent[1])
    return found


# -- the load --------------------------------------------------------------------------------------------


def _beats(members: Members, way: Way) -> list[Beat]:
    """A heartbeat of each member, which is answered where a member's channel would read."""
    quiet = {"quiet": True} if way.quiet else {}
    beats = []
    for number, (group, place) in enumerate(members.places()):
        client_id = f"worker-{number:05}-4711-0123456789ab"
        envelope = {
            "request_id": f"{client_id}-0123456789ab-#",
            "client_id": client_id,
            "group_id": group,
            "reply_partition": partition_for_key(client_id.encode(), way.partitions),
        }
        head, _, tail = msgspec.json.encode({"api": "heartbeat", **place, **quiet, **envelope}).partition(
            b"#"
        )
        beats.append(Beat(group.encode(), head, tail, 1))
    return beats


@contextmanager
def _load(load: Load, beats: list[Beat], members: int, way: Way) -> Iterator[None]:
    """Have that many members beat meanwhile."""
    stop = _SPAWN.Event()
    sender = _SPAWN.Process(target=_send, args=(load, beats[:members], way, stop))
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


def _send(load: Load, beats: list[Beat], way: Way, stop: Any) -> None:
    """Each member once in an interval: at the second of its group, or spread over the interval."""
    order = sorted(
        (-crc32(beat.key) * 1_000 % _INTERVAL_MS if way.quiet else number * _INTERVAL_MS / len(beats), number)
        for number, beat in enumerate(beats)
    )
    begin_ms = time.time() * 1_000 // _INTERVAL_MS * _INTERVAL_MS
    with closing(producer(load)) as out:
        for each in count():
            turn, place = divmod(each, len(order))
            at_ms, number = order[place]
            pause_ms = begin_ms + turn * _INTERVAL_MS + at_ms - time.time() * 1_000
            if pause_ms > 0 and stop.wait(max(pause_ms, _TICK_MS) / 1_000):
                return
            beat = beats[number]
            out.send(load.request_topic, key=beat.key, value=beat.request(each).value)


# -- the real members ------------------------------------------------------------------------------------

_names = count(1)


@contextmanager
def _sample(load: Load, way: Way, members: int) -> Iterator[int]:
    """Have real members in a group meanwhile, spread over the partitions; the id of their process."""
    joined, stop = _SPAWN.Event(), _SPAWN.Event()
    group = f"sample-{next(_names)}"
    process = _SPAWN.Process(target=_be_members, args=(load, way, group, members, joined, stop))
    process.start()
    try:
        if not joined.wait(_PATIENCE_S):
            raise TimeoutError("the members have not joined")
        assert process.pid is not None
        yield process.pid
    finally:
        stop.set()
        process.join()


def _be_members(load: Load, way: Way, group: str, number: int, joined: Any, stop: Any) -> None:
    names = (f"worker-{each:05}-{group}-{way.partitions}" for each in count())
    units = [f"unit-{each}" for each in range(number)]
    with ExitStack() as stack:
        members = []
        for each in range(number):
            wanted = each * way.partitions // number % way.partitions
            name = next(it for it in names if partition_for_key(it.encode(), way.partitions) == wanted)
            members.append(stack.enter_context(_member(load, way, group, name)))
        for member in members:
            member.subscribe(units=units)
        while not stop.is_set():
            owned = [member.poll(timeout_ms=20) for member in members]
            if sorted(unit for each in owned for unit in each) == sorted(units):
                joined.set()


def _member(load: Load, way: Way, group: str, client_id: str) -> GroupMember:
    where = {"request_topic": load.request_topic, "response_topic": load.response_topic}
    kafka: Mapping[str, Any] = {"bootstrap_servers": load.bootstrap_servers}
    settings: dict[str, Any] = {
        "group_id": group,
        "client_id": client_id,
        "session_timeout_ms": _SESSION_MS,
        "heartbeat_interval_ms": _INTERVAL_MS,
    }
    if way.quiet:
        return GroupMember(**settings, **where, **kafka)
    channel = KafkaChannel(client_id=client_id, instance="", fetch_max_wait_ms=500, **where, **kafka)
    return GroupMember(**settings, channel=_Answered(channel))


class _Answered:
    """A channel whose heartbeats all ask for answers; see `Channel`."""

    def __init__(self, channel: KafkaChannel) -> None:
        self.reply_partition = channel.reply_partition
        self.receive, self.partition_counts, self.close = (
            channel.receive,
            channel.partition_counts,
            channel.close,
        )
        self._send = channel.send

    def send(self, request: AnyRequest) -> None:
        """Ask for an answer."""
        if isinstance(request, HeartbeatRequest):
            request = msgspec.structs.replace(request, quiet=msgspec.UNSET)
        self._send(request)
