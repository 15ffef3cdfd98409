"""The container agrees with the code and with the locks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from prometheus_client import CollectorRegistry

from group_coordinator.deploy.images import image
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.endpoint import serve
from group_coordinator.jobs.health import Activity, Health
from group_coordinator.streaming.query import QUERY_NAME
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.deploy.deployed import DEPLOY, DOCKERFILE, image_environment, instructions, settings_of
from tests.rooms import AT_THE_TOP, ROOT

COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
METRICS_PORT = CoordinatorSettings(bootstrap_servers="k", checkpoint="c").metrics_port


def test_the_image_is_made_from_all_rooms_and_the_lock() -> None:
    sources = {word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]}
    ignored = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text().splitlines()

    assert sources == {"requirements.lock", "."}
    assert not {*AT_THE_TOP, "src", "setup.py", "README.md"} & set(ignored)
    assert {".*", "tests", "docs"} <= set(ignored)


def test_it_does_not_run_as_root() -> None:
    assert instructions("USER") == ["185", "185"]
    # As many stages as inherit it: whatever is done as root comes before.
    assert [line.split()[-1] for line in instructions("FROM")] == [
        "wheels",
        "build",
        "s3a",
        "light-build",
        "light",
        "coordinator",
        "spark",
        "kubernetes",
    ]
    assert re.findall("^FROM coordinator AS kubernetes$", DOCKERFILE, re.MULTILINE)


def test_its_versions_are_those_of_the_project() -> None:
    (requirement,) = (
        each
        for each in PYPROJECT["project"]["optional-dependencies"]["spark"]
        if each.startswith("pyspark==")
    )
    images = dict(line.split("=", 1) for line in instructions("ARG") if "=" in line)

    assert images["SPARK_IMAGE"].startswith(
        f"docker.io/apache/spark:{requirement.removeprefix('pyspark==')}-"
    )
    python = re.fullmatch(r"docker\.io/library/python:(\d+\.\d+)-slim-\w+", images["PYTHON_IMAGE"])
    assert python is not None
    assert PYPROJECT["project"]["requires-python"] == f">={python[1]}"
    # Another image may have another Python.
    assert not re.search(r"python3\.", DOCKERFILE.partition("\nFROM ")[2])
    assert "openjdk-17-jre-headless" in DOCKERFILE


def test_its_ports_and_its_environment_are_settings() -> None:
    assert instructions("EXPOSE") == [str(METRICS_PORT)] * 2
    kafka = ("--bootstrap-server", "kafka:9092")
    assert settings_of(["gateway", *kafka], {}).gateway_metrics_port == METRICS_PORT
    # A checkpoint among them would win over that of a file.
    assert set(image_environment()) == {
        "GROUP_COORDINATOR_CACHE",
        "GROUP_COORDINATOR_GATEWAY_METRICS_PORT",
        "GROUP_COORDINATOR_HISTORY_METRICS_PORT",
        "GROUP_COORDINATOR_LAG_METRICS_PORT",
        "GROUP_COORDINATOR_OBSERVE_METRICS_PORT",
    }
    # The image's health check and its port are those of any of them.
    history = settings_of(["write-history", *kafka, "--history-path", "s3a://bucket/history"], {})
    assert history.history_metrics_port == METRICS_PORT
    observer = settings_of(["observe", *kafka, "--checkpoint", "s3a://bucket/observe"], {})
    assert observer.observe_metrics_port == METRICS_PORT
    assert instructions("VOLUME") == ["/var/lib/coordinator"]


def health_checks() -> dict[str, tuple[str, list[str]]]:
    """What is asked, and the command that asks."""
    light, line = (line for line in instructions("HEALTHCHECK") if "CMD" in line)
    assert light.partition("CMD ")[2] == line.partition("CMD ")[2]
    word, *inline = COMPOSE["services"]["coordinator"]["healthcheck"]["test"]
    assert word == "CMD"
    return {
        "container": ("/healthz", json.loads(line.partition("CMD ")[2])),
        "compose": ("/readyz", inline),
    }


@pytest.mark.parametrize(
    ("where", "activity", "silent_s", "code"),
    [
        ("container", Activity.STARTING, 0, 0),
        ("container", Activity.STARTING, 1_000, 1),
        ("compose", Activity.STARTING, 0, 1),
        ("compose", Activity.STANDING_BY, 0, 0),
    ],
)
def test_containers_are_asked_how_they_are(
    where: str, activity: Activity, silent_s: float, code: int
) -> None:
    path, (python, *arguments) = health_checks()[where]
    assert python == "python"
    assert f":{METRICS_PORT}{path}" in arguments[-1]
    health = Health(BatchWatch(QUERY_NAME), stall_ms=9_000)
    health.does(activity)
    health._said_at -= silent_s
    port, close = serve("", 0, CollectorRegistry(), health)
    arguments[-1] = arguments[-1].replace(str(METRICS_PORT), str(port))
    try:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    finally:
        close()

    assert done.returncode == code


def test_the_image_has_all_extras_that_its_commands_need() -> None:
    extras, light = re.findall(r"'group-coordinator\[(.*)\]'", DOCKERFILE)

    # These are for users to choose: the first is LGPL, and the others are for some brokers only.
    chosen = {"fast", "kerberos", "msk"}
    assert set(extras.split(",")) == set(PYPROJECT["project"]["optional-dependencies"]) - chosen
    # What needs Spark or Arrow is in the other one.
    assert set(light.split(",")) == set(extras.split(",")) - {"delta", "history", "spark"}


def test_the_guides_image_with_more_logins_has_the_other_extras() -> None:
    guide = (ROOT / "docs" / "run.md").read_text()
    (derived,) = re.findall(r"```dockerfile\n(.*?)```", guide, re.DOTALL)

    assert re.findall(r"^FROM (\S+)", derived, re.MULTILINE) == [image("coordinator")]
    assert re.findall(r"^USER (\S+)", derived, re.MULTILINE) == ["root", instructions("USER")[-1]]
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert re.findall(r"pip install '([^']+)'", derived) == extras["kerberos"] + extras["msk"]
    # As docs/security.md has the class path.
    path = "/opt/msk/"
    assert path in re.findall(r"^COPY \S+\.jar (\S+)", derived, re.MULTILINE)
    assert f'extraClassPath = "{path}*"' in (ROOT / "docs" / "security.md").read_text()
