"""A load of real clients in a process of its own: members, consumers, static members and raw requests.

    python -m tests.faults.load --bootstrap-servers ... --number 0 --members 12 --groups 6 ...

Ends on SIGTERM, after everybody has closed. It is a process because kafka-python leaks sockets when it is
closed while Kafka is away, and because a whole process can be paused.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError, RebalanceInProgressError

from group_coordinator import GroupConsumer, GroupMember
from group_coordinator.client.any_membership import AnyAnswer
from group_coordinator.client.channel import KafkaChannel, MissingTopicError
from group_coordinator.coordinator_state.requests import AnyRequest
from tests.faults.notes import Ended, Failed, GaveUp, Heard, Notebook, Owned, Sent, now_ms

log = logging.getLogger(__name__)

UNITS = [f"unit-{number:02}" for number in range(12)]
POLL_MS = 300
COMMIT_EVERY_S = 1.0
# What is refused while a group goes on without the caller, or is not answered while the coordinator is away.
EXPECTED = (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError)


class NotingChannel(KafkaChannel):
    """The client's own channel, which also writes down what goes through it, and can be cut."""

    def __init__(self, notebook: Notebook, client_id: str, **settings: Any) -> None:
        self._notebook = notebook
        self._client_id = client_id
        self.is_cut = threading.Event()
        # A client id is used once, so that it does as the mark of this member's request ids.
        super().__init__(client_id=client_id, instance=client_id, **settings)

    def send(self, request: AnyRequest) -> None:
        if self.is_cut.is_set():
            return
        self._notebook.write(
            Sent(
                at_ms=now_ms(),
                client_id=self._client_id,
                request_id=request.request_id,
                api=str(request.__struct_config__.tag),
                member_id=getattr(request, "member_id", None) or "",
            )
        )
        super().send(request)

    def receive(self, timeout_ms: int) -> list[AnyAnswer]:
        answers = [] if self.is_cut.wait(0) else super().receive(timeout_ms)
        for answer in answers:
            self._notebook.write(
                Heard(
                    at_ms=now_ms(),
                    client_id=self._client_id,
                    request_id=answer.request_id,
                    error=answer.error,
                )
            )
        if self.is_cut.is_set():
            self.is_cut.wait(timeout_ms / 1000)
        return answers


class Listener:
    """Writes down what a member owns and when. `who` tells its member id and generation."""

    def __init__(
        self, notebook: Notebook, client_id: str, group_id: str, who: Callable[[], tuple[str, int]]
    ) -> None:
        self._notebook, self._client_id, self._group_id, self._who = notebook, client_id, group_id, who

    def on_partitions_assigned(self, assigned: frozenset[Any]) -> None:
        member_id, generation_id = self._who()
        units = sorted(
            unit if isinstance(unit, str) else f"{unit.topic}-{unit.partition}" for unit in assigned
        )
        self._notebook.write(
            Owned(
                at_ms=now_ms(),
                client_id=self._client_id,
                group_id=self._group_id,
                member_id=member_id,
                generation_id=generation_id,
                units=units,
            )
        )

    def on_partitions_revoked(self, _revoked: frozenset[Any]) -> None:
        self._notebook.write(GaveUp(at_ms=now_ms(), client_id=self._client_id, lost=False))

    def on_partitions_lost(self, _lost: frozenset[Any]) -> None:
        self._notebook.write(GaveUp(at_ms=now_ms(), client_id=self._client_id, lost=True))


class Load:
    """What the actors of this process share."""

    def __init__(self, options: argparse.Namespace, notebook: Notebook) -> None:
        self.options = options
        self.notebook = notebook
        self.stopping = threading.Event()
        self._lives = count()

    def group(self, kind: str, number: int) -> dict[str, Any]:
        """Settings of the members of a group, drawn once for the group: all processes agree."""
        rng = random.Random(f"{self.options.seed} {kind} {number}")
        return {
            "group_id": f"{kind}-{number}",
            "session_timeout_ms": rng.choice(self.options.sessions),
            "max_poll_interval_ms": rng.choice(self.options.rebalances),
        }

    def client_id(self, name: str) -> str:
        return f"{name}.{self.options.number}.{next(self._lives)}"

    def channel(self, client_id: str) -> NotingChannel:
        return NotingChannel(
            self.notebook,
            client_id,
            bootstrap_servers=self.options.bootstrap_servers,
            request_topic=self.options.requests,
            response_topic=self.options.responses,
        )


class Actor(threading.Thread):
    """A program that is started again and again, and ends in all the ways in which programs do."""

    def __init__(self, load: Load, name: str, rng: random.Random, settings: dict[str, Any]) -> None:
        super().__init__(name=name)
        self._load, self._rng, self._settings = load, rng, settings

    def run(self) -> None:
        while not self._load.stopping.is_set():
            client_id = self._load.client_id(self.name)
            try:
                channel = self._load.channel(client_id)
            except (KafkaError, MissingTopicError) as error:
                # Nobody can start while Kafka is away; a supervisor would try again, too.
                log.warning("%s cannot start: %r", client_id, error)
            else:
                self._live(client_id, channel)
            self._load.stopping.wait(self._rng.uniform(0.5, 3))

    def _live(self, client_id: str, channel: NotingChannel) -> None:
        how = self._rng.choice(self._load.options.endings)
        if how == "left" and "group_instance_id" in self._settings:
            how = "stayed"
        try:
            with self._member(client_id, channel) as (poll, commit, close):
                self._work(poll, commit)
                if how == "crashed" and not self._load.stopping.is_set():
                    channel.is_cut.set()
                    self._load.notebook.write(Ended(at_ms=now_ms(), client_id=client_id, how=how))
                    close(leave=False)
                else:
                    # At the end of all everybody leaves, so that nothing is left to wait for.
                    close(leave=True if self._load.stopping.is_set() else how != "stayed")
                    self._load.notebook.write(Ended(at_ms=now_ms(), client_id=client_id, how="closed"))
        except Exception as error:
            log.exception("%s failed", client_id)
            self._load.notebook.write(Failed(at_ms=now_ms(), client_id=client_id, error=repr(error)))
            self._load.notebook.write(Ended(at_ms=now_ms(), client_id=client_id, how="failed"))

    def _work(self, poll: Callable[[], object], commit: Callable[[], object]) -> None:
        until = time.monotonic() + self._rng.uniform(*self._load.options.lives)
        commit_at = time.monotonic() + self._rng.uniform(0, COMMIT_EVERY_S)
        while time.monotonic() < until and not self._load.stopping.is_set():
            poll()
            if time.monotonic() >= commit_at:
                commit_at += COMMIT_EVERY_S
                try:
                    commit()
                except EXPECTED as error:
                    log.info("%s: %r", self.name, error)

    @contextmanager
    def _member(
        self, client_id: str, channel: NotingChannel
    ) -> Iterator[tuple[Callable[[], object], Callable[[], object], Callable[..., None]]]:
        raise NotImplementedError


class MemberActor(Actor):
    """A GroupMember that shares units, and commits how far it is."""

    @contextmanager
    def _member(
        self, client_id: str, channel: NotingChannel
    ) -> Iterator[tuple[Callable[[], object], Callable[[], object], Callable[..., None]]]:
        member = GroupMember(client_id=client_id, channel=channel, **self._settings)
        listener = Listener(
            self._load.notebook,
            client_id,
            self._settings["group_id"],
            lambda: (member.member_id, member.generation_id),
        )

        def commit() -> None:
            # Larger each time, whoever commits.
            units = self._rng.sample(sorted(member.assignment), min(3, len(member.assignment)))
            offsets = dict.fromkeys(units, now_ms())
            if self._rng.random() < 0.1:
                member.commit(offsets, timeout_ms=2_000)
            elif self._rng.random() < 0.1:
                member.committed(UNITS[:3], timeout_ms=2_000)
            else:
                member.commit_async(offsets)

        try:
            member.subscribe(units=UNITS, listener=listener)
            yield lambda: member.poll(timeout_ms=POLL_MS), commit, member.close
        finally:
            channel.is_cut.set()
            member.close(leave=False)


class ConsumerActor(Actor):
    """A GroupConsumer of the data topic."""

    @contextmanager
    def _member(
        self, client_id: str, channel: NotingChannel
    ) -> Iterator[tuple[Callable[[], object], Callable[[], object], Callable[..., None]]]:
        options = self._load.options
        consumer = GroupConsumer(
            bootstrap_servers=options.bootstrap_servers,
            client_id=client_id,
            channel=channel,
            auto_offset_reset="earliest",
            enable_auto_commit=self._rng.random() < 0.5,
            **self._settings,
        )

        def who() -> tuple[str, int]:
            metadata = consumer.group_metadata()
            return metadata.member_id, metadata.generation_id

        listener = Listener(self._load.notebook, client_id, self._settings["group_id"], who)

        def close(*, leave: bool) -> None:
            consumer.close(autocommit=not channel.is_cut.is_set(), leave=leave)

        try:
            consumer.subscribe([options.data], listener=listener)
            yield lambda: consumer.poll(timeout_ms=POLL_MS), consumer.commit_async, close
        finally:
            channel.is_cut.set()
            consumer.close(autocommit=False, leave=False)


class RawActor(threading.Thread):
    """Requests by hand, of which many make no sense; and records for the consumers."""

    def __init__(self, load: Load, rng: random.Random) -> None:
        super().__init__(name="raw")
        self._load, self._rng = load, rng
        self._client_id = load.client_id("raw")
        self._ids = count()

    def run(self) -> None:
        options = self._load.options
        producer = KafkaProducer(
            bootstrap_servers=options.bootstrap_servers, acks="all", delivery_timeout_ms=2**31 - 1
        )
        while not self._load.stopping.wait(self._rng.uniform(0, 2 / options.raw_per_s)):
            group_id, value = self._request()
            producer.send(options.requests, key=group_id.encode(), value=value)
            producer.send(options.data, value=str(now_ms()).encode())
        producer.close(timeout=30)

    def _request(self) -> tuple[str, bytes]:
        rng = self._rng
        number = rng.randrange(self._load.options.groups)
        group_id = f"{rng.choice(['simple', 'raw', 'member', 'consumer'])}-{number}"
        topics = [
            {
                "name": "t",
                "partitions": [{"partition_index": rng.randrange(3), "committed_offset": now_ms()}],
            }
        ]
        stranger: dict[str, Any] = {"member_id": "stranger", "generation_id": rng.randrange(5)}
        join: dict[str, Any] = {
            "session_timeout_ms": 2_000,
            "rebalance_timeout_ms": 3_000,
            "protocol_type": "units",
            "protocols": [{"name": "range", "metadata": ""}],
        }
        fields: dict[str, Any]
        api, fields = rng.choice(
            [
                ("heartbeat", stranger),
                ("describe_group", {}),
                ("find_coordinator", {}),
                ("offset_fetch", {}),
                ("offset_commit", {"topics": topics}),
                ("offset_commit", {"topics": topics}),
                ("offset_commit", {"topics": topics, **stranger}),
                ("leave_group", {"members": [{"member_id": "stranger"}]}),
                ("sync_group", stranger | {"protocol_type": "units", "protocol_name": "range"}),
                ("heartbeat", {"member_id": 1}),
                ("no_such_api", {}),
            ]
        )
        if group_id.startswith("raw") and rng.random() < 0.3:
            # Without an id to be fetched first: it is in the group at once, and never heard of again.
            api, fields = "join_group", join | {"api_version": rng.choice([0, 3, 9])}
        if group_id.startswith("simple") and rng.random() < 0.05:
            api, fields = rng.choice(
                [
                    ("delete_group", {}),
                    ("offset_delete", {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
                ]
            )
        request_id = f"{self._client_id}-{next(self._ids)}"
        request = {"api": api, "request_id": request_id, "client_id": self._client_id, "group_id": group_id}
        self._load.notebook.write(
            Sent(at_ms=now_ms(), client_id=self._client_id, request_id=request_id, api=api, member_id="")
        )
        return group_id, json.dumps(request | fields).encode()


def actors(load: Load) -> Iterator[threading.Thread]:
    """Three in five share units, one consumes, one is static; and one sends whatever comes to its mind."""
    options = load.options
    for place in range(options.members):
        number = options.number * options.members + place
        rng = random.Random(f"{options.seed} actor {number}")
        group = number % options.groups
        match number % 5:
            case 0:
                yield ConsumerActor(load, f"consumer{place}", rng, load.group("consumer", group))
            case 1:
                settings = load.group("member", group) | {"group_instance_id": f"static-{number}"}
                yield MemberActor(load, f"static{place}", rng, settings)
            case _:
                yield MemberActor(load, f"member{place}", rng, load.group("member", group))
    yield RawActor(load, random.Random(f"{options.seed} raw {options.number}"))


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load", description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--requests", required=True, help="the request topic")
    parser.add_argument("--responses", required=True, help="the response topic")
    parser.add_argument("--data", required=True, help="a topic to consume")
    parser.add_argument("--notes", type=Path, required=True, help="the file to write notes to")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, required=True, help="which of several such processes")
    parser.add_argument("--members", type=int, required=True, help="in this process")
    parser.add_argument("--groups", type=int, required=True, help="of each kind, shared by all processes")
    parser.add_argument("--sessions", type=numbers, default=[6_000, 10_000], help="session timeouts, in ms")
    parser.add_argument("--rebalances", type=numbers, default=[20_000, 60_000], help="rebalance timeouts")
    parser.add_argument("--lives", type=numbers, default=[15, 60], help="least and most seconds of a life")
    parser.add_argument("--endings", type=lambda text: text.split(","), default=["left", "crashed", "stayed"])
    parser.add_argument("--raw-per-s", type=float, default=5)
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.WARNING)
    with Notebook(options.notes) as notebook:
        load = Load(options, notebook)
        signal.signal(signal.SIGTERM, lambda *_: load.stopping.set())
        running = list(actors(load))
        for actor in running:
            actor.start()
        for actor in running:
            # A signal may reach another thread, and Python handles it in this one, once it is awake.
            while actor.is_alive():
                actor.join(0.5)


if __name__ == "__main__":
    main()
