"""Resolve jars.lock from ROOTS, for `make lock`. Needs jgo, which only that command has."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.deploy.jars import LOCK, JarError, maven_url

if TYPE_CHECKING:
    from jgo.maven import MavenContext

_THREADS = 8
_TIMEOUT_S = 30

# The artifacts that jars.lock is made from. Spark's list is complete as it stands, because Spark brings the
# rest. The broker's list has all its runtime dependencies, which Kafka's own tools need as well. Brokers of
# other versions, Kafka Connect and Kafka Streams are for tests, Kroxylicious is for benchmarks, and each list
# has all its runtime dependencies. The connector for S3 is complete as it stands as well. Hadoop 3.5.0 was
# built with these versions. So is HDFS for tests, with Spark's jars.
ROOTS = {
    "spark": (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    ),
    "broker": (
        "org.apache.kafka:kafka_2.13:4.2.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",  # without a binding the broker logs nothing
    ),
    "local": ("com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",),
    "s3a": (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:bundle:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
    "hdfs": ("org.apache.hadoop:hadoop-client-minicluster:3.5.0",),
    "tools": ("org.apache.kafka:kafka-tools:4.2.0",),
    "broker-3.9": (
        "org.apache.kafka:kafka_2.13:3.9.2",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    "broker-4.4": (
        "org.apache.kafka:kafka_2.13:4.4.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5",
    ),
    "connect": (
        "org.apache.kafka:connect-runtime:4.2.0",
        "org.apache.kafka:connect-file:4.2.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    ),
    "streams": (
        "org.apache.kafka:kafka-streams-examples:4.2.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    ),
    "kroxylicious": ("io.kroxylicious:kroxylicious-runtime:0.12.0",),
}
_CLOSED = ("broker", "connect", "streams", "kroxylicious")


def closure(roots: Iterable[str], context: MavenContext) -> set[str]:
    """Return the coordinates of the roots and of all that they need at run time.

    Raises JarError if they need two versions of one jar.
    """
    versions: dict[tuple[str, str], str] = {}
    coordinates = set()
    for root in roots:
        # One by one: resolved together, what one root manages would change the versions of another's.
        inputs, further = context.resolver.resolve([context.create_dependency(root)])
        for found in [*inputs, *further]:
            version = versions.setdefault((found.groupId, found.artifactId), found.version)
            if version != found.version:
                raise JarError(
                    f"{root} needs {found.artifact.component}, another root {version}. "
                    "Choose versions in ROOTS that agree."
                )
            names = found.groupId, found.artifactId, found.version, found.classifier
            coordinates.add(":".join(filter(None, names)))
    return coordinates


def _lock() -> str:
    """Resolve ROOTS and return the text of jars.lock."""
    from jgo.maven import MavenContext

    lines = ["# Made by `make lock` from the roots in lock_jars.py; coordinate, SHA-256"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_THREADS) as pool:
        context = MavenContext(
            repo_cache=Path(folder), remote_repos={"central": maven_url()}, timeout=_TIMEOUT_S
        )

        def sha256(coordinate: str) -> str:
            group, artifact, version, *classifier = coordinate.split(":")
            project = context.project(group, artifact).at_version(version)
            jar = Path(project.artifact(*classifier).resolve())
            return hashlib.sha256(jar.read_bytes()).hexdigest()

        for section, roots in ROOTS.items():
            coordinates = sorted(closure(roots, context) if section in _CLOSED else roots)
            lines += ["", f"[{section}]"]
            lines += [
                f"{jar} {digest}"
                for jar, digest in zip(coordinates, pool.map(sha256, coordinates), strict=True)
            ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write jars.lock."""
    try:
        LOCK.write_text(_lock(), encoding="utf-8")
    except JarError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
