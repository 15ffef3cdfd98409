"""All that shows groups shows those at the brokers with `--of brokers`: one group, watched once by `observe`.

It grows, shrinks, is left by all, and has its offsets reset by a tool.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.commands.job import COMMAND, ObserveJob, Process, set_all
from tests.observe.test_observe import Consumer, events_of, reading
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

GROUP, TOPIC, RECORDS = "payments", "payments", 30
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]
RESET_TO = 4
SETTLED, LEDGER = "pay-settled", TopicPartition("ledger", 0)
"""A group that has read all of a topic that is written in transactions."""
LAG_S = "kafka_consumergroup_group_max_lag_seconds"


class Observed(NamedTuple):
    """Where the broker is, settings that name the topics of `observe`, and a directory for the history."""

    servers: str
    settings: dict[str, str]
    history: Path

    @property
    def words(self) -> list[str]:
        return ["--of", "brokers", "--bootstrap-server", self.servers, *set_all(self.settings)]

    def story(self) -> None:
        """The group's life: it reads all, with one member, two, one, none, and then somebody sets it back."""
        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            admin.create_topics({TOPIC: {"num_partitions": len(PARTITIONS)}})
            admin.wait_for_topics([TOPIC])
            with closing(KafkaProducer(bootstrap_servers=self.servers)) as producer:
                for each in PARTITIONS:
                    for _ in range(RECORDS):
                        producer.send(TOPIC, b"work", partition=each.partition)
                producer.flush(PATIENCE_S)

            def members() -> int:
                return len(admin.describe_groups([GROUP])[GROUP]["members"])

            def committed() -> list[int]:
                # The first group of a broker waits for the topic that it is kept in.
                with suppress(
                    CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
                ):
                    found = admin.list_group_offsets([GROUP])[GROUP]
                    return [found[each].offset for each in PARTITIONS if each in found]
                return []

            first = Consumer(self.servers, GROUP, TOPIC, "first", auto_offset_reset="earliest")
            wait_for(lambda: committed() == [RECORDS, RECORDS])
            second = Consumer(self.servers, GROUP, TOPIC, "second", auto_offset_reset="earliest")
            wait_for(lambda: members() == 2 and is_stable(admin))
            second.leave()
            wait_for(lambda: members() == 1 and is_stable(admin))
            first.leave()
            wait_for(lambda: members() == 0)
            self._settle(admin)
            to = {each: OffsetAndMetadata(RESET_TO, "set back", -1) for each in PARTITIONS}
            admin.alter_group_offsets(GROUP, to)

    def _settle(self, admin: KafkaAdminClient) -> None:
        """A group has read all records of a transaction, behind which its marker stands."""
        admin.create_topics({LEDGER.topic: {"num_partitions": 1}})
        admin.wait_for_topics([LEDGER.topic])
        writer = KafkaProducer(bootstrap_servers=self.servers, transactional_id="ledger")
        with closing(writer) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for _ in range(RECORDS):
                producer.send(LEDGER.topic, b"entry", partition=LEDGER.partition)
            producer.commit_transaction()
        admin.alter_group_offsets(SETTLED, {LEDGER: OffsetAndMetadata(RECORDS, "", -1)})


def is_stable(admin: KafkaAdminClient) -> bool:
    return bool(admin.describe_groups([GROUP])[GROUP]["group_state"] == "Stable")


@pytest.fixture(scope="module")
def observed(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    directory = tmp_path_factory.mktemp("of-brokers")
    job = ObserveJob(bootstrap_servers, directory, "of-brokers", "--set", "observe.commits.interval.ms=0")
    settings = {f"brokers.topics.{name}": topic for name, topic in job.topics.items()}
    settings["brokers.topics.lag"] = "of-brokers.lag"
    found = Observed(bootstrap_servers, settings, directory / "history")
    try:
        found.story()
        job.wait_for("watching the groups at ")
        with reading(bootstrap_servers, job.topics["events"]) as records:

            def set_back() -> list[Any]:
                events = events_of(records(), GROUP)
                return [each for each in events if "set back" in json.dumps(each)]

            wait_for(set_back, said=lambda: job.said)
        job.terminate()
        assert job.exit_code() == 0, job.said
        yield found
    finally:
        job.kill()


@pytest.fixture(scope="module")
def lag(observed: Observed, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], float]:
    """The metrics of `measure-lag`, when it has written a measurement."""
    words = [*observed.words, "--set", "lag.interval.ms=200", "--groups", "pay*", "--metrics-port", "0"]
    measuring = Process(tmp_path_factory.mktemp("lag"), "measure-lag", "--create-topics", *words)
    try:
        wait_for(lambda: measuring.metrics().get(("group_coordinator_lag_writes_total", "written"), 0) > 1)
        assert measuring.probe("readyz") == (200, "measuring 2 groups")
        # How old a record is has to be looked up.
        wait_for(lambda: measuring.metrics().get((LAG_S, "kafka", SETTLED)) == 0, said=measuring.metrics)
        return measuring.metrics()
    finally:
        measuring.kill()


@pytest.fixture(scope="module")
def history(
    observed: Observed, lag: dict[tuple[str, ...], float], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tables of `write-history`, lag included."""
    spark = {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "768m"}
    words = [*observed.words, *set_all(spark), "--history-path", str(observed.history), "--once"]
    writing = Process(tmp_path_factory.mktemp("writing"), "write-history", *words)
    try:
        writing.wait_until(lambda: any(line.endswith(" events are written") for line in writing.said))
        assert writing.exit_code() == 0, writing.said
    finally:
        writing.kill()
    return observed.history


def told(*words: str) -> str:
    """The output of a command that ends by itself."""
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def page(directory: Path, *words: str) -> Iterator[tuple[Process, str]]:
    ui = Process(directory, "ui", "--port", "0", *words)
    try:
        yield ui, ui.wait_for("the page is at ").rstrip("/")
        ui.terminate()
        assert ui.exit_code() == 0, ui.said
    finally:
        ui.kill()


def asked(url: str, path: str, **query: object) -> Any:
    with urlopen(f"{url}/api/v1{path}?{urlencode(query)}", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def shown(url: str, path: str, **query: object) -> str:
    with urlopen(f"{url}{path}?{urlencode(query)}", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


# -- the commands ------------------------------------------------------------------------------------------


def test_events_are_those_of_the_brokers(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP_COORDINATOR_OF", "brokers")
    monkeypatch.setenv("GROUP_COORDINATOR_BROKERS_TOPICS_EVENTS", observed.settings["brokers.topics.events"])
    words = ["events", "--bootstrap-server", observed.servers, "--group", GROUP]
    kinds = [json.loads(line)["event"] for line in told(*words, "--output", "json").splitlines()]
    assert {"group_created", "member_added", "member_removed", "state_changed"} <= set(kinds)
    assert "offsets_committed" not in kinds
    lines = told(*words, "--kind", "member_removed").splitlines()
    assert lines
    assert all(re.search(rf"  {GROUP}  .+ went, the cause is unknown; ", line) for line in lines)


def test_lag_is_measured_by_what_the_brokers_have_committed(lag: Mapping[tuple[str, ...], float]) -> None:
    left = RECORDS - RESET_TO
    assert lag["kafka_consumergroup_group_sum_lag", "kafka", GROUP] == 2 * left
    for number in ("0", "1"):
        assert lag["kafka_consumergroup_group_offset", "kafka", GROUP, number, TOPIC] == RESET_TO


def test_a_marker_of_a_transaction_is_lag_in_records_and_none_in_time(
    lag: Mapping[tuple[str, ...], float],
) -> None:
    assert lag["kafka_consumergroup_group_sum_lag", "kafka", SETTLED] == 1
    assert lag[LAG_S, "kafka", SETTLED] == 0


def test_the_history_answers_all_questions(observed: Observed, history: Path, tmp_path: Path) -> None:
    words = ["--of", "brokers", "--history-path", str(history), "--from", "1h"]

    def rows(question: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(told("history", GROUP, question, "--output", "json", *words))
        return found

    assert {row["cause"] for row in rows("--rebalances")} <= {"unknown", "member_joined"}
    assert len(rows("--rebalances")) >= 3
    assert {row["client_id"] for row in rows("--members")} == {"first", "second"}
    assert all(row["until"] is not None for row in rows("--members"))
    assert {row["client_id"] for row in rows("--assignments")} == {"first", "second"}
    assert {row["state"] for row in rows("--states")} >= {"Stable", "Empty"}
    back = [row for row in rows("--offsets") if row["committed_offset"] == RESET_TO]
    assert {row["partition"] for row in back} == {0, 1}
    assert {row["records"] for row in rows("--lag")} == {2 * (RECORDS - RESET_TO)}
    assert rows("--events")
    told("history", GROUP, *words, "--timeline", str(tmp_path / "payments.svg"))
    assert "second" in (tmp_path / "payments.svg").read_text()
    assert GROUP in told("history", *words)


def test_the_page_shows_groups_at_the_brokers(observed: Observed, history: Path, tmp_path: Path) -> None:
    with page(tmp_path, *observed.words, "--history-path", str(history)) as (ui, url):
        ui.wait_for("the page shows all groups")
        status = asked(url, "/status")
        assert (status["problem"], status["coordinator_silent_ms"]) == (None, None)
        (line,) = asked(url, "/groups", q=GROUP)["groups"]
        assert (line["group_id"], line["of"], line["state"], line["members"]) == (
            GROUP,
            "brokers",
            "Empty",
            0,
        )
        found = asked(url, "/group/lag", group_id=GROUP)
        assert found["asked"]["problem"] is None
        partitions = found["asked"]["partitions"]
        assert [(each["committed_offset"], each["lag"]) for each in partitions] == [
            (RESET_TO, RECORDS - RESET_TO)
        ] * len(PARTITIONS)
        assert found["measured"]["records"] == 2 * (RECORDS - RESET_TO)
        kinds = {each["event"] for each in asked(url, "/group/events", group_id=GROUP, limit=1000)["events"]}
        assert {"member_removed", "state_changed", "offsets_committed"} <= kinds
        assert asked(url, "/group/timeline", group_id=GROUP)["story"]["memberships"]
        assert GROUP in asked(url, "/history/groups")["group_ids"]
        assert asked(url, "/history", group_id=GROUP, question="offsets")["rows"]
        assert "Groups at the brokers" in shown(url, "/")
        assert "at the brokers" in shown(url, "/group", group_id=GROUP)


def test_one_page_shows_both_sides(observed: Observed, history: Path, tmp_path: Path) -> None:
    """Nobody has run a coordinator with these topics, which the page says. The brokers' groups are there."""
    here = {
        "topics.groups": "nowhere.groups",
        "topics.events": "nowhere.events",
        "topics.clock": "nowhere.clock",
    }
    both = ["--of", "both", "--bootstrap-server", observed.servers, *set_all(observed.settings | here)]
    with page(tmp_path, *both, "--set", f"brokers.history.path={history}") as (ui, url):
        ui.wait_for("there is no topic nowhere.groups: has the coordinator run with these topics?")
        found = wait_for(lambda: asked(url, "/groups", q=GROUP)["groups"])
        assert [(each["group_id"], each["of"]) for each in found] == [(GROUP, "brokers")]
        assert asked(url, "/status")["totals"]["sides"]["coordinator"] == 0
        assert f'href="/group?group_id={GROUP}&amp;of=brokers"' in shown(url, "/")
        assert GROUP in asked(url, "/history/groups", of="brokers")["group_ids"]


# -- changes, which come last ------------------------------------------------------------------------------


def test_a_reset_is_undone_and_a_moment_comes_back(observed: Observed, history: Path) -> None:
    topic = observed.settings["brokers.topics.events"]
    words = ["--of", "brokers", "--bootstrap-server", observed.servers, "--output", "json", "--group", GROUP]
    reset = ["groups", "--reset-offsets", *words, "--history-path", str(history), "--events-topic", topic]

    described = json.loads(told("groups", "--describe", *words))
    assert [row["current_offset"] for row in described] == [RESET_TO] * len(PARTITIONS)
    undone = json.loads(told(*reset, "--undo", "--execute"))
    assert [(row["old_offset"], row["new_offset"], row["skipped"]) for row in undone] == [
        (RESET_TO, RECORDS, RECORDS - RESET_TO)
    ] * len(PARTITIONS)
    # Nobody observes any more, so no event tells of this reset.
    again = subprocess.run([*COMMAND, *reset, "--undo"], capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert f"The events do not tell yet of what group '{GROUP}' has committed in {TOPIC}-0, " in again.stderr

    offsets = ["history", GROUP, "--offsets", "--from", "1h", "--output", "json"]
    rows = json.loads(told(*offsets, "--of", "brokers", "--history-path", str(history)))
    moment = next(row["at"] for row in rows if row["committed_offset"] == RESET_TO)
    back = json.loads(told(*reset, "--all-topics", "--to-history", moment, "--execute"))
    assert [(row["old_offset"], row["new_offset"], row["age_seconds"]) for row in back] == [
        (RECORDS, RESET_TO, 0)
    ] * len(PARTITIONS)
    with closing(KafkaAdminClient(bootstrap_servers=observed.servers)) as admin:
        found = admin.list_group_offsets([GROUP])[GROUP]
    assert {found[each].metadata for each in PARTITIONS} == {"set back"}
