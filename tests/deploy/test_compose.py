"""The compose file agrees with the image and the locks, and each service's command reads what it is given."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from group_coordinator.deploy.images import image
from group_coordinator.deploy.jars import read_lock
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.deploy.deployed import DEPLOY, instructions, settings_of

FOLDER = DEPLOY / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: it for name, it in SERVICES.items() if "build" in it}
METRICS_PORT = CoordinatorSettings(bootstrap_servers="k", checkpoint="c").metrics_port
VOLUME = "/var/lib/coordinator"


def settings(name: str) -> Any:
    """Those that a service of ours runs with."""
    service = OURS[name]
    # The image's own command, if it has none.
    assert '["run"]' in instructions("CMD")
    return settings_of(
        service.get("command", ["run"]), {k: str(it) for k, it in service["environment"].items()}
    )


def published(name: str) -> list[str]:
    """Ports of this machine that are those of the container, of this machine alone."""
    return [str(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)[1]) for port in SERVICES[name]["ports"]]  # type: ignore[index]


def test_its_images_and_files_are_there() -> None:
    (kafka,) = (jar.version for jar in read_lock("broker") if jar.artifact == "kafka_2.13")
    # A podman without settings knows no registry.
    others = {each["image"] for each in SERVICES.values()} - {image("coordinator")}
    assert all(each.startswith("docker.io/") for each in others)
    assert SERVICES["kafka"]["image"] == f"docker.io/apache/kafka:{kafka}"
    assert set(OURS) == {"coordinator", "history", "observe", "gateway", "lag", "page"}
    for service in OURS.values():
        assert service["image"] == image("coordinator")
        assert service["build"]["target"] == "coordinator"
        assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    mounted = [
        volume.split(":")[0]
        for it in SERVICES.values()
        for volume in it.get("volumes", ())
        if volume[0] == "."
    ]
    assert len(mounted) == 6
    assert [path for path in mounted if not (FOLDER / path).is_file()] == []


def test_prometheus_asks_all_that_have_metrics() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    targets = [
        target for job in prometheus["scrape_configs"] for target in job["static_configs"][0]["targets"]
    ]

    assert targets == [f"{name}:{METRICS_PORT}" for name in OURS if name != "page"]


@pytest.mark.parametrize("name", OURS)
def test_a_service_has_no_more_rights_than_it_needs(name: str) -> None:
    service = OURS[name]

    assert service["read_only"]
    # Spark loads libraries from there, which a tmpfs refuses by itself.
    assert service["tmpfs"] == ["/tmp:exec"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges"]


@pytest.mark.parametrize("name", OURS)
def test_a_services_command_reads_its_settings_and_knows_the_broker(name: str) -> None:
    kafka = SERVICES["kafka"]["environment"]

    assert f"INTERNAL://{settings(name).bootstrap_servers}," in kafka["KAFKA_ADVERTISED_LISTENERS"]


def test_what_is_kept_is_on_volumes_and_the_page_reads_the_history() -> None:
    assert settings("coordinator").checkpoint.startswith(f"{VOLUME}/")
    assert settings("coordinator").create_topics
    assert settings("page").history_path == settings("history").history_path
    assert settings("history").history_path.startswith(f"{VOLUME}/")
    assert OURS["coordinator"]["volumes"] == [f"checkpoint:{VOLUME}"]
    assert OURS["history"]["volumes"] == [f"history:{VOLUME}"]
    assert OURS["page"]["volumes"] == [f"history:{VOLUME}:ro"]
    assert OURS["observe"]["volumes"] == [f"observe:{VOLUME}"]
    assert settings("observe").observe_checkpoint.startswith(f"{VOLUME}/")
    assert {"checkpoint", "history", "observe"} < set(COMPOSE["volumes"])


def test_ports_of_gateway_and_page_are_those_of_their_settings() -> None:
    gateway, page = settings("gateway"), settings("page")
    assert isinstance(gateway, GatewaySettings)
    node = SERVICES["kafka"]["environment"]["KAFKA_NODE_ID"]

    assert published("gateway") == [str(gateway.listen.port), str(gateway.node_port(node))]
    assert gateway.gateway_advertised_host == "localhost"
    assert published("page") == [str(page.ui_port)]
    assert page.ui_host == "0.0.0.0"
    assert f":{page.ui_port}/" in OURS["page"]["healthcheck"]["test"][-1]
    assert gateway.gateway_metrics_port == settings("history").history_metrics_port == METRICS_PORT
    assert settings("lag").lag_metrics_port == METRICS_PORT


def test_prometheus_gives_alerts_to_an_alertmanager_that_is_there() -> None:
    files = DEPLOY / "prometheus"
    (alertmanager,) = yaml.safe_load((files / "prometheus.yml").read_text())["alerting"]["alertmanagers"]
    assert alertmanager["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    (mounted,) = SERVICES["alertmanager"]["volumes"]
    file, _, there = mounted.removesuffix(":ro").partition(":")
    assert there == "/etc/alertmanager/alertmanager.yml"
    found = yaml.safe_load((FOLDER / file).read_text())
    assert found["route"]["receiver"] in {each["name"] for each in found["receivers"]}
