"""Dashboard and alerts, held against a coordinator, its history, a gateway and a Prometheus."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import GroupMember
from tests.commands.job import HistoryJob, Job, ObserveJob, Process
from tests.debian import NoPackageError
from tests.deploy import prometheus as module
from tests.deploy.prometheus import CONFIGURATION, RULES, Prometheus, configured, promtool
from tests.gateway.clients import kafka_python
from tests.gateway.conftest import start_gateway
from tests.patience import PATIENCE_S, wait_for
from tests.rooms import ROOT

GRAFANA = ROOT / "deploy" / "compose" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "coordinator.json").read_text())
GUIDE = (ROOT / "docs" / "monitor.md").read_text()
# What Grafana would.
FILLED_IN = {
    "$job": "group-coordinator",
    "$history": "group-coordinator-history",
    "$gateway": "group-coordinator-gateway",
    "$lag": "group-coordinator-lag",
    "$__rate_interval": "5m",
}


def expressions(node: Any) -> list[str]:
    """All that Grafana asks Prometheus, its variables filled in."""
    if isinstance(node, list):
        return [each for item in node for each in expressions(item)]
    if not isinstance(node, dict):
        return []
    own = [node["expr"]] if "expr" in node else []
    return [
        *map(filled_in, own),
        *(each for value in node.values() for each in expressions(value)),
    ]


def filled_in(expression: str) -> str:
    for name, value in FILLED_IN.items():
        expression = expression.replace(name, value)
    return expression


# -- without a coordinator ---------------------------------------------------------------------------


@pytest.mark.verify
def test_promtool_approves_of_the_rules() -> None:
    done = promtool("check", "rules", RULES)

    assert done.returncode == 0, done.stdout
    assert "SUCCESS: 34 rules found" in done.stdout


@pytest.mark.verify
def test_alerts_fire_when_they_should_and_only_then() -> None:
    done = promtool("test", "rules", ROOT / "tests" / "deploy" / "alerts_test.yml")

    assert done.returncode == 0, done.stdout


def test_every_alert_is_tested_both_ways() -> None:
    text = (ROOT / "tests" / "deploy" / "alerts_test.yml").read_text()
    tested = re.findall(r"- alertname: (\w+)\n +eval_time: \S+\n +exp_alerts:(.*)", text)

    fires, fires_not = ({name for name, rest in tested if bool(rest) is none} for none in (False, True))
    assert fires == fires_not == set(re.findall(r"- alert: (\w+)", RULES.read_text()))


def test_every_alert_leads_to_its_place_in_the_guide() -> None:
    alerts = re.findall(r"- alert: (\w+)[\s\S]*?runbook_url: (.*)", RULES.read_text())
    section = GUIDE.partition("\n## Alerts\n")[2].partition("\n## ")[0]

    assert len(alerts) == len(re.findall("- alert:", RULES.read_text()))
    # GitHub's anchor of a heading of one word is that word in small letters.
    assert alerts == [
        (name, f"docs/monitor.md#{name.lower()}") for name in re.findall("^### (.*)$", section, re.MULTILINE)
    ]


def test_one_line_of_the_guide_makes_every_runbook_an_address(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    (line,) = re.findall(r"^ +(sed -i .* alerts\.yml)$", GUIDE, re.MULTILINE)
    subprocess.run(line, shell=True, check=True, cwd=tmp_path)
    (prefix,) = re.findall(r"\|(https://.*/)&\|", line)

    before, after = (
        re.findall("runbook_url: (.*)", path.read_text()) for path in (RULES, tmp_path / RULES.name)
    )
    assert after == [prefix + url for url in before]
    assert len(after) >= 20


def rules_of_the_guide() -> str:
    (block,) = re.findall(r"```yaml\n(groups:\n.*?)```", GUIDE, re.DOTALL)
    return block


@pytest.mark.verify
def test_promtool_approves_of_the_guides_rule(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_of_the_guide())
    done = promtool("check", "rules", rules)

    assert done.returncode == 0, done.stdout
    assert "SUCCESS: 1 rules found" in done.stdout


@pytest.mark.verify
def test_the_configuration_is_prometheuss() -> None:
    done = promtool("check", "config", CONFIGURATION)

    assert done.returncode == 0, done.stdout


def test_the_dashboard_finds_its_data_source_and_its_place() -> None:
    (uid,) = re.findall("uid: (.*)", (GRAFANA / "datasources.yaml").read_text())
    panels = DASHBOARD["panels"]
    asking = [panel for panel in panels if panel["type"] != "row"]

    assert {panel["datasource"]["uid"] for panel in asking} == {uid}
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


@pytest.mark.verify
def test_without_debians_registry_it_is_said_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    monkeypatch.setenv("GROUP_COORDINATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPackageError, match=r"^there is no apt-get to fetch it with\. Install "):
        promtool("--version")

    offline = tmp_path / "apt-get"
    offline.write_text("#!/bin/sh\necho 'W: Failed to fetch it'\necho 'E: Unable to locate it'\nexit 100\n")
    offline.chmod(0o700)
    reason = "W: Failed to fetch it E: Unable to locate it"
    with pytest.raises(NoPackageError, match=f"^apt-get cannot fetch prometheus: {reason}\\. Install "):
        promtool("--version")
    assert list((tmp_path / "cache").iterdir()) == []


# -- with both ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    directory = tmp_path_factory.mktemp("monitored")
    job = Job(bootstrap_servers, directory, directory.name)
    yield job
    job.kill()


@pytest.fixture(scope="module")
def history(
    job: Job, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HistoryJob]:
    job.wait_for("topics are ready")
    history = HistoryJob(bootstrap_servers, tmp_path_factory.mktemp("history"), job.topics["events"])
    yield history
    history.kill()


@pytest.fixture(scope="module")
def gateway(job: Job, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    job.wait_for("topics are ready")
    gateway = start_gateway(tmp_path_factory.mktemp("gateway"), bootstrap_servers, job.topics)
    yield gateway
    gateway.kill()


@pytest.fixture(scope="module")
def lag(job: Job, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    job.wait_for("topics are ready")
    lag = Process(
        tmp_path_factory.mktemp("lag"),
        *("measure-lag", "--bootstrap-server", bootstrap_servers, "--groups", "k", "--metrics-port", "0"),
        *("--set", f"topics.offsets={job.topics['offsets']}", "--set", "lag.interval.ms=300"),
    )
    yield lag
    lag.kill()


@pytest.fixture(scope="module")
def observer(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObserveJob]:
    directory = tmp_path_factory.mktemp("observer")
    observer = ObserveJob(bootstrap_servers, directory, directory.name)
    yield observer
    observer.kill()


@pytest.fixture(scope="module")
def scraping(
    job: Job,
    history: HistoryJob,
    observer: ObserveJob,
    gateway: Process,
    lag: Process,
    bootstrap_servers: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Prometheus]:
    """A Prometheus that has seen all from the beginning on, and groups that came, changed and went."""
    ports = {
        "group-coordinator": job.metrics_port(),
        "group-coordinator-history": history.metrics_port(),
        "group-coordinator-observe": observer.metrics_port(),
        "group-coordinator-gateway": gateway.metrics_port(),
        "group-coordinator-lag": lag.metrics_port(),
    }
    directory = tmp_path_factory.mktemp("prometheus")
    configuration = configured(directory, ports, interval="500ms")
    with Prometheus(directory, configuration) as prometheus:
        # Its first samples are from before anything has happened.
        for first in (
            "group_coordinator_rebalances_total",
            "group_coordinator_history_rows_merged_total",
            "group_coordinator_gateway_beats_total",
        ):
            wait_for(lambda first=first: prometheus.query(first) != [])
        job.wait_for("the coordinator is running")
        happen(bootstrap_servers, job)
        address = gateway.wait_for("clients find the gateway at ")
        happen_at_gateway(address)
        catch_up(address, prometheus)
        is_written = f"group_coordinator_history_complete_timestamp_seconds > {time.time()}"
        # Two batches, each of which merges into seven tables: the one that runs, and the one after it.
        count = 'group_coordinator_batch_duration_seconds_count{job="group-coordinator-history"}'
        ((_, ended),) = prometheus.query(count)
        wait_for(lambda: prometheus.query(f"{count} > {ended}") != [], said=lambda: history.said)
        wait_for(lambda: prometheus.query(is_written) != [], said=lambda: history.said)
        at_brokers(bootstrap_servers, prometheus)
        # It was not there at the first look.
        wait_for(lambda: prometheus.query("group_coordinator_checkpoint_bytes") != [])
        yield prometheus


def at_brokers(bootstrap_servers: str, prometheus: Prometheus) -> None:
    """A member of a group at the brokers comes and goes, and is seen."""
    with closing(kafka_python(bootstrap_servers, ["seen-by-prometheus"], "at-brokers")) as consumer:
        wait_for(lambda: consumer.poll(timeout_ms=100) or consumer.assignment())
    for name in ("group_coordinator_observed_events_total", "group_coordinator_input_lag_seconds"):
        chosen = f'{name}{{job="group-coordinator-observe"}}'
        wait_for(lambda chosen=chosen: prometheus.query(chosen) != [])


def happen(bootstrap_servers: str, job: Job) -> None:
    """Two members come, commit and go, one after the other; and somebody sends what is no request."""
    topics = {"request_topic": job.topics["requests"], "response_topic": job.topics["responses"]}
    where = {"group_id": "g", "bootstrap_servers": bootstrap_servers} | topics
    with GroupMember(**where) as first:
        first.subscribe(units=["north", "south"])
        wait_for(lambda: first.poll(timeout_ms=100) == {"north", "south"})
        with GroupMember(**where) as second:
            second.subscribe(units=["north", "south"])
            wait_for(lambda: len(first.poll(timeout_ms=100)) == len(second.poll(timeout_ms=100)) == 1)
            second.commit({"north": 1})
        wait_for(lambda: first.poll(timeout_ms=100) == {"north", "south"})
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    producer.send(job.topics["requests"], key=b"g", value=b"nonsense")
    producer.close()
    wait_for(lambda: job.metrics()["group_coordinator_requests_rejected_total",] == 1)


def happen_at_gateway(address: str) -> None:
    """A client of Kafka's kind comes, beats and goes."""
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        admin.create_topics([NewTopic("seen-by-prometheus", num_partitions=1, replication_factor=1)])
    with closing(kafka_python(address, ["seen-by-prometheus"], "k")) as consumer:
        wait_for(lambda: consumer.poll(timeout_ms=100) or consumer.assignment())


def catch_up(address: str, prometheus: Prometheus) -> None:
    """The group of that client falls behind, and works its lag off bit by bit. Retention is faster."""
    partition, count = TopicPartition("seen-by-prometheus", 0), 5_000
    with closing(KafkaProducer(bootstrap_servers=address)) as producer:
        for _ in range(count):
            producer.send(partition.topic, b"x", partition=0)
    offsets, begins = itertools.count(1_000), itertools.count(1, 2)
    found = ("group_coordinator_lag_clears_seconds", "group_coordinator_lag_lost_in_seconds")
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:

        def commit(offset: int) -> None:
            admin.alter_group_offsets("k", {partition: OffsetAndMetadata(offset, "", -1)})

        def go_on() -> None:
            commit(next(offsets))
            admin.delete_records({partition: next(begins)})

        wait_for(lambda: all(map(prometheus.query, found)), meanwhile=go_on)
        commit(count)


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """Metrics and the labels that they are chosen by; each metric has to be chosen by some."""
    found = re.findall(r"\b([a-z_]+)\{([^}]*)\}", expression)
    named = re.findall(r"\b(?:(?:group_coordinator|kafka|process)_\w+|up\b)", expression)
    assert sorted(name for name, _ in found) == sorted(named), expression
    return [(name, set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers))) for name, matchers in found]


def grouped_by(expression: str) -> set[str]:
    lists = re.findall(r"\b(?:by|on|group_left) ?\(([^)]*)\)", expression)
    return {label for each in lists for label in re.split(r", ?", each) if label}


@pytest.mark.verify
@pytest.mark.spark
def test_promtool_approves_of_the_metrics(
    scraping: Prometheus, job: Job, history: HistoryJob, gateway: Process, lag: Process
) -> None:
    for each in (job, history, gateway, lag):
        with urllib.request.urlopen(each.wait_for("metrics are at "), timeout=PATIENCE_S) as answer:
            done = promtool("check", "metrics", text=answer.read().decode())

        assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.verify
@pytest.mark.spark
def test_the_dashboard_is_offered_jobs_that_have_what_it_shows(scraping: Prometheus) -> None:
    offered = {}
    for variable in DASHBOARD["templating"]["list"]:
        (metric,) = re.fullmatch(r"label_values\((\w+), job\)", variable["query"]["query"]).groups()
        offered[f"${variable['name']}"] = scraping.get("label/job/values", **{"match[]": metric})

    assert offered == {name: [FILLED_IN[name]] for name in ("$job", "$history", "$gateway", "$lag")}


@pytest.mark.verify
@pytest.mark.spark
def test_the_guide_has_every_metric_and_no_other(scraping: Prometheus) -> None:
    section = GUIDE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    column = "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    described = {
        (name, frozenset(labels.split(",")) - {""})
        for name, labels in re.findall(r"`(\w+)(?:\{(.*?)\})?`", column)
    }

    found: dict[str, set[str]] = {}
    for series in scraping.get("series", **{"match[]": '{__name__=~"group_coordinator_.*"}'}):
        name = re.sub("_seconds_(bucket|count|sum)$", "_seconds", series["__name__"])
        labels = series.keys() - {"__name__", "job", "instance", "le"}
        found.setdefault(name.removeprefix("group_coordinator_"), set()).update(labels)
    existing = {name: labels for name, labels in found.items() if not name.endswith("_created")}
    assert described == {(name, frozenset(labels)) for name, labels in existing.items()}


@pytest.mark.verify
@pytest.mark.spark
def test_every_panel_shows_something(scraping: Prometheus) -> None:
    empty = set(expressions(DASHBOARD["panels"]))
    assert len(empty) >= 30

    def all_show_something() -> bool:
        shown = [each for each in empty if any(math.isfinite(it) for _, it in scraping.query(each))]
        empty.difference_update(shown)
        return not empty

    wait_for(all_show_something, said=lambda: sorted(empty))


@pytest.mark.verify
@pytest.mark.spark
def test_every_legend_has_its_labels(scraping: Prometheus) -> None:
    targets = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    legends = [(target, set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))) for target in targets]
    assert sum(bool(labels) for _, labels in legends) >= 10
    for target, labels in legends:
        (expression,) = expressions(target)
        for found, _ in scraping.query(expression):
            assert found.keys() == labels, expression


@pytest.mark.verify
@pytest.mark.spark
def test_metrics_and_labels_of_every_expression_exist(scraping: Prometheus) -> None:
    alerts = [rule["query"] for group in scraping.get("rules")["groups"] for rule in group["rules"]]
    assert len(alerts) == 34
    of_the_guide = expressions(yaml.safe_load(rules_of_the_guide()))
    assert len(of_the_guide) == 1
    for expression in [*alerts, *of_the_guide, *expressions(DASHBOARD)]:
        labels = set()
        for name, chosen_by in selectors(expression):
            of_name = {label for series in scraping.get("series", **{"match[]": name}) for label in series}
            assert chosen_by <= of_name, f"{name} in {expression}"
            labels |= of_name
        assert grouped_by(expression) <= labels, expression


@pytest.mark.verify
@pytest.mark.spark
def test_nothing_is_the_matter_while_both_do_their_work(scraping: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in scraping.get("rules")["groups"] for rule in group["rules"]]

    wait_for(lambda: all(rule["health"] != "unknown" for rule in rules()))
    assert {rule["name"]: (rule["health"], rule["state"]) for rule in rules()} == {
        rule["name"]: ("ok", "inactive") for rule in rules()
    }


@pytest.mark.verify
@pytest.mark.spark
def test_rebalances_of_a_real_group_are_measured(scraping: Prometheus) -> None:
    name = "group_coordinator_rebalance_duration_seconds"
    completed = {found["cause"]: count for found, count in scraping.query(f"{name}_count > 0")}
    begun = {found["cause"] for found, _ in scraping.query("group_coordinator_rebalances_total > 0")}

    # The client at the gateway may join again, when it hears of its topic.
    assert completed.keys() - {"leader_rejoined"} == {"member_joined", "member_left"}
    assert completed["member_joined"] >= 2
    assert begun == completed.keys()
    ((_, longest),) = scraping.query(f"max({name}_sum)")
    assert 0 < longest < PATIENCE_S


@pytest.mark.verify
@pytest.mark.spark
def test_an_alert_fires_when_requests_wait_to_be_read(
    scraping: Prometheus, job: Job, bootstrap_servers: str
) -> None:
    """With the settings that a coordinator has by itself; its JVM stands still, so that nothing is read."""
    assert "CoordinatorLag" not in scraping.firing()
    java = job.java()
    os.kill(java, signal.SIGSTOP)
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        producer.send(job.topics["requests"], key=b"g", value=b"nobody reads it")
        producer.close()
        wait_for(lambda: "CoordinatorLag" in scraping.firing())
    finally:
        os.kill(java, signal.SIGCONT)
    wait_for(lambda: "CoordinatorLag" not in scraping.firing())
