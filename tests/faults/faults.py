"""What goes wrong, and when: a plan drawn from a seed, and how each kind of fault is done.

Every fault is over when `Fault.do` returns, but for what has to be started again.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple, Protocol

from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.faults.supervisor import Supervisor, signal_process
from tests.gateway.cluster import replicate
from tests.own_clock import BrokerWithOwnClock
from tests.storage.hdfs import Hdfs
from tests.storage.s3 import ObjectStore

__all__ = ["KINDS", "REQUEST_PARTITIONS", "Fault", "Scene", "plan"]

REQUEST_PARTITIONS = 4

# Longer than a batch, and longer than the shortest session.
_PAUSES_S = ((1.5, 4), (7, 14))
_FOUND_WITHIN_S = 20
# The first batch of a new log needs more than that, the checkpoint's files are smaller.
_QUOTA_BYTES = 100
_JUMPS_MS = (2_000, 60_000)
"""No smaller ones, which may move the time of a partition's groups: `docs/contract.md` says why."""
_PILE = 20_000
_QUESTIONS = 300
_LARGE = "large"
_numbers = itertools.count(1)


class Scene(Protocol):
    """What faults are done to. `done`: how often which process was sent which signal, and the like."""

    broker: BrokerWithOwnClock
    store: ObjectStore | Hdfs | None
    supervisor: Supervisor
    done: Counter[str]

    @property
    def follower(self) -> EmbeddedBroker:
        """A broker that no client knows, and that holds nothing but what it is given."""

    @property
    def request_topic(self) -> str: ...

    @property
    def response_topic(self) -> str: ...

    @property
    def load_pids(self) -> list[int]: ...


class Fault(NamedTuple):
    """After `after_s`, do `kind` for `seconds`; `choice` (0 to 1) chooses among several processes or ways."""

    after_s: float
    kind: str
    seconds: float
    choice: float

    def do(self, scene: Scene) -> None:
        KINDS[self.kind](scene, self)


def plan(seed: int, seconds: float, kinds: Iterable[str]) -> list[Fault]:
    """Faults for about so many seconds: the same for the same arguments."""
    rng = random.Random(f"{seed} faults")
    names = list(kinds)
    faults: list[Fault] = []
    passed = 0.0
    while passed < seconds:
        short, long = _PAUSES_S
        length = rng.uniform(*(short if rng.random() < 0.5 else long))
        faults.append(Fault(rng.uniform(0.2, 12), rng.choice(names), length, rng.random()))
        passed += faults[-1].after_s + length
    return faults


# -- processes -------------------------------------------------------------------------------------------


def _pids(scene: Scene, *kinds: str) -> list[int]:
    """Processes of these kinds; waits until there are some, since the coordinator may just be starting."""
    deadline = time.monotonic() + _FOUND_WITHIN_S
    while time.monotonic() < deadline:
        if found := [process.pid for process in scene.supervisor.processes() if process.kind in kinds]:
            return found
        time.sleep(0.1)
    return []


def _chosen(fault: Fault, pids: list[int]) -> list[int]:
    return pids[int(fault.choice * len(pids)) :][:1]


def _kill(scene: Scene, what: str, pids: list[int]) -> bool:
    killed = [pid for pid in pids if signal_process(pid, signal.SIGKILL)]
    scene.done[f"SIGKILL {what}"] += bool(killed)
    return bool(killed)


def _pause(scene: Scene, what: str, pids: list[int], seconds: float) -> None:
    stopped = [pid for pid in pids if signal_process(pid, signal.SIGSTOP)]
    scene.done[f"SIGSTOP {what}"] += bool(stopped)
    time.sleep(seconds)
    for pid in stopped:
        signal_process(pid, signal.SIGCONT)


def _kill_one(scene: Scene, what: str, fault: Fault, kind: str) -> None:
    """One of those that are there, whichever: it may end by itself between the look and the signal."""
    deadline = time.monotonic() + _FOUND_WITHIN_S
    while not _kill(scene, what, _chosen(fault, _pids(scene, kind))) and time.monotonic() < deadline:
        time.sleep(0.1)


def _kill_worker(scene: Scene, fault: Fault) -> None:
    _kill_one(scene, "Python worker", fault, "worker")


def _kill_executor(scene: Scene, fault: Fault) -> None:
    _kill_one(scene, "executor", fault, "executor")


def _kill_driver(scene: Scene, fault: Fault) -> None:
    """Its Python, its JVM, or all processes at once; and perhaps nobody starts it for a while."""
    kinds = [("python",), ("jvm",), ("python", "jvm", "executor", "worker")][int(fault.choice * 3)]
    if fault.seconds > _PAUSES_S[0][1]:
        scene.supervisor.stay_away(fault.seconds)
    _kill(scene, "driver", _pids(scene, *kinds))


def _pause_worker(scene: Scene, fault: Fault) -> None:
    _pause(scene, "Python worker", _pids(scene, "worker"), fault.seconds)


def _pause_jvm(scene: Scene, fault: Fault) -> None:
    _pause(scene, "driver's JVM", _pids(scene, "jvm"), fault.seconds)


def _pause_python(scene: Scene, fault: Fault) -> None:
    _pause(scene, "driver's Python", _pids(scene, "python"), fault.seconds)


def _pause_executor(scene: Scene, fault: Fault) -> None:
    _pause(scene, "executor", _chosen(fault, _pids(scene, "executor")), fault.seconds)


def _pause_driver(scene: Scene, fault: Fault) -> None:
    pids = _pids(scene, "python", "jvm", "executor", "worker")
    _pause(scene, "all of the coordinator", pids, fault.seconds)


def _pause_members(scene: Scene, fault: Fault) -> None:
    """A part of the members is silent, is put out, and wakes up in the belief that nothing has happened."""
    _pause(scene, "members", _chosen(fault, scene.load_pids), fault.seconds)


def _kill_broker(scene: Scene, fault: Fault) -> None:
    pid = scene.broker.pid
    assert pid is not None
    _kill(scene, "broker", [pid])
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it is the broker's to reap
    if fault.seconds > _PAUSES_S[0][1]:
        time.sleep(fault.seconds)
    scene.broker.start()


def _pause_broker(scene: Scene, fault: Fault) -> None:
    assert scene.broker.pid is not None
    _pause(scene, "broker", [scene.broker.pid], fault.seconds)


def _kill_store(scene: Scene, fault: Fault) -> None:
    """The object store, or HDFS, is away for a while."""
    assert scene.store is not None
    _kill(scene, "storage", [scene.store.pid])
    time.sleep(fault.seconds)
    scene.store.start()


def _pause_store(scene: Scene, fault: Fault) -> None:
    assert scene.store is not None
    _pause(scene, "storage", [scene.store.pid], fault.seconds)


# -- files and topics ------------------------------------------------------------------------------------


def _fill_disk(scene: Scene, fault: Fault) -> None:
    """No file may grow beyond a few bytes, as if the quota were used up: writes fail with an IOException.

    The limit of one process (RLIMIT_FSIZE) needs no file system of its own and no rights.
    """
    pids = _pids(scene, "jvm", "executor")
    before = {}
    for pid in pids:
        try:
            before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_QUOTA_BYTES, before[pid][1]))
        except ProcessLookupError:
            continue
    scene.done["disk full"] += bool(before)
    time.sleep(fault.seconds)
    for pid, limits in before.items():
        try:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        except ProcessLookupError:
            continue  # it has ended of it


def _refuse_writes(scene: Scene, fault: Fault) -> None:
    """The response topic takes nothing: for a while (a follower hangs), or for its size (for good)."""
    if fault.choice < 0.5:
        with _hanging(scene, TopicPartition(scene.response_topic, 0)):
            scene.done["sink refused: a follower hangs"] += 1
            time.sleep(fault.seconds)
        return
    name = "max.message.bytes"
    with _admin(scene) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, scene.response_topic, {name: "80"})])
        scene.done[f"sink refused: {name}"] += 1
        time.sleep(fault.seconds)
        large = {name: "12000000"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, scene.response_topic, large)])


def _stick(scene: Scene, fault: Fault) -> None:
    """One partition of the request topic takes nothing, until its follower goes on or is put out."""
    partition = TopicPartition(scene.request_topic, int(fault.choice * REQUEST_PARTITIONS))
    with _hanging(scene, partition):
        scene.done["request partition stuck"] += 1
        time.sleep(fault.seconds)


@contextmanager
def _hanging(scene: Scene, partition: TopicPartition) -> Iterator[None]:
    """The partition has a follower meanwhile, for which its leader waits, and which hangs."""
    follower = scene.follower
    assert follower.pid is not None
    replicate(follower.bootstrap_servers, partition, [1, 2])
    os.kill(follower.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(follower.pid, signal.SIGCONT)
    replicate(follower.bootstrap_servers, partition, [1])


# -- clocks and requests ---------------------------------------------------------------------------------


def _jump(scene: Scene, fault: Fault) -> None:
    """The clock of the broker, which stamps requests and ticks, is ahead or behind for a while."""
    least, most = _JUMPS_MS
    sign, size = (1, 2 * fault.choice) if fault.choice < 0.5 else (-1, 2 * fault.choice - 1)
    scene.broker.set_clock(sign * round(least + size * (most - least)))
    scene.done["clock jumped"] += 1
    time.sleep(fault.seconds)
    scene.broker.set_clock(0)


def _pile_up(scene: Scene, fault: Fault) -> None:
    """Nobody reads for a while, and then there are requests for many batches."""
    scene.supervisor.stay_away(fault.seconds)
    _kill(scene, "driver", _pids(scene, "python", "jvm", "executor", "worker"))
    number = next(_numbers)
    beat = {"api": "heartbeat", "client_id": "pile", "generation_id": 1, "member_id": "nobody"}
    _send(
        scene,
        [
            beat | {"group_id": f"pile-{each % 20}", "request_id": f"pile-{number}-{each}"}
            for each in range(_PILE)
        ],
    )
    scene.done["backlog"] += 1


def _flood(scene: Scene, _fault: Fault) -> None:
    """Many questions at once about a group with a large answer."""
    number = next(_numbers)
    partitions = [
        {"partition_index": each, "committed_offset": each, "committed_metadata": "m" * 60}
        for each in range(1_000)
    ]
    of_large = {"client_id": "flood", "group_id": _LARGE}
    commit = of_large | {"api": "offset_commit", "topics": [{"name": "t", "partitions": partitions}]}
    ask = of_large | {"api": "offset_fetch"}
    _send(scene, [commit | {"request_id": f"flood-{number}"}])
    _send(scene, [ask | {"request_id": f"flood-{number}-{each}"} for each in range(_QUESTIONS)])
    scene.done["flood"] += 1


def _send(scene: Scene, requests: list[dict[str, object]]) -> None:
    with closing(KafkaProducer(bootstrap_servers=scene.broker.bootstrap_servers, linger_ms=50)) as producer:
        for request in requests:
            key, value = str(request["group_id"]).encode(), json.dumps(request).encode()
            producer.send(scene.request_topic, key=key, value=value)
        producer.flush()


@contextmanager
def _admin(scene: Scene) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=scene.broker.bootstrap_servers)
    try:
        yield admin
    finally:
        admin.close()


KINDS: dict[str, Callable[[Scene, Fault], None]] = {
    "kill-worker": _kill_worker,
    "kill-executor": _kill_executor,
    "kill-driver": _kill_driver,
    "kill-broker": _kill_broker,
    "pause-worker": _pause_worker,
    "pause-executor": _pause_executor,
    "pause-jvm": _pause_jvm,
    "pause-python": _pause_python,
    "pause-driver": _pause_driver,
    "pause-broker": _pause_broker,
    "pause-members": _pause_members,
    "kill-store": _kill_store,
    "pause-store": _pause_store,
    "disk-full": _fill_disk,
    "sink-refuses": _refuse_writes,
    "stuck-partition": _stick,
    "clock-jump": _jump,
    "backlog": _pile_up,
    "flood": _flood,
}
