from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.settings import JobSettings, SettingsError
from group_coordinator.lag.settings import LagSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings

NEEDED = {"bootstrap.servers": "kafka:9092", "checkpoint": "/state"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "coordinator.toml"


def load(**overrides: object) -> CoordinatorSettings:
    """The settings with these options of the command line, underscores for dots."""
    return CoordinatorSettings.load(
        None, {}, NEEDED | {name.replace("_", "."): it for name, it in overrides.items()}
    )


def from_file(file: Path, text: str, environment: dict[str, str] | None = None) -> CoordinatorSettings:
    file.write_text(text, encoding="utf-8")
    return CoordinatorSettings.load(file, environment or {}, NEEDED)


def from_environment(**variables: str) -> CoordinatorSettings:
    return CoordinatorSettings.load(
        None, {f"GROUP_COORDINATOR_{name}": it for name, it in variables.items()}, NEEDED
    )


def refusal(file: Path | None, environment: dict[str, str], overrides: dict[str, object]) -> str:
    with pytest.raises(SettingsError) as caught:
        CoordinatorSettings.load(file, environment, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- sources -----------------------------------------------------------------------------------------


def test_defaults() -> None:
    assert load() == CoordinatorSettings(
        bootstrap_servers="kafka:9092", checkpoint="/state", group=GroupConfig()
    )


def test_a_file(file: Path) -> None:
    settings = from_file(file, '"group.max.size" = 7\n"clock.interval.ms" = 100\n"topics.events" = "e"')

    assert settings == load(group_max_size=7, clock_interval_ms=100, topics_events="e")


def test_dotted_keys_quoted_keys_and_tables_are_the_same(file: Path) -> None:
    texts = [
        '"group.max.size" = 7',
        "group.max.size = 7",
        "[group]\nmax.size = 7",
        "[group.max]\nsize = 7",
    ]

    assert [from_file(file, text) for text in texts] == [load(group_max_size=7)] * 4


def test_the_environment() -> None:
    settings = from_environment(GROUP_MAX_SIZE="7", CREATE_TOPICS="true", METRICS_PORT="-1")

    assert settings == load(group_max_size=7, create_topics=True, metrics_port=-1)


def test_variables_of_other_programs_are_left_alone() -> None:
    assert CoordinatorSettings.load(None, {"GROUP_MAX_SIZE": "7", "PATH": "/bin"}, NEEDED) == load()


def test_variables_that_are_read_elsewhere_are_left_alone() -> None:
    assert from_environment(CACHE="/cache", CONFIG="/c.toml", MAVEN_URL="http://mirror") == load()


def test_text_from_the_command_line_becomes_what_the_setting_is() -> None:
    assert load(group_max_size="7", create_topics="false") == load(group_max_size=7, create_topics=False)


def test_the_later_source_wins(file: Path) -> None:
    file.write_text("clock.interval.ms = 1\nclock.slack.ms = 1\ntrigger.interval.ms = 1")
    environment = {"GROUP_COORDINATOR_CLOCK_SLACK_MS": "2", "GROUP_COORDINATOR_TRIGGER_INTERVAL_MS": "2"}

    settings = CoordinatorSettings.load(file, environment, NEEDED | {"trigger.interval.ms": 3})

    found = (settings.clock_interval_ms, settings.clock_slack_ms, settings.trigger_interval_ms)
    assert found == (1, 2, 3)


# -- values from files, as containers mount secrets ------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"hunter2 \r\n\n")
    return path


def test_a_value_from_a_file_that_any_source_names(file: Path, secret: Path) -> None:
    found = [
        from_file(file, f"member.id.secret.file = '{secret}'"),
        from_environment(MEMBER_ID_SECRET_FILE=str(secret)),
        load(member_id_secret_file=str(secret)),
    ]

    files = {"member.id.secret": str(secret)}
    assert found == [msgspec.structs.replace(load(member_id_secret="hunter2 "), files=files)] * 3


def test_a_property_of_kafka_from_a_file(file: Path, secret: Path) -> None:
    found = [
        from_file(file, f"[kafka]\nssl.key.password.file = '{secret}'"),
        from_environment(KAFKA_SSL_KEY_PASSWORD_FILE=str(secret)),
    ]

    assert [it.kafka for it in found] == [{"ssl.key.password": "hunter2 "}] * 2


def test_a_number_from_a_file(secret: Path) -> None:
    secret.write_text("7\n")

    assert load(group_max_size_file=str(secret)).group == load(group_max_size=7).group


def test_properties_of_spark_may_end_with_the_same_word() -> None:
    assert load(spark_x_file="/nowhere").spark == {"spark.x.file": "/nowhere"}


def test_files_of_other_commands_are_not_read() -> None:
    environment = {"GROUP_COORDINATOR_GATEWAY_LISTEN_FILE": "/nowhere"}

    assert CoordinatorSettings.load(None, environment, NEEDED, others=[GatewaySettings]) == load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "names a file that cannot be read: No such file or directory"),
        (b"", "names a file that is empty"),
        (b"\n", "names a file that is empty"),
        (b"hunter2\xff", "names a file that is not UTF-8 text"),
        (b"x" * ((1 << 20) + 1), "names a file that has more than 1048576 bytes"),
    ],
)
def test_a_file_without_a_value_is_told_without_what_is_in_it(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    # Somebody who has mixed up the two gives the secret in the place of the path.
    path = tmp_path / "hunter2"
    if content is not None:
        path.write_bytes(content)

    found = refusal(None, {"GROUP_COORDINATOR_MEMBER_ID_SECRET_FILE": str(path)}, NEEDED)

    assert found == f"member.id.secret.file {message}"


def test_a_path_that_cannot_be_one() -> None:
    message = refusal(None, {}, NEEDED | {"member.id.secret.file": "hunter2\0"})

    assert message.startswith("member.id.secret.file names a file that ")
    assert "hunter2" not in message


def test_a_value_is_given_once(file: Path, secret: Path) -> None:
    file.write_text(f"member.id.secret.file = '{secret}'")

    message = refusal(file, {"GROUP_COORDINATOR_MEMBER_ID_SECRET": "hunter3"}, NEEDED)

    assert message == "member.id.secret and member.id.secret.file are both set: keep one of them"


def test_an_unknown_name_from_a_file() -> None:
    message = refusal(None, {"GROUP_COORDINATOR_MEMBER_SECRET_FILE": "x"}, NEEDED)

    assert message.startswith("GROUP_COORDINATOR_MEMBER_SECRET_FILE: there is no setting member.secret.file")


# -- names -------------------------------------------------------------------------------------------


def test_kafkas_names_for_what_is_kafkas() -> None:
    settings = load(
        group_min_session_timeout_ms=1,
        group_max_session_timeout_ms=2,
        group_initial_rebalance_delay_ms=3,
        group_max_size=4,
    )

    assert settings.group == GroupConfig(
        group_min_session_timeout_ms=1,
        group_max_session_timeout_ms=2,
        group_initial_rebalance_delay_ms=3,
        group_max_size=4,
    )


def test_kafka_properties_are_passed_on_as_text(file: Path) -> None:
    settings = from_file(file, '[kafka]\nsecurity.protocol = "SSL"\nmax.poll.records = 5\nx = true')

    assert settings.kafka == {"security.protocol": "SSL", "max.poll.records": "5", "x": "true"}


def test_kafka_properties_from_the_environment() -> None:
    settings = from_environment(KAFKA_SASL_JAAS_CONFIG="a=B;", KAFKA_SECURITY_PROTOCOL="SASL_SSL")

    assert settings.kafka == {"sasl.jaas.config": "a=B;", "security.protocol": "SASL_SSL"}


def test_spark_properties_keep_their_full_names(file: Path) -> None:
    settings = from_file(file, '[spark]\nmaster = "local[4]"\nui.enabled = true\nsql.shuffle.partitions = 9')

    assert settings.spark == {
        "spark.master": "local[4]",
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "9",
    }


def test_every_channel_has_the_topic_that_the_query_writes() -> None:
    settings = load(
        topics_responses="a", topics_groups="b", topics_offsets="c", topics_events="d", topics_rejected="e"
    )

    assert list(settings.output_topics) == list(Channel)
    assert [settings.output_topics[channel] for channel in Channel] == ["a", "b", "c", "d", "e"]


# -- refusals ----------------------------------------------------------------------------------------


def test_an_unknown_name_with_the_nearest_one_that_exists() -> None:
    message = refusal(None, {}, NEEDED | {"group.max.sice": 1})

    assert message == "there is no setting group.max.sice; did you mean group.max.size?"


def test_an_unknown_name_that_is_like_no_other() -> None:
    assert refusal(None, {}, NEEDED | {"zzz": 1}) == "there is no setting zzz"


def test_an_unknown_name_in_a_table(file: Path) -> None:
    file.write_text("[clock]\ninterval = 5")

    assert "there is no setting clock.interval;" in refusal(file, {}, NEEDED)


def test_an_unknown_variable() -> None:
    message = refusal(None, {"GROUP_COORDINATOR_GROUP_MAXSIZE": "1"}, NEEDED)

    assert message.startswith("GROUP_COORDINATOR_GROUP_MAXSIZE: there is no setting group.maxsize; did")


def test_spark_properties_have_no_variables() -> None:
    message = refusal(None, {"GROUP_COORDINATOR_SPARK_MASTER": "local"}, NEEDED)

    assert "GROUP_COORDINATOR_SPARK_MASTER" in message
    assert "settings file" in message


def test_what_is_measured_cannot_be_set() -> None:
    assert "there is no setting response.partitions" in refusal(None, {}, NEEDED | {"response.partitions": 1})


def test_the_brokers_are_at_this_machine_unless_others_are_named() -> None:
    assert CoordinatorSettings.load(None, {}, {"checkpoint": "/state"}).bootstrap_servers == "localhost:9092"


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("checkpoint", None, "--checkpoint"),
        ("checkpoint", "", "--checkpoint"),
        ("bootstrap.servers", "", "--bootstrap-server"),
    ],
)
def test_a_setting_without_a_value_is_missing(name: str, value: str | None, option: str) -> None:
    rest = {given: it for given, it in NEEDED.items() if given != name}
    message = refusal(None, {}, rest if value is None else rest | {name: value})

    assert message.startswith(f"{name} is not set: give {option}, set GROUP_COORDINATOR_")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", ["a:9092", "b:9092"]),
        ("clock.interval.ms", "soon"),
        ("clock.interval.ms", 1.5),
        ("create.topics", "perhaps"),
        ("group.max.size", "many"),
        ("group.max.session.timeout.ms", True),
    ],
)
def test_a_value_of_the_wrong_type(name: str, value: object) -> None:
    message = refusal(None, {}, NEEDED | {name: value})

    assert message.startswith("unusable setting: Expected ")
    assert f"`{name}`" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clock.interval.ms", 0),
        ("clock.slack.ms", -1),
        ("metrics.port", 65_536),
        ("metrics.port", -2),
        ("requests.partitions", 0),
        ("replication.factor", -2),
        ("state.partitions", 0),
        ("group.max.size", 0),
        ("group.initial.rebalance.delay.ms", -1),
    ],
)
def test_a_value_out_of_range(name: str, value: int) -> None:
    message = refusal(None, {}, NEEDED | {name: value})

    assert message.startswith("unusable setting: Expected `int` ")
    assert f"`{name}`" in message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"group.consumer.session.timeout.ms": 5_000}, "must be less than group.consumer.session.timeout.ms"),
        ({"group.consumer.assignors": "uniform,sticky"}, "give some of uniform, range, each once"),
        ({"group.consumer.assignors": "range,range"}, "give some of uniform, range, each once"),
        ({"group.consumer.assignors": ""}, "give some of uniform, range, each once"),
        ({"group.consumer.migration.policy": "upgrade"}, "can only be disabled"),
    ],
)
def test_what_no_member_of_the_consumer_protocol_could_live_with(given: dict[str, object], said: str) -> None:
    assert said in refusal(None, {}, NEEDED | given)
    assert load(**{"group.consumer.assignors": "range, uniform"}).group.consumer_assignors == (
        "range",
        "uniform",
    )


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"max.group.bytes": 10**9}, "and Spark takes 2147483647 from Python at most: lower them"),
        ({"max.group.bytes": 380_000_000, "max.id.length": 20_000}, "from Python at most: lower them"),
        (
            {"max.group.bytes": 66_000_000},
            "spark.driver.memory = 1g there is room for 134217728: lower them, or raise spark.driver.memory",
        ),
        ({"max.request.bytes": 3_000_000, "spark.driver.memory": "128m"}, "or raise spark.driver.memory"),
        (
            {"max.group.bytes": 66_000_000, "spark.master": "yarn", "spark.driver.memory": "9g"},
            "lower them, or raise spark.executor.memory",
        ),
        ({"kafka.max.request.size": "11999999"}, "raise kafka.max.request.size, or leave it out"),
        ({"kafka.buffer.memory": 1_000}, "raise kafka.buffer.memory, or leave it out"),
    ],
)
def test_sizes_that_cannot_work_together(given: dict[str, object], advice: str) -> None:
    assert refusal(None, {}, NEEDED | given).endswith(advice)
    assert load(**{"kafka.max.request.size": "12000000", "kafka.buffer.memory": "12000000"})


@pytest.mark.parametrize(
    "given",
    [
        {"max.group.bytes": 65_000_000},
        {"max.group.bytes": 380_000_000, "spark.driver.memory": " 7G "},
        {"max.group.bytes": 66_000_000, "spark.master": "yarn", "spark.executor.memory": "2048MB"},
        # Spark says what is wrong with it.
        {"max.group.bytes": 66_000_000, "spark.driver.memory": "much"},
    ],
)
def test_sizes_that_work_together(given: dict[str, object]) -> None:
    assert (
        CoordinatorSettings.load(None, {}, NEEDED | given).group.max_group_bytes == given["max.group.bytes"]
    )


def test_spark_submit_knows_its_own_memory() -> None:
    given = NEEDED | {"max.group.bytes": 66_000_000}
    assert CoordinatorSettings.load(None, {"PYSPARK_GATEWAY_PORT": "1"}, given)


def test_starting_offsets_that_spark_does_not_know() -> None:
    message = refusal(None, {}, NEEDED | {"starting.offsets": "newest"})

    assert message == "starting.offsets must be earliest or latest, and is 'newest'"


def test_how_to_log() -> None:
    settings = from_environment(LOG_LEVEL="debug", LOG_FORMAT="json")

    assert (settings.log_level, settings.log_format) == ("debug", "json")
    assert (load().log_level, load().log_format) == ("info", "auto")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log.level", "INFO", "log.level must be debug, info, warning or error, and is 'INFO'"),
        ("log.format", "text", "log.format must be auto, short, logfmt or json, and is 'text'"),
    ],
)
def test_a_log_that_there_is_not(name: str, value: str, message: str) -> None:
    assert refusal(None, {}, NEEDED | {name: value}) == message


def test_a_secret_of_the_wrong_type_is_not_told() -> None:
    message = refusal(None, {}, NEEDED | {"member.id.secret": 12345})

    assert "`member.id.secret`" in message
    assert "12345" not in message


def test_a_file_that_is_not_there(file: Path) -> None:
    message = refusal(file, {}, NEEDED)

    assert message == f"cannot read settings file {file}: No such file or directory"


@pytest.mark.parametrize("content", [b"group.max.size = ", b"\xff = 1", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml(file: Path, content: bytes) -> None:
    file.write_bytes(content)

    assert refusal(file, {}, NEEDED).startswith(f"settings file {file} is not TOML: ")


# -- sides -------------------------------------------------------------------------------------------


def history(environment: dict[str, str] | None = None, **overrides: object) -> HistorySettings:
    given = {name.replace("_", "."): it for name, it in overrides.items()}
    return HistorySettings.load(None, environment or {}, given)


def test_of_brokers_the_topics_and_the_history_are_those_of_the_brokers() -> None:
    settings = history({"GROUP_COORDINATOR_OF": "brokers", "GROUP_COORDINATOR_BROKERS_HISTORY_PATH": "/b"})
    assert (settings.topics_groups, settings.topics_offsets) == ("brokers.groups", "brokers.offsets")
    assert (settings.topics_events, settings.topics_lag) == ("brokers.events", "brokers.lag")
    assert (settings.history_path, settings.input_topic) == ("/b", "__consumer_offsets")
    assert settings.writer == "`observe`"
    assert settings.named("history.path") == "brokers.history.path"
    assert settings.named("history.interval.ms") == "history.interval.ms"

    usual = history()
    assert (usual.topics_groups, usual.input_topic) == ("coordinator.groups", "coordinator.requests")
    assert (usual.writer, usual.named("history.path")) == ("the coordinator", "history.path")


def test_a_command_line_names_what_the_command_is_about() -> None:
    """Files and variables may be for both sides."""
    variables = {
        "GROUP_COORDINATOR_HISTORY_PATH": "/of-the-coordinator",
        "GROUP_COORDINATOR_TOPICS_EVENTS": "events.of.the.coordinator",
        "GROUP_COORDINATOR_BROKERS_HISTORY_PATH": "/b",
        "GROUP_COORDINATOR_OF": "brokers",
    }
    assert (history(variables).history_path, history(variables).topics_events) == ("/b", "brokers.events")
    given = history(variables, history_path="/given", topics_events="given")
    assert (given.history_path, given.topics_events) == ("/given", "given")
    assert history(variables, brokers_history_path="/given").history_path == "/given"


def test_a_path_that_is_missing_is_named_by_the_side() -> None:
    with pytest.raises(SettingsError) as caught:
        HistorySettings.load(None, {}, {"of": "brokers", "history.path": ""}, needed=("history.path",))
    assert str(caught.value) == (
        "brokers.history.path is not set: give --history-path, set GROUP_COORDINATOR_BROKERS_HISTORY_PATH, "
        "or put it in the settings file"
    )


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (CoordinatorSettings, "coordinator or both"),
        (GatewaySettings, "coordinator or both"),
        (PageSettings, "coordinator, brokers or both"),
        (HistorySettings, "coordinator or brokers"),
        (LagSettings, "coordinator or brokers"),
    ],
)
def test_the_coordinator_and_the_gateway_do_not_write_to_the_topics_of_the_brokers_groups(
    kind: type[JobSettings], allowed: str
) -> None:
    """One variable may be there for all commands."""
    overrides = NEEDED if kind is CoordinatorSettings else {}
    for of in ("coordinator", "brokers", "both"):
        if of in allowed:
            assert kind.load(None, {"GROUP_COORDINATOR_OF": of}, overrides).of == of
    wrong = "brokers" if "brokers" not in allowed else "broker"
    with pytest.raises(SettingsError, match=f"^of must be {allowed}, and is '{wrong}'$"):
        kind.load(None, {"GROUP_COORDINATOR_OF": wrong}, overrides)
