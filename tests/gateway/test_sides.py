"""Groups that stay at the brokers: which requests go where, what is joined, and what is refused here."""

from __future__ import annotations

import io
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec, of_brokers
from group_coordinator.gateway.addresses import Address, rewrite_api_versions
from group_coordinator.gateway.apis import ALONE, APIS, BESIDE_BROKERS, Way
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import RequestHead
from group_coordinator.gateway.group_apis.guarding import Ask, AskBroker
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.groups import Groups, ListedGroup
from group_coordinator.gateway.guards import guard, unguarded
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest
from group_coordinator.gateway.rights import Right
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.gateway.sides import Sides
from group_coordinator.gateway.sides_file import SidesFile
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka
from tests.gateway.messages import drawn
from tests.gateway.talks import Talk, beat, number, response

THEIRS, OURS = "theirs", "orders"
PATTERNS = "*,!orders*"
SINGLE = [
    (api.key, version)
    for api in GROUP_APIS.values()
    for version in range(api.newest + 1)
    if api.key != ListGroupsRequest.API_KEY and (api.named is None or version < api.named.since)
]
TRANSACTIONAL = [
    (kind.API_KEY, it) for kind in (AddOffsetsToTxnRequest, TxnOffsetCommitRequest) for it in range(5)
]


def kio(api_key: int, version: int, kind: EntityType = EntityType.request) -> Any:
    """kio's module of the messages of an API."""
    return load_payload_module(api_key, version, kind)


def written(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def framed(
    api_key: int, version: int, body: bytes, client_id: bytes = b"\0\1c", tags: bytes = b"\0"
) -> bytes:
    """A request of a flexible version."""
    whole = api_key.to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4) + client_id + tags + body
    return len(whole).to_bytes(4) + whole


def compact(text: str) -> bytes:
    return bytes([len(text.encode()) + 1]) + text.encode()


def of_group(api_key: int, version: int, group_id: str) -> bytes:
    """A request about one group."""
    kind = codec._MESSAGES[api_key][0]
    fields: dict[str, Any] = {"group_id": group_id, "member_id": "m", "generation_id": 1}
    if api_key == FindCoordinatorRequest.API_KEY:
        fields = {"key": group_id, "key_type": 0}
    if kind in (AddOffsetsToTxnRequest, TxnOffsetCommitRequest):
        fields |= {"transactional_id": OURS, "producer_id": 5, "producer_epoch": 1}
        fields["topics"] = [] if kind is TxnOffsetCommitRequest else None
    names = {it.name for it in kind._struct.untagged_fields(version)}
    message = kind(version=version, **{name: it for name, it in fields.items() if name in names})
    for field in kind._struct.untagged_fields(version):
        if getattr(message, field.name, None) is None and field.is_array():
            setattr(message, field.name, [])
    return codec.encode_request(message, 7, "c")


# -- one group -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api_key", "version"), [*SINGLE, *TRANSACTIONAL])
def test_a_request_for_a_group_at_the_brokers_passes_as_it_came(api_key: int, version: int) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    frame = of_group(api_key, version, THEIRS)
    for byte in frame:
        talk.client(bytes([byte]))
    assert talk.passed() == [frame]
    assert talk.gateway.asked == []
    if api_key != FindCoordinatorRequest.API_KEY:
        talk.broker(response(7, b"whatever it says"))
        assert talk.told() == [response(7, b"whatever it says")]


@pytest.mark.parametrize(("api_key", "version"), SINGLE)
def test_a_request_for_a_group_that_is_here_stays_here(api_key: int, version: int) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    talk.client(of_group(api_key, version, OURS))
    assert (talk.passed(), len(talk.gateway.asked)) == ([], 1)


@pytest.mark.drawn
@pytest.mark.parametrize(("api_key", "version"), [*SINGLE, *TRANSACTIONAL])
@given(data=st.data())
def test_the_group_that_is_looked_at_is_the_one_that_is_read(
    api_key: int, version: int, data: st.DataObject
) -> None:
    message = drawn(data.draw, api_key, 0, version)
    group_id = message.key if api_key == FindCoordinatorRequest.API_KEY else message.group_id
    frame = codec.encode_request(message, 7, data.draw(st.sampled_from([None, "", "c", "client" * 40])))
    head = RequestHead(api_key, version, 7)
    assert Sides("*").group_of(head, frame) == group_id


def test_an_id_that_is_not_utf_8_or_is_null_or_too_long_is_judged_as_a_broker_reads_it() -> None:
    sides = Sides("th*,!*\N{REPLACEMENT CHARACTER}*")
    head = RequestHead(68, 0, 7)
    assert sides.group_of(head, framed(68, 0, b"\7theirs")) == "theirs"
    found = sides.group_of(head, framed(68, 0, b"\7theirs", client_id=b"\xff\xff", tags=b"\1\0\2ab"))
    assert found == "theirs"
    assert not sides.at_brokers(sides.group_of(head, framed(68, 0, b"\4th\xff")) or "")
    assert sides.group_of(head, framed(68, 0, b"\0")) == ""
    with pytest.raises(FrameError, match="a group id of 40000 bytes"):
        sides.group_of(head, framed(68, 0, b"\xc1\xb8\2" + b"t" * 40_000))
    with pytest.raises(FrameError, match="missing"):
        sides.group_of(head, framed(68, 0, b"\7the"))


@pytest.mark.parametrize("key_type", [0, 1])
def test_an_id_of_a_transaction_is_looked_up_at_the_broker_whatever_it_is_called(key_type: int) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    message = FindCoordinatorRequest(version=3, key=OURS, key_type=key_type)
    talk.client(codec.encode_request(message, 7, "c"))
    assert (len(talk.passed()), len(talk.gateway.asked)) == ((0, 1) if key_type == 0 else (1, 0))


def test_the_coordinator_that_a_broker_names_is_at_the_gateways_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    monkeypatch.setattr(talk.gateway, "address_of", lambda node_id, _own: Address("gateway", 100 + node_id))
    for version in (3, 4):
        place = {"node_id": 5, "host": "broker", "port": 9092, "error_code": 0, "error_message": ""}
        if version < 4:
            asked = FindCoordinatorRequest(version=version, key=THEIRS, key_type=0)
            found = FindCoordinatorResponse(version=version, **place)
        else:
            asked = FindCoordinatorRequest(version=version, coordinator_keys=[THEIRS], key_type=0)
            entry = FindCoordinatorResponse.Coordinator(version=version, key=THEIRS, **place)
            found = FindCoordinatorResponse(version=version, coordinators=[entry])
        frame = codec.encode_request(asked, 7, "c")
        talk.client(frame)
        assert talk.passed() == [frame]
        talk.broker(codec.encode_response(found, 7))
        told = codec.decode_response(10, version, talk.told()[0])
        at = told if version < 4 else told.coordinators[0]
        assert (at.node_id, at.host, at.port) == (5, "gateway", 105)


# -- many groups ---------------------------------------------------------------------------------------


def broker_says(message: Any, version: int, text: str) -> Any:
    """As a coordinator would that finds nothing wrong; `text` stands where it can be seen."""
    request = codec.decode_request(codec.encode_request(message, 1, "c"))
    if isinstance(message, FindCoordinatorRequest):
        entry = FindCoordinatorResponse.Coordinator
        found = [
            entry(version=version, key=it, error_code=0, error_message=text)
            for it in message.coordinator_keys
        ]
        return FindCoordinatorResponse(version=version, coordinators=found)
    contract = to_contract(request, Sender("c", "", 0, str))
    return to_kafka(request, [refusal(each, Errors.NONE) for each in contract])


def play(message: Any, sides: Sides, *, asks_rights: bool = False) -> tuple[list[str], list[str], list[str]]:
    """The groups that each side was asked about, and those of the response, in its order."""
    request = codec.decode_request(codec.encode_request(message, 1, "c"))
    api = GROUP_APIS[message.API_KEY]
    assert api.named is not None

    def ids(named: Any) -> list[str]:
        return [getattr(it, "group_id", getattr(it, "key", it)) for it in named]

    story, told = (guard if asks_rights else unguarded)(request, sides=sides), None
    here: list[str] = []
    there: list[str] = []
    while True:
        try:
            wanted = story.send(told)
        except StopIteration as end:
            frame = codec.encode_response(end.value, 1)
            answer = codec.decode_response(message.API_KEY, message.version, frame)
            return there, here, ids(getattr(answer, api.results[0]))
        match wanted:
            case AskBroker(asked):
                there += ids(getattr(asked, api.named.field))
                told = broker_says(asked, message.version, "there")
            case Ask(asked):
                here += ids(getattr(asked.message, api.named.field))
                told = broker_says(asked.message, message.version, "here")
            case rights:
                assert not any(right.name.startswith(THEIRS) for right in rights), "the broker knows them"
                told = frozenset(right for right in rights if isinstance(right, Right))


def naming(kind: type[Any], version: int, group_ids: list[str]) -> Any:
    match kind.__name__:
        case "FindCoordinatorRequest":
            return kind(version=version, coordinator_keys=group_ids, key_type=0)
        case "OffsetFetchRequest":
            entry = kind.OffsetFetchRequestGroup
            groups = [entry(version=version, group_id=it, topics=[]) for it in group_ids]
            return kind(version=version, groups=groups, require_stable=False)
        case "DeleteGroupsRequest":
            return kind(version=version, groups_names=group_ids)
        case "ConsumerGroupDescribeRequest":
            return kind(version=version, group_ids=group_ids, include_authorized_operations=False)
        case _:
            return kind(version=version, groups=group_ids)


MANY = [
    (kind, version)
    for kind in (
        ConsumerGroupDescribeRequest,
        DeleteGroupsRequest,
        DescribeGroupsRequest,
        FindCoordinatorRequest,
        OffsetFetchRequest,
    )
    for version in range(
        getattr(GROUP_APIS[kind.API_KEY].named, "since", 0), GROUP_APIS[kind.API_KEY].newest + 1
    )
]


@pytest.mark.parametrize("asks_rights", [False, True])
@pytest.mark.parametrize(("kind", "version"), MANY)
def test_each_side_is_asked_about_its_groups_and_the_answers_come_in_the_order_of_the_request(
    kind: type[Any], version: int, asks_rights: bool
) -> None:
    named = [OURS, THEIRS, "orders2", "theirs2", THEIRS, OURS, "", "orders3"]
    message = naming(kind, version, named)
    there, here, answered = play(message, Sides(PATTERNS), asks_rights=asks_rights)
    assert there == [THEIRS, "theirs2", ""]
    assert here == [OURS, "orders2", "orders3"]
    assert answered == list(dict.fromkeys(named))


def test_sides_that_change_while_the_broker_is_asked_count_for_the_next_request() -> None:
    sides = Sides(PATTERNS)
    message = naming(DeleteGroupsRequest, 2, [OURS, THEIRS])
    story = unguarded(codec.decode_request(codec.encode_request(message, 1, "c")), sides)
    asked = story.send(None)
    assert isinstance(asked, AskBroker)
    sides.change("orders*")
    wanted = story.send(broker_says(asked.message, 2, ""))
    assert isinstance(wanted, Ask)
    assert wanted.request.message.groups_names == [OURS]
    with pytest.raises(StopIteration) as end:
        story.send(broker_says(wanted.request.message, 2, ""))
    assert [each.group_id for each in end.value.value.results] == [OURS, THEIRS]


@pytest.mark.parametrize(("kind", "version"), MANY[::4])
def test_a_request_of_very_many_groups_is_divided_in_each_turn(kind: type[Any], version: int) -> None:
    named = [f"{(THEIRS, OURS)[number % 3 == 0]}{number}" for number in range(1_000)]
    there, here, answered = play(naming(kind, version, named), Sides(PATTERNS))
    assert there == [each for each in named if each.startswith(THEIRS)]
    assert here == [each for each in named if each.startswith(OURS)]
    assert answered == named


@pytest.mark.parametrize(("kind", "version"), MANY)
def test_a_request_of_many_groups_that_are_all_at_the_brokers_passes_as_it_came(
    kind: type[Any], version: int
) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    frame = codec.encode_request(naming(kind, version, [THEIRS, "theirs2"]), 7, "c")
    talk.client(frame)
    assert (talk.passed(), talk.gateway.asked) == ([frame], [])


def test_the_broker_is_asked_on_the_clients_connection_and_what_comes_next_waits() -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    message = DeleteGroupsRequest(version=2, groups_names=[THEIRS, "th2"])
    talk.client(codec.encode_request(naming(DeleteGroupsRequest, 2, [OURS, THEIRS]), 7, "c") + beat(8))
    (asked,) = talk.passed()
    assert codec.decode_request(asked).message.groups_names == [THEIRS]
    assert talk.gateway.asked == []
    talk.broker(codec.encode_response(broker_says(message, 2, ""), 0))
    assert len(talk.gateway.asked) == 1, "now it is asked about the other one"
    talk.lose_broker()
    assert talk.wires.ended == ""


def test_a_broker_that_goes_before_it_has_answered_ends_the_connection() -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    talk.client(codec.encode_request(naming(DeleteGroupsRequest, 2, [OURS, THEIRS]), 7, "c"))
    talk.lose_broker()
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["broker"])


@pytest.mark.parametrize("version", range(6))
def test_a_list_has_the_groups_of_both_sides_each_once(version: int) -> None:
    sides = Sides(PATTERNS)
    groups = Groups("", sides.at_brokers)
    for each in (OURS, "orders2", THEIRS):
        groups.put(each, ListedGroup("Stable", "consumer"))
    groups.is_ready = True
    message = ListGroupsRequest(version=version, states_filter=[], types_filter=[])

    def listed() -> list[str]:
        request = codec.decode_request(codec.encode_request(message, 1, "c"))
        story = unguarded(request, sides)
        asked = story.send(None)
        assert isinstance(asked, AskBroker)
        assert asked.message.version == version
        entry = ListGroupsResponse.ListedGroup
        of_broker = [
            entry(version=version, group_id=it, protocol_type="consumer", group_state="Dead", group_type="x")
            for it in ("orders", "other")
        ]
        told = ListGroupsResponse(version=version, throttle_time_ms=0, error_code=0, groups=of_broker)
        wanted = story.send(told)
        assert isinstance(wanted, Ask)
        with pytest.raises(StopIteration) as end:
            story.send(groups.listed(wanted.request.message, 0, (0,)))
        frame = codec.encode_response(end.value.value, 1)
        return [it.group_id for it in codec.decode_response(16, version, frame).groups]

    assert listed() == ["other", OURS, "orders2"]
    sides.change("o*,!other,!orders2")
    groups.sides_changed()
    assert listed() == [OURS, "orders2", THEIRS]


def test_a_list_is_not_complete_while_one_side_is_not_ready() -> None:
    for code in (Errors.NONE, Errors.COORDINATOR_LOAD_IN_PROGRESS):
        ours = Groups().listed(ListGroupsRequest(version=5), 0, (0,))
        told = ListGroupsResponse(version=5, throttle_time_ms=0, error_code=code.value, groups=[])
        assert ours.beside(told).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS
        groups = Groups()
        groups.is_ready = True
        ours = groups.listed(ListGroupsRequest(version=5, states_filter=[], types_filter=[]), 0, (0,))
        assert ours.beside(told).error_code == code


# -- what groups that are here cannot have --------------------------------------------------------------


def test_a_member_of_streams_is_refused_here_and_passed_there() -> None:
    api_key, version = 88, 0
    talk = Talk(groups_at_brokers=PATTERNS)
    talk.client(theirs := framed(api_key, version, compact(THEIRS) + b"rest"))
    assert talk.passed() == [theirs]
    talk.broker(response(7))
    assert talk.told() == [response(7)]
    talk.client(framed(api_key, version, compact(OURS) + b"rest"))
    (frame,) = talk.told()
    assert talk.passed() == []
    kinds = kio(api_key, version, EntityType.response)
    told, size = entity_reader(kinds.StreamsGroupHeartbeatResponse)(frame[9:], 0)
    assert (number(frame), size, written(told)) == (7, len(frame) - 9, frame[9:])
    assert int(told.error_code) == Errors.UNSUPPORTED_VERSION
    assert "gateway.groups.brokers" in told.error_message
    assert talk.gateway.told == ["StreamsGroupHeartbeat of /10.0.0.7"]


@pytest.mark.parametrize("version", range(6))
def test_offsets_in_a_transaction_are_refused_here_for_each_partition(version: int) -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    if version <= 4:
        talk.client(of_group(25, version, OURS))
        assert codec.decode_response(25, version, talk.told()[0]).error_code == Errors.UNSUPPORTED_VERSION
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    entry = topic.TxnOffsetCommitRequestPartition
    partitions = [
        entry(version=version, partition_index=it, committed_offset=1, committed_metadata="") for it in (2, 5)
    ]
    message = TxnOffsetCommitRequest(
        version=version,
        transactional_id="t",
        group_id=OURS,
        producer_id=1,
        producer_epoch=1,
        topics=[topic(version=version, name="a", partitions=partitions)],
    )
    talk.client(codec.encode_request(message, 8, "c"))
    (told,) = codec.decode_response(28, version, talk.told()[0]).topics
    assert [(it.partition_index, it.error_code) for it in told.partitions] == [(2, 35), (5, 35)]
    assert (told.name, talk.passed(), talk.gateway.asked) == ("a", [], [])


@pytest.mark.parametrize("theirs", [[], ["a", "b"]])
def test_tools_are_told_of_streams_at_the_brokers_and_that_others_are_of_another_kind(
    theirs: list[str],
) -> None:
    api_key, version = 89, 0
    talk = Talk(groups_at_brokers=PATTERNS)
    requests, kinds = kio(api_key, version), kio(api_key, version, EntityType.response)
    asked = requests.StreamsGroupDescribeRequest(
        group_ids=(OURS, *theirs, OURS), include_authorized_operations=True
    )
    talk.client(framed(api_key, version, written(asked)))
    (frame,) = talk.passed()
    passed, _ = entity_reader(type(asked))(frame[16:], 0)
    assert (passed.group_ids, passed.include_authorized_operations) == (tuple(theirs), True)
    entry = kinds.DescribedGroup
    empty = {"group_state": "Empty", "group_epoch": 1, "assignment_epoch": 1, "members": (), "topology": None}
    told = kinds.StreamsGroupDescribeResponse(
        throttle_time=timedelta(milliseconds=5),
        groups=tuple(entry(error_code=kinds.ErrorCode(0), group_id=it, **empty) for it in theirs),
    )
    talk.broker(response(7, b"\0" + written(told)))
    (frame,) = talk.told()
    both, size = entity_reader(type(told))(frame[9:], 0)
    assert (size, both.groups[1:]) == (len(frame) - 9, told.groups)
    first = both.groups[0]
    assert (int(first.error_code), first.group_id) == (Errors.GROUP_ID_NOT_FOUND, OURS)
    assert both.throttle_time == told.throttle_time


def test_what_describes_groups_at_the_brokers_alone_passes_as_it_came() -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    frame = framed(89, 0, b"\2" + compact(THEIRS) + b"\0\0")
    talk.client(frame)
    assert talk.passed() == [frame]
    many = b"\x92N" + 10_001 * compact("t")
    talk.client(framed(89, 0, many + b"\0\0"))
    assert talk.wires.ended == "aborted"


# -- what is offered -----------------------------------------------------------------------------------


def test_only_a_gateway_with_groups_at_brokers_offers_what_only_brokers_have() -> None:
    more = {key for key, api in BESIDE_BROKERS.apis.items() if api.way is Way.OF_BROKERS}
    assert more == {25, 28, 88, 89}
    for key in more:
        talk = Talk()
        talk.client(framed(key, 0, compact(THEIRS)))
        assert (talk.wires.ended, talk.passed()) == ("aborted", [])
    for key in (76, 77, 78, 79, 90, 91, 92):
        talk = Talk(groups_at_brokers=PATTERNS)
        talk.client(framed(key, 0, compact(THEIRS)))
        assert (talk.wires.ended, talk.passed()) == ("aborted", []), "share groups"
    features = ("group.version", "share.version", "streams.version", "transaction.version")
    for offer, shown in ((ALONE, (features[0], features[3])), (BESIDE_BROKERS, (features[0], *features[2:]))):
        kind = ApiVersionsResponse
        message = kind(
            version=3,
            error_code=0,
            api_keys=[kind.ApiVersion(version=3, api_key=it, min_version=0, max_version=99) for it in more],
            supported_features=[
                kind.SupportedFeatureKey(version=3, name=it, min_version=0, max_version=1) for it in features
            ],
        )
        rewrite_api_versions(message, offer)
        offered = {each.api_key: each.max_version for each in message.api_keys}
        assert offered == {key: offer.apis[key].newest for key in (more if offer is BESIDE_BROKERS else ())}
        assert [each.name for each in message.supported_features] == list(shown)
    assert all(APIS[key] == api for key, api in BESIDE_BROKERS.apis.items() if key not in more)


# -- sides that change ---------------------------------------------------------------------------------


def test_a_heartbeat_that_comes_again_goes_to_the_side_that_its_group_is_on_now() -> None:
    talk = Talk(groups_at_brokers="*,!g")
    talk.gateway.accepts = True
    talk.client(beat(1))
    talk.answer()
    talk.client(beat(2))
    assert len(talk.gateway.asked_again) == 1
    talk.gateway.sides.change("*")
    talk.conversation.sides_changed()
    talk.answer_again()
    assert talk.numbers() == [1, 2]
    talk.client(beat(3))
    assert talk.passed() == [beat(3)]
    assert (len(talk.gateway.asked), len(talk.gateway.asked_again)) == (1, 1)
    talk.broker(response(3))
    talk.gateway.sides.change("*,!g")
    talk.conversation.sides_changed()
    talk.client(beat(4))
    assert (len(talk.gateway.asked), talk.passed()) == (2, [])


def test_the_file_of_patterns_is_read_again_and_one_that_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "groups"

    def write(text: str) -> None:
        # Another file in its place, as Kubernetes and careful editors do.
        (new := tmp_path / "new").write_text(text)
        new.replace(path)

    write("*\n")
    settings = GatewaySettings.load(None, {}, {"gateway.groups.brokers.file": str(path)})
    assert settings.files == {"gateway.groups.brokers": str(path)}
    sides = Sides(settings.gateway_groups_brokers)
    file = SidesFile(str(path), sides)
    assert not file.renew()
    assert sides.at_brokers(OURS)
    write(f"{PATTERNS}\n")
    assert [file.renew(), file.renew()] == [True, False]
    assert (sides.at_brokers(OURS), sides.at_brokers(THEIRS)) == (False, True)
    for broken in ("", "!orders*", ","):
        write(broken)
        assert [file.renew(), file.renew()] == [False, False]
    path.unlink()
    assert not file.renew()
    assert (sides.at_brokers(OURS), sides.at_brokers(THEIRS)) == (False, True)
    write("*,!*")
    assert file.renew()
    assert (sides.at_brokers(THEIRS), sides.are_two) == (False, True)
    stay = "the groups at the brokers stay as they were:"
    alone = "has no pattern but exceptions: *,!orders* are all but these"
    named = f"{stay} gateway.groups.brokers.file names a file that"
    assert caplog.messages == [
        "the groups at the brokers are *,!orders* from now on",
        f"{named} is empty",
        f"{stay} '!orders*' {alone}",
        f"{stay} ',' {alone}",
        f"{named} cannot be read: No such file or directory",
        "the groups at the brokers are *,!* from now on",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"gateway.groups.prefix": "a-"}, "one tenant could name the groups of another"),
        ({"gateway.groups.brokers": "!a"}, "gateway.groups.brokers: '!a' has no pattern but exceptions"),
    ],
)
def test_settings_that_would_be_dangerous_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(Exception, match=why):
        GatewaySettings.load(None, {}, {"gateway.groups.brokers": "*"} | given)


def test_beats_of_both_sides_are_told_apart_on_one_connection() -> None:
    talk = Talk(groups_at_brokers=PATTERNS)
    frames = [
        codec.encode_request(
            HeartbeatRequest(version=4, group_id=it, generation_id=1, member_id="m"), number, "c"
        )
        for number, it in enumerate((OURS, THEIRS, OURS, THEIRS))
    ]
    talk.client(b"".join(frames))
    assert (talk.passed(), len(talk.gateway.asked)) == ([frames[1], frames[3]], 2)


def test_the_tables_name_the_same_apis() -> None:
    of = {key for key, api in BESIDE_BROKERS.apis.items() if api.way is Way.OF_BROKERS}
    assert of == {25, 28, of_brokers.STREAMS_HEARTBEAT, of_brokers.STREAMS_DESCRIBE}
