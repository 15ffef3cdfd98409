"""Guards at live brokers: they keep out whoever does not come through a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import InconsistentGroupProtocolError, InvalidSessionTimeoutError, UnknownMemberIdError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.brokers_guard import BrokersGuard, HasMembersError, is_guard
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.patience import wait_for

pytestmark = pytest.mark.spark

T0 = TopicPartition("guarded", 0)
OTHERS = pytest.mark.verify


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("broker-3.9", marks=OTHERS),
        "broker",
        pytest.param("broker-4.4", marks=OTHERS),
    ],
)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "broker":
        servers = request.getfixturevalue("bootstrap_servers")
        create(servers)
        yield servers
    else:
        # As brokers have it by default: the first join of an empty group waits for others.
        overrides = {"group.initial.rebalance.delay.ms": "3000"}
        directory = tmp_path_factory.mktemp("kafka")
        with EmbeddedBroker(directory, jars=request.param, overrides=overrides) as broker:
            create(broker.bootstrap_servers)
            yield broker.bootstrap_servers


def create(servers: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics({T0.topic: {"num_partitions": 1}})
        admin.wait_for_topics([T0.topic])


@pytest.fixture
def both(servers: str) -> Iterator[tuple[BrokersAdmin, BrokersGuard]]:
    with ExitStack() as stack:
        admin = stack.enter_context(BrokersAdmin(bootstrap_servers=servers))
        yield admin, stack.enter_context(BrokersGuard(bootstrap_servers=servers))


def joins(servers: str, group_id: str) -> set[TopicPartition]:
    """What a straggler is given."""
    with closing(KafkaConsumer(T0.topic, bootstrap_servers=servers, group_id=group_id)) as consumer:
        return set(wait_for(lambda: consumer.poll(5_000) or consumer.assignment()))


def test_a_guard_keeps_members_and_commits_out_until_it_is_released(
    servers: str, both: tuple[BrokersAdmin, BrokersGuard]
) -> None:
    admin, guard = both
    offsets = {T0: OffsetAndMetadata(0, "mine", -1)}
    admin.alter_group_offsets("g", offsets)
    for _ in range(3):
        assert guard.take(["g"]) == {"g": None}
        group = admin.describe_groups(["g"])["g"]
        assert (group.group_state, [is_guard(each) for each in group.members]) == ("Stable", [True])
    with pytest.raises(InconsistentGroupProtocolError):
        joins(servers, "g")
    assert admin.alter_group_offsets("g", offsets) == {T0: UnknownMemberIdError}
    assert admin.list_group_offsets(["g"])["g"] == offsets
    assert guard.release(["g", "never"]) == {"g": None, "never": None}
    assert joins(servers, "g") == {T0}
    assert guard.release(["g"]) == {"g": None}


def test_another_one_may_renew_it_and_release_it(
    servers: str, both: tuple[BrokersAdmin, BrokersGuard]
) -> None:
    admin, guard = both
    guard.take(["shared", "other"])
    with BrokersGuard(bootstrap_servers=servers) as second:
        assert second.take(["other", "shared"]) == {"other": None, "shared": None}
        assert guard.take(["shared"]) == {"shared": None}
        second.release(["shared"])
    groups = admin.describe_groups(["shared", "other"])
    assert [len(groups[each].members) for each in ("shared", "other")] == [0, 1]


def test_a_group_with_members_of_its_own_is_left_alone(
    servers: str, both: tuple[BrokersAdmin, BrokersGuard]
) -> None:
    admin, guard = both
    with closing(KafkaConsumer(T0.topic, bootstrap_servers=servers, group_id="busy")) as consumer:
        wait_for(lambda: consumer.poll(5_000) or consumer.assignment())
        before = admin.describe_groups(["busy"])["busy"]
        assert isinstance(guard.take(["busy"])["busy"], HasMembersError)
        assert admin.describe_groups(["busy"])["busy"] == before


def test_brokers_that_do_not_allow_so_long_a_session_are_told(
    both: tuple[BrokersAdmin, BrokersGuard], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, guard = both
    module = "group_coordinator.client.brokers_guard.GUARD_SESSION_MS"
    monkeypatch.setattr(module, 30 * 60 * 1000 + 1)
    error = guard.take(["long"])["long"]
    assert isinstance(error, InvalidSessionTimeoutError)
    assert "group.max.session.timeout.ms" in str(error)


@pytest.mark.verify
def test_a_guard_lapses_when_nobody_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.client.brokers_guard.GUARD_SESSION_MS", 6_000)
    with EmbeddedBroker(tmp_path / "kafka") as broker, ExitStack() as stack:
        servers = broker.bootstrap_servers
        create(servers)
        admin = stack.enter_context(BrokersAdmin(bootstrap_servers=servers))
        guard = stack.enter_context(BrokersGuard(bootstrap_servers=servers))
        guard.take(["g"])
        wait_for(lambda: not admin.describe_groups(["g"])["g"].members)
        assert joins(servers, "g") == {T0}
