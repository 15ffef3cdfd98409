"""What members cost that speak Kafka's protocol to a gateway, beside the same members at the broker.

* `pipelined`: five heartbeats that are sent at once on one connection, and a Produce behind them.
* `join`: until 30 members are Stable, through the gateway, at the broker, and by topics as this project's own
  client does it.
* `asking`: OffsetCommit and OffsetFetch of groups without members, many on each connection.
* `5000`: members that beat every 3 s. Beside them one heartbeat at a time goes by topics, which tells the
  stream's own time.
* `1000` and `10000`: members of 10 groups that beat every 3 s. CPU time of the stream, the gateway and the
  broker, and of the broker when the same members are at its own coordinator.
* `consumers1000` and `consumers10000`: the same with members of the consumer protocol, that beat as often,
  beside classic ones.

Each member has a connection. CPU time is that of processes, in percent of a core. The stream has the last
core for itself, and is stopped while members are at the broker.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from itertools import count, cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from benchmarks.brokers import until_ready
from benchmarks.crowd import CLASSIC, COMMIT, CONSUMER, FETCH, TOGETHER, Crowd
from benchmarks.gateways import Gateway
from benchmarks.load import closed_loop
from benchmarks.members import Members
from benchmarks.rebalance import COLD, measure_changes
from benchmarks.report import medians_of, percentile, show, tell, write
from benchmarks.stage import Stage
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.crowd import Beaten
    from benchmarks.streams import Stream

GATEWAY, BESIDE, TOPICS, BROKER = "gateway", "gateway of the other checkout", "topics", "broker"
_DELAY_MS = "3000"
_TOPIC = "behind"
_TRIALS = 15
_JOINING = 30
_ASKING, _AT_ONCE = 50, 40
_CONNECTIONS = (50, 100)
_FIRST = (10, 100)
_LEAD_S = 3.0
_TAIL_S = 1.0
_PROBES_A_SECOND = 5
_NOBODY = "nobody beats"
_SHARED = "shared"
"""The topic that members of the consumer protocol share."""
_SESSION_MS = "1800000"
"""Members say nothing while others are measured."""
Figures = dict[str, Any]


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    warm_up_s: float
    seconds: float
    parts: tuple[str, ...]
    beside: Path | None = None
    """Another checkout, whose gateway is measured as well."""


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, dict[str, float]]]:
    """Measure, print and write; return the medians by part, and by who was asked."""
    rounds: dict[str, list[Figures]] = {}
    with _Scene.set(plan) as scene:
        for name in plan.parts:
            with _PARTS[name](scene) as measure:
                rounds[name] = []
                for _ in range(plan.rounds):
                    rounds[name].append(measure())
                    tell(name, rounds[name][-1])
    medians = {name: medians_of(of_part) for name, of_part in rounds.items()}
    for name, found in medians.items():
        columns = list(dict.fromkeys(each for figures in found.values() for each in figures))
        rows = [
            [who, *(f"{figures[each]:,.2f}" if each in figures else "" for each in columns)]
            for who, figures in found.items()
        ]
        show(f"{name} (medians of {plan.rounds} rounds)", ["", *columns], rows)
    write(
        file, {"plan": {**plan._asdict(), "beside": str(plan.beside)}, "medians": medians, "rounds": rounds}
    )
    return medians


class _Scene(NamedTuple):
    """A stream, gateways in front of it, and a broker."""

    plan: Plan
    stage: Stage
    stream: Stream
    gateways: dict[str, Gateway]

    @classmethod
    @contextmanager
    def set(cls, plan: Plan) -> Iterator[_Scene]:
        # Both wait for members of a new group equally long.
        given = {
            "group.initial.rebalance.delay.ms": _DELAY_MS,
            "group.consumer.session.timeout.ms": _SESSION_MS,
        }
        longest = {"group.consumer.max.session.timeout.ms": _SESSION_MS}
        with ExitStack() as stack:
            stage = stack.enter_context(Stage(apart=True, broker=given | longest))
            stream = stack.enter_context(stage.stream(COORDINATOR, settings=given))
            address = stage.broker.bootstrap_servers
            asyncio.run(until_ready(address))
            with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
                admin.create_topics([NewTopic(_TOPIC, 1, 1), NewTopic(_SHARED, 100, 1)])
            checkouts = {GATEWAY: None} | ({} if plan.beside is None else {BESIDE: plan.beside})
            gateways = {
                who: stack.enter_context(Gateway(address, stream, stage.directory, checkout))
                for who, checkout in checkouts.items()
            }
            scene = cls(plan, stage, stream, gateways)
            with scene.crowds(*_FIRST) as crowds, scene.turn(GATEWAY):
                for beating in [crowd.beat(plan.warm_up_s) for crowd in crowds.values()]:
                    beating.result()
            yield scene

    @property
    def addresses(self) -> dict[str, str]:
        addresses = {who: each.address for who, each in self.gateways.items()}
        return {**addresses, BROKER: self.stage.broker.bootstrap_servers}

    @contextmanager
    def turn(self, who: str) -> Iterator[None]:
        """Have the stream run only while it is asked."""
        with self.stage.turn(None if who == BROKER else self.stream):
            yield

    @contextmanager
    def crowds(self, groups: int, size: int, protocol: str = CLASSIC) -> Iterator[dict[str, Crowd]]:
        """Have the same members at the gateway and at the broker."""
        with ExitStack() as stack:
            crowds = {who: stack.enter_context(Crowd(address)) for who, address in self.addresses.items()}
            for who, crowd in crowds.items():
                with self.turn(who):
                    crowd.form(groups, size, protocol, _SHARED)
            yield crowds

    def spent(self) -> dict[str, float]:
        """The CPU seconds of each so far."""
        broker = psutil.Process(self.stage.broker.pid).cpu_times()
        return {
            "stream": self.stream.cpu_seconds(),
            **{who: each.cpu_seconds() for who, each in self.gateways.items()},
            "broker": broker.user + broker.system,
        }

    def watch(self) -> dict[str, float]:
        """The percent of a core that each needs in the next seconds."""
        time.sleep(_LEAD_S)
        before, begin = self.spent(), time.perf_counter()
        time.sleep(self.plan.seconds)
        seconds = time.perf_counter() - begin
        return {who: 100 * (spent - before[who]) / seconds for who, spent in self.spent().items()}


# -- the parts: each sets something up, and has a function for one round ------------------------------------


@contextmanager
def _pipelined(scene: _Scene) -> Iterator[Callable[[], Figures]]:
    with scene.crowds(1, TOGETHER) as crowds:

        def measure() -> Figures:
            found = {}
            for who, crowd in crowds.items():
                with scene.turn(who):
                    trips = crowd.pipeline(_TRIALS, _TOPIC, scene.addresses[BROKER])
                found[who] = {
                    f"{name}, p{percent} in ms": percentile(of, percent)
                    for name, of in zip(("one", "five", "a Produce behind"), trips, strict=True)
                    for percent in (50, 100)
                }
            return found

        yield measure


@contextmanager
def _join(scene: _Scene) -> Iterator[Callable[[], Figures]]:
    numbers = count(1)

    def measure() -> Figures:
        group_id, seconds = f"joining-{next(numbers)}", {}
        for who, where in (scene.addresses | {TOPICS: scene.stream.load}).items():
            with scene.turn(who):
                joining = scene.stage.pool.submit(measure_changes, where, f"{group_id}-{who}", _JOINING, ())
                seconds[who] = joining.result()[COLD]
        return {
            who: {"seconds": each, f"to {TOPICS}": each / seconds[TOPICS]} for who, each in seconds.items()
        }

    yield measure


@contextmanager
def _asking(scene: _Scene) -> Iterator[Callable[[], Figures]]:
    with ExitStack() as stack:
        crowds = {who: stack.enter_context(Crowd(address)) for who, address in scene.addresses.items()}

        def measure() -> Figures:
            found = {}
            for what in (COMMIT, FETCH):
                for who, crowd in crowds.items():
                    with scene.turn(who):
                        before, begin = scene.spent(), time.perf_counter()
                        asked = crowd.ask(what, _TOPIC, _ASKING, _AT_ONCE, scene.plan.seconds)
                        seconds = time.perf_counter() - begin
                        spent = {each: now - before[each] for each, now in scene.spent().items()}
                    found[f"{what}, {who}"] = {
                        "a second": asked / seconds,
                        **{
                            f"a CPU second of the {each}": asked / spent[each]
                            for each in spent
                            if spent[each]
                        },
                    }
            return found

        yield measure


@contextmanager
def _connections(scene: _Scene) -> Iterator[Callable[[], Figures]]:
    lonely = Members(1, 1)
    with scene.crowds(*_CONNECTIONS) as crowds:
        with scene.turn(GATEWAY):
            lonely.form(scene.stage.pool, scene.stream.load)
        (beat,) = lonely.beats()
        requests = [beat.request(number) for number in range(int(_PROBES_A_SECOND * scene.plan.seconds))]

        def measure() -> Figures:
            with scene.turn(GATEWAY):
                beating = crowds[GATEWAY].beat(_LEAD_S + scene.plan.seconds + _TAIL_S)
                by_topics = scene.stage.pool.submit(closed_loop, scene.stream.load, requests)
                percents = scene.watch()
                found = {
                    GATEWAY: percents | _trips(beating.result()),
                    TOPICS: _percentiles(by_topics.result()),
                }
            with scene.turn(BROKER):
                found[BROKER] = _at_the_broker(scene, crowds[BROKER])
            return found

        yield measure


@contextmanager
def _members(shape: tuple[int, int], scene: _Scene) -> Iterator[Callable[[], Figures]]:
    # The stream still grows faster in the first round, and leaves the first gateway less of the machine.
    turns = cycle([list(scene.gateways), list(scene.gateways)[::-1]])
    with scene.crowds(*shape) as crowds:

        def measure() -> Figures:
            with scene.turn(GATEWAY):
                found = {_NOBODY: scene.watch()}
                for who in next(turns):
                    beating = crowds[who].beat(_LEAD_S + scene.plan.seconds + _TAIL_S)
                    found[who] = scene.watch() | _trips(beating.result())
            for who, figures in found.items():
                figures["both"] = figures["stream"] + figures[GATEWAY if who == _NOBODY else who]
            with scene.turn(BROKER):
                found[BROKER] = _at_the_broker(scene, crowds[BROKER])
            return found

        yield measure


@contextmanager
def _consumers(shape: tuple[int, int], scene: _Scene) -> Iterator[Callable[[], Figures]]:
    turns = cycle([[CONSUMER, CLASSIC], [CLASSIC, CONSUMER]])
    with scene.crowds(*shape) as classic, scene.crowds(*shape, CONSUMER) as consumers:
        crowds = {CLASSIC: classic, CONSUMER: consumers}

        def measure() -> Figures:
            found = {}
            for protocol in next(turns):
                crowd = crowds[protocol]
                with scene.turn(GATEWAY):
                    beating = crowd[GATEWAY].beat(_LEAD_S + scene.plan.seconds + _TAIL_S)
                    found[protocol] = scene.watch() | _trips(beating.result())
                with scene.turn(BROKER):
                    found[f"{protocol}, {BROKER}"] = _at_the_broker(scene, crowd[BROKER])
            for protocol in crowds:
                found[protocol]["both"] = found[protocol]["stream"] + found[protocol][GATEWAY]
            return found

        yield measure


def _at_the_broker(scene: _Scene, crowd: Crowd) -> dict[str, float]:
    beating = crowd.beat(_LEAD_S + scene.plan.seconds + _TAIL_S)
    return {"broker": scene.watch()["broker"]} | _trips(beating.result())


def _trips(beaten: Beaten) -> dict[str, float]:
    return {**_percentiles(beaten.trips), "missed": beaten.missed}


def _percentiles(trips: list[float]) -> dict[str, float]:
    return {f"p{percent} in ms": percentile(trips, percent) for percent in (50, 99)}


_PARTS: dict[str, Callable[[_Scene], AbstractContextManager[Callable[[], Figures]]]] = {
    "pipelined": _pipelined,
    "join": _join,
    "asking": _asking,
    "5000": _connections,
    "1000": partial(_members, _FIRST),
    "10000": partial(_members, (10, 1_000)),
    "consumers1000": partial(_consumers, _FIRST),
    "consumers10000": partial(_consumers, (10, 1_000)),
}
