"""GroupMember in a group of the consumer protocol, against the real core over a channel in memory."""

from __future__ import annotations

import logging

import msgspec
import pytest
from kafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import (
    CommitFailedError,
    GroupMember,
    MemberState,
    SharedConnection,
    UnreleasedInstanceIdError,
)
from group_coordinator.client.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    UnsupportedAssignorError,
)
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    ConsumerGroupHeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TopicFacts,
)
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse, OffsetFetchResponse
from tests.client.memory import CONFIG, Listener, MemoryChannel, partitions, poll_until
from tests.patience import PATIENCE_S, wait_for

UNITS = ["u1", "u2", "u3", "u4"]


@pytest.fixture
def make_member(coordinator):
    coordinator.config = msgspec.structs.replace(CONFIG, group_consumer_heartbeat_interval_ms=30)
    members = []

    def make(name, **settings):
        defaults = {
            "group_id": "orders",
            "client_id": name,
            "group_protocol": "consumer",
            "channel": MemoryChannel(coordinator, name),
        }
        member = GroupMember(**defaults | settings)
        members.append(member)
        return member

    yield make
    for member in members:
        member.close()


def heartbeats(coordinator, client_id=None):
    """Heartbeats that say more than that their member is alive."""
    return [
        each
        for each in coordinator.requests(ConsumerGroupHeartbeatRequest)
        if each.members is msgspec.UNSET and client_id in (None, each.client_id)
    ]


def settled(units, *members):
    """Whether the members share exactly the units, evenly, and are at rest."""

    def check():
        owned = [unit for member in members for unit in member.assignment]
        counts = [len(member.assignment) for member in members]
        is_done = sorted(owned) == sorted(units) and max(counts) - min(counts) <= 1
        return is_done and {each.state for each in members} == {MemberState.STABLE}

    return check


class Exclusive:
    """A listener that sees to it that nobody gets what another still has."""

    def __init__(self, owners, name):
        self.owners, self.name = owners, name

    def on_partitions_assigned(self, assigned):
        for unit in assigned:
            assert self.owners.setdefault(unit, self.name) == self.name

    def on_partitions_revoked(self, revoked):
        for unit in revoked:
            assert self.owners.pop(unit) == self.name


# -- sharing -----------------------------------------------------------------------------------------


def test_one_member_owns_all_at_the_first_answer(make_member, coordinator):
    member = make_member("c1")
    assert (member.state, member.generation_id) == (MemberState.UNJOINED, -1)
    member.subscribe(topics=["b", "a", "missing"])

    assert member.poll(timeout_ms=PATIENCE_S * 1000) == partitions(a=4, b=2)
    assert (member.state, member.is_leader, member.holds_assignment) == (MemberState.STABLE, False, True)
    assert member.generation_id > 0
    assert len(member.member_id) == 22
    (join,) = heartbeats(coordinator)
    assert join.subscribed_topic_names == ["a", "b", "missing"]
    assert join.topics == [TopicFacts("a", 4, "id-of-a"), TopicFacts("b", 2, "id-of-b")]


@pytest.mark.parametrize("kind", ["topics", "units"])
def test_members_come_and_go_and_nobody_owns_what_another_still_owns(make_member, coordinator, kind):
    coordinator.topics["a"] = 6
    names = ["a", "b"] if kind == "topics" else UNITS
    everything = partitions(a=6, b=2) if kind == "topics" else UNITS
    owners, members = {}, [make_member(f"c{i}") for i in range(3)]
    for i, member in enumerate(members):
        member.subscribe(**{kind: names}, listener=Exclusive(owners, i))
        poll_until(settled(everything, *members[: i + 1]), *members[: i + 1])
    assert sorted(len(each.assignment) for each in members) in ([2, 3, 3], [1, 1, 2])
    for i, member in enumerate(members[:-1]):
        member.close()
        assert member.assignment == frozenset()
        poll_until(settled(everything, *members[i + 1 :]), *members[i + 1 :])

    assert owners == dict.fromkeys(everything, 2)


def test_a_member_that_was_killed_is_replaced(make_member, coordinator):
    coordinator.config = msgspec.structs.replace(
        CONFIG, group_consumer_heartbeat_interval_ms=30, group_consumer_session_timeout_ms=400
    )
    first, second = make_member("c1"), make_member("c2")
    for member in (first, second):
        member.subscribe(units=UNITS)
    poll_until(settled(UNITS, first, second), first, second)

    first._channel.send_error = KafkaConnectionError("its cable was cut")
    poll_until(settled(UNITS, second), second)


def test_the_listener_hears_differences(make_member):
    first, second = make_member("c1"), make_member("c2")
    listener = Listener(lambda: (first.assignment, first.holds_assignment))
    first.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, first), first)
    second.subscribe(units=UNITS)
    poll_until(settled(UNITS, first, second), first, second)
    second.close()
    poll_until(settled(UNITS, first), first)

    every, half = frozenset(UNITS), listener.journal[1][1]
    assert listener.journal == [
        ("assigned", every, (every, True)),
        ("revoked", half, (every, True)),
        ("assigned", half, (every, True)),
    ]
    assert len(half) == 2


def test_nothing_is_told_of_nothing(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=[], listener=listener)
    poll_until(settled([], member), member)
    member.close()

    assert listener.journal == []


def test_another_subscription_takes_effect(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(topics=["a"], listener=listener)
    poll_until(settled(partitions(a=4), member), member)
    member.subscribe(topics=["a"], listener=listener)
    member.poll()
    assert len(heartbeats(coordinator)) == 1

    member.subscribe(topics=["b"], listener=listener)
    poll_until(settled(partitions(b=2), member), member)

    assert listener.words == ["assigned", "revoked", "assigned"]


def test_a_member_cannot_change_between_topics_and_units(make_member):
    member = make_member("c1")
    member.subscribe(topics=["a"])

    with pytest.raises(ValueError, match="close it and make another"):
        member.subscribe(units=UNITS)


def test_a_listener_that_raises_has_given_up(make_member):
    class Raises(Listener):
        def on_partitions_revoked(self, revoked):
            raise RuntimeError("cannot save")

    first, second = make_member("c1"), make_member("c2")
    first.subscribe(units=UNITS, listener=Raises())
    poll_until(settled(UNITS, first), first)
    second.subscribe(units=UNITS)
    with pytest.raises(RuntimeError, match="cannot save"):
        poll_until(lambda: False, first, second)
    first.subscribe(units=UNITS)

    poll_until(settled(UNITS, first, second), first, second)


def test_a_missing_topic_is_said(make_member, caplog):
    member = make_member("c1")
    member.subscribe(topics=["missing"])
    poll_until(settled([], member), member)

    assert "there is no topic missing" in caplog.text


def test_a_look_up_that_fails_is_tried_again(make_member, caplog):
    member = make_member("c1")
    member._channel.lookup_errors = [KafkaConnectionError("gone")]
    member.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), member), member)

    assert "cannot look up partitions" in caplog.text


def test_a_look_up_that_may_not_be_is_raised(make_member):
    member = make_member("c1")
    member._channel.lookup_errors = [TopicAuthorizationFailedError("a")]
    member.subscribe(topics=["a"])

    with pytest.raises(TopicAuthorizationFailedError):
        poll_until(lambda: False, member)


def test_heartbeats_are_not_logged(make_member, caplog):
    caplog.set_level(logging.INFO)
    member = make_member("c1")
    member.subscribe(units=UNITS)
    poll_until(lambda: len(member._channel.coordinator.log) > 3, member)

    assert caplog.text.count("sends ConsumerGroupHeartbeatRequest") == 1


# -- losing membership -------------------------------------------------------------------------------


def test_who_was_thrown_out_has_lost_all_and_joins_again(make_member, coordinator):
    member = make_member("c1")
    listener = Listener(lambda: member.generation_id)
    member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, member), member)
    epoch, member_id = member.generation_id, member.member_id
    leaving = [LeavingMember(member_id=member_id)]
    coordinator.append(LeaveGroupRequest(request_id="x", client_id="x", group_id="orders", members=leaving))
    poll_until(lambda: listener.words[1:2] == ["lost"], member)
    poll_until(settled(UNITS, member), member)

    assert [(word, then) for word, _, then in listener.journal[:2]] == [("assigned", epoch), ("lost", epoch)]
    assert (member.member_id, member.generation_id > epoch) == (member_id, True)


def test_a_coordinator_that_was_away_takes_nothing(make_member, coordinator):
    coordinator.config = msgspec.structs.replace(
        CONFIG, group_consumer_heartbeat_interval_ms=30, group_consumer_session_timeout_ms=1_000
    )
    first, second, listener = make_member("c1"), make_member("c2"), Listener()
    for member in (first, second):
        member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, first, second), first, second)
    heard = len(listener.journal)
    coordinator.paused = True
    before = len(coordinator.log)
    poll_until(lambda: len(coordinator.log) > before + 20, first, second)
    coordinator.resume()
    poll_until(lambda: len(coordinator.log) > before + 30, first, second)

    assert settled(UNITS, first, second)()
    assert len(listener.journal) == heard


def test_a_program_that_does_not_poll_loses_its_work(make_member, caplog):
    member, listener = make_member("c1", max_poll_interval_ms=150), Listener()
    member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, member), member)
    wait_for(lambda: not member.holds_assignment)
    assert "not polled for max_poll_interval_ms" in caplog.text
    poll_until(lambda: len(listener.words) >= 3, member)

    assert listener.words[:3] == ["assigned", "lost", "assigned"]


def test_a_failure_is_raised_and_all_is_lost(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, member), member)
    member._channel.receive_error = RuntimeError("gone")
    with pytest.raises(RuntimeError, match="gone"):
        poll_until(lambda: False, member)

    assert listener.words == ["assigned", "lost"]


def test_a_group_of_the_classic_protocol_is_not_joined(make_member):
    classic = make_member("c1", group_protocol="classic", session_timeout_ms=90_000)
    classic.subscribe(units=UNITS)
    assert classic.poll(timeout_ms=PATIENCE_S * 1000)
    member = make_member("c2")
    member.subscribe(units=UNITS)

    with pytest.raises(GroupIdNotFoundError, match='group_protocol="classic"'):
        poll_until(lambda: False, member)


def test_an_assignor_that_there_is_not_is_refused(make_member):
    member = make_member("c1", server_assignor="sticky")
    member.subscribe(units=UNITS)

    with pytest.raises(UnsupportedAssignorError, match=r"group\.consumer\.assignors"):
        poll_until(lambda: False, member)


def test_the_assignor_and_the_rebalance_timeout_are_said(make_member, coordinator):
    member = make_member("c1", server_assignor="range", rebalance_timeout_ms=7_000)
    member.subscribe(units=UNITS)
    poll_until(settled(UNITS, member), member)

    (join,) = heartbeats(coordinator)
    assert (join.server_assignor, join.rebalance_timeout_ms) == ("range", 7_000)


# -- static members ----------------------------------------------------------------------------------


def test_a_static_member_comes_back_to_what_it_had(make_member, coordinator):
    first, other, listener = make_member("c1", group_instance_id="w1"), make_member("c2"), Listener()
    for member in (first, other):
        member.subscribe(units=UNITS, listener=listener if member is other else None)
    poll_until(settled(UNITS, first, other), first, other)
    owned, heard = first.assignment, len(listener.journal)
    first.close()
    assert heartbeats(coordinator, "c1")[-1].member_epoch == -2
    again = make_member("c1b", group_instance_id="w1")
    again.subscribe(units=UNITS)
    poll_until(settled(UNITS, again, other), again, other)

    assert (again.assignment, len(listener.journal)) == (owned, heard)
    assert again.member_id != first.member_id
    again.close(leave=True)
    assert heartbeats(coordinator, "c1b")[-1].member_epoch == -1


def test_the_name_of_a_running_member_is_taken(make_member):
    first, second = (make_member(name, group_instance_id="w1") for name in ("c1", "c2"))
    first.subscribe(units=UNITS)
    poll_until(settled(UNITS, first), first)
    second.subscribe(units=UNITS)
    with pytest.raises(UnreleasedInstanceIdError, match="group_instance_id"):
        poll_until(lambda: False, second)
    second.close(leave=True)
    first.poll(timeout_ms=100)

    assert settled(UNITS, first)()


def test_who_went_for_a_while_and_goes_on_is_fenced(make_member, coordinator):
    first = make_member("c1", group_instance_id="w1")
    first.subscribe(units=UNITS)
    poll_until(settled(UNITS, first), first)
    coordinator.append(
        ConsumerGroupHeartbeatRequest(
            request_id="x",
            client_id="x",
            group_id="orders",
            member_id=first.member_id,
            member_epoch=-2,
            group_instance_id="w1",
        )
    )
    second = make_member("c2", group_instance_id="w1")
    second.subscribe(units=UNITS)
    second.poll(timeout_ms=PATIENCE_S * 1000)

    with pytest.raises((FencedInstanceIdError, UnreleasedInstanceIdError)):
        poll_until(lambda: False, first)


# -- offsets -----------------------------------------------------------------------------------------


def test_commits_and_fetches_have_the_members_epoch(make_member, coordinator):
    member = make_member("c1")
    member.subscribe(units=UNITS)
    assert member.committed(["u1"]) == {"u1": None}
    poll_until(settled(UNITS, member), member)
    member.commit({"u1": 5})

    assert member.committed(["u1"]) == {"u1": OffsetAndMetadata(5, "", -1)}
    (commit,) = coordinator.requests(OffsetCommitRequest)
    before, after = coordinator.requests(OffsetFetchRequest)
    assert (commit.member_id, commit.generation_id) == (member.member_id, member.generation_id)
    assert (before.member_id, before.member_epoch) == (None, -1)
    assert (after.member_id, after.member_epoch) == (member.member_id, member.generation_id)


def test_a_commit_while_others_come_is_taken(make_member):
    """Each member has epochs of its own, so no commit waits for the others."""
    first = make_member("c1")
    committed = []

    class Saves(Listener):
        def on_partitions_revoked(self, revoked):
            first.commit(dict.fromkeys(revoked, 7))
            committed.extend(revoked)

    first.subscribe(units=UNITS, listener=Saves())
    poll_until(settled(UNITS, first), first)
    second = make_member("c2")
    second.subscribe(units=UNITS)
    poll_until(settled(UNITS, first, second), first, second)

    assert second.assignment == set(committed)
    assert set(second.committed(UNITS).values()) == {None, OffsetAndMetadata(7, "", -1)}


def test_a_commit_of_what_another_has_is_refused(make_member, coordinator):
    first, second = make_member("c1"), make_member("c2")
    first.subscribe(units=UNITS)
    poll_until(settled(UNITS, first), first)
    old = first.generation_id
    second.subscribe(units=UNITS)
    poll_until(settled(UNITS, first, second), first, second)
    with first._driver.held() as membership:
        membership._session.epoch = old
    (unit, *_) = second.assignment

    with pytest.raises(CommitFailedError, match="not this member's any more"):
        first.commit({unit: 7})
    assert first.committed([unit]) == {unit: None}


@pytest.mark.parametrize("error", [Errors.STALE_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID])
def test_a_fetch_that_came_between_two_epochs_is_asked_again(make_member, coordinator, error):
    member = make_member("c1")
    member.subscribe(units=UNITS)
    poll_until(settled(UNITS, member), member)
    coordinator.paused = True
    future = member.committed_async(["u1"])
    (request,) = coordinator.requests(OffsetFetchRequest)
    member._channel.put(OffsetFetchResponse.to(request.reply_to, "orders", error))
    wait_for(lambda: len(coordinator.requests(OffsetFetchRequest)) == 2)
    coordinator.resume()
    wait_for(lambda: future.is_done)

    assert future.value == {"u1": None}


# -- many members of one program ---------------------------------------------------------------------


def together(coordinator):
    beats = coordinator.requests(ConsumerGroupHeartbeatRequest)
    return [each for each in beats if each.members is not msgspec.UNSET and len(each.members) > 1]


@pytest.fixture
def connection(coordinator):
    channel = MemoryChannel(coordinator, "host")
    with SharedConnection(client_id="host", heartbeat_linger_ms=20, channel=channel) as connection:
        yield connection


def test_members_of_one_program_send_heartbeats_together(connection, make_member, coordinator):
    members = [make_member(f"c{i}", channel=connection.channel()) for i in range(3)]
    for member in members:
        member.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), *members), *members)
    ids = {each.member_id for each in members}
    poll_until(
        lambda: any({it.member_id for it in each.members} == ids for each in together(coordinator)),
        *members,
    )
    assert together(coordinator)[-1].quiet is True

    members[0].close()
    poll_until(settled(partitions(a=4), *members[1:]), *members[1:])


def test_an_error_of_a_heartbeat_together_is_each_members(connection, make_member, coordinator):
    members = [make_member(f"c{i}", channel=connection.channel()) for i in range(2)]
    for member in members:
        member.subscribe(units=UNITS)
    poll_until(settled(UNITS, *members), *members)
    before = len(together(coordinator))
    poll_until(lambda: len(together(coordinator)) > before + 1, *members)
    said = {name: len(heartbeats(coordinator, name)) for name in ("c0", "c1")}
    answer = ConsumerGroupHeartbeatResponse.to(
        together(coordinator)[-1].reply_to, "orders", Errors.COORDINATOR_NOT_AVAILABLE
    )
    coordinator.deliver("host", answer)
    poll_until(
        lambda: all(len(heartbeats(coordinator, name)) > count for name, count in said.items()), *members
    )

    assert settled(UNITS, *members)()


def test_members_of_both_protocols_send_no_heartbeat_together(connection, make_member, coordinator):
    classic = make_member(
        "c0",
        group_protocol="classic",
        session_timeout_ms=90_000,
        heartbeat_interval_ms=30,
        channel=connection.channel(),
    )
    classic.subscribe(units=UNITS)
    poll_until(lambda: classic.assignment, classic)
    member = make_member("c1", channel=connection.channel())
    member.subscribe(units=UNITS)
    with pytest.raises(GroupIdNotFoundError):
        poll_until(lambda: False, classic, member)
    classic.poll(timeout_ms=200)

    assert classic.state is MemberState.STABLE
    assert together(coordinator) == []


# -- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"session_timeout_ms": 10_000}, r"group\.consumer\.session\.timeout\.ms"),
        ({"heartbeat_interval_ms": 3_000}, r"group\.consumer\.heartbeat\.interval\.ms"),
        ({"assignors": ["range"]}, "server_assignor"),
        ({"group_protocol": "streams"}, "neither 'classic' nor 'consumer'"),
        (
            {"group_protocol": "classic", "server_assignor": "range"},
            'server_assignor is a setting of group_protocol="consumer"',
        ),
        ({"group_protocol": "classic", "rebalance_timeout_ms": 1}, "rebalance_timeout_ms is a setting of"),
        ({"rebalance_timeout_ms": 0}, "must be positive"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(make_member, settings, said):
    with pytest.raises(ValueError, match=said):
        make_member("c1", **settings)


def test_partitions_for_a_topic(make_member):
    assert make_member("c1").partitions_for_topic("a") == {0, 1, 2, 3}
    assert TopicPartition("a", 0) in partitions(a=4)
