"""JobSettings, from defaults, a TOML file, the environment and the command line.

A setting has one name everywhere. In TOML it is a key (`group.max.size = 100`, quoted or not, or under a
`[group]` table, which is the same to TOML); in the environment it is upper case with a prefix
(`GROUP_COORDINATOR_GROUP_MAX_SIZE`). Later sources win: defaults, file, environment, command line.
With `.file` (`_FILE`) behind its name, a setting's value is the text of a file, such as a mounted secret.

Here are those that several jobs have. A room that has more of them derives a class of its own, such as
`CoordinatorSettings` or `GatewaySettings`, which is loaded in the same way.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.coordinator_state.topics import (
    BROKERS_EVENTS,
    BROKERS_GROUPS,
    BROKERS_LAG,
    BROKERS_LOG,
    BROKERS_OFFSETS,
    CLOCK,
    EVENTS,
    GROUP_SIDES,
    GROUPS,
    LAG,
    OFFSETS,
    REJECTED,
    REQUESTS,
    RESPONSES,
)
from group_coordinator.jobs.secret_files import FILE_SUFFIX, read_value_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX = "GROUP_COORDINATOR_"

# Not ours to name or to check: handed to Kafka's clients and to Spark as they are.
_KAFKA_PREFIX = "kafka."
_SPARK_PREFIX = "spark."
_RESPONSES_PREFIX = "responses.topics."

DEFAULT_HEAP = "1g"
"""`spark.driver.memory` and `spark.executor.memory`, if they are not given. Both are Spark's own defaults."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=-1, le=65535)]


class SettingsError(Exception):
    """A setting cannot be used; the message is one line and names the setting."""


def _dotted(field: str) -> str:
    return field.replace("_", ".")


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_dotted, forbid_unknown_fields=True):
    """The settings that several jobs have, and what they all know of the coordinator.

    Names in files are dotted; times are in ms.
    """

    NEEDED: ClassVar[tuple[str, ...]] = ("bootstrap.servers",)
    """The settings without which the job cannot be."""
    SIDES: ClassVar[tuple[str, ...]] = ("coordinator", "brokers")
    """The values that `of` may have. A job of one side alone must not write to the topics of the other."""

    bootstrap_servers: str = "localhost:9092"
    """Kafka brokers, as HOST:PORT with commas between."""

    topics_requests: str = REQUESTS
    """Topic that clients write requests to, and the coordinator reads."""
    topics_clock: str = CLOCK
    """Topic of the coordinator's ticks."""
    topics_responses: str = RESPONSES
    """Topic of the responses to groups without a topic of their own."""
    topics_groups: str = GROUPS
    """Topic with the newest picture of each group."""
    topics_offsets: str = OFFSETS
    """Topic with the newest committed offsets."""
    topics_events: str = EVENTS
    """Topic of all that happens to groups."""
    topics_rejected: str = REJECTED
    """Topic of records that are no requests."""
    topics_lag: str = LAG
    """Topic of measurements of lag, which `measure-lag` writes; empty: it is neither written nor read."""
    topics_sides: str = GROUP_SIDES
    """Topic of the sides that groups are on, which `move` writes and gateways read."""

    of: str = "coordinator"
    """Groups that a command is about: those of the coordinator, or those at the brokers, as `observe` sees
    them (brokers). Then the next four topics take the place of those above. The page may show both."""
    brokers_topics_groups: str = BROKERS_GROUPS
    """Topic with the newest picture of each group at the brokers."""
    brokers_topics_offsets: str = BROKERS_OFFSETS
    """Topic with the newest committed offsets of groups at the brokers."""
    brokers_topics_events: str = BROKERS_EVENTS
    """Topic of all that happens to groups at the brokers."""
    brokers_topics_lag: str = BROKERS_LAG
    """Topic of measurements of the lag of groups at the brokers."""

    create_topics: bool = False
    """Create the topics that are missing."""
    requests_partitions: Positive = 4
    """Partitions of the topics of requests, groups, offsets, events and lag, if they are created."""
    replication_factor: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """Replicas of the topics that are created; -1: the broker's default."""

    clock_max_gap_ms: Positive = 3_000
    """Time without a tick that may pass at once; more is an outage, and does not count for any deadline.
    While no requests come it is half as long again. So a pause of Kafka may expire a member whose session is
    no longer than that and the time between two of its heartbeats."""
    max_groups: Positive = 1_000_000
    """With more groups in the state no new ones are created, until a tenth of them is gone. Groups that are
    there do not notice."""

    metrics_host: str = ""
    """Address that each command serves its metrics and probes at; empty: all addresses of the machine."""

    log_level: str = "info"
    """Least level of what is logged: debug, info, warning or error."""
    log_format: str = "auto"
    """short (80 characters wide, for people), logfmt or json; auto: short on a terminal, logfmt elsewhere."""

    group: GroupConfig = GroupConfig()
    kafka: dict[str, str] = {}
    """Properties of Kafka's Java clients, such as `kafka.security.protocol`."""
    responses_topics: dict[str, str] = {}
    """Topic for the responses to groups whose id begins with this prefix, instead of `topics.responses`. The
    longest such prefix decides. Topic ACLs can then keep tenants apart."""
    spark: dict[str, str] = {}
    """Spark's properties, such as `spark.master`."""
    files: dict[str, str] = {}
    """Files that the values of settings came from, by setting."""

    @classmethod
    def load(
        cls,
        file: Path | None,
        environment: Mapping[str, str],
        overrides: Mapping[str, object],
        needed: Iterable[str] | None = None,
        others: Iterable[type[JobSettings]] = (),
    ) -> Self:
        """Put the settings together; `overrides` (from the command line) are by dotted name.

        One file may be for all commands, so the names of `others` are passed over. `needed`: the names that
        must have a value, in the place of `NEEDED`.

        Raises `SettingsError` for a file that cannot be read, an unknown name, a value of the wrong type, or
        one that is missing. A value that is given both as it is and in a file is refused as well.
        """
        names = _Names(cls, others)
        given: dict[str, object] = {} if file is None else _read_file(file)
        given |= _read_environment(environment, names)
        given |= overrides
        files = {
            setting: str(path)
            for name, path in given.items()
            if (setting := name.removesuffix(FILE_SUFFIX)) != name and names.may_be_in_a_file(setting)
        }
        try:
            given = read_value_files(given, names.may_be_in_a_file)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        values, group = names.sorted(given)
        settings: Self = _convert(values, cls)
        check_word(settings, "of", *cls.SIDES)
        if settings.of == "brokers":
            # A command line names what it is about. Files and variables may be for both kinds.
            of_brokers = settings.of_brokers.items()
            swapped = {field: value for field, value in of_brokers if _dotted(field) not in overrides}
            settings = msgspec.structs.replace(settings, **swapped)
        for name in cls.NEEDED if needed is None else needed:
            if not getattr(settings, name.replace(".", "_")):
                known = settings.named(name)
                raise SettingsError(
                    f"{known} is not set: give --{_OPTIONS.get(name, name).replace('.', '-')}, set "
                    f"{ENVIRONMENT_PREFIX}{known.replace('.', '_').upper()}, or put it in the settings file"
                )
        settings = msgspec.structs.replace(settings, group=_convert(group, GroupConfig), files=files)
        settings.check(environment)
        return settings

    def check(self, environment: Mapping[str, str]) -> None:  # noqa: ARG002 - for those that derive
        """Refuse what the types do not. Raises `SettingsError`."""
        check_word(self, "log_level", "debug", "info", "warning", "error")
        check_word(self, "log_format", "auto", "short", "logfmt", "json")
        if "" in self.responses_topics:
            raise SettingsError("responses.topics has an empty prefix: for all groups, set topics.responses")
        others = {self.topics_requests, self.topics_clock, self.topics_lag, self.topics_sides} | {
            topic for channel, topic in self.output_topics.items() if channel is not Channel.RESPONSES
        }
        if taken := others.intersection(self.responses_topics.values()):
            raise SettingsError(
                f"responses.topics names {min(taken)}, where the coordinator has something else: name another"
            )

    @property
    def of_brokers(self) -> dict[str, Any]:
        """The settings that have another value for groups at the brokers."""
        return {
            "topics_groups": self.brokers_topics_groups,
            "topics_offsets": self.brokers_topics_offsets,
            "topics_events": self.brokers_topics_events,
            "topics_lag": self.brokers_topics_lag,
        }

    def named(self, name: str) -> str:
        """The name of the setting that says this for the groups that the command is about."""
        is_of_brokers = self.of == "brokers" and name.replace(".", "_") in self.of_brokers
        return f"brokers.{name}" if is_of_brokers else name

    @property
    def writer(self) -> str:
        """The job that writes the topics of pictures, committed offsets and events."""
        return "`observe`" if self.of == "brokers" else "the coordinator"

    @property
    def input_topic(self) -> str:
        """The topic that the writer reads, of which the ids of events name places."""
        return BROKERS_LOG if self.of == "brokers" else self.topics_requests

    @property
    def response_topics(self) -> tuple[str, ...]:
        """Topics that responses are written to, each once; the one for groups without a prefix first."""
        return tuple(dict.fromkeys((self.topics_responses, *self.responses_topics.values())))

    @property
    def all_topics(self) -> frozenset[str]:
        """All topics of the coordinator, that of the lag included."""
        outputs = self.output_topics.values()
        others = {self.topics_requests, self.topics_clock, self.topics_lag, self.topics_sides}
        topics = others | {*self.response_topics, *outputs}
        return frozenset(topics - {""})

    @property
    def output_topics(self) -> dict[Channel, str]:
        """The topic that the query writes each kind of output to."""
        return {
            Channel.RESPONSES: self.topics_responses,
            Channel.GROUPS: self.topics_groups,
            Channel.OFFSETS: self.topics_offsets,
            Channel.EVENTS: self.topics_events,
            Channel.REJECTED: self.topics_rejected,
        }


# GroupConfig has Kafka's names for what is Kafka's.
_GROUP_FIELDS = {_dotted(field): field for field in GroupConfig.__struct_fields__}
# Kafka's tools give their option another name than the setting has.
_OPTIONS = {"bootstrap.servers": "bootstrap.server"}
_PLACE = re.compile(r"`\$\.([^`]+)`")
_NO_SETTINGS = frozenset({"files", "group", "kafka", "responses_topics", "spark"})


class _Names:
    """The names that there are: those of `settings`, and those that only `others` have."""

    def __init__(self, settings: type[JobSettings], others: Iterable[type[JobSettings]]) -> None:
        self.own = _names_of(settings)
        self.foreign = frozenset[str]().union(*map(_names_of, others)) - self.own

    def sorted(self, given: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Return what is given as msgspec wants it: the settings, and those of `GroupConfig`."""
        values: dict[str, object] = {}
        group: dict[str, object] = {}
        kafka: dict[str, str] = {}
        spark: dict[str, str] = {}
        responses: dict[str, str] = {}
        for name, value in given.items():
            if name in _GROUP_FIELDS:
                group[_GROUP_FIELDS[name]] = value
            elif name in self.own:
                values[name] = value
            elif name.removesuffix(FILE_SUFFIX) in self.foreign:
                continue
            elif name.startswith(_KAFKA_PREFIX):
                kafka[name.removeprefix(_KAFKA_PREFIX)] = _text(value)
            elif name.startswith(_SPARK_PREFIX):
                spark[name] = _text(value)
            elif name.startswith(_RESPONSES_PREFIX):
                responses[name.removeprefix(_RESPONSES_PREFIX)] = _text(value)
            else:
                raise SettingsError(self.unknown(name))
        return values | {"kafka": kafka, "spark": spark, "responses.topics": responses}, group

    def may_be_in_a_file(self, name: str) -> bool:
        """Whether a file may have the value of what has this name."""
        return name in self.own or name in _GROUP_FIELDS or name.startswith(_KAFKA_PREFIX)

    def of_variables(self) -> dict[str, str]:
        """Environment variable -> setting, or setting with `.file`."""
        return {
            ENVIRONMENT_PREFIX + name.replace(".", "_").upper(): name
            for setting in (*self.own, *self.foreign, *_GROUP_FIELDS)
            for name in (setting, setting + FILE_SUFFIX)
        }

    def unknown(self, name: str) -> str:
        """Return what to say of a name that does not exist."""
        near = difflib.get_close_matches(name, [*sorted(self.own | self.foreign), *_GROUP_FIELDS], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"there is no setting {name}{hint}"


def _names_of(settings: type[JobSettings]) -> frozenset[str]:
    return frozenset(_dotted(field) for field in settings.__struct_fields__ if field not in _NO_SETTINGS)


def check_word(settings: JobSettings, field: str, *words: str) -> None:
    """Raise `SettingsError` if the value of this field is none of `words`."""
    if (word := getattr(settings, field)) not in words:
        allowed = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        raise SettingsError(f"{_dotted(field)} must be {allowed}, and is {word!r}")


def _convert(values: Mapping[str, object], into: type[Any]) -> Any:
    try:
        # strict=False: everything from the environment is text.
        return msgspec.convert(values, into, strict=False)
    except msgspec.ValidationError as error:
        message = _PLACE.sub(lambda place: f"`{_dotted(place[1])}`", str(error))
        raise SettingsError(f"unusable setting: {message}") from None


def _read_file(file: Path) -> dict[str, object]:
    try:
        return dict(_flatten(tomllib.loads(file.read_text(encoding="utf-8"))))
    except OSError as error:
        raise SettingsError(f"cannot read settings file {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file} is not TOML: {error}") from None


def _flatten(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            pairs += _flatten(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _read_environment(environment: Mapping[str, str], names: _Names) -> dict[str, object]:
    # Spark's names have capitals, which the environment cannot carry; spark-submit and the file can.
    by_variable = names.of_variables()
    kafka = f"{ENVIRONMENT_PREFIX}KAFKA_"
    values: dict[str, object] = {}
    for variable, value in environment.items():
        if variable in by_variable:
            values[by_variable[variable]] = value
        elif variable.startswith(kafka):
            values[_KAFKA_PREFIX + variable.removeprefix(kafka).lower().replace("_", ".")] = value
        elif variable.startswith(ENVIRONMENT_PREFIX) and variable not in _OTHER_VARIABLES:
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
            if name.startswith(_SPARK_PREFIX):
                raise SettingsError(f"{variable}: Spark's properties go into the settings file or --set")
            if name.startswith(_RESPONSES_PREFIX):
                raise SettingsError(f"{variable}: responses.topics goes into the settings file or --set")
            raise SettingsError(f"{variable}: {names.unknown(name)}")
    return values


# Read elsewhere, under the same prefix.
_OTHER_VARIABLES = frozenset(ENVIRONMENT_PREFIX + name for name in ("CACHE", "CONFIG", "MAVEN_URL"))


def _text(value: object) -> str:
    # Spark and Kafka spell booleans in lower case.
    return str(value).lower() if isinstance(value, bool) else str(value)
