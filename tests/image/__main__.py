"""Takes the image through a life beside a real broker: as its user, and with a read-only root file system.

python -m tests.image             # the coordinator's image, and what else is in it
python -m tests.image light       # gateway and page beside a coordinator of the first one
python -m tests.image kubernetes  # the driver as the Spark operator starts it
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator import GroupMember
from group_coordinator.deploy.broker import EmbeddedBroker, _free_port
from group_coordinator.deploy.images import IMAGES, RUNNERS, ImageError, image, tool
from tests.gateway.clients import kafka_python, polling
from tests.gateway.ports import ports_in_a_row
from tests.image.container import Bed, Container, get
from tests.patience import PATIENCE_S, wait_for

UNITS = ["eu", "us"]
TOPIC = "orders"
RECORDS = 40
WRITES = """
touch /opt/coordinator/x /home/coordinator/x /etc/x 2>&1
touch /tmp/x /var/lib/coordinator/x && echo both
"""

S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
APPLICATION = (Path(__file__).parents[2] / "deploy" / "kubernetes" / "spark-application.yaml").read_text()
LOADS = """
import sys
from pyspark.sql import SparkSession
path, *names = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", path).getOrCreate()
for name in names:
    session._jvm.java.lang.Class.forName(name)
"""


def tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} ok  {line}", flush=True)


def start_coordinator(bed: Bed, *command: str, options: tuple[str, ...] = ()) -> Container:
    port = _free_port()
    options_of_run = ("--checkpoint", "/var/lib/coordinator/checkpoint", "--create-topics")
    words = (*(command or ("run",)), *options_of_run, "--metrics-port", str(port))
    started = bed.start("checkpoint", *words, options=options)
    started.wait_until_ready(f"http://127.0.0.1:{port}/readyz")
    return started


def check_what_it_may(coordinator: Container) -> None:
    assert coordinator.inside("id -u").strip() == "185"
    *refused, written = coordinator.inside(WRITES).splitlines()
    assert len(refused) == 3, refused
    assert all("Read-only file system" in line for line in refused), refused
    assert written == "both"
    tell("its user is 185, and only /tmp and the volume can be written")


def check_archive(coordinator: Container) -> None:
    mapped = coordinator.inside("cat /proc/[0-9]*/maps 2>/dev/null | grep -c /opt/coordinator/spark.jsa")
    assert int(mapped) > 0
    tell("Java uses the archive of Spark's classes")


def live(bed: Bed, servers: str, stack: ExitStack) -> Container:
    """Join, lose the coordinator to SIGKILL, and go on with its next container."""
    coordinator = start_coordinator(bed)
    check_what_it_may(coordinator)
    check_archive(coordinator)
    member = stack.enter_context(GroupMember(group_id="units", bootstrap_servers=servers))
    member.subscribe(units=UNITS)
    wait_for(lambda: member.poll(timeout_ms=100) == set(UNITS))
    member.commit(dict.fromkeys(UNITS, 7))
    before = member.member_id, member.generation_id
    tell("a member has joined and committed")

    coordinator.kill()
    coordinator = start_coordinator(bed)
    found = member.committed(UNITS)
    assert {unit: it and it.offset for unit, it in found.items()} == dict.fromkeys(UNITS, 7)
    member.commit(dict.fromkeys(UNITS, 8), timeout_ms=PATIENCE_S * 1000)
    assert (member.member_id, member.generation_id) == before
    tell("killed by SIGKILL and started on its volume: same member, same generation, and its commit is there")
    return coordinator


def use_gateway(bed: Bed, servers: str) -> None:
    """Let an unmodified consumer read and commit through the gateway."""
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(TOPIC, 2, 1)])
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"order", partition=number % 2)
        producer.flush(PATIENCE_S)
    port, metrics = ports_in_a_row(3), _free_port()
    listen = ("--listen", f"127.0.0.1:{port}", "--advertised-host", "127.0.0.1")
    gateway = bed.start("gateway", "gateway", *listen, "--metrics-port", str(metrics))
    gateway.wait_until_ready(f"http://127.0.0.1:{metrics}/readyz")
    with closing(kafka_python(f"127.0.0.1:{port}", [TOPIC], "clients")) as consumer:
        polling(consumer)(lambda: sum(consumer.position(it) for it in consumer.assignment()) == RECORDS)
        consumer.commit()
    code = gateway.stop()
    assert code == 0, gateway.said
    tell("the gateway has a consumer of Kafka's own protocol read and commit")


def tell_the_past(bed: Bed) -> None:
    """Write the history, and ask it."""
    path = ("--history-path", "/var/lib/coordinator/history")
    bed.once("history", "write-history", "--once", *path)
    for group in ("units", "clients"):
        told = bed.once("history", "history", group, *path)
        assert "member_joined" in told, told
        assert "session_expired" not in told, told
    tell("the history is written and asked, and has both groups")


def look_at_page(bed: Bed, *, has_history: bool) -> None:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    past = ("--history-path", "/var/lib/coordinator/history") if has_history else ()
    page = bed.start("history", "ui", "--port", str(port), *past)
    page.wait_until_ready(url)
    wait_for(lambda: "clients" in get(f"{url}/?part"), said=lambda: page.said)
    if has_history:
        assert "clients" in get(f"{url}/history")
    assert page.stop() == 0, page.said
    tell(f"the page shows the groups{' and their history' if has_history else ''}")


def check_coordinator(bed: Bed, servers: str, stack: ExitStack) -> None:
    coordinator = live(bed, servers, stack)
    use_gateway(bed, servers)
    tell_the_past(bed)
    look_at_page(bed, has_history=True)
    code = coordinator.stop()
    assert (code, coordinator.said.splitlines()[-1]) == (0, "stopped"), coordinator.said
    tell("on SIGTERM it stops after the running batch, with exit code 0")


def check_light(bed: Bed, servers: str, stack: ExitStack) -> None:
    """Have the coordinator from the first image."""
    coordinators = stack.enter_context(closing(Bed(bed.tool, image("coordinator"), servers)))
    start_coordinator(coordinators)
    use_gateway(bed, servers)
    look_at_page(bed, has_history=False)


def check_kubernetes(bed: Bed, servers: str, stack: ExitStack) -> None:
    """Start Spark's driver as in a pod of the operator's, but for the cluster.

    The class path is that of the manifest.
    """
    (path,) = re.findall("driver.extraClassPath: (.*)", APPLICATION)
    (program,) = re.findall("mainApplicationFile: local://(.*)", APPLICATION)
    bed.once("loaded", "python", "-c", LOADS, path, S3A)
    tell("Spark's JVM loads the connector for S3")

    submitted = (
        "driver",
        "--master",
        "local[2]",
        "--conf",
        f"spark.driver.extraClassPath={path}",
        program,
        "run",
    )
    driver = start_coordinator(bed, *submitted, options=("--env", "SPARK_DRIVER_BIND_ADDRESS=127.0.0.1"))
    check_what_it_may(driver)
    member = stack.enter_context(GroupMember(group_id="submitted", bootstrap_servers=servers))
    member.subscribe(units=UNITS)
    wait_for(lambda: member.poll(timeout_ms=100) == set(UNITS))
    tell("a member has joined at the driver that spark-submit has started")


CHECKS: dict[str, Callable[[Bed, str, ExitStack], None]] = {
    "coordinator": check_coordinator,
    "light": check_light,
    "kubernetes": check_kubernetes,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.image")
    parser.add_argument("target", nargs="?", choices=IMAGES, default="coordinator")
    target = parser.parse_args().target
    try:
        name = tool(RUNNERS)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="image-test-") as directory, ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(Path(directory, "kafka")))
        print(f"{image(target)}, run by {name}", flush=True)
        bed = stack.enter_context(closing(Bed(name, image(target), broker.bootstrap_servers)))
        CHECKS[target](bed, broker.bootstrap_servers, stack)
    return 0


if __name__ == "__main__":
    sys.exit(main())
