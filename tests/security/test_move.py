"""`move` and the gateway's guard on a broker that allows only what the guide lists."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer
from kafka.admin import ACLOperation, ACLResourcePatternType, NewTopic, ResourcePattern, ResourceType
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.admin import AdminClient
from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import is_guard
from tests.commands.job import COMMAND, Job
from tests.patience import PATIENCE_S, wait_for
from tests.security.conftest import gateway_before, gateway_rights, password_of
from tests.security.rights import Right, rights_of

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

USER, JOB = "operator", "before-move"
TOPIC, SIDES = "moved-orders", f"{JOB}.sides"
ORDERS = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def job(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    secured.operator.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    with ExitStack() as stack:
        job = Job(secured.open_servers, tmp_path_factory.mktemp("move"), JOB)
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        yield job


def commit(secured: SecuredBroker, group: str, offset: int) -> None:
    """Commit at the broker, as a member did that has gone."""
    with closing(KafkaConsumer(bootstrap_servers=secured.open_servers, group_id=group)) as consumer:
        consumer.assign([ORDERS])
        consumer.commit({ORDERS: OffsetAndMetadata(offset, "by hand", -1)})


def rights_to_move(job: Job, group: str) -> list[Right]:
    """The rights that the guide lists for this group."""
    names = {f"coordinator.{name}": topic for name, topic in job.topics.items()}
    names |= {"coordinator.responses*": job.topics["responses"], "coordinator.sides": SIDES}
    names |= {"orders": TOPIC, "billing": group}
    return [*rights_of("An operator", names)[:2], *rights_of("Moving groups", names)]


def move(secured: SecuredBroker, job: Job, directory: Path, group: str, to: str) -> tuple[int, str]:
    """The exit code, and all that was said."""
    file = directory / "move.properties"
    java = secured.java_properties(USER, password_of(USER))
    file.write_text("".join(f"{name}={value}\n" for name, value in java.items()))
    done = subprocess.run(
        [
            *(*COMMAND, "move", group, "--to", to, "--bootstrap-server", secured.bootstrap_servers),
            *("--request-topic", job.topics["requests"], "--response-topic", job.topics["responses"]),
            *("--sides-topic", SIDES, "--command-config", str(file), "--timeout", "10000"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def committed(secured: SecuredBroker, job: Job, group: str) -> dict[str, int | None]:
    """What each side has, as somebody sees it who may do anything."""
    with AdminClient(
        bootstrap_servers=secured.open_servers,
        request_topic=job.topics["requests"],
        response_topic=job.topics["responses"],
    ) as admin:
        here = admin.list_group_offsets([group])[group].get(ORDERS)
    with BrokersAdmin(bootstrap_servers=secured.open_servers) as brokers:
        there = brokers.list_group_offsets([group])[group].get(ORDERS)
    return {
        "coordinator": None if here is None else here.offset,
        "brokers": None if there is None else there.offset,
    }


def set_here(secured: SecuredBroker, job: Job, group: str, offset: int) -> None:
    with AdminClient(
        bootstrap_servers=secured.open_servers,
        request_topic=job.topics["requests"],
        response_topic=job.topics["responses"],
    ) as admin:
        assert admin.alter_group_offsets(group, {ORDERS: OffsetAndMetadata(offset, "", -1)}) == {
            ORDERS: NoError
        }


def on_groups(*operations: ACLOperation) -> Right:
    return Right(ResourcePattern(ResourceType.GROUP, "*", ACLResourcePatternType.LITERAL), operations)


def is_guarded(secured: SecuredBroker, group: str) -> bool:
    with BrokersAdmin(bootstrap_servers=secured.open_servers) as brokers:
        return any(map(is_guard, brokers.describe_groups([group])[group].members))


def test_the_guard_needs_the_right_that_the_guide_lists(
    secured: SecuredBroker, job: Job, tmp_path: Path
) -> None:
    """It comes first: the only group that is here is the first of which a guard is taken."""
    group = "guarded"
    commit(secured, group, 5)
    set_here(secured, job, group, 5)
    assert not is_guarded(secured, group)
    rights, guard = gateway_rights(job.topics), {"gateway.guard": "true"}
    may_see = [*rights, on_groups(ACLOperation.DESCRIBE)]
    with gateway_before(secured, tmp_path, job.topics, may_see, more=guard) as process:
        process.wait_for("clients find the gateway at ")
        named = f"the guard of group {group} cannot be taken: "
        process.wait_until(lambda: any(named in each for each in process.said))
        assert any("GroupAuthorizationFailedError" in each for each in process.said)
    assert not is_guarded(secured, group)
    may_guard = [*rights, on_groups(ACLOperation.DESCRIBE, ACLOperation.READ)]
    with gateway_before(secured, tmp_path, job.topics, may_guard, more=guard) as process:
        process.wait_for("clients find the gateway at ")
        wait_for(lambda: is_guarded(secured, group))
        assert [each for each in process.said if "Authorization" in each] == []


def test_the_rights_that_the_guide_lists_are_enough_to_move_a_group_and_back(
    secured: SecuredBroker, job: Job, tmp_path: Path
) -> None:
    group = "moved"
    commit(secured, group, 5)
    secured.grant(USER, rights_to_move(job, group))
    assert move(secured, job, tmp_path, group, "coordinator")[0] == 0
    assert committed(secured, job, group) == {"coordinator": 5, "brokers": 5}
    assert is_guarded(secured, group)
    for to in ("brokers", "coordinator", "brokers"):
        # The topic of sides is there now.
        secured.grant(USER, rights_to_move(job, group)[:-1])
        code, said = move(secured, job, tmp_path, group, to)
        assert code == 0, said
        assert f"Group '{group}' is at the {to}" in said
        assert is_guarded(secured, group) is (to == "coordinator")


@pytest.mark.parametrize("to", ["coordinator", "brokers"])
def test_a_right_that_is_missing_is_named_and_the_group_stays_where_it_is(
    secured: SecuredBroker, job: Job, tmp_path: Path, to: str
) -> None:
    """Each that the guide lists, but for the last, which is for a topic that is there by now."""
    group, is_at_the_brokers = f"lacking-to-{to}", to == "coordinator"
    commit(secured, group, 5)
    rights = rights_to_move(job, group)
    secured.grant(USER, rights)
    if not is_at_the_brokers:
        assert move(secured, job, tmp_path, group, "coordinator")[0] == 0
        set_here(secured, job, group, 7)
    before = committed(secured, job, group)
    expected = {
        job.topics["requests"]: f"a right is missing on topic {job.topics['requests']}",
        job.topics["responses"]: f"a right is missing on topic {job.topics['responses']}",
        SIDES: f"a right is missing on topic {SIDES}",
        group: f"a right is missing on group '{group}': Read, Describe or Delete",
        TOPIC: f"a right is missing on topic brokers, {TOPIC}-0",
        "*": "a right is missing on topic *: Describe, without which brokers leave out the offsets",
    }
    assert [it.pattern.resource_name for it in rights[:-1]] == [*expected]
    if is_at_the_brokers:
        # Nothing is committed at the brokers.
        del expected[TOPIC]
    for name, said in expected.items():
        secured.grant(USER, [it for it in rights if it.pattern.resource_name != name])
        code, told = move(secured, job, tmp_path, group, to)
        assert (code, said in told) == (1, True), told
        assert "still on its way" not in told
        assert committed(secured, job, group) == before
        assert is_guarded(secured, group) is not is_at_the_brokers
    without_read = [
        it._replace(operations=tuple({*it.operations} - {ACLOperation.READ}))
        if it.pattern.resource_name == group
        else it
        for it in rights
    ]
    secured.grant(USER, without_read)
    code, told = move(secured, job, tmp_path, group, to)
    # It may look, and not guard. That shows before the record says that the group moves.
    assert (code, expected[group] in told, "giving up" in told) == (1, True, False), told
    secured.grant(USER, rights)
    assert move(secured, job, tmp_path, group, to)[0] == 0
