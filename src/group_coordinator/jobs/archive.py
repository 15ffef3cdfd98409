"""Java's archive of the classes that Spark loads, with which a coordinator starts sooner.

    python -m group_coordinator.jobs.archive

Java reads and verifies ten thousand classes of Spark at each start. An archive (class-data sharing, JEP 350)
has them as Java needs them in memory. This command makes it in the environment that it runs in, in half a
minute, and every job that starts there later uses it. Java itself looks whether the archive fits its version
and the jars, and does without it if not. So make it again after each upgrade.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.state import GroupStateTimeout

from group_coordinator.deploy.jars import JarError
from group_coordinator.jobs.session import QUIET_ARCHIVE, archive_file, create_session
from group_coordinator.jobs.settings import JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

_EXIT_S = 300
"""Within which Java writes the archive."""
_NOBODY = "127.0.0.1:1"
_AT_ONCE_MS = 1_000


def make_archive() -> Path:
    """Make the archive in the place of one that is there. Raises `JarError` if that does not work."""
    file = archive_file()
    with tempfile.TemporaryDirectory(dir=file.parent) as directory:
        made = Path(directory, file.name)
        settings = JobSettings.load(None, {}, {"bootstrap.servers": "unused:9092"})
        java = f"-XX:ArchiveClassesAtExit={made} {QUIET_ARCHIVE}"
        spark = create_session(settings, directory, progress=True, java=java)
        _load_classes(spark, directory)
        context: Any = spark.sparkContext
        process: subprocess.Popen[bytes] = context._gateway.proc  # noqa: SLF001 - pyspark has no other way
        spark.stop()
        context._gateway.shutdown()  # noqa: SLF001
        assert process.stdin is not None  # noqa: S101 - it is a pipe, by which Java notices the end
        process.stdin.close()
        try:
            process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise JarError(f"Java has not written {made} within {_EXIT_S} s") from None
        if not made.exists():
            raise JarError(f"Java has not written {made}")
        made.replace(file)
    return file


def _load_classes(spark: SparkSession, directory: str) -> None:
    """Run queries like the coordinator's, and make Kafka's clients, which need no broker for that."""
    # One of them fails, and nobody has to know.
    java: Any = spark._jvm  # noqa: SLF001 - as pyspark's
    log4j = java.org.apache.logging.log4j
    log4j.core.config.Configurator.setAllLevels("", log4j.Level.OFF)
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    decided = (
        ticks.withWatermark("timestamp", "1 second")
        .groupBy("value")
        .applyInPandasWithState(
            _decide_nothing, "value BINARY", "group BINARY", "update", GroupStateTimeout.EventTimeTimeout
        )
    )
    _run(decided, f"{directory}/deciding")
    requests = spark.readStream.format("kafka").option("kafka.bootstrap.servers", _NOBODY)
    for name in ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms"):
        requests = requests.option(name, _AT_ONCE_MS)
    # It has read nothing when it gives up, but it has begun.
    with suppress(StreamingQueryException):
        _run(
            requests.option("subscribe", "unused").option("fetchOffset.numRetries", 1).load(),
            f"{directory}/reading",
        )
    properties = java.java.util.HashMap()
    properties.put("bootstrap.servers", _NOBODY)
    name = "org.apache.kafka.common.serialization.ByteArray"
    for each in ("key", "value"):
        properties.put(f"{each}.serializer", f"{name}Serializer")
        properties.put(f"{each}.deserializer", f"{name}Deserializer")
    clients = java.org.apache.kafka.clients
    clients.consumer.KafkaConsumer(properties).close()
    clients.producer.KafkaProducer(properties).close()
    for message in java.org.apache.kafka.common.message.ApiMessageType.values():
        message.newRequest()
        message.newResponse()


def _run(rows: DataFrame, checkpoint: str) -> None:
    """Write the rows to Kafka, of which none comes so far."""
    query = rows.select("value").where("value IS NULL").writeStream.outputMode("update").format("kafka")
    query = query.option("kafka.bootstrap.servers", _NOBODY).option("topic", "unused")
    query = query.option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


def _decide_nothing(_key: Any, _frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    state.update((b"",))
    yield from ()


if __name__ == "__main__":
    try:
        make_archive()
    except JarError as error:
        sys.exit(str(error))
