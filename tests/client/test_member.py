"""GroupMember against the real coordinator core, over a channel in memory instead of Kafka."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import GroupMember, MemberState
from group_coordinator.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
)
from group_coordinator.client.work import MalformedMetadataError
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
)
from group_coordinator.coordinator_state.responses import HeartbeatResponse
from tests.client.memory import (
    Listener,
    MemoryChannel,
    now_ms,
    partitions,
    poll_until,
)
from tests.patience import PATIENCE_S, wait_for

UNITS = ["u1", "u2", "u3", "u4"]


@pytest.fixture
def make_member(coordinator):
    members = []

    def make(name, **settings):
        defaults = {
            "group_id": "orders",
            "client_id": name,
            "session_timeout_ms": 90_000,
            "heartbeat_interval_ms": 30,
            "channel": MemoryChannel(coordinator, name),
        }
        member = GroupMember(**defaults | settings)
        members.append(member)
        return member

    yield make
    for member in members:
        member.close()


def settled(units, *members):
    """Whether the members share exactly the units."""

    def check():
        owned = [unit for member in members for unit in member.assignment]
        return sorted(owned) == sorted(units) and len({member.generation_id for member in members}) == 1

    return check


# -- rebalances --------------------------------------------------------------------------------------


def test_one_member_owns_everything(make_member):
    member = make_member("c1")
    member.subscribe(topics=["a", "b", "missing"])

    assert member.poll(timeout_ms=PATIENCE_S * 1000) == partitions(a=4, b=2)
    assert (member.state, member.is_leader, member.generation_id) == (MemberState.STABLE, True, 1)
    assert member.member_id.startswith("c1-")


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_members_share_and_take_over(make_member, assignor):
    members = [make_member(f"c{i}", assignors=[assignor]) for i in range(3)]
    units = [f"u{i}" for i in range(7)]
    for member in members:
        member.subscribe(units=units)

    poll_until(settled(units, *members), *members)
    members[0].close()
    poll_until(settled(units, *members[1:]), *members[1:])

    assert members[0].assignment == frozenset()


def test_nobody_owns_what_another_still_owns(make_member):
    members = [make_member(f"c{i}") for i in range(3)]
    units = [f"u{i}" for i in range(5)]
    owners = {}

    class Exclusive:
        def __init__(self, name):
            self.name = name

        def on_partitions_assigned(self, assigned):
            for unit in assigned:
                assert owners.setdefault(unit, self.name) == self.name

        def on_partitions_revoked(self, revoked):
            for unit in revoked:
                assert owners.pop(unit) == self.name

    for i, member in enumerate(members):
        member.subscribe(units=units, listener=Exclusive(i))
        poll_until(settled(units, *members[: i + 1]), *members[: i + 1])
    for i, member in enumerate(members[:-1]):
        member.close()
        poll_until(settled(units, *members[i + 1 :]), *members[i + 1 :])

    assert owners == dict.fromkeys(units, 2)


def test_revoked_runs_before_the_join_and_assigned_after_the_sync(make_member, coordinator):
    first, second = make_member("c1"), make_member("c2")

    def look():
        joins = [each for each in coordinator.requests(JoinGroupRequest) if each.client_id == "c1"]
        return len(joins), first.state, len(first.assignment)

    listener = Listener(look)
    first.subscribe(units=["u1", "u2"], listener=listener)
    poll_until(settled(["u1", "u2"], first), first)
    second.subscribe(units=["u1", "u2"])
    poll_until(settled(["u1", "u2"], first, second), first, second)

    both = frozenset(["u1", "u2"])
    assert listener.journal[:2] == [
        ("assigned", both, (2, MemberState.STABLE, 2)),  # one join for the id, one with it
        ("revoked", both, (2, MemberState.STABLE, 2)),
    ]
    assert listener.words[2:] == ["assigned"]


def test_assigned_and_revoked_come_in_pairs(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=[], listener=listener)
    poll_until(lambda: listener.words == ["assigned"], member)
    member.close()

    assert [(word, units) for word, units, _ in listener.journal] == [
        ("assigned", frozenset()),
        ("revoked", frozenset()),
    ]


def test_other_units_lead_to_a_rejoin(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member.subscribe(units=["u1"], listener=listener)
    assert member.poll() == {"u1"}
    assert member.generation_id == 1

    member.subscribe(units=["u1", "u2"], listener=listener)
    poll_until(settled(["u1", "u2"], member), member)

    assert listener.words == ["assigned", "revoked", "assigned"]


def test_more_partitions_lead_to_a_rejoin(make_member, coordinator):
    member = make_member("c1", metadata_max_age_ms=1)
    member.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), member), member)

    coordinator.topics["a"] = 5

    poll_until(settled(partitions(a=5), member), member)


def test_a_leader_that_looks_as_often_as_it_can_is_not_kept_in_a_poll(make_member, monkeypatch):
    member, looks = make_member("c1", metadata_max_age_ms=0), []

    def look_up(_topics):
        looks.append(now_ms())
        assert len(looks) < 1_000, "it looks on and on"
        return {"a": 4}

    monkeypatch.setattr(member._channel, "partition_counts", look_up)
    member.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), member), member)
    # As where a millisecond has passed since the last one whenever somebody asks whether one is due.
    monkeypatch.setattr("group_coordinator.client.driver.now_ms", lambda: now_ms() + 1)
    looks.clear()
    poll_until(lambda: looks, member)


def test_look_up_that_fails_is_tried_again(make_member, caplog):
    member = make_member("c1")
    member._channel.lookup_errors = [KafkaConnectionError("gone")]
    member.subscribe(topics=["a"])

    poll_until(settled(partitions(a=4), member), member)
    assert "cannot look up partitions" in caplog.text


def test_look_up_that_may_not_be_is_raised(make_member):
    member = make_member("c1")
    member._channel.lookup_errors = [TopicAuthorizationFailedError("a")]
    member.subscribe(topics=["a"])

    with pytest.raises(TopicAuthorizationFailedError):
        poll_until(lambda: False, member)


# -- losing membership -------------------------------------------------------------------------------


def test_lost_membership_is_reported_as_lost_and_joined_again(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)

    coordinator.forget("orders")

    poll_until(lambda: len(listener.words) == 3, member)
    assert listener.words == ["assigned", "lost", "assigned"]


def test_generation_is_the_assignments_until_the_listener_is_done(make_member, coordinator):
    member = make_member("c1")
    listener = Listener(lambda: member.generation_id)
    member.subscribe(units=["u1"], listener=listener)
    assert member.generation_id == -1
    poll_until(settled(["u1"], member), member)
    coordinator.forget("orders")
    poll_until(lambda: listener.words[-2:] == ["lost", "assigned"], member)

    assert [generation for _, _, generation in listener.journal] == [1, 1, 1]
    member.close()
    assert member.generation_id == -1


def test_listener_without_lost_hears_revoked(make_member, coordinator):
    heard = []

    class Minimal:
        def on_partitions_assigned(self, assigned):
            heard.append("assigned")

        def on_partitions_revoked(self, revoked):
            heard.append("revoked")

    member = make_member("c1")
    member.subscribe(units=["u1"], listener=Minimal())
    poll_until(settled(["u1"], member), member)
    coordinator.forget("orders")
    poll_until(lambda: len(heard) == 3, member)

    assert heard == ["assigned", "revoked", "assigned"]


def test_heartbeats_go_on_while_the_program_is_busy(make_member, coordinator):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    before = len(coordinator.requests(HeartbeatRequest))

    wait_for(lambda: len(coordinator.requests(HeartbeatRequest)) > before + 5)

    assert member.poll() == {"u1"}


def test_coordinator_that_was_away_expires_nobody(make_member, coordinator):
    member = make_member("c1", session_timeout_ms=3_000)
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    coordinator.paused = True
    before = now_ms()
    wait_for(lambda: now_ms() > before + 3_300)
    assert member.poll() == {"u1"}

    coordinator.resume()

    answered = len(coordinator.log)
    poll_until(lambda: len(coordinator.log) > answered + 3, member)
    assert (member.assignment, member.generation_id) == ({"u1"}, 1)


def test_program_that_does_not_poll_loses_its_work(make_member, coordinator, caplog):
    member, listener = make_member("c1", max_poll_interval_ms=500), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(lambda: listener.words, member)

    wait_for(lambda: coordinator.requests(LeaveGroupRequest))

    assert "max_poll_interval_ms" in caplog.text
    poll_until(lambda: "lost" in listener.words, member)


# -- static members ----------------------------------------------------------------------------------


def make_pair(make_member, **settings):
    """Two members that share four units: the first one is static and leads."""
    static, other = make_member("c1", group_instance_id="w1", **settings), make_member("c2", **settings)
    listener = Listener()
    static.subscribe(units=UNITS)
    poll_until(settled(UNITS, static), static)
    other.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, static, other), static, other)
    assert static.is_leader
    return static, other, listener


@pytest.mark.parametrize("leads", [True, False])
def test_static_member_that_starts_again_owns_what_it_owned(make_member, coordinator, leads):
    if leads:
        before, other, listener = make_pair(make_member)
    else:
        other, listener = make_member("c2"), Listener()
        other.subscribe(units=UNITS, listener=listener)
        poll_until(settled(UNITS, other), other)
        before = make_member("c1", group_instance_id="w1")
        before.subscribe(units=UNITS)
        poll_until(settled(UNITS, before, other), before, other)
    owned, heard = before.assignment, len(listener.journal)
    before.close()
    after = make_member("c1-again", group_instance_id="w1")
    after.subscribe(units=UNITS)
    poll_until(lambda: after.assignment, after, other)

    assert (owned, other.generation_id, leads) == (after.assignment, after.generation_id, after.is_leader)
    assert after.member_id != before.member_id
    assert coordinator.requests(LeaveGroupRequest) == []
    beats = len(coordinator.requests(HeartbeatRequest))
    poll_until(lambda: len(coordinator.requests(HeartbeatRequest)) > beats + 6, after, other)
    assert len(listener.journal) == heard, "the other one notices nothing"


def test_leader_that_starts_again_still_watches_the_topics(make_member, coordinator):
    before = make_member("c1", group_instance_id="w1")
    before.subscribe(topics=["a"])
    poll_until(settled(partitions(a=4), before), before)
    before.close()
    after, listener = make_member("c1", group_instance_id="w1", metadata_max_age_ms=1), Listener()
    after.subscribe(topics=["a"], listener=listener)
    poll_until(lambda: after.assignment, after)
    assert (partitions(a=4), 1) == (after.assignment, after.generation_id)
    for _ in range(2):  # it looks once to know what there is
        after.poll(timeout_ms=5)

    coordinator.topics["a"] = 5

    poll_until(settled(partitions(a=5), after), after)
    assert listener.words == ["assigned", "revoked", "assigned"]


def test_static_member_that_leaves_for_good_gives_its_work_up(make_member):
    static, other, _ = make_pair(make_member)
    static.close(leave=True)

    poll_until(settled(UNITS, other), other)


def test_dynamic_member_may_stay_when_it_is_closed(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, member), member)
    member.close(leave=False)

    assert coordinator.requests(LeaveGroupRequest) == []
    assert listener.words == ["assigned", "revoked"]


def test_program_whose_name_is_taken_loses_its_work_and_does_not_come_back(make_member, coordinator):
    first, listener = make_member("c1", group_instance_id="w1"), Listener()
    first.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, first), first)
    second = make_member("c2", group_instance_id="w1")
    second.subscribe(units=UNITS)
    poll_until(settled(UNITS, second), second)

    for _ in range(2):
        with pytest.raises(FencedInstanceIdError, match="'w1'"):
            poll_until(lambda: False, first)
    assert (["assigned", "lost"], frozenset()) == (listener.words, first.assignment)
    first.close(leave=True)
    poll_until(lambda: True, second)

    assert coordinator.requests(LeaveGroupRequest) == []
    assert settled(UNITS, second)()


def test_static_member_that_does_not_poll_loses_its_work_and_gets_it_back(make_member, coordinator, caplog):
    static, listener = make_member("c1", group_instance_id="w1", max_poll_interval_ms=500), Listener()
    static.subscribe(units=UNITS, listener=listener)
    poll_until(settled(UNITS, static), static)
    wait_for(lambda: static.state is MemberState.UNJOINED)
    assert "max_poll_interval_ms" in caplog.text

    poll_until(lambda: listener.words == ["assigned", "lost", "assigned"], static)

    assert (set(UNITS), 1) == (static.assignment, static.generation_id)
    assert coordinator.requests(LeaveGroupRequest) == []


def test_static_member_that_subscribes_to_something_else_while_it_is_out_gets_it(make_member):
    static = make_member("c1", group_instance_id="w1", max_poll_interval_ms=500)
    static.subscribe(units=UNITS)
    poll_until(settled(UNITS, static), static)
    wait_for(lambda: static.state is MemberState.UNJOINED)
    static.subscribe(units=["u9"])

    poll_until(settled(["u9"], static), static)


# -- offsets -----------------------------------------------------------------------------------------


def owner(make_member, name="c1", units=("u1",), **settings):
    member = make_member(name, **settings)
    member.subscribe(units=list(units))
    poll_until(lambda: member.assignment, member)
    return member


def offsets(member, *units):
    return [each and each.offset for each in member.committed(units).values()]


def test_what_one_member_commits_the_next_one_is_told(make_member):
    first = owner(make_member, units=["eu", "us"])
    partition = TopicPartition("a", 3)
    first.commit({"eu": 5, partition: OffsetAndMetadata(7, "so far", 2)})
    first.close()
    second = make_member("c2")

    assert second.committed(["eu", "us", partition]) == {
        "eu": OffsetAndMetadata(5, "", -1),
        "us": None,
        partition: OffsetAndMetadata(7, "so far", 2),
    }
    assert second.committed([]) == {}


def test_listener_may_commit_and_look(make_member):
    class Keeper(Listener):
        def on_partitions_assigned(self, assigned):
            found.append((member.generation_id, offsets(member, "u1")))
            member.commit({"u1": 1})

        def on_partitions_revoked(self, revoked):
            found.append((member.generation_id, offsets(member, "u1")))
            member.commit({"u1": 2})

    found, member = [], make_member("c1")
    member.subscribe(units=["u1"], listener=Keeper())
    poll_until(lambda: member.assignment, member)
    member.subscribe(units=["u1", "u2"], listener=Keeper())
    poll_until(settled(["u1", "u2"], member), member)
    member.close()

    assert found == [(1, [None]), (1, [1]), (2, [2]), (2, [1])]
    assert offsets(make_member("c2"), "u1") == [2]


def test_commit_of_who_was_thrown_out_fails_and_nothing_is_stored(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(lambda: member.assignment, member)
    coordinator.forget("orders")

    with pytest.raises(CommitFailedError, match="gone on without this member"):
        member.commit({"u1": 5})

    assert offsets(member, "u1") == [None]
    poll_until(lambda: listener.words == ["assigned", "lost", "assigned"], member)
    member.commit({"u1": 6})
    assert offsets(member, "u1") == [6]


def test_commit_without_membership_fails_and_is_not_sent(make_member, coordinator):
    member = make_member("c1")

    with pytest.raises(CommitFailedError, match="not in the group"):
        member.commit({"u1": 5})
    assert coordinator.requests(OffsetCommitRequest) == []


def test_commit_that_is_refused_in_part_is_made_in_part(make_member):
    member = owner(make_member)

    with pytest.raises(kafka_errors.OffsetMetadataTooLargeError, match="for u1"):
        member.commit({"u1": OffsetAndMetadata(1, "x" * 5_000), "u2": 2})
    assert offsets(member, "u1", "u2") == [None, 2]


def test_commit_of_a_fenced_static_member_is_refused_for_good(make_member):
    first = owner(make_member, group_instance_id="w1", heartbeat_interval_ms=80_000)
    owner(make_member, "c2", group_instance_id="w1").commit({"u1": 5})

    for _ in range(2):
        with pytest.raises(FencedInstanceIdError, match="Another program"):
            first.commit({"u1": 4})
    assert first.state is MemberState.FAILED
    assert offsets(first, "u1") == [5]


def test_commit_that_is_not_answered_in_time_counts_once_it_is_read(make_member, coordinator):
    member = owner(make_member)
    coordinator.paused = True
    with pytest.raises(KafkaTimeoutError, match="in the log and counts when it is read"):
        member.commit({"u1": 5}, timeout_ms=20)
    with pytest.raises(KafkaTimeoutError, match="has not answered a fetch"):
        member.committed(["u1"], timeout_ms=20)

    coordinator.resume()

    assert offsets(member, "u1") == [5]
    assert len(coordinator.requests(OffsetCommitRequest)) == 1


def test_commit_without_offsets_is_done_at_once(make_member, coordinator):
    member, heard = owner(make_member), []
    member.commit({})
    assert member.commit_async({}, lambda *end: heard.append(end)).succeeded()
    member.poll()

    assert heard == [({}, None)]
    assert coordinator.requests(OffsetCommitRequest) == []


def test_callbacks_run_in_the_thread_that_polls(make_member, coordinator):
    member, heard = owner(make_member), []

    def hear(offsets, error):
        heard.append((offsets, error, threading.current_thread()))

    future = member.commit_async({"u1": 5}, hear)
    wait_for(lambda: future.is_done)
    assert (future.value, heard) == (None, [])

    member.poll()

    assert heard == [({"u1": OffsetAndMetadata(5, "", -1)}, None, threading.current_thread())]
    coordinator.forget("orders")
    future = member.commit_async({"u1": 6}, hear)
    wait_for(lambda: future.is_done)
    assert future.failed()
    member.poll()
    assert heard[1][1] is future.exception


def test_callback_does_not_wait_for_the_poll_to_end(make_member):
    member, heard = owner(make_member), []
    member.commit_async({"u1": 5}, lambda *_: (heard.append("committed"), member.close()))

    member.poll(timeout_ms=PATIENCE_S * 1000)

    assert heard == ["committed"]


def test_callbacks_run_in_order_and_before_a_later_commit_returns(make_member):
    member, heard = owner(make_member), []
    for i in range(3):
        member.commit_async({"u1": i}, lambda offsets, _: heard.append(offsets["u1"].offset))

    member.commit({"u1": 3})

    assert heard == [0, 1, 2]
    assert offsets(member, "u1") == [3]


def test_error_of_a_callback_is_raised_by_poll_and_the_others_run_later(make_member):
    member, heard = owner(make_member), []
    member.commit_async({"u1": 1}, lambda *_: 1 / 0)
    member.commit_async({"u1": 2}, lambda *_: heard.append("second"))

    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: False, member)
    poll_until(lambda: heard, member)


def test_threads_may_commit_while_another_polls(make_member):
    units = [f"u{i}" for i in range(8)]
    member = owner(make_member, units=units)

    def work(unit):
        for offset in range(1, 21):
            member.commit({unit: offset})

    with ThreadPoolExecutor(len(units)) as threads:
        working = [threads.submit(work, unit) for unit in units]
        poll_until(lambda: all(each.done() for each in working), member)

    assert [each.exception() for each in working] == [None] * 8
    assert offsets(member, *units) == [20] * 8


def test_error_in_the_background_ends_commits(make_member, coordinator):
    member = owner(make_member)
    coordinator.paused = True
    future = member.commit_async({"u1": 1})
    member._channel.receive_error = TopicAuthorizationFailedError("coordinator.responses")

    wait_for(lambda: future.is_done)
    assert type(future.exception) is TopicAuthorizationFailedError
    with pytest.raises(TopicAuthorizationFailedError):
        member.commit({"u1": 2})
    with pytest.raises(TopicAuthorizationFailedError):
        member.committed(["u1"])


def test_request_that_cannot_be_sent_fails_the_commit(make_member):
    member = owner(make_member, heartbeat_interval_ms=80_000)
    member._channel.send_error = TopicAuthorizationFailedError("coordinator.requests")

    with pytest.raises(TopicAuthorizationFailedError):
        member.commit({"u1": 2})


def test_close_waits_for_commits_and_tells_of_them(make_member, coordinator):
    member, heard = owner(make_member), []
    coordinator.paused = True
    member.commit_async({"u1": 5}, lambda *end: heard.append(end))
    closing = threading.Thread(target=member.close)
    closing.start()
    wait_for(lambda: member._driver._news._waiters)
    assert coordinator.requests(LeaveGroupRequest) == []

    coordinator.resume()
    closing.join(PATIENCE_S)

    assert heard == [({"u1": OffsetAndMetadata(5, "", -1)}, None)]
    assert offsets(make_member("c2"), "u1") == [5]


def test_close_does_not_wait_forever(make_member, coordinator):
    member, heard = owner(make_member), []
    coordinator.paused = True
    future = member.commit_async({"u1": 5}, lambda *end: heard.append(end))
    member.close(timeout_ms=20)

    assert type(future.exception) is KafkaTimeoutError
    assert [error for _, error in heard] == [future.exception]
    for call in (lambda: member.commit({"u1": 6}), lambda: member.committed(["u1"])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


# -- errors ------------------------------------------------------------------------------------------


def test_refusal_is_raised_by_every_poll(make_member):
    member = make_member("c1", session_timeout_ms=1_000)
    member.subscribe(units=["u1"])

    for _ in range(2):
        with pytest.raises(InvalidSessionTimeoutError, match="3000 and 100000"):
            poll_until(lambda: False, member)
    assert member.state is MemberState.FAILED


def test_topics_and_units_do_not_mix(make_member):
    member, other = make_member("c1"), make_member("c2")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    other.subscribe(topics=["a"])

    with pytest.raises(InconsistentGroupProtocolError, match="same kind of work"):
        poll_until(lambda: False, other)
    with pytest.raises(ValueError, match="cannot change"):
        member.subscribe(topics=["a"])


def test_refusal_takes_the_assignment(make_member, coordinator):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    coordinator.paused = True
    beats = len(coordinator.requests(HeartbeatRequest))
    wait_for(lambda: len(coordinator.requests(HeartbeatRequest)) > beats)
    request = coordinator.requests(HeartbeatRequest)[-1]
    answer = HeartbeatResponse.to(request.reply_to, "orders", Errors.INVALID_REQUEST)
    coordinator.deliver("c1", answer)

    with pytest.raises(Exception, match="INVALID_REQUEST"):
        poll_until(lambda: False, member)
    assert (listener.words, member.assignment) == (["assigned", "lost"], frozenset())


def test_error_in_the_background_is_raised_by_poll(make_member):
    member, listener = make_member("c1"), Listener()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member._channel.receive_error = TopicAuthorizationFailedError("coordinator.responses")

    with pytest.raises(TopicAuthorizationFailedError):
        poll_until(lambda: False, member)
    assert listener.words == ["assigned", "lost"]


def test_error_of_a_listener_is_raised_once_and_the_rebalance_goes_on(make_member):
    class Clumsy(Listener):
        def on_partitions_revoked(self, revoked):
            super().on_partitions_revoked(revoked)
            if self.words.count("revoked") == 1:
                raise ZeroDivisionError

    member, listener = make_member("c1"), Clumsy()
    member.subscribe(units=["u1"], listener=listener)
    poll_until(settled(["u1"], member), member)
    member.subscribe(units=["u2"], listener=listener)

    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: False, member)
    poll_until(settled(["u2"], member), member)
    assert listener.words == ["assigned", "revoked", "assigned"]


def test_garbage_of_another_member_is_raised_by_the_leaders_poll(make_member, coordinator):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    garbage = JoinGroupRequest(
        request_id="x",
        client_id="x",
        group_id="orders",
        api_version=1,
        session_timeout_ms=90_000,
        protocol_type="units",
        protocols=[{"name": "range", "metadata": b"\xff"}],
    )
    coordinator.append(garbage)

    with pytest.raises(MalformedMetadataError, match="member x-"):
        poll_until(lambda: False, member)


def test_what_makes_no_sense_is_refused(make_member):
    member = make_member("c1")

    class Asynchronous(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked): ...

        async def on_partitions_assigned(self, assigned): ...

    with pytest.raises(RuntimeError, match="subscribe"):
        member.poll()
    with pytest.raises(ValueError, match="either"):
        member.subscribe()
    with pytest.raises(ValueError, match="either"):
        member.subscribe(topics=["a"], units=["u"])
    with pytest.raises(TypeError, match="asynchronous"):
        member.subscribe(topics=["a"], listener=Asynchronous())
    with pytest.raises(ValueError, match="cooperative"):
        make_member("c2", assignors=["cooperative-sticky"])
    with pytest.raises(ValueError, match="group_instance_id must not be empty"):
        make_member("c2", group_instance_id="")


# -- closing -----------------------------------------------------------------------------------------


def test_close_revokes_leaves_and_is_final(make_member, coordinator):
    with make_member("c1") as member:
        listener = Listener(lambda: len(coordinator.requests(LeaveGroupRequest)))
        member.subscribe(units=["u1"], listener=listener)
        poll_until(settled(["u1"], member), member)
    member.close()

    assert listener.journal[1:] == [("revoked", frozenset(["u1"]), 0)]
    (leave,) = coordinator.requests(LeaveGroupRequest)
    assert leave.members[0].reason == "the member is being closed"
    assert member._channel.closed
    assert not member._driver._background.is_alive()
    assert member.state is MemberState.CLOSED
    for call in (member.poll, lambda: member.subscribe(units=["u1"])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_close_before_anything_was_done(make_member, coordinator):
    make_member("c1").close()

    assert coordinator.log == []


def test_close_from_another_thread_ends_a_poll(make_member):
    member = make_member("c1")
    member.subscribe(units=["u1"])
    poll_until(settled(["u1"], member), member)
    results = []
    waiting = threading.Thread(target=lambda: results.append(member.poll(timeout_ms=600_000)))
    waiting.start()
    wait_for(lambda: member._driver._news._waiters)

    member.close()
    waiting.join(PATIENCE_S)

    assert not waiting.is_alive()
    assert member.state is MemberState.CLOSED


def test_close_within_a_listener(make_member):
    class Quitter(Listener):
        def on_partitions_assigned(self, assigned):
            super().on_partitions_assigned(assigned)
            member.close()

    member, listener = make_member("c1"), Quitter()
    member.subscribe(units=["u1"], listener=listener)

    assert member.poll(timeout_ms=PATIENCE_S * 1000) == frozenset()
    assert listener.words == ["assigned", "revoked"]


def test_close_raises_what_the_listener_raises_after_leaving(make_member, coordinator):
    class Clumsy(Listener):
        def on_partitions_revoked(self, revoked):
            raise ZeroDivisionError

    member = make_member("c1")
    member.subscribe(units=["u1"], listener=Clumsy())
    poll_until(settled(["u1"], member), member)

    with pytest.raises(ZeroDivisionError):
        member.close()
    assert len(coordinator.requests(LeaveGroupRequest)) == 1
    assert member._channel.closed
