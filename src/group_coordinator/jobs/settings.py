"""Settings, from defaults, a TOML file, the environment and the command line.

A setting has one name everywhere. In TOML it is a key (`group.max.size = 100`, quoted or not, or under a
`[group]` table, which is the same to TOML); in the environment it is upper case with a prefix
(`GROUP_COORDINATOR_GROUP_MAX_SIZE`). Later sources win: defaults, file, environment, command line.
With `.file` (`_FILE`) behind its name, a setting's value is the text of a file, such as a mounted secret.

Here are those of the coordinator and of any other job. A room that has more of them derives a class of its
own (`HistorySettings`, `PageSettings`), which is loaded in the same way.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec

from group_coordinator.coordinator_state.clocks import Leeway
from group_coordinator.coordinator_state.config import INT32_MAX, GroupConfig
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.coordinator_state.topics import (
    CLOCK,
    EVENTS,
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

__all__ = ["DEFAULT_HEAP", "ENVIRONMENT_PREFIX", "Port", "Positive", "Settings", "SettingsError"]

ENVIRONMENT_PREFIX = "GROUP_COORDINATOR_"

# Not ours to name or to check: handed to Kafka's clients and to Spark as they are.
_KAFKA_PREFIX = "kafka."
_SPARK_PREFIX = "spark."
_RESPONSES_PREFIX = "responses.topics."

DEFAULT_HEAP = "1g"
"""`spark.driver.memory` and `spark.executor.memory`, if they are not given. Both are Spark's own defaults."""
_HEAP_PER_RECORD = 8
"""With a heap of 1 GB and groups of 60 MB, for which 124 MB are allowed, all members were answered. With
groups of 150 MB the query ended."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets this in the environment of a program that it starts."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=-1, le=65535)]


class SettingsError(Exception):
    """A setting cannot be used; the message is one line and names the setting."""


def _dotted(field: str) -> str:
    return field.replace("_", ".")


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename=_dotted, forbid_unknown_fields=True):
    """Settings of the long-lived job. Names in files are dotted; times are in ms."""

    bootstrap_servers: str = "localhost:9092"
    """Kafka brokers, as HOST:PORT with commas between."""
    checkpoint: str = ""
    """Directory or object-store URI for the state of one coordinator, which it outlives."""

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

    create_topics: bool = False
    """Create the topics that are missing."""
    requests_partitions: Positive = 4
    """Partitions of the topics of requests, groups, offsets, events and lag, if they are created."""
    responses_partitions: Positive = 8
    """Partitions of each response topic that is created."""
    replication_factor: Annotated[int, msgspec.Meta(ge=-1)] = -1
    """Replicas of the topics that are created; -1: the broker's default."""

    clock_interval_ms: Positive = 1_000
    """Time between two ticks while no deadline is due that is known. It may be half as long again. While no
    requests come it may be three times as long, up to `clock.max.gap.ms`."""
    clock_slack_ms: Annotated[int, msgspec.Meta(ge=0)] = 500
    """How far behind the newest tick the watermark stays. It has to cover the difference of brokers' clocks,
    and the time from a record's append until it can be read."""
    clock_max_gap_ms: Positive = 3_000
    """Time without a tick that may pass at once; more is an outage, and does not count for any deadline.
    While no requests come it is half as long again. So a pause of Kafka may expire a member whose session is
    no longer than that and the time between two of its heartbeats."""
    probes_enabled: bool = True
    """Write a probe to each request partition beside each tick, which shows that it takes requests. Without
    probes members expire whose partition takes none."""
    trigger_interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Time between the starts of two batches; 0: each begins as soon as the one before is done."""

    max_batch_records: Positive = 200_000
    """Most records of one batch, ticks among them. More are read in several batches, one after the other, so
    that a backlog takes no more memory than one of these, and a restart goes on where the last one ended."""

    state_partitions: Positive = 1
    """Partitions of the state, and so the most executors' cores that work on groups at once. With one, an
    answer comes soonest. Fixed for the life of a checkpoint: to change it, export and restore."""
    standby: bool = False
    """Wait while another coordinator of the same topics runs, and go on when it ends."""
    max_groups: Positive = 1_000_000
    """With more groups in the state no new ones are created, until a tenth of them is gone. Groups that are
    there do not notice."""
    starting_offsets: str = "earliest"
    """Where a new checkpoint begins to read requests: earliest or latest."""
    member_id_secret: str = ""
    """Makes member ids unguessable. Empty: one is drawn and kept with the checkpoint."""

    metrics_host: str = ""
    """Address that each command serves its metrics and probes at; empty: all addresses of the machine."""
    metrics_port: Port = 9464
    """Port of the Prometheus endpoint; 0: any free one, -1: none."""

    alive_port: Port = 0
    """Port by which a standby knows at once that this process has ended; 0: any free one, -1: none. Nothing
    is said there."""

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

    @classmethod
    def load(
        cls,
        file: Path | None,
        environment: Mapping[str, str],
        overrides: Mapping[str, object],
        needed: Iterable[str] = ("bootstrap.servers", "checkpoint"),
        others: Iterable[type[Settings]] = (),
    ) -> Self:
        """Put the settings together; `overrides` (from the command line) are by dotted name.

        One file may be for all commands, so the names of `others` are passed over.

        Raises `SettingsError` for a file that cannot be read, an unknown name, a value of the wrong type, or
        one that is missing. A value that is given both as it is and in a file is refused as well.
        """
        names = _Names(cls, others)
        given: dict[str, object] = {} if file is None else _read_file(file)
        given |= _read_environment(environment, names)
        given |= overrides
        try:
            given = read_value_files(given, names.may_be_in_a_file)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        values, group = names.sorted(given)
        settings: Self = _convert(values, cls)
        for name in needed:
            if not getattr(settings, name.replace(".", "_")):
                raise SettingsError(
                    f"{name} is not set: give --{name.replace('.', '-')}, set "
                    f"{ENVIRONMENT_PREFIX}{name.replace('.', '_').upper()}, or put it in the settings file"
                )
        _check(settings)
        settings = msgspec.structs.replace(settings, group=_convert(group, GroupConfig))
        _check_sizes(settings)
        # The JVM of spark-submit runs already, with what it was given.
        if _SUBMITTED not in environment:
            _check_heap(settings)
        return settings

    @property
    def stall_ms(self) -> int:
        """A batch that takes longer is an outage, as nobody is answered meanwhile."""
        return self.trigger_interval_ms + 3 * self.clock_max_gap_ms

    @property
    def clocks_differ_ms(self) -> int:
        """The clocks of request partitions' leaders may differ by so much, besides `clock.slack.ms`.

        A request came before its batch was planned, and nobody knows how long before. So a clock that jumps
        ahead moves time by as much more. That is a gap in all if batches are short.
        """
        return self.clock_max_gap_ms // 2

    @property
    def leeway(self) -> Leeway:
        """The milliseconds by which requests may seem to be earlier or later than they can be."""
        return Leeway(
            later_ms=self.clock_slack_ms + self.clocks_differ_ms,
            # As far as the clock lets time be ahead of the reader.
            earlier_ms=self.clocks_differ_ms + self.trigger_interval_ms,
        )

    @property
    def look_back_ms(self) -> int:
        """The time after which a batch no longer has requests that are later than all of the newest batch.

        A request seems to be later than its batch by no more than clocks may differ. The watermark is not
        older than a batch may take.
        """
        return self.clock_slack_ms + self.clock_max_gap_ms + self.stall_ms

    @property
    def response_topics(self) -> tuple[str, ...]:
        """Topics that responses are written to, each once; the one for groups without a prefix first."""
        return tuple(dict.fromkeys((self.topics_responses, *self.responses_topics.values())))

    @property
    def all_topics(self) -> frozenset[str]:
        """All topics of the coordinator, that of the lag included."""
        outputs = self.output_topics.values()
        topics = {self.topics_requests, self.topics_clock, self.topics_lag, *self.response_topics, *outputs}
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
_PLACE = re.compile(r"`\$\.([^`]+)`")
_NO_SETTINGS = frozenset({"group", "kafka", "responses_topics", "spark"})


class _Names:
    """The names that there are: those of `settings`, and those that only `others` have."""

    def __init__(self, settings: type[Settings], others: Iterable[type[Settings]]) -> None:
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


def _names_of(settings: type[Settings]) -> frozenset[str]:
    return frozenset(_dotted(field) for field in settings.__struct_fields__ if field not in _NO_SETTINGS)


_WORDS = {
    "starting_offsets": ("earliest", "latest"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("auto", "short", "logfmt", "json"),
}


def _check(settings: Settings) -> None:
    """What the types do not say."""
    for name, words in _WORDS.items():
        if (word := getattr(settings, name)) not in words:
            allowed = f"{', '.join(words[:-1])} or {words[-1]}"
            raise SettingsError(f"{_dotted(name)} must be {allowed}, and is {word!r}")
    if "" in settings.responses_topics:
        raise SettingsError("responses.topics has an empty prefix: for all groups, set topics.responses")
    others = {settings.topics_requests, settings.topics_clock, settings.topics_lag} | {
        topic for channel, topic in settings.output_topics.items() if channel is not Channel.RESPONSES
    }
    if taken := others.intersection(settings.responses_topics.values()):
        raise SettingsError(
            f"responses.topics names {min(taken)}, where the coordinator has something else: name another"
        )


def _check_sizes(settings: Settings) -> None:
    """Refuse limits of groups with which a record could be decided that cannot be written."""
    largest = settings.group.max_record_bytes
    decided = settings.group.max_decided_bytes
    if decided > INT32_MAX:
        raise SettingsError(
            f"max.group.bytes, max.request.bytes and max.group.offsets allow {decided} bytes of records "
            f"about one group at once, and Spark takes {INT32_MAX} from Python at most: lower them"
        )
    for name in ("max.request.size", "buffer.memory"):
        given = settings.kafka.get(name, "")
        if given.isdecimal() and int(given) < largest:
            raise SettingsError(
                f"kafka.{name} is {given}, and max.group.bytes and max.request.bytes allow records of "
                f"{largest} bytes: raise kafka.{name}, or leave it out"
            )


def _check_heap(settings: Settings) -> None:
    """Refuse limits of groups with which a record could be decided that the JVM has no room for.

    It holds a record several times: as Spark's row, as what is sent, and as what waits to be sent.
    """
    # Other masters than these have executors, whose JVMs write the records.
    is_local = re.match(r"local(\[|$)", settings.spark.get("spark.master", "local"))
    name = "spark.driver.memory" if is_local else "spark.executor.memory"
    given = settings.spark.get(name, DEFAULT_HEAP)
    heap = re.fullmatch(r"(\d+)([kmgt])b?", given.strip().lower())
    if heap is None:
        return
    room = int(heap[1]) * 1024 ** (1 + "kmgt".index(heap[2])) // _HEAP_PER_RECORD
    largest = settings.group.max_record_bytes
    if largest > room:
        raise SettingsError(
            f"max.group.bytes and max.request.bytes allow records of {largest} bytes, and with {name} = "
            f"{given} there is room for {room}: lower them, or raise {name}"
        )


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
