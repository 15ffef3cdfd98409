"""Members of the consumer protocol say nothing of their topics, and follow what the broker has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from group_coordinator import GroupMember
from group_coordinator.client.topic_ids import topic_id_of
from tests.commands.asking import requests_to
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Requests

pytestmark = pytest.mark.spark

WATCHED, WRITTEN = ("group_coordinator_topics_watched",), ("group_coordinator_topic_metadata_written_total",)
LAST = ("group_coordinator_topics_last_watched_timestamp_seconds",)


class Member:
    """The one member of a group. It gives up and takes what it is told to."""

    def __init__(self, requests: Requests, *names: str) -> None:
        self._requests = requests
        self.owned: list[dict[str, Any]] = []
        self._member_id, self._epoch, self.interval_ms = "m", 0, 0
        self._beat(rebalance_timeout_ms=60_000, subscribed_topic_names=list(names), topic_partitions=[])

    def _beat(self, **fields: Any) -> None:
        answer = self._requests.call(
            "consumer_group_heartbeat",
            "followers",
            member_id=self._member_id,
            member_epoch=self._epoch,
            **fields,
        )
        assert answer["error"] == "NONE"
        self._epoch = answer["member_epoch"]
        if answer["assignment"] is not None:
            self.owned = answer["assignment"]

    def has(self, *topics: tuple[str, str, int]) -> bool:
        """Send a heartbeat; whether it has all partitions of these now: name, id and number of each."""
        owned = [{"topic_id": each["topic_id"], "partitions": each["partitions"]} for each in self.owned]
        self._beat(topic_partitions=owned)
        has = {(each["name"], each["topic_id"], tuple(each["partitions"])) for each in self.owned}
        return has == {(name, topic_id, tuple(range(count))) for name, topic_id, count in topics}


def own_member(bootstrap_servers: str, job: Job) -> GroupMember:
    return GroupMember(
        group_id="own",
        bootstrap_servers=bootstrap_servers,
        group_protocol="consumer",
        request_topic=job.topics["requests"],
        response_topic=job.topics["responses"],
    )


def test_it_gets_their_partitions_as_they_are_made_grow_are_deleted_and_made_again(
    start: Callable[..., Job], bootstrap_servers: str, tmp_path: Any
) -> None:
    first, second = (f"{tmp_path.name}.followed{number}" for number in (1, 2))
    job = start("--set", "topics.watch.interval.ms=500")
    job.wait_for("the coordinator is running")
    standby = start("--set", "topics.watch.interval.ms=500", "--standby")
    with (
        closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin,
        requests_to(bootstrap_servers, job) as requests,
        ExitStack() as stack,
    ):

        def make(name: str, partitions: int) -> str:
            wait_for(lambda: name not in admin.list_topics())
            admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1}})
            # Before that it has no id.
            admin.wait_for_topics([name])
            (described,) = admin.describe_topics([name])
            return topic_id_of(described)

        of_first = make(first, 2)
        member = Member(requests, first, second)
        own = stack.enter_context(closing(own_member(bootstrap_servers, job)))
        own.subscribe([first, second])

        def all_have(*topics: tuple[str, str, int]) -> None:
            """Both groups follow, the one of the client that programs use, too."""
            partitions = {TopicPartition(name, each) for name, _, count in topics for each in range(count)}
            # No session ends while the other one waits.
            wait_for(
                lambda: (own.poll(timeout_ms=50) == partitions) & member.has(*topics),
                said=lambda: own.assignment,
            )

        all_have((first, of_first, 2))
        of_second = make(second, 1)
        all_have((first, of_first, 2), (second, of_second, 1))
        admin.create_partitions({first: 5})
        all_have((first, of_first, 5), (second, of_second, 1))
        admin.delete_topics([first])
        all_have((second, of_second, 1))
        again = make(first, 3)
        assert again != of_first
        all_have((first, again, 3), (second, of_second, 1))

        assert job.metrics()[WATCHED] == 2
        assert job.metrics()[WRITTEN] >= 5
        standby.wait_for("standing by: ")
        assert [standby.metrics()[each] for each in (WATCHED, WRITTEN, LAST)] == [0, 0, 0]
        # The other one goes on where this one has ended.
        job.kill()
        standby.wait_for("the coordinator is running")
        admin.create_partitions({first: 4})
        all_have((first, again, 4), (second, of_second, 1))
        assert standby.metrics()[WATCHED] == 2
