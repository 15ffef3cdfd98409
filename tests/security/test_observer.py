"""`observe` on a broker that allows only what the guide lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer
from kafka.admin import NewTopic, ResourceType

from tests.commands.job import ObserveJob
from tests.patience import wait_for
from tests.security.conftest import password_of, write_settings
from tests.security.rights import rights_of
from tests.topics import Reader

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

USER = "reader"


@pytest.fixture
def observer(secured: SecuredBroker, tmp_path: Path) -> Iterator[Callable[[], ObserveJob]]:
    """Start the job as a user who has been granted what a test says."""
    java = secured.java_properties(USER, password_of(USER))
    file = write_settings(tmp_path / "observe.toml", {f"kafka.{name}": it for name, it in java.items()})
    jobs: list[ObserveJob] = []

    def start() -> ObserveJob:
        jobs.append(ObserveJob(secured.bootstrap_servers, tmp_path, "brokers", "--config", str(file)))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


@pytest.fixture(scope="module")
def group(secured: SecuredBroker) -> Iterator[str]:
    """A group at the broker, by a listener where everybody may do everything."""
    secured.operator.create_topics([NewTopic("watched", num_partitions=1, replication_factor=1)])
    with closing(KafkaConsumer("watched", bootstrap_servers=secured.open_servers, group_id="watched")) as it:
        wait_for(lambda: it.poll(5_000) or it.assignment())
        yield "watched"


def test_the_rights_that_the_guide_lists_are_enough(
    secured: SecuredBroker, observer: Callable[[], ObserveJob], group: str
) -> None:
    secured.grant(USER, rights_of("The observer"))
    job = observer()
    job.wait_for("watching the groups at ")
    with Reader({"bootstrap_servers": secured.open_servers}, "brokers.groups") as reader:
        job.wait_until(lambda: reader.poll() or any(it.key == group.encode() for it in reader.records))
    job.terminate()
    assert job.exit_code() == 0
    assert [it for it in job.said if "uthoriz" in it] == []


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ResourceType.TOPIC, "topic __consumer_offsets cannot be read: TopicAuthorizationFailedError"),
        (ResourceType.GROUP, "Not authorized to access group: group-coordinator-observe"),
    ],
)
def test_right_that_is_missing_is_named(
    secured: SecuredBroker, observer: Callable[[], ObserveJob], group: str, kind: ResourceType, said: str
) -> None:
    assert group
    rights = rights_of("The observer")
    lacking = [
        it
        for it in rights
        if it.pattern.resource_type is not kind or it.pattern.resource_name.startswith("brokers.")
    ]
    secured.grant(USER, lacking)
    assert said in observer().error()
