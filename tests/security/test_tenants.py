"""Response topics by prefix of the group id: how they are set, chosen, made and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.streaming.function import FunctionArguments
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import TopicError, prepare_topics

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

NEEDED = {"bootstrap.servers": "kafka:9092", "checkpoint": "unused"}
TENANTS = {"a-": "responses.a", "a-vip-": "responses.vip", "ü": "responses.ü", "a-vip-free-": "responses"}


def tenants(responses_topics: dict[str, str], **settings: object) -> CoordinatorSettings:
    given = {f"responses.topics.{prefix}": topic for prefix, topic in responses_topics.items()}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return CoordinatorSettings.load(None, {}, NEEDED | given | named)


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "toml",
    [
        '[responses.topics]\n"tenant-a-" = "ra"\n"team.b." = "rb"\n',
        'responses.topics.tenant-a- = "ra"\nresponses.topics."team.b." = "rb"\n',
    ],
)
def test_a_settings_file_names_topics_by_prefix(toml: str, tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text(toml)

    settings = CoordinatorSettings.load(file, {}, NEEDED)

    assert settings.responses_topics == {"tenant-a-": "ra", "team.b.": "rb"}
    assert settings.response_topics == ("coordinator.responses", "ra", "rb")


def test_the_command_line_wins_prefix_by_prefix(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.toml"
    file.write_text('[responses.topics]\na = "1"\nb = "2"\n')

    assert CoordinatorSettings.load(file, {}, NEEDED | {"responses.topics.b": "3"}).responses_topics == {
        "a": "1",
        "b": "3",
    }


def test_a_topic_counts_once_however_many_prefixes_have_it() -> None:
    settings = tenants({"a-": "shared", "b-": "shared", "c-": "coordinator.responses"})

    assert settings.response_topics == ("coordinator.responses", "shared")


def refusal(responses_topics: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        tenants(responses_topics)
    return str(caught.value)


def test_a_prefix_is_not_empty() -> None:
    assert refusal({"": "x"}) == (
        "responses.topics has an empty prefix: for all groups, set topics.responses"
    )


@pytest.mark.parametrize("other", ["requests", "clock", "groups", "offsets", "events", "rejected"])
def test_responses_are_not_mixed_with_anything_else(other: str) -> None:
    assert refusal({"a": "ok", "b": f"coordinator.{other}"}) == (
        f"responses.topics names coordinator.{other}, where the coordinator has something else: name another"
    )


def test_the_environment_cannot_spell_prefixes() -> None:
    with pytest.raises(SettingsError) as caught:
        CoordinatorSettings.load(None, {"GROUP_COORDINATOR_RESPONSES_TOPICS_TENANT_A": "x"}, NEEDED)

    assert str(caught.value) == (
        "GROUP_COORDINATOR_RESPONSES_TOPICS_TENANT_A: responses.topics goes into the settings file or --set"
    )


# -- the choice ------------------------------------------------------------------------------------------


def arguments() -> FunctionArguments:
    settings = tenants(TENANTS, topics_responses="responses")
    partitions = dict.fromkeys((*settings.output_topics.values(), settings.topics_requests), 1)
    return FunctionArguments.of(settings, b"secret", partitions)


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        (b"a-orders", "responses.a"),
        (b"a-", "responses.a"),
        (b"a-vip-orders", "responses.vip"),  # the longest prefix, in whatever order they are given
        (b"a-vip-free-orders", "responses"),  # an exception to a shorter one
        ("ümlaut".encode(), "responses.ü"),
        (b"a-\xff", "responses.a"),  # not UTF-8, but whose it is can be seen
        (b"orders-a-", "responses"),
        (b"a", "responses"),
        (b"A-orders", "responses"),
        (b"", "responses"),
        (None, "responses"),
    ],
)
def test_the_longest_prefix_of_the_key_decides(key: bytes | None, topic: str) -> None:
    assert arguments().topics_for(key)[Channel.RESPONSES] == topic


def test_everything_else_stays_where_it_is() -> None:
    own = arguments().topics_for(b"a-orders")

    assert {channel: own[channel] for channel in Channel if channel is not Channel.RESPONSES} == {
        Channel.GROUPS: "coordinator.groups",
        Channel.OFFSETS: "coordinator.offsets",
        Channel.EVENTS: "coordinator.events",
        Channel.REJECTED: "coordinator.rejected",
    }


def test_without_tenants_there_is_one_topic() -> None:
    topics = {channel: channel.value for channel in Channel}
    alone = FunctionArguments(GroupConfig(), Layout(), b"secret", "requests", topics)

    assert alone.topics_for(b"a-orders") is topics


# -- the topics ------------------------------------------------------------------------------------------


def prepare(secured: SecuredBroker, responses_topics: dict[str, str], prefix: str) -> dict[str, int]:
    """With topics of this test alone, as somebody who may do anything."""
    names = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
    own = {f"topics_{name}": f"{prefix}.{name}" for name in names}
    settings = tenants(responses_topics, **own, create_topics=True, responses_partitions=2)
    return prepare_topics(settings, python_client_config(secured.open_servers, {}))


LARGE = str(GroupConfig().max_record_bytes)


def create(secured: SecuredBroker, topic: str, partitions: int, largest: str = LARGE) -> None:
    configs = {"max.message.bytes": largest}
    secured.operator.create_topics({topic: {"num_partitions": partitions, "configs": configs}})
    secured.operator.wait_for_topics([topic])


@pytest.mark.spark
def test_they_are_made_with_as_many_partitions_as_the_others_have(secured: SecuredBroker) -> None:
    create(secured, "made.responses", 5)

    partitions = prepare(secured, {"a-": "made.responses.a"}, "made")

    assert (partitions["made.responses"], partitions["made.responses.a"]) == (5, 5)


@pytest.mark.spark
def test_another_number_of_partitions_is_refused(secured: SecuredBroker) -> None:
    """A request names the partition to answer on: it has to be there, whatever the topic."""
    create(secured, "uneven.responses", 2)
    create(secured, "uneven.responses.a", 3)

    with pytest.raises(TopicError) as caught:
        prepare(secured, {"a-": "uneven.responses.a"}, "uneven")

    assert str(caught.value).startswith(
        "unsuitable topics: uneven.responses.a has 3 partitions and must have 2, as uneven.responses has. "
    )


@pytest.mark.spark
def test_they_are_checked_like_the_other_one(secured: SecuredBroker) -> None:
    create(secured, "small.responses.a", 2, "1048588")

    with pytest.raises(TopicError, match=r"small\.responses\.a has max\.message\.bytes=1048588 and needs"):
        prepare(secured, {"a-": "small.responses.a"}, "small")
