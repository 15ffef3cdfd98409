"""AdminClient against the real coordinator core, over a channel in memory instead of Kafka."""

from __future__ import annotations

import base64
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.admin import MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidRequestError,
    NoError,
    NonEmptyGroupError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition
from msgspec import UNSET

from group_coordinator.client import admin as admin_module
from group_coordinator.client.admin import AdminClient, NoAnswerError, ResetOutcome, own_client_id
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.descriptions import pictured
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.client.log_offsets import Log
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer_protocol import partitions_of, topics_of
from group_coordinator.coordinator_state.offsets.still_there import Found
from group_coordinator.coordinator_state.requests import (
    ConsumerGroupDescribeRequest,
    DeleteGroupRequest,
    DescribeGroupRequest,
    JoinGroupRequest,
    MemberAssignment,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Protocol,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    InvalidRequestResponse,
    OffsetCommitResponse,
)
from group_coordinator.coordinator_state.stored import decode_group
from tests.client.memory import MemoryChannel, beat, member_maker
from tests.patience import PATIENCE_S, wait_for

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOTHING = OffsetAndMetadata(-1, "", -1)


@pytest.fixture
def channel(coordinator):
    return MemoryChannel(coordinator, "admin")


@pytest.fixture
def admin(channel):
    with AdminClient(client_id="admin", channel=channel, request_timeout_ms=PATIENCE_S * 1000) as admin:
        yield admin


@pytest.fixture
def make_member(coordinator):
    with member_maker(coordinator) as make:
        yield make


def impatient(channel):
    return AdminClient(client_id="admin", channel=channel, request_timeout_ms=1)


# -- who asks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "host", "expected"),
    [
        ("alice", "box-7.example.com", "alice@box-7.example.com"),
        ("CORP\\alice smith", "box", "CORP_alice_smith@box"),
        ("\x1b[2J\udcff\u202e\u65e5", "b@x\n", "__2J___@b_x_"),
        ("a" * 300, "b" * 300, f"{'a' * 64}@{'b' * 64}"),
    ],
)
def test_client_id_names_user_and_host(monkeypatch, coordinator, user, host, expected):
    monkeypatch.setattr("getpass.getuser", lambda: user)
    monkeypatch.setattr("socket.gethostname", lambda: host)

    client_id = AdminClient(channel=MemoryChannel(coordinator, "admin")).client_id

    assert re.fullmatch(rf"admin-{re.escape(expected)}-\d+-[0-9a-f]{{12}}", client_id)
    assert len(client_id) <= 255


def test_a_user_without_a_name_is_a_number(monkeypatch):
    def getuser():
        raise OSError("No username set in the environment")

    monkeypatch.setattr("getpass.getuser", getuser)

    assert own_client_id().startswith(f"admin-{os.getuid()}@")


def test_a_change_tells_why(admin, coordinator):
    admin.alter_offsets_of_groups({"g": {TopicPartition("t", 0): OffsetAndMetadata(1)}}, reason="one")
    admin.delete_group_offsets("g", [TopicPartition("t", 0)], reason="two")
    admin.delete_groups(["g"], reason="three")

    kinds = (OffsetCommitRequest, OffsetDeleteRequest, DeleteGroupRequest)
    assert [each.reason for kind in kinds for each in coordinator.requests(kind)] == ["one", "two", "three"]


# -- describing --------------------------------------------------------------------------------------


def test_group_that_shares_topics_is_described(admin, make_member):
    member = make_member(topics=["a"])

    group = admin.describe_groups(["orders"])["orders"]

    (described,) = group.members
    assert ("orders", "Stable", "consumer", "range") == (
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
    )
    assert (1, member.member_id, None) == (group.generation_id, group.leader, group.error)
    assert (member.member_id, None, "c1") == (
        described.member_id,
        described.group_instance_id,
        described.client_id,
    )
    assert tuple(TopicPartition("a", number) for number in range(4)) == described.topic_partitions
    assert described.member_metadata
    assert described.member_assignment


def test_units_are_described_as_partition_0_under_their_names(admin, make_member):
    make_member(units=["north", "south"], group_instance_id="w1")

    (member,) = admin.describe_groups(["orders"])["orders"].members

    assert "w1" == member.group_instance_id
    assert (TopicPartition("north", 0), TopicPartition("south", 0)) == member.topic_partitions


@pytest.mark.parametrize(
    ("protocol_type", "assignment", "expected"),
    [
        ("consumer", "bm9uc2Vuc2U=", None),
        ("units", "bm9uc2Vuc2U=", None),
        ("connect", "AA==", None),
        ("units", "", ()),
    ],
)
def test_assignment_that_cannot_be_read_does_not_spoil_the_rest(
    admin, coordinator, channel, protocol_type, assignment, expected
):
    who = {"client_id": "raw", "group_id": "odd"}
    join = {"session_timeout_ms": 90_000, "protocol_type": protocol_type, "protocols": [Protocol("p", b"")]}
    coordinator.append(JoinGroupRequest(request_id="r1", api_version=3, **who, **join))
    (member,) = admin.describe_groups(["odd"])["odd"].members
    share = MemberAssignment(member.member_id, base64.b64decode(assignment))
    coordinator.append(
        SyncGroupRequest(
            request_id="r2",
            generation_id=1,
            member_id=member.member_id,
            assignments=[share],
            api_version=3,
            **who,
        )
    )

    group = admin.describe_groups(["odd"])["odd"]

    assert ("Stable", expected) == (group.group_state, group.members[0].topic_partitions)


def test_group_that_is_not_there_has_an_error_of_its_own(admin):
    admin.alter_group_offsets("there", {A0: OffsetAndMetadata(1)})

    groups = admin.describe_groups(["not there", "there"])

    assert isinstance(groups["not there"].error, GroupIdNotFoundError)
    assert ("Dead", ()) == (groups["not there"].group_state, groups["not there"].members)
    assert ("Empty", None) == (groups["there"].group_state, groups["there"].error)


def test_many_groups_are_asked_about_at_once_and_each_once(admin, channel, coordinator):
    coordinator.paused = True
    sent = []

    def receive_after_all(timeout_ms):
        sent.append(len(coordinator.requests(DescribeGroupRequest)))
        coordinator.resume()
        return MemoryChannel.receive(channel, timeout_ms)

    channel.receive = receive_after_all
    groups = admin.describe_groups([f"g{i}" for i in range(50)] * 2)

    assert (50, 50) == (sent[0], len(groups))


def test_a_single_name_is_one_group(admin):
    assert ["abc"] == list(admin.describe_groups("abc"))


def test_description_and_offsets_come_together(admin, make_member):
    make_member(topics=["a"])
    admin.alter_group_offsets("done", {B0: OffsetAndMetadata(7, "m", 3)})

    both = admin.describe_groups_and_offsets(["orders", "done", "absent"])

    states = {group_id: group.group_state for group_id, (group, _) in both.items()}
    assert {"orders": "Stable", "done": "Empty", "absent": "Dead"} == states
    assert {"orders": {}, "done": {B0: OffsetAndMetadata(7, "m", 3)}, "absent": {}} == {
        group_id: offsets for group_id, (_, offsets) in both.items()
    }


def test_offsets_of_a_topic_that_was_made_again_are_not_shown_as_if_they_were(admin, monkeypatch):
    def commit(topic, topic_id):
        partitions = [OffsetCommitPartition(partition_index=0, committed_offset=5)]
        topics = [OffsetCommitTopic(topic, partitions, topic_id)]
        admin._ask([admin._request(OffsetCommitRequest, "g", topics=topics)], OffsetCommitResponse)

    asked = []

    def find_topics(names):
        asked.append(sorted(names))
        return {"again": Found(1, "now"), "gone": Found(0), "kept": Found(1, "kept")}

    monkeypatch.setattr(admin, "find_topics", find_topics)
    commit("unit", UNSET)
    assert [TopicPartition("unit", 0)] == list(admin.list_group_offsets(["g"])["g"])
    assert [] == asked, "Kafka is not asked about what may be no topic"
    for topic, topic_id in (("again", "before"), ("gone", "gone"), ("kept", "kept")):
        commit(topic, topic_id)

    there = {TopicPartition(topic, 0) for topic in ("kept", "unit")}
    assert there == admin.list_group_offsets(["g"])["g"].keys()
    assert there == admin.describe_groups_and_offsets(["g"])["g"][1].keys()
    again = TopicPartition("again", 0)
    assert -1 == admin.list_group_offsets({"g": [again]})["g"][again].offset
    assert [["again", "gone", "kept"], ["again", "gone", "kept"], ["again"]] == asked
    stored = admin.list_group_offsets(["g"], as_stored=True)["g"]
    assert ["again", "gone", "kept", "unit"] == sorted(each.topic for each in stored)


def test_coordinator_is_where_requests_and_state_are(admin):
    found = admin.find_coordinator(["g", "h"])

    assert ["g", "h"] == sorted(found)
    assert ("requests", 0, 0) == (found["g"].topic, found["g"].partition, found["g"].state_partition)


# -- the consumer protocol -----------------------------------------------------------------------------


def test_a_group_of_the_consumer_protocol_is_described_with_epochs_and_targets(
    admin, coordinator, make_member
):
    make_member(units=["u"])
    beat(coordinator, "new", "m1")
    beat(coordinator, "new", "m2")
    admin.alter_group_offsets("old", {A0: OffsetAndMetadata(1)})

    groups = admin.describe_groups(["orders", "new", "absent"])

    assert list(groups) == ["orders", "new", "absent"]
    assert [each.group_type for each in groups.values()] == ["classic", "consumer", "classic"]
    assert isinstance(groups["absent"].error, GroupIdNotFoundError)
    new = groups["new"]
    assert (new.error, new.group_state, new.protocol_type) == (None, "Reconciling", "consumer")
    assert (new.protocol_data, new.generation_id, new.assignment_epoch, new.leader) == ("uniform", 3, 3, "")
    m1, m2 = new.members
    assert (m1.member_id, m1.client_id, m1.client_host, m1.member_epoch) == ("m1", "c-m1", "/10.0.0.7", 2)
    assert (m1.topic_partitions, m1.target_partitions) == ((A0, A1), (A0,))
    assert (m2.member_epoch, m2.topic_partitions, m2.target_partitions) == (3, (), (A1,))
    assert topics_of(m1.member_metadata) == ["a"]
    assert partitions_of(m1.member_assignment) == [("a", 0), ("a", 1)]
    assert groups["orders"].assignment_epoch is None
    assert groups["orders"].members[0].member_epoch is None
    group, offsets = admin.describe_groups_and_offsets(["new", "old"])["new"]
    assert (group, offsets) == (new, {})


def test_a_picture_of_a_consumer_group_says_what_the_coordinator_says(admin, coordinator):
    beat(coordinator, "new", "m1")
    beat(coordinator, "new", "m2")
    picture = decode_group(coordinator.states[b"new"]).picture(coordinator.config)

    assert pictured(picture) == admin.describe_groups(["new"])["new"]


def test_a_coordinator_of_the_version_before_has_no_groups_of_the_consumer_protocol(
    admin, channel, monkeypatch
):
    send = channel.send

    def refuse(request):
        if isinstance(request, ConsumerGroupDescribeRequest):
            answer = InvalidRequestResponse(
                api=None, request_id=request.request_id, client_id="admin", group_id=request.group_id
            )
            channel.put(answer)
        else:
            send(request)

    monkeypatch.setattr(channel, "send", refuse)
    assert isinstance(admin.describe_groups(["absent"])["absent"].error, GroupIdNotFoundError)


# -- listing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (None, ["a", "b", "c", "d"]),
        ([], ["a", "b", "c", "d"]),
        (["stable"], ["b", "d"]),
        (["Empty", "PREPARING_REBALANCE"], ["a", "c"]),
    ],
)
def test_list_is_filtered_by_state(admin, coordinator, monkeypatch, states, expected):
    coordinator.topics["coordinator.groups"] = 3
    listed = [
        GroupListing("a", "Empty", ""),
        GroupListing("b", "Stable", "units"),
        GroupListing("c", "PreparingRebalance", "consumer"),
        GroupListing("d", "Stable", "consumer", "consumer"),
    ]
    asked = []
    monkeypatch.setattr(admin_module, "read_groups", lambda *what: asked.append(what) or listed)

    assert expected == [group.group_id for group in admin.list_groups(states)]
    assert ("coordinator.groups", 3) == asked[0][:2]
    of_type = {"d"} & set(expected)
    assert of_type == {group.group_id for group in admin.list_groups(states, ["Consumer"])}


def test_list_says_which_topic_is_missing(admin):
    with pytest.raises(MissingTopicError, match=r"'coordinator\.groups' does not exist"):
        admin.list_groups()


# -- changing ----------------------------------------------------------------------------------------


def test_groups_without_members_are_deleted_with_their_offsets(admin, make_member):
    make_member(units=["u"])
    admin.alter_group_offsets("done", {A0: OffsetAndMetadata(1)})

    errors = admin.delete_groups(["orders", "done", "absent"])

    assert {"orders": NonEmptyGroupError, "done": NoError, "absent": GroupIdNotFoundError} == errors
    assert {"done": {}} == admin.list_group_offsets(["done"])


def test_offsets_are_committed_and_fetched(admin):
    offsets = {A0: OffsetAndMetadata(5, "m", 2), B0: OffsetAndMetadata(6, "", None)}

    assert {A0: NoError, B0: NoError} == admin.alter_group_offsets("g", offsets)
    expected = {A0: OffsetAndMetadata(5, "m", 2), B0: OffsetAndMetadata(6, "", -1)}
    assert {"g": expected} == admin.list_group_offsets(["g"])
    assert {"g": expected} == admin.list_group_offsets("g")
    assert {"g": {A0: expected[A0], A1: NOTHING}, "h": {}} == admin.list_group_offsets(
        {"g": [A0, A1], "h": None}
    )


def test_partitions_are_refused_one_by_one(admin):
    long = OffsetAndMetadata(5, "m" * 5000)

    errors = admin.alter_group_offsets("g", {A0: long, A1: OffsetAndMetadata(6)})

    assert {A0: OffsetMetadataTooLargeError, A1: NoError} == errors
    assert [A1] == list(admin.list_group_offsets(["g"])["g"])


def test_offsets_of_a_group_with_members_are_theirs(admin, make_member):
    make_member(topics=["a"])

    errors = admin.alter_offsets_of_groups(
        {"orders": {A0: OffsetAndMetadata(1)}, "g": {A0: OffsetAndMetadata(1)}}
    )

    assert {"orders": {A0: UnknownMemberIdError}, "g": {A0: NoError}} == errors


def test_more_offsets_than_a_request_holds_go_in_several(admin, coordinator):
    offsets = {TopicPartition("a" * 200, number): OffsetAndMetadata(number) for number in range(2_000)}

    errors = admin.alter_group_offsets("g", offsets)

    requests = coordinator.requests(OffsetCommitRequest)
    assert len(requests) > 1
    assert dict.fromkeys(offsets, NoError) == errors
    assert offsets == admin.list_group_offsets(["g"])["g"]
    assert offsets == admin.list_group_offsets({"g": list(offsets)})["g"]
    assert len(coordinator.requests(OffsetFetchRequest)) > 2
    assert dict.fromkeys(offsets, NoError) == admin.delete_group_offsets("g", offsets)
    assert {"g": {}} == admin.list_group_offsets(["g"])


def test_offsets_are_deleted_unless_members_need_them(admin, make_member):
    admin.alter_group_offsets("orders", {A0: OffsetAndMetadata(1), B0: OffsetAndMetadata(2)})
    make_member(topics=["a"])

    assert {A0: GroupSubscribedToTopicError, B0: NoError} == admin.delete_group_offsets("orders", [A0, B0])
    assert [A0] == list(admin.list_group_offsets(["orders"])["orders"])


def test_deleting_offsets_raises_what_is_wrong_with_the_group(admin, make_member):
    make_member(units=["u"])

    with pytest.raises(NonEmptyGroupError, match="'orders'"):
        admin.delete_group_offsets("orders", [TopicPartition("u", 0)])
    with pytest.raises(GroupIdNotFoundError, match="'absent'"):
        admin.delete_group_offsets("absent", [A0])


def test_nothing_to_change_is_not_asked_for(admin, coordinator):
    assert {} == admin.alter_group_offsets("g", {})
    assert {} == admin.delete_group_offsets("g", [])
    assert {} == admin.remove_group_members("g", [])
    assert {} == admin.delete_groups([])
    assert [] == coordinator.log


def test_members_are_removed_by_either_id(admin, make_member):
    dynamic = make_member(units=["u"])
    make_member("static", "c2", units=["u"], group_instance_id="w1")

    gone = MemberToRemove(member_id="nobody")
    assert {dynamic.member_id: NoError, "nobody": UnknownMemberIdError} == admin.remove_group_members(
        "orders", [MemberToRemove(member_id=dynamic.member_id, reason="maintenance"), gone]
    )
    assert {"w1": NoError} == admin.remove_group_members("static", [MemberToRemove(group_instance_id="w1")])


def logs(specs):
    """Partition 0 of each topic has a log from 10 to 20, the others have none."""
    return {
        partition: Log(10, 20, 10 if spec is OffsetSpec.EARLIEST else None)
        for partition, spec in specs.items()
        if partition.partition == 0
    }


def test_reset_commits_offsets_within_the_logs(admin, monkeypatch):
    monkeypatch.setattr(admin, "logs", logs)

    outcome = admin.reset_group_offsets("g", {A0: OffsetSpec.EARLIEST, A1: 15, B0: 99})

    assert {
        A0: ResetOutcome(NoError, 10),
        A1: ResetOutcome(UnknownTopicOrPartitionError, -1),
        B0: ResetOutcome(NoError, 20),
    } == outcome
    assert {A0: 10, B0: 20} == {p: each.offset for p, each in admin.list_group_offsets(["g"])["g"].items()}


# -- what goes wrong ---------------------------------------------------------------------------------


def test_no_answer_names_who_waits_for_one(channel, coordinator):
    coordinator.paused = True

    with impatient(channel) as admin, pytest.raises(NoAnswerError) as caught:
        admin.describe_groups(["a", "b", "c", "d", "e"])

    assert ("a", "b", "c", "d", "e") == caught.value.unanswered
    assert str(caught.value) == (
        "the coordinator has answered 0 of 5 requests, and no other (for 'a', 'b', 'c' and 2 more) within "
        "0.001 s. Is it running?"
    )


def test_what_was_to_be_changed_without_an_answer_is_not_asked_for_again(channel, coordinator):
    coordinator.paused = True

    with impatient(channel) as admin:
        with pytest.raises(NoAnswerError, match="It may still be done once it runs: look before"):
            admin.delete_groups(["a"])
        coordinator.resume()
        groups = AdminClient(client_id="admin", channel=channel).describe_groups(["a"])

    assert ["a"] == list(groups)
    assert 1 == len(coordinator.requests(DeleteGroupRequest))


def test_waiting_goes_on_as_long_as_answers_come(channel, coordinator, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(admin_module.time, "monotonic", lambda: clock[0])
    coordinator.paused = True
    answers = []

    def one_a_second(timeout_ms):
        clock[0] += 1
        if not answers:
            coordinator.resume()
            answers.extend(MemoryChannel.receive(channel, timeout_ms)[::2])  # each comes twice
        return [answers.pop(0)]

    channel.receive = one_a_second
    admin = AdminClient(client_id="admin", channel=channel, request_timeout_ms=1_500)

    assert 10 == len(admin.describe_groups([f"g{i}" for i in range(10)]))


@pytest.mark.parametrize("as_response", [True, False])
def test_request_that_cannot_be_read_is_raised(admin, channel, as_response):
    def refuse(request):
        channel.put(
            HeartbeatResponse(
                request_id=request.request_id,
                client_id="admin",
                group_id=request.group_id,
                error_code=42,
                error="INVALID_REQUEST",
                error_message="longer than 255 characters - at `$.group_id`",
            )
            if as_response
            else InvalidRequestResponse(
                api=None,
                request_id=request.request_id,
                client_id="admin",
                group_id=None,
                error_message="longer than 255 characters - at `$.group_id`",
            )
        )

    channel.send = refuse
    with pytest.raises(InvalidRequestError, match=r"group 'g': longer than 255 .* `\$.group_id`"):
        admin.describe_groups(["g"])


def test_answer_to_another_question_is_not_taken_for_one(admin, channel):
    channel.send = lambda request: channel.put(
        HeartbeatResponse(request_id=request.request_id, client_id="admin", group_id="g")
    )

    with pytest.raises(InvalidRequestError, match="group 'g'"):
        admin.describe_groups(["g"])


def test_answers_to_others_are_passed_over(admin, channel):
    channel.put(HeartbeatResponse(request_id="another", client_id="admin", group_id="g"))

    assert ["g"] == list(admin.describe_groups(["g"]))


def test_closing_closes_the_channel(channel):
    AdminClient(client_id="admin", channel=channel).close()

    assert channel.closed


def test_what_is_put_off_is_asked_again(admin, coordinator, make_member):
    make_member(topics=["a"])
    # Of one batch the first request that reads is answered.
    coordinator.config = GroupConfig(max_read_bytes=0)
    coordinator.paused = True
    with ThreadPoolExecutor() as thread:
        asked = thread.submit(admin.describe_groups_and_offsets, ["orders"])
        wait_for(lambda: len(coordinator.unread) >= 2)
        coordinator.paused = False
        coordinator.read()
        description, offsets = asked.result(PATIENCE_S)["orders"]
    assert (description.group_state, offsets) == ("Stable", {})
    assert len(coordinator.requests(OffsetFetchRequest)) == 2
