"""The manifests agree with the code, the image and each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

import pytest
import yaml
from msgspec.structs import fields

from group_coordinator.deploy.images import image
from group_coordinator.deploy.jars import read_lock
from group_coordinator.gateway.settings import GatewaySettings
from group_coordinator.history.settings import HistorySettings
from group_coordinator.jobs.session import _LOCAL_DEFAULTS
from group_coordinator.lag.settings import LagSettings
from group_coordinator.observe.settings import ObserveSettings
from group_coordinator.page.settings import PageSettings
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.deploy.deployed import DEPLOY, DOCKERFILE, instructions, settings_of

FOLDER = DEPLOY / "kubernetes"
BASE = FOLDER / "base"
APPLICATION = FOLDER / "spark-application.yaml"
SETTINGS = BASE / "coordinator.toml"
MOUNTED = "/etc/coordinator/coordinator.toml"
SECRETS = "/etc/coordinator-secrets"
NAME = "app.kubernetes.io/name"
METRICS_PORT = 9464
GUIDES = Path(__file__).parents[2] / "docs"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return documents_of(path.read_text())


def documents_of(text: str) -> list[Document]:
    return [document for document in yaml.safe_load_all(text) if document]


KUSTOMIZATION, SINGLE = (documents(FOLDER / it / "kustomization.yaml")[0] for it in ("base", "single"))
MANIFESTS = {
    path.stem: documents(path) for path in sorted(BASE.glob("*.yaml")) if path.stem != "kustomization"
}
OF_BASE = frozenset(MANIFESTS)
OBSERVE = FOLDER / "observe"
MANIFESTS["observe"] = documents(OBSERVE / "observe.yaml")


(APPLICATION_SPEC,) = (it["spec"] for it in documents(APPLICATION) if it["kind"] == "SparkApplication")


def of_kind(kind: str, name: str) -> Document:
    """The document of this kind in a manifest; of the workload `spec` has pods and how many."""
    kinds = ("StatefulSet", "Deployment") if kind == "workload" else (kind,)
    (found,) = (document for document in MANIFESTS[name] if document["kind"] in kinds)
    return found


def pod(name: str) -> Document:
    spec: Document = of_kind("workload", name)["spec"]["template"]["spec"]
    return spec


def container(name: str) -> Document:
    found: Document
    (found,) = pod(name)["containers"]
    return found


def settings(name: str) -> Any:
    """Those that the pod's command ends up with, of the one file and of what Secrets hold."""
    variables = {each["name"]: each["value"] for each in container(name).get("env", ())}
    file = OBSERVE / "observe.toml" if name == "observe" else SETTINGS
    mounted = str(Path(MOUNTED).with_name(file.name))
    words = [str(file) if word == mounted else word for word in container(name)["args"]]
    with mounted_secrets(variables) as there:
        return settings_of(words, there)


@contextmanager
def mounted_secrets(variables: dict[str, str]) -> Iterator[dict[str, str]]:
    """The variables, with the files of Secrets that they name in a folder of this machine."""
    with TemporaryDirectory() as folder:
        there = {}
        for variable, value in variables.items():
            file = Path(folder, Path(value).name)
            if variable.endswith("_FILE"):
                assert str(Path(value).parent) == SECRETS
                file.write_text("secret\n")
            there[variable] = str(file) if variable.endswith("_FILE") else value
        yield there


# -- kustomize -------------------------------------------------------------------------------------------


def test_the_base_has_all_manifests_the_settings_and_the_projects_version() -> None:
    assert KUSTOMIZATION["resources"] == [
        *("coordinator.yaml", "history.yaml", "gateway.yaml", "lag.yaml", "page.yaml")
    ]
    assert {Path(name).stem for name in KUSTOMIZATION["resources"]} == OF_BASE
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert [str(BASE / name) for name in generated["files"]] == [str(SETTINGS)]
    named = [f"{each['name']}:{each['newTag']}" for each in KUSTOMIZATION["images"]]
    assert named == [image("coordinator"), image("light")]
    for name in OF_BASE:
        assert {"name": "config", "configMap": {"name": generated["name"]}} in pod(name)["volumes"]
        assert {"name": "config", "mountPath": str(Path(MOUNTED).parent)} in container(name)["volumeMounts"]


def test_the_observer_is_on_its_own() -> None:
    (alone,) = documents(OBSERVE / "kustomization.yaml")
    assert alone["resources"] == ["observe.yaml"]
    (generated,) = alone["configMapGenerator"]
    assert generated["files"] == ["observe.toml"]
    assert {"name": "config", "configMap": {"name": generated["name"]}} in pod("observe")["volumes"]
    assert [f"{each['name']}:{each['newTag']}" for each in alone["images"]] == [image("coordinator")]
    loaded = settings("observe")
    (mount,) = (it for it in container("observe")["volumeMounts"] if it["name"] == "observe")
    assert loaded.observe_checkpoint.startswith(f"{mount['mountPath']}/")
    assert loaded.observe_metrics_port == METRICS_PORT


def test_the_single_one_changes_what_is_there() -> None:
    assert [(FOLDER / "single" / it).resolve() for it in SINGLE["resources"]] == [BASE]
    there = {(it["kind"], it["metadata"]["name"]) for name in MANIFESTS for it in MANIFESTS[name]}
    named = {
        (it["target"]["kind"], it["target"]["name"]) for it in SINGLE["patches"] if "name" in it["target"]
    }

    assert len(named) == len(SINGLE["patches"]) - 1
    assert named <= there
    (affinity,) = re.findall(rf"{NAME}: (\S+)", str(SINGLE["patches"][-1]["patch"]))
    assert affinity == of_kind("workload", "history")["metadata"]["name"]


# -- each pod --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_pod_has_no_more_rights_than_it_needs(name: str) -> None:
    assert pod(name)["enableServiceLinks"] is False
    assert pod(name)["automountServiceAccountToken"] is False
    assert (pod(name)["securityContext"]["runAsNonRoot"], pod(name)["securityContext"]["runAsUser"]) == (
        True,
        185,
    )
    assert container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container(name)["image"] == image("light" if name in {"gateway", "lag"} else "coordinator")


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_pods_memory_is_bounded_and_asked_for(name: str) -> None:
    resources = container(name)["resources"]

    assert resources["limits"] == {"memory": resources["requests"]["memory"]}
    assert "cpu" in resources["requests"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_all_volumes_of_a_pod_are_there_and_mounted(name: str) -> None:
    volumes = {volume["name"]: volume for volume in pod(name)["volumes"]}
    claims = {
        it["metadata"]["name"] for each in MANIFESTS.values() for it in each if it["kind"].endswith("Claim")
    }

    assert set(volumes) == {mount["name"] for mount in container(name)["volumeMounts"]}
    assert {
        it["persistentVolumeClaim"]["claimName"] for it in volumes.values() if "persistentVolumeClaim" in it
    } <= claims
    # Spark writes there, and the others write nothing.
    assert ("tmp" in volumes) == (name in ("coordinator", "history", "observe"))


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_pods_labels_are_those_that_select_it(name: str) -> None:
    workload = of_kind("workload", name)["spec"]
    labels = {NAME: f"group-coordinator-{name}".removesuffix("-coordinator")}
    selectors = [
        workload["template"]["metadata"]["labels"],
        workload["selector"]["matchLabels"],
        of_kind("NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
        of_kind("Service", name)["spec"]["selector"],
    ]

    assert selectors == [labels] * len(selectors)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_policy_lets_through_what_a_pod_serves_and_the_broker(name: str) -> None:
    policy = of_kind("NetworkPolicy", name)["spec"]
    served = {port["containerPort"] for port in container(name)["ports"]}
    (broker,) = {int(it.split(":")[1]) for it in settings(name).bootstrap_servers.split(",")}

    assert served <= {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert {"port": broker} in policy["egress"][0]["ports"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_what_a_policy_has_commented_out_are_rules(name: str) -> None:
    text = ((OBSERVE if name == "observe" else BASE) / f"{name}.yaml").read_text()
    (head, rules) = re.findall(
        r"^    # What else you may need: (.*\.)\n((?:    #.*\n)+)", text, re.MULTILINE
    )[0]
    let_out = documents_of(text.replace(rules, rules.replace("#", "")))[-1]["spec"]["egress"]
    with_comments = documents_of(text)[-1]["spec"]["egress"]

    more = [rule for rule in let_out if rule not in with_comments]
    expected = [{443}, {88}, {8020, 9866}][: 2 if name in {"gateway", "lag"} else 3]
    assert [{port["port"] for port in rule["ports"]} for rule in more] == expected
    assert ("HDFS" in head) == (name not in {"gateway", "lag"})


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_pods_probes_ask_what_they_should(name: str) -> None:
    probes = {it: container(name)[f"{it}Probe"]["httpGet"] for it in ("startup", "liveness", "readiness")}
    if name == "page":
        assert list(probes.values()) == [{"path": "/static/page.css", "port": "page"}] * 3
    else:
        paths = {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
        assert probes == {it: {"path": path, "port": "metrics"} for it, path in paths.items()}
        assert {"name": "metrics", "containerPort": METRICS_PORT} in container(name)["ports"]
        annotations = of_kind("workload", name)["spec"]["template"]["metadata"]["annotations"]
        assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS_PORT)}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_drain_moves_a_pod(name: str) -> None:
    """A budget that no pod may leave would block it until somebody deletes the pod."""
    budgets = [it["spec"] for it in MANIFESTS[name] if it["kind"] == "PodDisruptionBudget"]

    assert len(budgets) == (of_kind("workload", name)["spec"]["replicas"] > 1)
    for budget in budgets:
        assert budget["maxUnavailable"] == 1
        assert budget["selector"]["matchLabels"] == of_kind("Service", name)["spec"]["selector"]


# -- what is special of each -----------------------------------------------------------------------------


def test_two_coordinators_share_a_checkpoint_and_one_stands_by() -> None:
    loaded = settings("coordinator")

    assert of_kind("workload", "coordinator")["spec"]["replicas"] == 2
    assert loaded.standby
    # The guide's advice for what one core holds.
    assert loaded.state_partitions == 1
    assert loaded.member_id_secret == "secret"
    (mount,) = (it["mountPath"] for it in container("coordinator")["volumeMounts"] if it["name"] == "secrets")
    assert mount == SECRETS
    assert of_kind("PersistentVolumeClaim", "coordinator")["spec"]["accessModes"] == ["ReadWriteMany"]
    (mount,) = (
        it["mountPath"] for it in container("coordinator")["volumeMounts"] if it["name"] == "checkpoint"
    )
    assert loaded.checkpoint.startswith(f"{mount}/")
    assert loaded.metrics_port == METRICS_PORT


@pytest.mark.parametrize("name", ["coordinator", "history", "observe"])
def test_a_killed_python_worker_ends_no_query(name: str) -> None:
    """A task has one try on `local[2]`. The default, `local[2,4]`, gives it four."""
    master = settings(name).spark.get("spark.master", _LOCAL_DEFAULTS["spark.master"])

    (cores, tries) = re.findall(r"^local\[(\d+),(\d+)\]$", master)[0]
    assert int(cores) == 2
    assert int(tries) > 1


def test_a_standby_reaches_the_port_of_the_other_one_which_no_other_command_has() -> None:
    port = settings("coordinator").alive_port
    policy = of_kind("NetworkPolicy", "coordinator")["spec"]

    assert {"name": "alive", "containerPort": port} in container("coordinator")["ports"]
    for direction in ("ingress", "egress"):
        assert policy[direction][-1]["ports"] == [{"port": port}]
    # Else they clash on one host. 9465 is that of the page in all examples.
    files = (HistorySettings, GatewaySettings, LagSettings, CoordinatorSettings, ObserveSettings)
    taken = {9465} | {
        field.default for each in files for field in fields(each) if field.name.endswith("metrics_port")
    }
    assert len(taken) == 6
    assert port not in taken


def test_an_update_gives_a_new_standby_the_time_to_become_warm() -> None:
    """It is ready before, because whoever stands by is."""
    workload = of_kind("workload", "coordinator")

    assert workload["kind"] == "StatefulSet"
    assert workload["spec"].get("updateStrategy", {}).get("type", "RollingUpdate") == "RollingUpdate"
    assert workload["spec"].get("minReadySeconds", 0) >= 60


def test_the_page_reads_what_the_history_writes() -> None:
    mounts = [
        next(it for it in container(name)["volumeMounts"] if it["name"] == "history")
        for name in ("history", "page")
    ]

    assert [it["mountPath"] for it in mounts] == ["/var/lib/coordinator"] * 2
    assert [it.get("readOnly", False) for it in mounts] == [False, True]
    assert settings("history").history_path.startswith(f"{mounts[0]['mountPath']}/")
    assert settings("page").history_path == settings("history").history_path
    # They have no use for it, so they are not told.
    secret = "GROUP_COORDINATOR_MEMBER_ID_SECRET_FILE"
    told = [name for name in MANIFESTS if secret in {it["name"] for it in container(name).get("env", ())}]
    assert told == ["coordinator"]
    assert settings("page").ui_host == "0.0.0.0"
    assert [port["containerPort"] for port in container("page")["ports"]] == [settings("page").ui_port]
    # It asks for no password.
    assert of_kind("NetworkPolicy", "page")["spec"]["ingress"][0]["from"] == [{"podSelector": {}}]
    # The coordinator has one only if its own settings say so.
    others = CoordinatorSettings, GatewaySettings, LagSettings
    assert PageSettings.load(SETTINGS, {}, {}, needed=(), others=others).ui_port == -1


def test_the_lag_of_all_groups_is_measured_and_written() -> None:
    assert settings("lag").lag_groups == "*"
    assert settings("lag").create_topics
    assert settings("lag").lag_metrics_port == METRICS_PORT


OPERATOR = FOLDER / "prometheus-operator"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


def test_the_operators_rules_are_the_alerts() -> None:
    rules = OPERATOR / "rules.yaml"
    if os.environ.get("GOLDEN") == "write":
        head = rules.read_text().partition("spec:\n")
        text = ALERTS.read_text()
        rules.write_text("".join(head[:2]) + indent(text[text.index("groups:") :], "  "))
    (document,) = documents(rules)
    assert document["spec"] == documents(ALERTS)[0]
    assert set(documents(OPERATOR / "kustomization.yaml")[0]["resources"]) == {
        "podmonitor.yaml",
        "rules.yaml",
        "runbooks.yaml",
    }


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("url", ["docs/monitor.md", "https://wiki.example.com/coordinator?page=2"])
def test_the_address_of_the_runbooks_is_set_in_one_place(url: str, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(OPERATOR, tmp_path / "operator"))
    file = copied / "runbooks.yaml"
    (config,) = documents(file)
    file.write_text(yaml.safe_dump(config | {"data": {"url": url}}))
    done = subprocess.run(["kubectl", "kustomize", copied], check=True, capture_output=True, text=True)

    built = {it["kind"]: it for it in yaml.safe_load_all(done.stdout)}
    # The config map is not for the cluster.
    assert built.keys() == {"PodMonitor", "PrometheusRule"}
    rules = [rule for group in built["PrometheusRule"]["spec"]["groups"] for rule in group["rules"]]
    leads_to = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    assert leads_to == {
        name: f"{url}#{name.lower()}" for name in re.findall("- alert: (.*)", ALERTS.read_text())
    }


def test_prometheus_jobs_in_kubernetes_are_those_of_the_alerts() -> None:
    """Else CoordinatorDown would fire for ever."""
    (monitor,) = documents(OPERATOR / "podmonitor.yaml")
    assert monitor["spec"]["jobLabel"] == NAME
    (selected,) = monitor["spec"]["selector"]["matchExpressions"]
    assert selected["key"] == NAME
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (rule,) = endpoint["relabelings"]
    jobs = {
        label: job_of(label, rule["sourceLabels"], rule["regex"], rule["targetLabel"])
        for label in selected["values"]
    }
    assert set(jobs.values()) == set(re.findall(r'job="([^"]+)"', ALERTS.read_text()))
    expected = {"coordinator": "group-coordinator", "application": "group-coordinator"}
    expected |= {name: f"group-coordinator-{name}" for name in ("history", "observe", "gateway", "lag")}
    for name, job in expected.items():
        label, ports = scraped(name)
        assert jobs[label] == job
        assert endpoint["port"] in ports


def test_prometheus_jobs_by_the_guides_rule_are_those_of_the_alerts() -> None:
    guide = (GUIDES / "monitor.md").read_text()
    (block,) = re.findall(r"^( +relabel_configs:\n.*?)^ +```", guide, re.DOTALL | re.MULTILINE)
    (rule,) = yaml.safe_load(block)["relabel_configs"]

    jobs = {
        job_of(scraped(name)[0], rule["source_labels"], rule["regex"], rule["target_label"])
        for name in ("coordinator", "application", "history", "observe", "gateway", "lag")
    }
    others = ("history", "observe", "gateway", "lag")
    assert jobs == {"group-coordinator"} | {f"group-coordinator-{it}" for it in others}


def scraped(name: str) -> tuple[str, set[str]]:
    """The label of a part's pods, and the names of their ports."""
    if name == "application":
        driver = APPLICATION_SPEC["driver"]
        assert driver["annotations"]["prometheus.io/scrape"] == "true"
        return driver["labels"][NAME], {port["name"] for port in driver["ports"]}
    labels = of_kind("workload", name)["spec"]["template"]["metadata"]["labels"]
    return labels[NAME], {port["name"] for port in container(name)["ports"]}


def job_of(label: str, sources: list[str], regex: str, target: str) -> str:
    """What a rule of Prometheus' makes of this label of a pod: its expressions have to match it whole."""
    assert sources == [f"__meta_kubernetes_pod_label_{re.sub('[./]', '_', NAME)}"]
    assert target == "job"
    matched = re.fullmatch(regex, label)
    assert matched is not None
    return matched[1]


def test_no_selector_of_the_base_takes_pods_of_the_spark_application() -> None:
    """Its policy would keep them from the object store and from each other."""
    labels = {APPLICATION_SPEC[part]["labels"][NAME] for part in ("driver", "executor")}

    assert labels.isdisjoint(scraped(name)[0] for name in MANIFESTS)


def test_the_gateways_ports_are_those_of_its_settings() -> None:
    gateway = settings("gateway")
    service = of_kind("Service", "gateway")
    of_nodes = {f"node-{node}": gateway.node_port(node) for node in range(gateway.gateway_node_ports)}

    assert service["metadata"]["name"] == gateway.gateway_advertised_host
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {"bootstrap": gateway.listen.port, **of_nodes}
    clients = of_kind("NetworkPolicy", "gateway")["spec"]["ingress"][0]["ports"]
    assert clients == [{"port": gateway.listen.port, "endPort": max(ports.values())}]


def test_the_gateways_other_settings_are_settings_and_its_files_are_those_of_the_secret(
    tmp_path: Path,
) -> None:
    text = SETTINGS.read_text()
    file = tmp_path / "coordinator.toml"
    file.write_text(re.sub("^#(?=gateway)", "", text, flags=re.MULTILINE))
    (host,) = re.findall(r"# With TLS .*Write (\S+) for the advertised host", text)

    gateway = settings_of(["gateway", "--config", str(file), "--advertised-host", host], {})
    assert gateway.names is not None
    assert gateway.names.of(2) == f"broker-2.{host}"
    assert gateway.told_port(gateway.listen.port) == 443
    (mounted,) = (it["mountPath"] for it in container("gateway")["volumeMounts"] if it["name"] == "tls")
    # As kubectl names the files of such a secret.
    assert gateway.gateway_tls_certificate == f"{mounted}/tls.crt"
    assert gateway.gateway_tls_key == f"{mounted}/tls.key"
    (secret,) = re.findall(r"create secret tls (\S+)", text)
    assert secret in [it["secret"]["secretName"] for it in pod("gateway")["volumes"] if "secret" in it]


# -- on a cluster of Spark's -----------------------------------------------------------------------------


def test_the_spark_applications_settings_are_settings(tmp_path: Path) -> None:
    (configured,) = (it for it in documents(APPLICATION) if it["kind"] == "ConfigMap")
    file = tmp_path / "coordinator.toml"
    file.write_text(configured["data"]["coordinator.toml"])
    assert [it["path"] for it in APPLICATION_SPEC["driver"]["secrets"]] == [SECRETS]
    with mounted_secrets(APPLICATION_SPEC["driver"]["envVars"]) as variables:
        assert CoordinatorSettings.load(file, variables, {}).member_id_secret == "secret"
    words = [str(file) if word == MOUNTED else word for word in APPLICATION_SPEC["arguments"]]
    loaded = settings_of(words, {})
    assert loaded.checkpoint.startswith("s3a://")
    executor = APPLICATION_SPEC["executor"]
    assert loaded.state_partitions == executor["instances"] * executor["cores"]


def test_the_spark_application_is_as_the_guide_advises_for_an_object_store(tmp_path: Path) -> None:
    guide = (GUIDES / "run.md").read_text()
    section = guide.partition("\n## The checkpoint in an object store\n")[2]
    advised = tmp_path / "advised.toml"
    advised.write_text(re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[0])
    file = tmp_path / "coordinator.toml"
    (configured,) = (it for it in documents(APPLICATION) if it["kind"] == "ConfigMap")
    file.write_text(configured["data"]["coordinator.toml"])

    wanted = CoordinatorSettings.load(advised, {}, {"bootstrap.servers": "kafka:9092"})
    of_store = {name: value for name, value in wanted.spark.items() if "fs.s3a" in name}
    assert len(of_store) == 3
    assert of_store.items() <= APPLICATION_SPEC["sparkConf"].items()
    assert wanted.trigger_interval_ms > 0
    assert CoordinatorSettings.load(file, {}, {}).trigger_interval_ms == wanted.trigger_interval_ms
    # The driver and the executors both reach the store.
    for part in ("driver", "executor"):
        (each,) = APPLICATION_SPEC[part]["template"]["spec"]["containers"]
        assert each["envFrom"] == [{"secretRef": {"name": "group-coordinator-s3", "optional": True}}]


def test_the_spark_applications_pods_are_as_those_above() -> None:
    for part in ("driver", "executor"):
        spec = APPLICATION_SPEC[part]["template"]["spec"]
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"] == pod("coordinator")["securityContext"]
        (each,) = spec["containers"]
        assert each["securityContext"] == container("coordinator")["securityContext"]
        # What the image writes to.
        assert {it["mountPath"] for it in each["volumeMounts"]} == {"/tmp", *instructions("VOLUME")}
        assert {it["name"] for it in each["volumeMounts"]} == {it["name"] for it in spec["volumes"]}
    (driver,) = APPLICATION_SPEC["driver"]["template"]["spec"]["containers"]
    probes = {it: driver[f"{it}Probe"]["httpGet"] for it in ("startup", "liveness", "readiness")}
    assert {it["port"] for it in probes.values()} == {METRICS_PORT}
    assert [it["path"] for it in probes.values()] == ["/healthz", "/healthz", "/readyz"]
    assert {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"} in APPLICATION_SPEC[
        "driver"
    ]["ports"]


def test_a_drain_moves_pods_of_the_spark_application() -> None:
    budgets = [it["spec"] for it in documents(APPLICATION) if it["kind"] == "PodDisruptionBudget"]

    # There is one driver, and a budget for one would block each drain or none.
    assert [it["selector"]["matchLabels"]["spark-role"] for it in budgets] == ["executor"]
    assert [it["maxUnavailable"] for it in budgets] == [1]


def test_what_the_spark_application_names_is_in_the_image() -> None:
    assert APPLICATION_SPEC["image"] == image("kubernetes")
    assert APPLICATION_SPEC["sparkVersion"] == version("pyspark")
    assert APPLICATION_SPEC["mainApplicationFile"] == "local:///opt/coordinator/main.py"
    assert 'cp "$packages/group_coordinator/__main__.py" main.py' in DOCKERFILE
    for part in ("driver", "executor"):
        path = APPLICATION_SPEC["sparkConf"][f"spark.{part}.extraClassPath"]
        assert path == "/opt/coordinator/jars/*:/opt/hadoop-cloud/*"
    assert 'ln -s "$PWD"/cache/jars/*.jar jars/' in DOCKERFILE
    assert "COPY --from=s3a /opt/s3a/jars /opt/hadoop-cloud\n" in DOCKERFILE
    assert "hadoop-aws" in {jar.artifact for jar in read_lock("s3a")}
    assert tomllib.loads(SETTINGS.read_text())["spark"]["driver"]["memory"] == "1g"
