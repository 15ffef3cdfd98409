"""Requests of groups from frame to frame, by the coordinator's rules and with a clock that is set by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.coordinator_state.responses import FindCoordinatorResponse as FindCoordinatorAnswer
from group_coordinator.coordinator_state.step import step
from group_coordinator.gateway import codec, commits
from group_coordinator.gateway.addresses import Address, coordinator_of, hash_of
from group_coordinator.gateway.beat_kinds import Verdict
from group_coordinator.gateway.client import Client
from group_coordinator.gateway.groups import Groups, ListedGroup
from group_coordinator.gateway.local import Local, Nodes, Origin
from group_coordinator.gateway.outgoing import LogRecord
from group_coordinator.gateway.patterns import Patterns
from group_coordinator.gateway.renewals import Renewals
from group_coordinator.gateway.rules import Rules
from group_coordinator.gateway.topics import Topics

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0)
NODES = {1: Address("gateway", 20_001), 2: Address("gateway", 20_002)}


class Gateway:
    """`Local`, a log, and a coordinator that reads it whenever it is told to."""

    def __init__(self, prefix: str = "") -> None:
        self.groups = Groups(prefix)
        self.log: list[AnyRequest] = []
        self.rules = Rules(CONFIG, prefix)
        self._prefix = prefix
        self.topics: Topics | None = None
        self.renewals = Renewals(Patterns(lambda _: None))
        self.local = self._local()
        self.now_s = 0.0
        self.answered: list[Any] = []
        self._clients: dict[int, Client] = {}
        self._states: dict[str, bytes | None] = {}
        self._offset = 0

    @property
    def waiting(self) -> int:
        """Requests that wait for the stream, or for what Kafka says of topics."""
        return len(self.local._waiting) + (0 if self.topics is None else len(self.topics))

    def _local(self) -> Local:
        nodes = Nodes(lambda: NODES, lambda: tuple(NODES))
        origin = Origin("gw", 0, self._prefix)
        return Local(origin, self.groups, nodes, self._write, self.rules, self.renewals, self.topics)

    def look_up(self, ask: Callable[[list[str]], None]) -> Topics:
        """Have Kafka asked about topics; before anything else."""
        assert not self._clients
        self.topics = Topics(ask)
        self.local = self._local()
        return self.topics

    def _write(self, record: LogRecord) -> None:
        request = msgspec.json.decode(record.value, type=AnyRequest)
        assert (record.key, record.request_id) == (request.group_id.encode(), request.request_id)
        self.log.append(request)

    def ask(
        self,
        message: Any,
        node_id: int = 1,
        client_id: str | None = "c1",
        name: str | None = None,
        resolved: Any = None,
    ) -> None:
        frame = codec.encode_request(message, 7, client_id)
        request = codec.decode_request(frame)._replace(resolved=resolved)

        def reply(response: Any) -> None:
            written = codec.encode_response(response, 7)
            self.answered.append(
                codec.decode_response(request.head.api_key, request.head.api_version, written)
            )

        self.client = self._clients.setdefault(node_id, Client("/10.0.0.7", node_id, lambda go: go()))
        self.local.logged_in(self.client, name)
        self.local.answer(request, self.client, self.now_s, reply)

    def beat_again(self) -> None:
        """Ask the last heartbeat of the last client again."""

        def answer(told: Verdict) -> None:
            self.answered.append(HeartbeatResponse(version=4, error_code=told.error_code))

        assert self.client.accepted is not None
        self.local.beat_again(self.client.accepted, answer)

    def coordinate(self) -> None:
        """Let the coordinator read the log, and time pass until now."""
        log, self.log[:] = list(self.log), []
        self.local.acknowledged([each.request_id for each in log], self.now_s)
        now_ms = round(self.now_s * 1000)
        for each in log:
            key = each.group_id.encode()
            record = Record("requests", 0, self._offset, now_ms, key, msgspec.json.encode(each))
            self._offset += 1
            result = step(key, self._states.get(each.group_id), [record], now_ms, CONFIG, b"secret")
            self._states[each.group_id] = result.state
            self.local.take([reply.response for reply in result.replies], self.now_s)

    def tell(self, message: Any, node_id: int = 1) -> Any:
        """Ask, and have the coordinator answer; the one response that comes of it."""
        self.ask(message, node_id)
        self.local.flush(self.now_s)
        self.coordinate()
        (response,) = self.answered
        self.answered.clear()
        return response

    def passes(self, seconds: float) -> list[int]:
        """Time passes without a coordinator; the error codes that are answered."""
        self.now_s += seconds
        self.local.expire(self.now_s)
        answered, self.answered = self.answered, []
        return [each.error_code for each in answered]


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def join(member_id: str = "", version: int = 9, **fields: Any) -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    defaults = {
        "group_id": "orders",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [protocol(name="range", metadata=b"")],
    }
    return JoinGroupRequest(version=version, **(defaults | fields))


def member_of(gateway: Gateway) -> str:
    """Make one member of a stable group."""
    given = gateway.tell(join())
    assert given.error_code == 79
    joined = gateway.tell(join(given.member_id))
    assert (joined.error_code, joined.leader, joined.generation_id) == (0, given.member_id, 1)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    synced = gateway.tell(
        SyncGroupRequest(
            version=5,
            group_id="orders",
            generation_id=1,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment(member_id=joined.member_id, assignment=b"mine")],
        )
    )
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"mine")
    return str(joined.member_id)


def beat(member_id: str, generation_id: int = 1) -> HeartbeatRequest:
    return HeartbeatRequest(version=4, group_id="orders", generation_id=generation_id, member_id=member_id)


def commit(member_id: str, generation_id: int = 1) -> OffsetCommitRequest:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return OffsetCommitRequest(
        version=8,
        group_id="orders",
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[topic(name="t", partitions=[partition])],
    )


def test_the_life_of_a_member(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    assert gateway.tell(beat(member_id)).error_code == 0
    assert gateway.tell(commit(member_id)).topics[0].partitions[0].error_code == 0
    fetched = gateway.tell(OffsetFetchRequest(version=7, group_id="orders", topics=None))
    assert fetched.topics[0].partitions[0].committed_offset == 5
    (described,) = gateway.tell(DescribeGroupsRequest(version=5, groups=["orders"])).groups
    assert (described.group_state, described.members[0].client_host) == ("Stable", "/10.0.0.7")
    kind = LeaveGroupRequest.MemberIdentity
    left = gateway.tell(LeaveGroupRequest(version=5, group_id="orders", members=[kind(member_id=member_id)]))
    assert (left.error_code, left.members[0].error_code) == (0, 0)


def test_requests_have_the_name_that_the_broker_has_accepted(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    longest = "a" * CONFIG.max_id_length
    for name in ("alice", None, longest, f"{longest}a"):
        gateway.ask(commit("m"), name=name)
    assert [each.principal for each in gateway.log] == ["alice", msgspec.UNSET, longest, msgspec.UNSET]
    assert caplog.messages == [
        "requests of /10.0.0.7 have no principal: the client's name has 256 characters, of at most 255"
    ]
    gateway.log.clear()
    for beats in (1, 2):
        for _ in range(beats):
            gateway.ask(beat("m"), name="alice")
        gateway.local.flush(gateway.now_s)
    assert [each.principal for each in gateway.log] == [msgspec.UNSET, msgspec.UNSET], "heartbeats have none"


def test_a_request_does_not_overtake_the_beats_of_its_group(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    gateway.ask(beat(member_id))
    assert gateway.log == [], "it waits for others"
    gateway.ask(commit(member_id))
    assert [type(each).__name__ for each in gateway.log] == ["HeartbeatRequest", "OffsetCommitRequest"]


def test_heartbeats_that_are_prepared_go_at_the_next_instant_and_are_not_overtaken(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    for _ in range(2):
        gateway.ask(beat(member_id))
        gateway.local.prepare(gateway.now_s)
    gateway.ask(beat(member_id))
    assert gateway.log == []
    gateway.local.send_prepared()
    assert [len(each.beats) for each in gateway.log] == [1, 1], "the third came later"
    gateway.local.send_prepared()
    assert len(gateway.log) == 2, "they are sent once"
    gateway.local.prepare(gateway.now_s)
    gateway.ask(beat(member_id))
    gateway.ask(commit(member_id))
    names = [type(each).__name__ for each in gateway.log]
    assert names == [*4 * ["HeartbeatRequest"], "OffsetCommitRequest"]
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered[:4]] == [0, 0, 0, 0]
    assert len(gateway.answered) == 5


def member_that_waits_for_others(gateway: Gateway) -> str:
    """A member whose heartbeat is in no hurry."""
    member_id = member_of(gateway)
    # Its join made them hurry for a while.
    gateway.passes(6)
    gateway.ask(beat(member_id))
    gateway.local.flush_hurried(gateway.now_s)
    assert gateway.log == []
    return member_id


def test_a_beat_that_holds_up_a_later_request_goes_before_the_others(gateway: Gateway) -> None:
    member_id = member_that_waits_for_others(gateway)
    gateway.local.held_up(gateway.client)
    gateway.local.flush_hurried(gateway.now_s)
    assert [type(each).__name__ for each in gateway.log] == ["HeartbeatRequest"]
    gateway.coordinate()

    gateway.ask(join(member_id))
    gateway.log.clear()
    gateway.ask(beat(member_id))
    gateway.local.flush_hurried(gateway.now_s)
    assert [type(each).__name__ for each in gateway.log] == ["HeartbeatRequest"], "its group rebalances"


def test_heartbeats_hurry_after_a_member_has_left(gateway: Gateway) -> None:
    stays = member_that_waits_for_others(gateway)
    kind = LeaveGroupRequest.MemberIdentity
    gateway.ask(LeaveGroupRequest(version=5, group_id="orders", members=[kind(member_id="another")]))
    gateway.log.clear()
    for after_s, sent in ((0, 1), (5.9, 1), (0.1, 0)):
        gateway.passes(after_s)
        gateway.ask(beat(stays))
        gateway.local.flush_hurried(gateway.now_s)
        assert [type(each).__name__ for each in gateway.log] == ["HeartbeatRequest"] * sent
        gateway.log.clear()


def test_a_heartbeat_that_comes_again_is_another_request(gateway: Gateway) -> None:
    member_id, ids = member_of(gateway), []
    for generation_id, error in ((1, 0), (1, 0), (2, 22), (1, 0)):
        # The one before has not been answered.
        gateway.ask(beat(member_id, generation_id))
        gateway.local.flush(gateway.now_s)
        ids.append(gateway.log[-1].request_id)
        gateway.beat_again()
        gateway.local.flush(gateway.now_s)
        ids.append(gateway.log[-1].request_id)
        gateway.coordinate()
        assert [each.error_code for each in gateway.answered] == [error, error]
        gateway.answered.clear()
    assert len(set(ids)) == 8


def test_while_the_coordinator_is_away(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    gateway.ask(beat(member_id))
    gateway.local.flush(gateway.now_s)
    gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    kind = LeaveGroupRequest.MemberIdentity
    gateway.ask(join(member_id))
    gateway.ask(commit(member_id))
    gateway.ask(SyncGroupRequest(version=3, group_id="orders", generation_id=1, member_id=member_id))
    gateway.ask(LeaveGroupRequest(version=4, group_id="orders", members=[kind(member_id=member_id)]))
    gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    assert gateway.passes(2.9) == []
    assert gateway.passes(0.1) == [0], "the heartbeat: it stands in the log"
    assert gateway.passes(2) == [0], "the leave: it will be done"
    gateway.now_s += 3
    gateway.local.expire(gateway.now_s)
    (committed,) = gateway.answered
    assert committed.topics[0].partitions[0].error_code == 14
    gateway.answered.clear()
    assert gateway.passes(12) == [27], "the sync"
    assert gateway.passes(5) == [15], "the join"


def error_of(response: Any) -> int:
    """The one error in a response, wherever it stands."""
    for name in ("error_code", "groups", "results", "topics", "partitions"):
        if isinstance(found := getattr(response, name, None), int) and (found or name == "error_code"):
            return found
        if found:
            return error_of(found[0])
    raise AssertionError(response)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize(
    ("message", "waits_s", "error"),
    [
        (LeaveGroupRequest(version=2, group_id="g", member_id="m"), 5, 0),
        (OffsetFetchRequest(version=7, group_id="g", topics=None), 8, 14),
        (OffsetDeleteRequest(version=0, group_id="g", topics=[]), 8, 15),
        (DescribeGroupsRequest(version=5, groups=["g"]), 8, 15),
        (DeleteGroupsRequest(version=2, groups_names=["g"]), 8, 15),
        (join("m", rebalance_timeout_ms=-1, session_timeout_ms=-1), 5, 15),
    ],
)
def test_how_long_a_request_waits_for_the_coordinator(
    gateway: Gateway, message: Any, waits_s: float, error: int, is_written: bool
) -> None:
    gateway.ask(message)
    if is_written:
        gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    assert gateway.passes(waits_s - 0.1) == []
    gateway.now_s += 0.1
    gateway.local.expire(gateway.now_s)
    assert [error_of(each) for each in gateway.answered] == [error if is_written else 15]
    gateway.answered.clear()
    gateway.coordinate()
    assert (gateway.answered, gateway.local.late_answers) == ([], 1), "nobody is answered twice"


@pytest.mark.parametrize(
    ("rebalance_timeout_ms", "waits_s"), [(20_000, 20), (90_000, 90), (-1, 8), (None, 60)]
)
def test_a_sync_waits_for_as_long_as_the_group_waits_for_it(
    gateway: Gateway, rebalance_timeout_ms: int | None, waits_s: int
) -> None:
    member_id = "joined through another gateway"
    if rebalance_timeout_ms is not None:
        member_id = gateway.tell(join(version=3, rebalance_timeout_ms=rebalance_timeout_ms)).member_id
    gateway.ask(SyncGroupRequest(version=3, group_id="orders", generation_id=1, member_id=member_id))
    gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    assert gateway.passes(waits_s - 0.1) == []
    assert gateway.passes(0.1) == [27]


def test_of_the_members_only_the_last_to_join_are_remembered(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("group_coordinator.gateway.local._REMEMBERED", 2)
    ids = [gateway.tell(join(version=3, group_id=f"g{n}")).member_id for n in range(3)]
    gateway.tell(join(ids[1], version=3, group_id="g1"))
    assert list(gateway.local._rebalance_timeouts_s) == [("g2", ids[2]), ("g1", ids[1])]


def test_a_leave_whose_client_goes_at_once_is_done_and_after_the_beats_that_came_before(
    gateway: Gateway,
) -> None:
    member_id = member_of(gateway)
    gateway.ask(beat(member_id))
    gateway.ask(LeaveGroupRequest(version=0, group_id="orders", member_id=member_id))
    gateway.local.gone(gateway.client)
    assert ([type(each).__name__ for each in gateway.log], gateway.waiting) == (
        ["HeartbeatRequest", "LeaveGroupRequest"],
        0,
    )
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered] == [0], "the beat, before the leave"
    gateway.answered.clear()
    assert gateway.tell(beat(member_id)).error_code == 25


def test_an_older_join_of_a_member_is_told_to_join_again(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    for _ in range(2):
        gateway.ask(join(member_id))
    gateway.local.acknowledged([each.request_id for each in gateway.log], gateway.now_s)
    assert sorted(gateway.passes(25)) == [15, 27]


def test_a_commit_for_what_does_not_exist_is_refused_like_at_a_broker(gateway: Gateway) -> None:
    looked_up: list[list[str]] = []
    topics = gateway.look_up(looked_up.append)
    member_id = member_of(gateway)
    asked = commit(member_id)
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    lost = kind.OffsetCommitRequestPartition(partition_index=7, committed_offset=5)
    asked.topics[0].partitions.insert(0, lost)
    asked.topics.append(kind(name="", partitions=[lost]))
    gateway.ask(asked)
    gateway.ask(LeaveGroupRequest(version=0, group_id="orders", member_id=member_id))
    assert (gateway.log, gateway.waiting) == ([], 2), "the leave does not overtake the commit"
    gateway.local.gone(gateway.client)
    topics.told({"t": Found(1, "A"), "": Found(0)}, gateway.now_s)
    gateway.coordinate()
    assert [
        [(each.partition_index, each.error_code) for each in topic.partitions]
        for topic in gateway.answered[0].topics
    ] == [[(7, 3), (0, 0)], [(7, 3)]]
    gateway.answered.clear()
    asked.topics.pop(0)
    gateway.ask(asked)
    topics.told({"": Found(0)}, gateway.now_s)
    assert gateway.answered[0].topics[0].partitions[0].error_code == 3
    assert (gateway.log, list(map(sorted, looked_up))) == ([], [["", "t"], [""]]), (
        "the coordinator is not asked"
    )


def test_a_list_has_what_its_client_was_told_before(gateway: Gateway) -> None:
    gateway.groups.is_ready = True
    node_id = coordinator_of(hash_of("orders"), tuple(NODES))
    gateway.groups.unseen.told("orders", 7, gateway.now_s)
    gateway.ask(ListGroupsRequest(version=4), node_id=node_id)
    assert gateway.answered == []
    gateway.groups.put("orders", ListedGroup("Stable", "consumer"))
    gateway.groups.unseen.seen("orders", 7)
    assert [[each.group_id for each in it.groups] for it in gateway.answered] == [["orders"]]
    gateway.answered.clear()
    gateway.groups.unseen.told("orders", 8, gateway.now_s)
    gateway.ask(ListGroupsRequest(version=4), node_id=node_id)
    assert gateway.passes(1.9) == []
    assert gateway.passes(0.1) == [0], "nobody waits for a picture that does not come"


def test_an_offset_of_a_topic_that_was_made_again_is_none(gateway: Gateway) -> None:
    looked_up: list[list[str]] = []
    topics = gateway.look_up(looked_up.append)
    member_id = member_of(gateway)
    gateway.ask(commit(member_id))
    topics.told({"t": Found(1, "A")}, gateway.now_s)
    gateway.coordinate()
    gateway.answered.clear()
    kind = OffsetFetchRequest.OffsetFetchRequestTopic
    named = OffsetFetchRequest(version=7, group_id="orders", topics=[kind(name="t", partition_indexes=[0])])
    every = OffsetFetchRequest(version=7, group_id="orders", topics=None)
    for topic_id, expected in (("A", [[5], [5]]), ("B", [[-1], []])):
        for asked in (named, every):
            gateway.ask(asked)
            gateway.coordinate()
            assert gateway.waiting == 1
            topics.told({"t": Found(1, topic_id)}, gateway.now_s)
        told = [
            [it.committed_offset for topic in each.topics for it in topic.partitions]
            for each in gateway.answered
        ]
        assert told == expected
        gateway.answered.clear()


def test_what_the_log_has_not_taken(gateway: Gateway) -> None:
    gateway.ask(join())
    gateway.ask(beat("somebody"))
    gateway.local.flush(0)
    gateway.local.refused([each.request_id for each in gateway.log])
    assert sorted(each.error_code for each in gateway.answered) == [15, 15]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (join(group_id=""), 24),
        (join(group_id="g" * 256), 42),
        (join(group_instance_id="i" * 256), 42),
        (HeartbeatRequest(version=0, group_id="g", member_id="m" * 293), 42),
        (
            join(
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(800_000))]
            ),
            81,
        ),
    ],
)
def test_what_the_contract_cannot_take_is_refused_at_once(gateway: Gateway, message: Any, error: int) -> None:
    gateway.ask(message)
    assert ([each.error_code for each in gateway.answered], gateway.log) == ([error], [])


COMMIT_TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic
COMMIT_PARTITION = COMMIT_TOPIC.OffsetCommitRequestPartition


def large_commit(count: int, metadata: str, group_id: str = "orders") -> OffsetCommitRequest:
    """A commit for two topics of so many partitions."""
    topics = [
        COMMIT_TOPIC(
            name=name,
            partitions=[
                COMMIT_PARTITION(partition_index=number, committed_offset=1, committed_metadata=metadata)
                for number in range(count)
            ],
        )
        for name in ("a", "b")
    ]
    return OffsetCommitRequest(
        version=6, group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


@pytest.mark.parametrize("is_looked_up", [False, True])
@pytest.mark.parametrize("metadata", ["x" * 4_096, '"' * 4_096, "\x01" * 2_000, "é" * 4_096])
def test_a_commit_that_kafka_takes_is_written_as_several_if_one_is_too_small(
    gateway: Gateway, metadata: str, is_looked_up: bool
) -> None:
    if is_looked_up:
        topics = gateway.look_up(lambda _: None)
        topics._known.update(a=(Found(125), 0.0), b=(Found(125), 0.0))
    gateway.ask(large_commit(125, metadata))
    sizes = [len(msgspec.json.encode(each)) for each in gateway.log]
    assert len(sizes) > 1
    assert max(sizes) <= CONFIG.max_request_bytes
    gateway.ask(OffsetFetchRequest(version=6, group_id="orders", topics=None))
    gateway.coordinate()
    if gateway.topics is not None:
        gateway.topics.told(dict.fromkeys("ab", Found(125)), gateway.now_s)
    committed, fetched = gateway.answered
    assert [(each.name, len(each.partitions)) for each in committed.topics] == [("a", 125), ("b", 125)]
    assert {part.error_code for each in committed.topics for part in each.partitions} == {0}
    assert sum(len(each.partitions) for each in fetched.topics) == 250


def test_of_a_large_commit_each_partition_has_its_own_result(gateway: Gateway) -> None:
    asked = large_commit(125, "x" * 4_096)
    asked.topics[1].partitions[7].committed_metadata = "x" * 4_097
    told = gateway.tell(asked)
    errors = {
        (each.name, part.partition_index): part.error_code for each in told.topics for part in each.partitions
    }
    assert {key for key, error in errors.items() if error} == {("b", 7)}
    assert errors["b", 7] == 12


def test_a_commit_that_can_never_be_written_is_refused_by_its_size(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.rules.config = msgspec.structs.replace(CONFIG, max_request_bytes=4_000)
    for _ in range(3):
        gateway.ask(large_commit(1, "x" * 4_096))
    results = [part for it in gateway.answered for each in it.topics for part in each.partitions]
    assert {part.error_code for part in results} == {28}
    assert gateway.log == []
    (said,) = caplog.messages
    assert said == "1 requests are refused: they would take more than max.request.bytes (4000) in the log"


@pytest.mark.parametrize("is_looked_up", [False, True])
def test_a_commit_that_kafka_would_not_take_either_is_refused_before_it_is_made_text(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, is_looked_up: bool
) -> None:
    if is_looked_up:
        topics = gateway.look_up(lambda _: None)
        topics._known.update(a=(Found(2_000), 0.0), b=(Found(2_000), 0.0))
    monkeypatch.setattr(commits, "in_parts", Mock(side_effect=AssertionError))
    gateway.ask(large_commit(2_000, "\x01" * 4_096))
    (told,) = gateway.answered
    assert [len(each.partitions) for each in told.topics] == [2_000, 2_000]
    assert {part.error_code for each in told.topics for part in each.partitions} == {28}
    gateway.answered.clear()
    monkeypatch.undo()
    assert {part.error_code for part in gateway.tell(large_commit(1, "")).topics[0].partitions} == {0}


def test_request_ids_end_in_what_nobody_knows_without_the_secret(gateway: Gateway) -> None:
    ids = [gateway.local._next_request_id() for _ in range(1_000)]
    assert len({each.rpartition("-")[2] for each in ids}) > 990
    gateway.local._origin = gateway.local._origin._replace(secret=b"another")
    gateway.local._numbers = itertools.count()
    others = [gateway.local._next_request_id() for _ in range(1_000)]
    assert [each.rpartition("-")[0] for each in ids] == [each.rpartition("-")[0] for each in others]
    assert not set(ids) & set(others)


def test_the_coordinators_limits_count_once_it_has_told_them(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    def asked() -> list[AnyRequest]:
        gateway.local.learn_limits(gateway.now_s)
        found, gateway.log[:] = list(gateway.log), []
        return found

    def take(max_request_bytes: int) -> None:
        told = FindCoordinatorAnswer(
            request_id=asking[-1].request_id,
            client_id="",
            group_id=asking[-1].group_id,
            max_request_bytes=max_request_bytes,
            max_id_length=20,
            max_groups=7,
        )
        gateway.local.take([told], gateway.now_s)

    asking = asked()
    assert [each.api_version for each in asking] == [6]
    assert asked() == []
    assert gateway.local.silent_s(1_000) == 0, "no client waits for it"
    # A coordinator that does not tell them yet.
    take(0)
    gateway.now_s = 10
    gateway.local.expire(gateway.now_s)
    assert gateway.rules.config == CONFIG
    asking = asked()
    # It may be long in coming.
    gateway.now_s = 69
    gateway.local.expire(gateway.now_s)
    assert asked() == []
    take(20_000_000)
    config, shares = gateway.rules.config, gateway.rules.shares
    assert (config.max_request_bytes, config.max_id_length, shares.most) == (20_000_000, 20, 7)
    assert gateway.rules.largest_frame == 20_000_000
    assert [each.most_bytes for each in gateway.local._all_beats] == [20_000_000] * 2
    assert [each[:40] for each in caplog.messages] == ["the coordinator's max.request.bytes (200"]
    gateway.now_s = 609
    assert asked() == []
    gateway.now_s = 610
    assert len(asked()) == 1


def test_who_has_begun_most_groups_begins_no_more(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.rules.shares.most = 10

    def commit(group_id: str, name: str | None) -> int:
        gateway.ask(large_commit(1, "", group_id), name=name)
        gateway.coordinate()
        (told,) = gateway.answered
        gateway.answered.clear()
        return int(told.topics[0].partitions[0].error_code)

    codes = [commit(f"m-{number}", "mallory") for number in range(12)]
    assert codes == [0] * 9 + [15] * 3
    gateway.ask(join(group_id="m-99", version=3), name="mallory")
    assert gateway.answered.pop().error_code == 15
    assert commit("m-0", "mallory") == 0, "it is there"
    assert commit("a-0", "alice") == 0
    assert commit("h-0", None) == 15, "there is no room for anybody"
    (said,) = caplog.messages
    assert said.startswith("1 requests that would begin groups are refused: 'mallory' has begun most of")


def test_a_heartbeat_that_the_stream_cannot_read_does_not_spoil_those_of_others(gateway: Gateway) -> None:
    member_id = member_of(gateway)
    bad = HeartbeatRequest(version=4, group_id="orders", generation_id=1, member_id="m", group_instance_id="")
    gateway.ask(beat(member_id))
    gateway.ask(bad)
    longest = "\x01" * 255
    for number in range(1_000):
        gateway.ask(
            HeartbeatRequest(
                version=4,
                group_id="orders",
                generation_id=number,
                member_id=longest,
                group_instance_id=longest,
            )
        )
    gateway.local.flush(gateway.now_s)
    gateway.coordinate()
    assert [each.error_code for each in gateway.answered] == [42, 0, *[25] * 1_000]


def test_a_client_id_of_any_length_is_taken(gateway: Gateway) -> None:
    gateway.ask(join(), client_id=None)
    gateway.ask(join(), client_id="c" * 1_000)
    assert [each.client_id for each in gateway.log] == ["", "c" * 255]
    gateway.coordinate()
    member_id = gateway.answered[1].member_id
    gateway.answered.clear()
    assert (len(member_id), gateway.tell(join(member_id)).error_code) == (292, 0)


def test_of_several_groups_one_may_be_refused(gateway: Gateway) -> None:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [kind(group_id="orders", topics=None), kind(group_id="", topics=None)]
    told = gateway.tell(OffsetFetchRequest(version=8, groups=groups))
    assert [(each.group_id, each.error_code) for each in told.groups] == [("orders", 0), ("", 24)]


@pytest.mark.parametrize("version", range(7))
def test_where_a_coordinator_is(gateway: Gateway, version: int) -> None:
    if version >= 4:
        gateway.ask(FindCoordinatorRequest(version=version, coordinator_keys=["orders", ""]))
        (told,) = gateway.answered
        found = [(each.key, each.error_code, each.node_id, each.port) for each in told.coordinators]
        assert found == [("orders", 0, 1, 20_001), ("", 24, -1, -1)]
    else:
        gateway.ask(FindCoordinatorRequest(version=version, key="orders"))
        (told,) = gateway.answered
        assert (told.error_code, told.node_id, told.host, told.port) == (0, 1, "gateway", 20_001)


def test_a_tenant_sees_its_groups_only_and_by_its_own_names() -> None:
    gateway = Gateway("tenant-a-")
    member_of(gateway)
    gateway.ask(beat("somebody"))
    gateway.ask(beat("else"))
    gateway.ask(commit("somebody"))
    assert {each.group_id for each in gateway.log} == {"tenant-a-orders"}
    gateway.log.clear()
    gateway.answered.clear()
    asked = ["orders", "none", ""]
    described = gateway.tell(DescribeGroupsRequest(version=6, groups=asked)).groups
    assert [(each.group_id, each.error_code, each.error_message) for each in described] == [
        ("orders", 0, None),
        ("none", 69, "Group none not found."),
        ("", 24, None),
    ]
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [kind(group_id=each, topics=None) for each in asked]
    fetched = gateway.tell(OffsetFetchRequest(version=8, groups=groups)).groups
    assert [(each.group_id, each.error_code) for each in fetched] == [("orders", 0), ("none", 0), ("", 24)]
    deleted = gateway.tell(DeleteGroupsRequest(version=2, groups_names=[*asked, *asked])).results
    assert {each.group_id: each.error_code for each in deleted} == {"orders": 68, "none": 69, "": 24}
    for group_id in ("tenant-a-orders", "tenant-b-orders", "orders"):
        gateway.groups.put(group_id, ListedGroup("Stable", "consumer"))
    gateway.groups.is_ready = True
    listed = [gateway.tell(ListGroupsRequest(version=4), node_id).groups for node_id in (1, 2)]
    assert [[each.group_id for each in groups] for groups in listed] == [["orders"], []]
    found = gateway.tell(FindCoordinatorRequest(version=3, key="orders"))
    assert (found.error_code, found.node_id) == (0, 1)
    assert gateway.tell(FindCoordinatorRequest(version=3, key="")).error_code == 24


def test_a_node_lists_the_groups_that_it_is_said_to_coordinate(gateway: Gateway) -> None:
    gateway.groups.put("orders", ListedGroup("Stable", "consumer"))
    gateway.groups.is_ready = True
    gateway.ask(ListGroupsRequest(version=4), node_id=1)
    gateway.ask(ListGroupsRequest(version=4), node_id=2)
    assert [[each.group_id for each in told.groups] for told in gateway.answered] == [["orders"], []]
