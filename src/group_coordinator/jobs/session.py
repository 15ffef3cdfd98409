"""The Spark session and the settings that a stream of small batches needs.

Each default below was measured on small batches, where fixed costs are all there is. Anything set under
`spark.` in the settings, or given to spark-submit, wins.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from group_coordinator.deploy.jars import are_there, fetch
from group_coordinator.jobs.java import launch, session_of
from group_coordinator.jobs.kafka_config import no_debug
from group_coordinator.jobs.sasl import ALLOWED_URLS, token_endpoint
from group_coordinator.jobs.settings import DEFAULT_HEAP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from group_coordinator.jobs.settings import JobSettings

_LOGGING = Path(__file__).with_name("log4j2.properties")

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Delta's tables can only be read and written by a session that was made for it."""
QUIET_ARCHIVE = "-Xlog:cds*=off"
"""Java would say at each start that an archive of classes does not fit."""
_LOG = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"


def archive_file() -> Path:
    """The archive of Java's classes, if there is one (`archive.py`)."""
    # It fits the paths of pyspark's jars, and so this environment alone.
    return Path(sys.prefix, "spark.jsa")


def archive_options() -> str:
    """Options with which a JVM uses the archive; none if there is no archive."""
    file = archive_file()
    return f"-XX:SharedArchiveFile={file} {QUIET_ARCHIVE}" if file.exists() else ""


SHORT_LIVED = {
    # With the first compiler alone Java keeps 48 MB for what it compiles, which Delta and S3 fill.
    "spark.driver.extraJavaOptions": (
        f"{_LOG} {archive_options()} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    )
}
"""For a job that ends by itself: Java's second compiler takes CPU time that such a job never gets back."""
_DEFAULTS = {
    "spark.app.name": "group-coordinator",
    "spark.sql.shuffle.partitions": "1",
    # Ticks bring batches anyway; an extra one after each would double the time to an answer.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # In each batch Spark looks at the deadlines of all groups of a partition. It unpacks again
    # each time what is not in this cache, which has 8 MB by default.
    "spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB": "64",
    # Going through them all takes an eighth less in blocks of this size than in RocksDB's 4 kB.
    "spark.sql.streaming.stateStore.rocksdb.blockSizeKB": "64",
    # Generating and compiling code for each task's projections costs more than it saves on a few rows.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # Rows of one Arrow batch towards a Python worker, which Spark does not bound by bytes. At a megabyte a
    # record, Spark's default of 10,000 would be 10 GB. So few cost nothing that could be measured.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    # Over TCP Spark's second message to a Python worker waits for the first to be acknowledged (Nagle), which
    # takes 40 ms; and each task of the stateful operator has two workers, one after the other.
    "spark.python.unix.domain.socket.enabled": "true",
    # The path of a socket must be short, which those of temporary directories need not be: YARN's are not.
    "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - by random names, and open to its owner only
    # Queries give it to their workers. So they also take those that were started before there was one.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
# Spark keeps what its UI would show of the last thousand executions, with or without one.
_WITHOUT_UI = {
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
_LOCAL_DEFAULTS = {
    # Two cores; a task whose Python worker dies is tried again, and need not end the query.
    "spark.master": "local[2,4]",
    # The executor is this very process. It may be stopped for a while, as on a laptop that sleeps. A driver
    # that gives it up then never takes it back, and the query ends when it has tried 60 times to report.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "365d",
    "spark.driver.memory": DEFAULT_HEAP,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# Without Hadoop's native library every file that is written forks a chmod; this file system does not.
_LOCAL_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def create_session(
    settings: JobSettings,
    storage: str,
    *,
    progress: bool = False,
    defaults: Mapping[str, str] = MappingProxyType({}),
    java: str | None = None,
) -> SparkSession:
    """Create the session, or take the one that spark-submit has set up and only fill in what is missing.

    `java`: options of the JVM in the place of those that use the archive of classes. `storage` is where it
    will write, and `defaults` are properties that win over those of all jobs. Without `spark.jars` or
    `spark.jars.packages` the jars of the lock file are fetched and used; `progress` shows that. Raises
    `JarError` if they cannot be had. To spark-submit the jars have to be given: its JVM runs already.
    """
    if java is not None:
        defaults = {**defaults, "spark.driver.extraJavaOptions": f"{_LOG} {java}"}
    conf = _configured(settings, storage, defaults, progress=progress)
    launch(conf)
    return session_of(conf)


def start_java(
    settings: JobSettings, storage: str, defaults: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Start the JVM in a thread, for a `create_session` with the same arguments, which waits for it.

    It takes a second or two, in which this process can import and ask Kafka. Does nothing if the JVM runs, or
    if jars have to be fetched first. Python does not end before the JVM is up.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or not are_there("spark", "local"):
        return
    conf = _configured(settings, storage, defaults, progress=False)

    def start() -> None:
        # `create_session` tries again, and tells why it cannot be started.
        with suppress(OSError, PySparkException):
            launch(conf)

    threading.Thread(target=start, name="java").start()


def _configured(
    settings: JobSettings, storage: str, defaults: Mapping[str, str], *, progress: bool
) -> SparkConf:
    # At DEBUG it logs all that is said to the JVM, passwords as well.
    no_debug("py4j")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        # The properties of spark-submit are in its JVM. SparkConf only looks there once it knows of it.
        SparkContext._ensure_initialized()  # noqa: SLF001
    conf = SparkConf()
    for name, value in settings.spark.items():
        conf.set(name, value)
    # Python workers would otherwise run the first python3 on the PATH. pyspark itself leaves the property to
    # spark-submit.
    if python := conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = conf.get("spark.master", "local")
    is_local = master.startswith("local")
    if not (submitted or conf.contains("spark.jars") or conf.contains("spark.jars.packages")):
        _use_locked_jars(conf, master, storage, progress=progress)
    all_defaults = _DEFAULTS | {
        "spark.driver.extraJavaOptions": f"{_LOG} {archive_options()}".strip(),
    }
    if is_local:
        all_defaults |= _LOCAL_DEFAULTS
        # Spark asks the resolver for this machine's name and warns of what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in (all_defaults | dict(defaults)).items():
        conf.setIfMissing(name, value)
    _allow_token_endpoint(conf, settings)
    if conf.get("spark.ui.enabled") == "false":
        for name, value in _WITHOUT_UI.items():
            conf.setIfMissing(name, value)
    return conf


def _allow_token_endpoint(conf: SparkConf, settings: JobSettings) -> None:
    """Let the JVMs of driver and executors ask for tokens at the URL of the settings, and nowhere else."""
    url = token_endpoint(settings.kafka)
    if url is None:
        return
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        given = conf.get(name) or ""
        if ALLOWED_URLS not in given:
            conf.set(name, f"{given} -D{ALLOWED_URLS}={url}".strip())


def is_one_process(master: str) -> bool:
    """Whether Spark runs in the driver's JVM alone, and has no executors elsewhere."""
    return master.startswith("local") and not master.startswith("local-cluster")


def _use_locked_jars(conf: SparkConf, master: str, storage: str, *, progress: bool) -> None:
    jars = fetch("spark", progress=progress)
    on_disk = "://" not in storage
    # Executors elsewhere would not find the other file system's jar.
    local_files = is_one_process(master) or (on_disk and master.startswith("local"))
    # File systems are looked up by the driver's first class loader, which knows nothing of spark.jars.
    of_driver = fetch("local", progress=progress) if local_files else []
    if is_one_process(master):
        # From spark.jars the first task would copy them over a connection to this very process.
        of_driver += jars
    else:
        conf.set("spark.jars", ",".join(map(str, jars)))
    if of_driver:
        path = [*map(str, of_driver), conf.get("spark.driver.extraClassPath")]
        conf.set("spark.driver.extraClassPath", os.pathsep.join(filter(None, path)))
    if local_files:
        for name, value in (_LOCAL_FILES | (_LOCAL_CHECKPOINT if on_disk else {})).items():
            conf.setIfMissing(name, value)
