"""The gateway before a secured broker: who may not do something at the broker may not do it here."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ACLOperation, ACLResourcePatternType, NewTopic, ResourcePattern, ResourceType
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java
from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS
from tests.commands.job import Job
from tests.patience import PATIENCE_S, wait_for
from tests.security.conftest import gateway_before, gateway_rights, password_of
from tests.security.rights import Right, rights_of
from tests.security.secured_broker import MECHANISM
from tests.topics import Reader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPICS = ("mine", "seen", "hidden")
JOB = "before-gateway"
BEAT = HeartbeatRequest(version=4, group_id="table", generation_id=1, member_id="nobody")


@pytest.fixture(scope="module")
def gateway(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("gateway")
    secured.operator.create_topics([NewTopic(it, num_partitions=1, replication_factor=1) for it in TOPICS])
    with ExitStack() as stack:
        job = Job(secured.open_servers, directory, JOB)
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        process = stack.enter_context(gateway_before(secured, directory, job.topics))
        yield process.wait_for("clients find the gateway at ")


class Wire:
    """A connection of somebody who has logged in, and sends whatever is wanted."""

    def __init__(self, address: str, user: str, tls: ssl.SSLContext | None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self.log_in(user)

    def log_in(self, user: str) -> None:
        self.ask(SaslHandshakeRequest(version=1, mechanism="PLAIN"))
        self.authenticate(user)

    def authenticate(self, user: str) -> None:
        token = b"\0%s\0%s" % (user.encode(), password_of(user).encode())
        told = codec.decode_response(36, 2, self.ask(SaslAuthenticateRequest(version=2, auth_bytes=token)))
        assert told.error_code == 0

    def send(self, message: Any) -> None:
        self._socket.sendall(codec.encode_request(message, 7, "wire"))

    def receive(self) -> bytes:
        length = self._exactly(4)
        return length + self._exactly(int.from_bytes(length))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the connection has been closed"
            data += more
        return data

    def ask(self, message: Any) -> bytes:
        self.send(message)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


def on_group(*operations: str, group: str = "table") -> Right:
    pattern = ResourcePattern(ResourceType.GROUP, group, ACLResourcePatternType.LITERAL)
    return Right(pattern, tuple(ACLOperation[it] for it in operations))


def on_topic(topic: str, *operations: str) -> Right:
    pattern = ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
    return Right(pattern, tuple(ACLOperation[it] for it in operations))


CLUSTER = Right(
    ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL),
    (ACLOperation.DESCRIBE,),
)
ON_TOPICS = (on_topic("mine", "READ"), on_topic("seen", "DESCRIBE"))
CASES: dict[str, list[Right]] = {
    "nothing": [],
    "topics only": [*ON_TOPICS],
    "describe the group": [on_group("DESCRIBE"), *ON_TOPICS],
    "read the group": [on_group("READ"), *ON_TOPICS],
    "read the group, no topics": [on_group("READ")],
    "delete the group": [on_group("DELETE"), *ON_TOPICS],
    "all of the group": [on_group("ALL"), *ON_TOPICS],
    "see the cluster": [CLUSTER],
}


def _commit(version: int) -> Any:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(version=version, partition_index=0, committed_offset=5)
    return {
        "group_id": "table",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [topic(version=version, name=it, partitions=[partition]) for it in TOPICS],
    }


def _fetch(version: int, names: tuple[str, ...] | None = TOPICS) -> Any:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = OffsetFetchRequest.OffsetFetchRequestTopic if version < 8 else group.OffsetFetchRequestTopics
    topics = names and [topic(version=version, name=it, partition_indexes=[0]) for it in names]
    if version < 8:
        return {"group_id": "table", "topics": topics}
    return {"groups": [group(version=version, group_id=it, topics=topics) for it in ("other", "table")]}


def _fetch_all(version: int) -> Any:
    return _fetch(version, None if version > 1 else ())


def _find(version: int) -> Any:
    return {"key": "table"} if version < 4 else {"coordinator_keys": ["other", "table", "third"]}


def _join(version: int) -> Any:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(version=version, name="range", metadata=b"")
    return {
        "group_id": "table",
        "session_timeout_ms": 1,  # which nobody may have, so that nobody joins
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [protocol],
    }


def _nobody(_version: int) -> Any:
    return {"group_id": "table", "generation_id": 1, "member_id": "nobody"}


def _leave(version: int) -> Any:
    if version < 3:
        return {"group_id": "table", "member_id": "nobody"}
    members = [LeaveGroupRequest.MemberIdentity(version=version, member_id="nobody")]
    return {"group_id": "table", "members": members}


def _describe(version: int) -> Any:
    asked = {"include_authorized_operations": True} if version >= 3 else {}
    return {"groups": ["table", "other"], **asked}


def _delete_offsets(version: int) -> Any:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = topic.OffsetDeleteRequestPartition(version=version, partition_index=0)
    topics = [topic(version=version, name=it, partitions=[partition]) for it in TOPICS]
    return {"group_id": "table", "topics": topics}


ASKED: list[tuple[Any, int, Callable[[int], Any]]] = [
    (FindCoordinatorRequest, 0, _find),
    (OffsetCommitRequest, 2, _commit),
    (OffsetFetchRequest, 1, _fetch),
    (OffsetFetchRequest, 1, _fetch_all),
    (JoinGroupRequest, 0, _join),
    (HeartbeatRequest, 0, _nobody),
    (SyncGroupRequest, 0, _nobody),
    (LeaveGroupRequest, 0, _leave),
    (DescribeGroupsRequest, 0, _describe),
    (ListGroupsRequest, 0, lambda _: {}),
    (OffsetDeleteRequest, 0, _delete_offsets),
    (DeleteGroupsRequest, 0, lambda _: {"groups_names": ["other", "table", "other"]}),
]
"""Each API of groups with its oldest version, so that one prepares what the next asks for."""


def requests() -> list[Any]:
    return [
        kind(version=version, **fields(version))
        for kind, oldest, fields in ASKED
        for version in range(oldest, min(kind.max_version, APIS[kind.API_KEY].newest or 0) + 1)
    ]


def test_the_gateway_needs_each_right_that_the_guide_lists(secured: SecuredBroker, tmp_path: Path) -> None:
    topics = {name: f"alone.{name}" for name in ("requests", "responses", "groups")}
    secured.operator.create_topics(
        [NewTopic(each, num_partitions=1, replication_factor=1) for each in topics.values()]
    )
    rights = gateway_rights(topics)
    # Without groups at the brokers it does not need the topic that says where a group is.
    needed = [each for each in rights if each.pattern.resource_name in topics.values()]
    to_see = [each._replace(operations=(ACLOperation.DESCRIBE,)) for each in needed]
    secured.grant("stranger", [on_group("READ")])
    with gateway_before(secured, tmp_path, topics, rights=[]) as process:
        for count, missing in enumerate(needed):
            process.wait_for(f"waiting for a right on topic {missing.pattern.resource_name}")
            secured.grant("gateway", to_see[: count + 1])
        address = process.wait_for("clients find the gateway at ")
        for name in ("responses", "groups"):
            denied = f"TopicAuthorizationFailedError: {{'{topics[name]}'}}"
            process.wait_until(lambda denied=denied: denied in "".join(process.said))  # type: ignore[misc]
        with closing(Wire(address, "stranger", None)) as wire:

            def is_answered(error: Errors) -> bool:
                return bool(codec.decode_response(12, 4, wire.ask(BEAT)).error_code == error)

            wait_for(lambda: is_answered(Errors.COORDINATOR_NOT_AVAILABLE))
            assert process.probe("readyz")[0] == 503
            secured.grant("gateway", rights)
            wait_for(lambda: process.probe("readyz")[0] == 200)
            # It is in the log then, and no coordinator is there.
            wait_for(lambda: is_answered(Errors.NONE))


def test_a_login_can_be_renewed_between_requests(secured: SecuredBroker, gateway: str) -> None:
    secured.grant("stranger", [on_group("READ")])
    # A join waits for the coordinator for as long as it says. A heartbeat is granted after three seconds.
    refused = JoinGroupRequest(version=4, rebalance_timeout_ms=int(PATIENCE_S * 1_000), **_join(4))

    def is_refused(answer: bytes) -> bool:
        return bool(codec.decode_response(11, 4, answer).error_code == Errors.INVALID_SESSION_TIMEOUT)

    with closing(Wire(gateway, "stranger", None)) as wire:
        handshake = SaslHandshakeRequest(version=1, mechanism="PLAIN")

        def is_accepted() -> bool:
            # A broker takes a second login as one only after a second.
            for each in (refused, handshake):
                wire.send(each)
            assert is_refused(wire.receive())
            return codec.decode_response(17, 1, wire.receive()).error_code == 0

        wait_for(is_accepted)
        wire.authenticate("stranger")
        assert is_refused(wire.ask(refused))


def test_nothing_of_a_group_is_told_before_the_login(gateway: str) -> None:
    host, _, port = gateway.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(codec.encode_request(ListGroupsRequest(version=5), 1, "c"))
        assert connection.recv(1) == b""


OAUTH = 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="reader";'
PASSWORD = f'required username="reader" password="{password_of("reader")}";'


@pytest.mark.parametrize(
    ("mechanism", "login"),
    [
        ("PLAIN", f"plain.PlainLoginModule {PASSWORD}"),
        (MECHANISM, f"scram.ScramLoginModule {PASSWORD}"),
        ("OAUTHBEARER", OAUTH),
    ],
)
def test_kafkas_console_consumer_logs_in(
    secured: SecuredBroker, gateway: str, mechanism: str, login: str
) -> None:
    secured.grant("reader", rights_of("A client of the gateway", {"orders": "mine", "billing": mechanism}))
    producer = KafkaProducer(bootstrap_servers=secured.open_servers)
    producer.send("mine", b"an order").get(PATIENCE_S)
    producer.close()
    properties = {
        "group.protocol": "classic",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{login}",
    }
    given = [word for it in properties.items() for word in ("--command-property", "=".join(it))]
    done = subprocess.run(
        [
            *(str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-cp", os.pathsep.join(map(str, fetch("broker", "tools")))),
            *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", gateway, *given),
            *("--topic", "mine", "--group", mechanism, "--from-beginning", "--max-messages", "1"),
            *("--timeout-ms", "60000"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout == "an order\n", done.stderr
    with closing(KafkaAdminClient(bootstrap_servers=secured.open_servers)) as admin:
        assert mechanism not in str(admin.list_groups()), "the brokers' coordinator knows nothing of it"
    with Reader({"bootstrap_servers": secured.open_servers}, f"{JOB}.events") as events:
        added = events.first(lambda it: (it["group_id"], it["event"]) == (mechanism, "member_added"))
    assert added["principal"] == "reader", "as the broker calls it"


def told(request: Any, response: bytes) -> str:
    """A response without what differs from broker to broker: addresses, and groups of other tests."""
    message = codec.decode_response(request.API_KEY, request.version, response)
    if isinstance(request, FindCoordinatorRequest):
        for each in message.coordinators or [message]:
            if not each.error_code:
                each.node_id, each.host, each.port = 0, "", 0
    if isinstance(request, ListGroupsRequest):
        message.groups = [each for each in message.groups if each.group_id == "table"]
    return codec.encode_response(message, 7).hex() + f" {message}"


def test_a_broker_and_the_gateway_let_everybody_do_the_same(secured: SecuredBroker, gateway: str) -> None:
    tls = ssl.create_default_context(cafile=str(secured.certificates.authority))
    secured.grant("stranger", CASES["all of the group"])
    with closing(Wire(secured.bootstrap_servers, "stranger", tls)) as broker:

        def is_coordinating() -> bool:
            broker.ask(FindCoordinatorRequest(version=0, key="table"))
            return codec.decode_response(12, 4, broker.ask(BEAT)).error_code == Errors.UNKNOWN_MEMBER_ID

        wait_for(is_coordinating)
    differences = []
    for name, rights in CASES.items():
        secured.grant("stranger", rights)
        with (
            closing(Wire(secured.bootstrap_servers, "stranger", tls)) as broker,
            closing(Wire(gateway, "stranger", None)) as ours,
        ):
            asked = requests()
            for request in asked:
                ours.send(request)
            for request in asked:
                expected, found = told(request, broker.ask(request)), told(request, ours.receive())
                if expected != found:
                    differences.append((name, request, expected, found))
    assert differences == []


def test_a_right_that_is_taken_away_ends_while_the_member_is_at_work(
    secured: SecuredBroker, gateway: str
) -> None:
    secured.grant("stranger", [on_group("READ", group="at-work"), on_topic("mine", "READ")])
    with closing(Wire(gateway, "stranger", None)) as wire:
        joined = JoinGroupRequest(
            version=3,  # which makes a member at once
            group_id="at-work",
            protocol_type="consumer",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(version=3, name="range", metadata=b"")],
        )
        told = codec.decode_response(11, 3, wire.ask(joined))
        here = {"group_id": "at-work", "generation_id": told.generation_id, "member_id": told.member_id}
        wire.ask(SyncGroupRequest(version=3, **here, assignments=[]))
        commit = OffsetCommitRequest(
            version=7,
            group_id="at-work",
            generation_id_or_member_epoch=told.generation_id,
            member_id=told.member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    version=7,
                    name="mine",
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
                            version=7, partition_index=0, committed_offset=5
                        )
                    ],
                )
            ],
        )

        def answers() -> tuple[int, int]:
            committed = codec.decode_response(8, 7, wire.ask(commit))
            beaten = codec.decode_response(12, 3, wire.ask(HeartbeatRequest(version=3, **here)))
            return beaten.error_code, committed.topics[0].partitions[0].error_code

        assert answers() == (0, 0)
        secured.grant("stranger", [on_topic("mine", "READ")])
        denied = (Errors.GROUP_AUTHORIZATION_FAILED, Errors.GROUP_AUTHORIZATION_FAILED)
        wait_for(lambda: answers() == denied)
        with closing(Wire(gateway, "stranger", None)) as another:
            at_once = codec.decode_response(12, 3, another.ask(HeartbeatRequest(version=3, **here)))
        assert at_once.error_code == Errors.GROUP_AUTHORIZATION_FAILED, (
            "nothing is remembered of another connection"
        )
