"""The doctor: all is well where it is, and each line can be wrong."""

from __future__ import annotations

import itertools
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from group_coordinator.checkpoints.identity import PARTITIONS
from group_coordinator.deploy.java import JavaNotFound
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.serving import CannotListenError
from group_coordinator.streaming import doctor
from group_coordinator.streaming.doctor import Finding, Verdict, examine
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import prepare_topics

pytestmark = pytest.mark.spark

OK, NOTE, WRONG, UNKNOWN = Verdict.OK, Verdict.NOTE, Verdict.WRONG, Verdict.UNKNOWN
NAMES = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
_numbers = itertools.count(1)


class Patient:
    """A coordinator's settings and machine, with all as it has to be, until something is spoilt."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.given = settings
        self.ports: dict[str, Callable[[], object]] = {}

    @property
    def settings(self) -> CoordinatorSettings:
        return CoordinatorSettings.load(None, {}, self.given)

    def prepare(self) -> None:
        settings = self.settings
        prepare_topics(settings, python_client_config(settings.bootstrap_servers, {}))

    def examine(self) -> dict[str, Finding]:
        findings = list(examine(self.settings, self.ports))
        assert not any("\n" in each.told for each in findings)
        return {each.subject: each for each in findings}

    def verdicts(self) -> dict[Verdict, list[str]]:
        """Those that are not well, by verdict."""
        found: dict[Verdict, list[str]] = {}
        for each in self.examine().values():
            if each.verdict is not OK:
                found.setdefault(each.verdict, []).append(each.subject)
        return found


@pytest.fixture
def patient(
    bootstrap_servers: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Patient:
    # It ends its session, and this one is for other tests as well.
    session = SimpleNamespace(
        version=spark.version,
        conf=spark.conf,
        sparkContext=spark.sparkContext,
        _jvm=spark._jvm,
        _jsc=spark._jsc,
    )
    session.stop = lambda: None
    monkeypatch.setattr(doctor, "create_session", lambda *_, **__: session)
    prefix = f"doctor{next(_numbers)}"
    return Patient(
        {
            "bootstrap.servers": bootstrap_servers,
            "checkpoint": str(tmp_path / "checkpoint"),
            "create.topics": True,
            "state.partitions": spark.conf.get(PARTITIONS),
            **{f"topics.{name}": f"{prefix}.{name}" for name in NAMES},
        }
    )


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        yield admin


def write(patient: Patient, name: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=patient.settings.bootstrap_servers)) as producer:
        producer.send(patient.given[f"topics.{name}"], b"{}").get(30)


def test_all_is_well_and_nothing_was_changed(patient: Patient, admin: KafkaAdminClient) -> None:
    before = patient.examine()
    assert {
        each.subject: each.told for each in before.values() if "run` will create it" in each.told
    }.keys() == {f"topic {patient.given[f'topics.{name}']}" for name in NAMES}
    assert not set(admin.list_topics()) & set(patient.settings.output_topics.values())
    assert not Path(patient.given["checkpoint"]).exists()

    patient.prepare()
    # As a coordinator that was stopped has left it.
    write(patient, "requests")
    patient.ports = {"metrics.port 9464": lambda: None}
    findings = patient.examine()
    assert {each.verdict for each in findings.values()} == {OK}, findings
    assert list(findings) == [
        "java",
        "pyspark",
        "jars",
        "disk",
        "kafka",
        *(f"topic {patient.given[f'topics.{name}']}" for name in NAMES),
        "coordinator",
        "clocks",
        "metrics.port 9464",
        "spark",
        "checkpoint",
    ]
    assert not Path(patient.given["checkpoint"]).exists()


def test_this_machine(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> Path:
        raise JavaNotFound("Java 17 or newer is needed")

    def taken() -> None:
        raise CannotListenError("cannot listen on metrics.port 9464")

    patient.prepare()
    write(patient, "requests")
    patient.ports = {"metrics.port 9464": taken}
    monkeypatch.setattr(doctor, "find_java", no_java)
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    monkeypatch.setattr(doctor, "are_there", lambda *_: False)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=900_000_000))
    assert patient.verdicts() == {
        WRONG: ["java", "disk", "metrics.port 9464"],
        NOTE: ["pyspark", "jars"],
        UNKNOWN: ["checkpoint"],
    }
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "cannot be written to" in patient.examine()["disk"].told


def test_kafka_that_is_away(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    patient.given["bootstrap.servers"] = f"127.0.0.1:{port}"
    config = python_client_config(f"127.0.0.1:{port}", {}) | {"bootstrap_timeout_ms": 500}
    monkeypatch.setattr(doctor, "python_client_config", lambda *_: config)
    findings = patient.examine()
    found = {each.subject: each.verdict for each in findings.values() if each.verdict is not OK}
    assert found == {"kafka": WRONG, "topics": UNKNOWN, "coordinator": UNKNOWN, "clocks": UNKNOWN}
    assert "start Kafka" in findings["kafka"].told


def test_topics(patient: Patient, admin: KafkaAdminClient) -> None:
    patient.given["create.topics"] = False
    wrong = [f"topic {patient.given[f'topics.{name}']}" for name in NAMES]
    assert patient.verdicts() == {WRONG: wrong, NOTE: ["clocks"]}

    clock = patient.given["topics.clock"]
    admin.create_topics({clock: {"num_partitions": 2, "replication_factor": 1}})
    told = patient.examine()[f"topic {clock}"].told
    assert f"{clock} has 2 partitions and must have 1" in told
    assert "message.timestamp.type" in told


def test_a_clock_that_is_wrong(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.prepare()
    write(patient, "requests")
    hour_ago = time.time() - 3_600
    monkeypatch.setattr(doctor.time, "time", lambda: hour_ago)
    clocks = patient.examine()["clocks"]
    assert clocks.verdict is WRONG
    assert f"of {patient.given['topics.requests']} has a record of 3600." in clocks.told


def test_another_coordinator(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with it, nor that it has the ports."""

    def runs(_: CoordinatorSettings) -> None:
        raise CoordinatorError("another coordinator of these topics is running")

    def taken() -> None:
        raise CannotListenError("cannot listen on metrics.port 9464")

    patient.prepare()
    write(patient, "requests")
    patient.ports = {"metrics.port 9464": taken}
    monkeypatch.setattr(doctor, "check_alone", runs)
    assert patient.verdicts() == {NOTE: ["coordinator", "metrics.port 9464"]}


def test_spark_and_the_checkpoint(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.prepare()
    write(patient, "requests")
    others = Path(patient.given["checkpoint"], "offsets")
    others.mkdir(parents=True)
    checkpoint = patient.examine()["checkpoint"]
    assert (checkpoint.verdict, "some other query" in checkpoint.told) == (WRONG, True)

    def no_session(*_: object, **__: object) -> SparkSession:
        raise PySparkException("no session\n\tat java")

    monkeypatch.setattr(doctor, "create_session", no_session)
    assert patient.verdicts() == {WRONG: ["spark"], UNKNOWN: ["checkpoint"]}
