"""The light image's environment has what gateway, lag, page and `groups` need, and no more."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from group_coordinator.deploy.broker import _free_port
from tests.commands.job import Job, Process
from tests.deploy.deployed import instructions
from tests.gateway.clients import kafka_python, polling
from tests.gateway.ports import ports_in_a_row
from tests.patience import PATIENCE_S, wait_for
from tests.rooms import ROOT
from tests.streaming.registry import create_topic

MOST_BYTES = 60_000_000
"""Without pip there were 26 MB. The image's base, Debian with Python, takes 130."""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment that was made as the image's is."""
    (requirement,) = re.findall(
        r"/opt/light/bin/python install .*? 'group-coordinator(\S+)'", " ".join(instructions("RUN"))
    )
    interpreter = tmp_path / "light" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "light"], check=True)
    install = ["--python", interpreter, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *install, f"{ROOT}{requirement}"], check=True)
    return interpreter


@pytest.fixture
def job(bootstrap_servers: str, tmp_path: Path) -> Iterator[Job]:
    job = Job(bootstrap_servers, tmp_path, "light")
    try:
        job.wait_for("the coordinator is running")
        yield job
    finally:
        job.kill()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


@pytest.mark.spark
@pytest.mark.verify
def test_its_commands_work_without_spark(
    python: Path, job: Job, bootstrap_servers: str, tmp_path: Path
) -> None:
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    assert not {"pyspark", "pandas", "pyarrow", "deltalake"} & {it.name for it in packages.iterdir()}
    assert sum(it.stat().st_size for it in packages.rglob("*") if it.is_file()) <= MOST_BYTES

    topics = [word for name, topic in job.topics.items() for word in ("--set", f"topics.{name}={topic}")]
    where = ("--bootstrap-server", bootstrap_servers, *topics)
    topic, port, page_port = create_topic(bootstrap_servers, 1), ports_in_a_row(2), _free_port()
    program = (str(python), "-m", "group_coordinator")
    with ExitStack() as stack:

        def start(name: str, *options: str) -> Process:
            process = Process(tmp_path, name, *where, *options, program=program)
            stack.callback(process.kill)
            return process

        listen = ("--listen", f"127.0.0.1:{port}", "--advertised-host", "127.0.0.1", "--metrics-port", "0")
        gateway = start("gateway", *listen)
        gateway.wait_until(lambda: gateway.probe("readyz")[0] == 200)
        with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
            producer.send(topic, b"order").get()
        with closing(kafka_python(f"127.0.0.1:{port}", [topic], "clients")) as consumer:
            polling(consumer)(lambda: sum(consumer.position(it) for it in consumer.assignment()) == 1)
            consumer.commit()

        page = start("ui", "--port", str(page_port))
        page.wait_for("the page is at ")
        wait_for(lambda: "clients" in get(f"http://127.0.0.1:{page_port}/?part"), said=lambda: page.said)
        lag = start(
            "measure-lag",
            "--groups",
            "*",
            "--metrics-port",
            "0",
            "--set",
            "topics.lag=light.lag",
            "--create-topics",
        )
        lag.wait_until(lambda: any({"clients", topic} <= set(it) for it in lag.metrics()))
        for process in (gateway, page, lag):
            process.terminate()
            assert process.exit_code() == 0, process.said
