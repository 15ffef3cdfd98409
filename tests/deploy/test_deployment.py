"""The container, the compose file and the manifests agree with the code and with the locks."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from group_coordinator.deploy.jars import read_lock
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.endpoint import serve
from group_coordinator.jobs.health import Activity, Health
from group_coordinator.jobs.settings import Settings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.query import QUERY_NAME

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "container" / "Dockerfile").read_text()
COMPOSE = (DEPLOY / "compose" / "compose.yaml").read_text()
MANIFESTS = {path.name: path.read_text() for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
METRICS_PORT = Settings(bootstrap_servers="k", checkpoint="c").metrics_port


def instructions(name: str) -> list[str]:
    """What follows `name` in the Dockerfile, with continued lines put together."""
    lines = re.sub(r"\\\n(\s*#.*\n)*", " ", DOCKERFILE).splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(f"{name} ")]


# -- the container ---------------------------------------------------------------------------------------


def test_the_image_is_made_from_all_rooms_and_the_lock() -> None:
    sources = {word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]}
    ignored = (DEPLOY / "container" / "Dockerfile.dockerignore").read_text().splitlines()

    assert sources == {"requirements.lock", "."}
    assert not {*PYPROJECT["tool"]["rooms"]["names"], "src", "setup.py", "README.md"} & set(ignored)
    assert {".*", "tests", "docs"} <= set(ignored)


def test_it_does_not_run_as_root() -> None:
    assert instructions("USER") == ["185"]
    # As many stages as inherit it: whatever is done as root comes before.
    assert [line.split()[-1] for line in instructions("FROM")] == [
        "build",
        "s3a",
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

    assert images["SPARK_IMAGE"].startswith(f"apache/spark:{requirement.removeprefix('pyspark==')}-")
    python = re.fullmatch(r"python:(\d+\.\d+)-slim-\w+", images["PYTHON_IMAGE"])
    assert python is not None
    assert PYPROJECT["project"]["requires-python"] == f">={python[1]}"
    # Another image may have another Python.
    assert not re.search(r"python3\.", DOCKERFILE.partition("\nFROM ")[2])
    assert "openjdk-17-jre-headless" in DOCKERFILE


def test_its_ports_and_its_environment_are_settings() -> None:
    assert instructions("EXPOSE") == [str(METRICS_PORT)]
    words = (word.split("=", 1) for line in instructions("ENV") for word in shlex.split(line))
    variables = {name: value for name, value in words if name.startswith("GROUP_COORDINATOR_")}

    settings = PageSettings.load(
        None, variables, {"bootstrap.servers": "kafka:9092"}, others=(GatewaySettings,)
    )
    gateway = GatewaySettings.load(None, variables, {}, needed=(), others=(PageSettings,))
    assert gateway.gateway_metrics_port == METRICS_PORT
    assert settings.checkpoint == "/var/lib/coordinator/checkpoint"
    # The image's health check and its port are those of any of them.
    assert settings.history_metrics_port == METRICS_PORT
    assert instructions("VOLUME") == ["/var/lib/coordinator"]


def health_checks() -> dict[str, tuple[str, list[str]]]:
    """What is asked, and the command that asks."""
    (line,) = (line for line in instructions("HEALTHCHECK") if "CMD" in line)
    (inline,) = re.findall(r'test: \["CMD", (.*)\]', COMPOSE)
    return {
        "container": ("/healthz", json.loads(line.partition("CMD ")[2])),
        "compose": ("/readyz", json.loads(f"[{inline}]")),
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
    port, close = serve(0, CollectorRegistry(), health)
    arguments[-1] = arguments[-1].replace(str(METRICS_PORT), str(port))
    try:
        done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    finally:
        close()

    assert done.returncode == code


# -- compose ---------------------------------------------------------------------------------------------


def test_the_compose_file_agrees_with_the_image_and_the_lock() -> None:
    (kafka,) = (jar.version for jar in read_lock("broker") if jar.artifact == "kafka_2.13")
    assert re.findall("image: apache/kafka:(.*)", COMPOSE) == [kafka]
    folder = DEPLOY / "compose"
    assert (folder / "../.." / "deploy/container/Dockerfile").is_file()
    assert "dockerfile: deploy/container/Dockerfile\n" in COMPOSE
    assert re.findall("target: (.*)", COMPOSE) == ["coordinator"]
    mounted = re.findall(r"- (\..*?):/", COMPOSE)
    assert len(mounted) == 5
    assert [path for path in mounted if not (folder / path).is_file()] == []
    targets = re.findall(
        r'targets: \["(\w+):(\d+)"\]', (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    )
    assert targets == [(name, str(METRICS_PORT)) for name in ("coordinator", "history", "gateway")]
    services = re.findall(r"^  (\w+):\n    (?:build|image):", COMPOSE, re.MULTILINE)
    assert {service for service, _ in targets} < set(services)


def test_the_compose_files_environment_is_settings() -> None:
    variables = dict(re.findall(r'(GROUP_COORDINATOR_\w+): "?([^"\n]*)', COMPOSE))

    settings = PageSettings.load(None, variables, {"checkpoint": "c"}, others=(GatewaySettings,))
    gateway = GatewaySettings.load(None, variables, {}, others=(PageSettings,), needed=())
    published = re.findall(
        r'"127\.0\.0\.1:(\d+):\1"', COMPOSE.partition("\n  gateway:\n")[2].partition("\n  prom")[0]
    )
    assert published == [str(gateway.listen.port), str(gateway.node_port(1))]
    assert "KAFKA_NODE_ID: 1\n" in COMPOSE
    assert gateway.gateway_advertised_host == "localhost"
    assert (settings.bootstrap_servers, settings.create_topics) == ("kafka:29092", True)
    assert f"INTERNAL://{settings.bootstrap_servers}," in COMPOSE
    # On the volume, which is where the image's user may write.
    assert settings.history_path.startswith("/var/lib/coordinator/")
    assert "      - history:/var/lib/coordinator\n" in COMPOSE


# -- Kubernetes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifests_settings_are_settings(name: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"coordinator\.toml: \|\n((?:    .*\n)+)", MANIFESTS[name])
    file = tmp_path / "coordinator.toml"
    file.write_text(textwrap.dedent(block))
    variables = dict.fromkeys(re.findall(r"GROUP_COORDINATOR_[A-Z_]+[A-Z]", MANIFESTS[name]), "secret")

    if name == "history.yaml":
        settings = PageSettings.load(file, variables, {}, needed=("bootstrap.servers", "history.path"))
        # It has no use for it, so it is not told.
        assert settings.member_id_secret == ""
    elif name == "gateway.yaml":
        gateway = GatewaySettings.load(
            file, variables, {}, needed=("bootstrap.servers",), others=(PageSettings,)
        )
        assert f"\n  name: {gateway.gateway_advertised_host}\n" in MANIFESTS[name]
        service = MANIFESTS[name].partition("kind: Service")[2].partition("---")[0]
        of_nodes = [
            (f"node-{node}", str(gateway.node_port(node))) for node in range(gateway.gateway_node_ports)
        ]
        assert re.findall(r"- name: (\S+)\n +port: (\d+)", service) == [
            ("bootstrap", str(gateway.listen.port)),
            *of_nodes,
        ]
        assert f"- port: {gateway.listen.port}\n          endPort: {of_nodes[-1][1]}\n" in MANIFESTS[name]
        (broker,) = re.findall(r'bootstrap.servers = "kafka:(\d+)"', block)
        assert f"egress:\n    - ports:\n        - port: {broker}\n" in MANIFESTS[name]
    else:
        assert PageSettings.load(file, variables, {}).member_id_secret == "secret"


def test_the_gateways_other_settings_are_settings_and_its_files_are_those_of_the_secret(
    tmp_path: Path,
) -> None:
    text = MANIFESTS["gateway.yaml"]
    (block,) = re.findall(r"coordinator\.toml: \|\n((?:    .*\n)+)", text)
    file = tmp_path / "coordinator.toml"
    file.write_text(textwrap.dedent(re.sub("^    #(?=gateway)", "    ", block, flags=re.MULTILINE)))
    (host,) = re.findall(r"# With TLS .*Write (\S+) for the advertised host", block)

    gateway = GatewaySettings.load(
        file, {}, {"gateway.advertised.host": host}, needed=(), others=(PageSettings,)
    )
    assert gateway.names is not None
    assert gateway.names.of(2) == f"broker-2.{host}"
    assert gateway.told_port(gateway.listen.port) == 443
    (mounted,) = re.findall(r"- name: tls\n +mountPath: (\S+)", text)
    # As kubectl names the files of such a secret.
    assert gateway.gateway_tls_certificate == f"{mounted}/tls.crt"
    assert gateway.gateway_tls_key == f"{mounted}/tls.key"
    (secret,) = re.findall(r"create secret tls (\S+)", text)
    assert f"secretName: {secret}\n" in text


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifests_probes_ask_what_they_should(name: str) -> None:
    text = re.sub(r"\n +#.*", "", MANIFESTS[name])
    probes = dict(re.findall(r"(\w+)Probe:\n +httpGet:(?: &healthz)?(?: (\*healthz)|\n +path: \S+)", text))
    paths = dict(re.findall(r"(\w+)Probe:\n +httpGet:(?: &healthz)?\n +path: (\S+)", text))

    assert probes == {"startup": "", "liveness": "*healthz", "readiness": ""}
    assert paths == {"startup": "/healthz", "readiness": "/readyz"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifests_pods_are_not_root_and_have_no_variables_of_services(name: str) -> None:
    text = MANIFESTS[name]
    pods = len(re.findall("containers:", text))

    assert text.count("enableServiceLinks: false") == pods
    assert text.count("runAsNonRoot: true") == pods
    assert text.count("runAsUser: 185") == pods


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifests_versions_and_ports_are_those_of_the_project(name: str) -> None:
    text = MANIFESTS[name]

    assert re.findall(r"image: [\w-]+:(.*)", text) == [PYPROJECT["project"]["version"]]
    assert set(re.findall("sparkVersion: (.*)", text)) <= {version("pyspark")}
    served = text.partition("\n  egress:")[0]
    ports = re.findall(r'(?:containerPort|(?<!container)port|io/port): "?(\d+)', served)
    # Those for clients are held to the settings above.
    assert {port for port in ports if not port.startswith("190")} == {str(METRICS_PORT)}


def test_what_the_spark_application_names_is_in_the_image() -> None:
    text = MANIFESTS["spark-application.yaml"]

    assert "mainApplicationFile: local:///opt/coordinator/main.py" in text
    assert 'cp "$packages/group_coordinator/__main__.py" main.py' in DOCKERFILE
    assert text.count(": /opt/coordinator/jars/*:/opt/hadoop-cloud/*\n") == 2
    assert 'ln -s "$PWD"/cache/jars/*.jar jars/' in DOCKERFILE
    assert "COPY --from=s3a /opt/s3a/jars /opt/hadoop-cloud\n" in DOCKERFILE
    assert {jar.artifact for jar in read_lock("s3a")} > {"hadoop-aws", "spark-hadoop-cloud_2.13"}


def test_the_image_has_all_extras_that_its_commands_need() -> None:
    (extras,) = re.findall(r"'group-coordinator\[(.*)\]'", DOCKERFILE)

    # `fast` is for users to choose.
    assert set(extras.split(",")) == set(PYPROJECT["project"]["optional-dependencies"]) - {"fast"}
