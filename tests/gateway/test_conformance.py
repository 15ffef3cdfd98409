"""The gateway does over the wire what live brokers have done, but for what the contract has otherwise.

The harness of tests/conformance plays its scripts with the gateway as the broker. It compares with the core,
which repeats all that brokers were recorded to do (tests/coordinator_state/test_recorded.py). The stream
takes its time for an answer, so all times of a script are that much longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient

from tests.commands.job import Job
from tests.conformance.classic.client import ClassicClient
from tests.conformance.classic.game import ClassicGame
from tests.conformance.classic.scripted import PATIENT, PLAYED
from tests.conformance.classic.sequence import PARTITIONS, TOPICS
from tests.conformance.classic.setups import SETUPS
from tests.conformance.differences import Known
from tests.conformance.game import Result
from tests.conformance.messages import read
from tests.conformance.recorded import complaint
from tests.conformance.runner import Broker, Runner
from tests.conformance.wire import Question
from tests.gateway.conftest import start_gateway

pytestmark = pytest.mark.spark

SLOWNESS = 20
USUAL_MS = 40
"""How long an answer may take, in the harness's time, before the machine counts as held up."""
AT_A_TIME = 100
REBALANCE_IN_PROGRESS = 27
PARKED = ("join_group", "sync_group")
# A group without an id is refused: the gateway has no key for its records.
ALL = [name for name, sequence in PLAYED.items() if name not in PATIENT and not sequence.nameless]
AS_KAFKA = {"difference: commit for a topic that is not there"}
"""Differences between the core and Kafka in which the gateway does as Kafka does."""


class GatewayClient(ClassicClient):
    """Asks the gateway as if it were a broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers, SLOWNESS)
        self._given_up: set[int] = set()
        """Questions that a broker would not answer any more, by their ids."""
        self._kept_back: set[int] = set()
        """Those that the gateway has answered all the same. Their connections are free again."""

    async def ask(self, request: dict[str, Any]) -> Question:
        """Send a request; a list is asked for once it has heard of what the group has become."""
        if request["api"] == "list_groups":
            await self._listed(request["group_id"])
        return await super().ask(request)

    async def _ask(self, request: dict[str, Any]) -> Question:
        self._given_up |= {key for key, (each, _) in self._open.items() if ends(request, each.request)}
        question = await super()._ask(request)
        if request["api"] in PARKED:
            question.raw = asyncio.ensure_future(self._unless_given_up(question, question.raw))
        return question

    def drop(self, question: Question) -> None:
        """Wait no longer for the answer to `question`."""
        if id(question) in self._kept_back:
            self._kept_back.remove(id(question))
            del self._open[id(question)]
            question.raw.cancel()
        else:
            super().drop(question)
        self._given_up.discard(id(question))

    async def _unless_given_up(
        self, question: Question, told: asyncio.Future[tuple[int, bytes]]
    ) -> tuple[int, bytes]:
        """The answer, but none where a broker gives none.

        That is to a request that a newer one has replaced, or whose member has left. The gateway answers 27
        when its time is over (docs/gateway.md, "When the stream is away").
        """
        at_ms, received = await told
        error_code = read(question.request, received)["error_code"]
        if error_code == REBALANCE_IN_PROGRESS and id(question) in self._given_up:
            self._kept_back.add(id(question))
            await asyncio.Event().wait()
        return at_ms, received

    async def _listed(self, group_id: str) -> None:
        while True:
            described = await self._told(group_id, "describe_group", 5)
            listed = await self._told(group_id, "list_groups", 5, states_filter=[])
            states = [each["group_state"] for each in listed["groups"]]
            if states == [described["group_state"]] or (not states and described["group_state"] == "Dead"):
                return

    @contextmanager
    def _timed(self, expected_ms: float = 0) -> Iterator[None]:
        with super()._timed(expected_ms + USUAL_MS):
            yield


def ends(request: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a broker answers `before` no more after `request`: its member asks again, or is removed."""
    if before["api"] not in PARKED or request["group_id"] != before["group_id"]:
        return False
    if request["api"] == "leave_group":
        leaving = {
            (each["member_id"], each.get("group_instance_id"))
            for each in request.get("members") or [{"member_id": request.get("member_id", "")}]
        }
        return any(
            member_id == before["member_id"]
            or (instance_id is not None and instance_id == before.get("group_instance_id"))
            for member_id, instance_id in leaving
        )
    return request["api"] == before["api"] and request["member_id"] == before["member_id"] != ""


def as_the_core(_shows: object) -> Known:
    """All differences between the core and Kafka are to be seen at the gateway."""
    return Known(ClassicGame.differences, *ClassicGame.differences)


@contextmanager
def gateway(directory: Path, broker: str, setup: str) -> Iterator[str]:
    """The address of a gateway, behind which is a coordinator with the settings of the setup."""
    wanted = msgspec.to_builtins(SETUPS[setup].core)
    options = []
    for name, value in wanted.items():
        if name.startswith("group_consumer_"):
            continue  # The scripts are of the classic protocol.
        is_time = name.endswith(("_ms", "_minutes"))
        slower = min(value * SLOWNESS, 2**31 - 1) if is_time else value
        options += ["--set", f"{name.replace('_', '.')}={slower}"]
    with ExitStack() as stack:
        job = Job(broker, directory, f"conformance-{setup}", *options)
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        process = start_gateway(directory, broker, job.topics)
        stack.callback(process.kill)
        yield process.wait_for("clients find the gateway at ")


def play(directory: Path, broker: str, setup: str, names: list[str]) -> dict[str, str]:
    """Return what is wrong with each of the scripts, empty if nothing is."""

    async def play_all(address: str) -> dict[str, str]:
        brokers = {setup: Broker(address)}
        async with Runner(ClassicGame, brokers, AT_A_TIME, GatewayClient, as_the_core) as runner:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(runner.run(PLAYED[name])) for name in names}
            results = {name: task.result() for name, task in tasks.items()}
        return {name: wrong_with(name, it) for name, it in results.items()}

    admin = KafkaAdminClient(bootstrap_servers=broker)
    if absent := set(TOPICS) - set(admin.list_topics()):
        admin.create_topics({topic: {"num_partitions": PARTITIONS} for topic in absent})
    admin.close()
    with gateway(directory, broker, setup) as address:
        return asyncio.run(play_all(address))


def wrong_with(name: str, result: Result) -> str:
    if name in AS_KAFKA:
        return complaint(ClassicGame, name, result)
    return "" if result.verdict == "same" else str(result)


def complaints(directory: Path, broker: str, setup: str, names: list[str]) -> str:
    found = play(directory, broker, setup, names)
    assert len(found) == len(names)
    return "\n".join(f"{name}: {wrong}" for name, wrong in found.items() if wrong)


@pytest.mark.verify
@pytest.mark.parametrize("setup", SETUPS)
def test_the_gateway_does_what_brokers_do(setup: str, tmp_path: Path, bootstrap_servers: str) -> None:
    names = [name for name in ALL if PLAYED[name].setup == setup]
    wrong = complaints(tmp_path, bootstrap_servers, setup, names)
    assert not wrong, wrong
