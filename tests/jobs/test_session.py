from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from group_coordinator.deploy.jars import fetch
from group_coordinator.jobs.sasl import ALLOWED_URLS
from tests.patience import PATIENCE_S
from tests.rooms import ROOT

pytestmark = pytest.mark.spark


# There is one session to a process, so each test has a process of its own.
SCRIPT = """
import json, os, sys
import psutil
from group_coordinator.jobs.session import create_session, start_java
from group_coordinator.streaming.daemon import session_defaults
from group_coordinator.streaming.settings import CoordinatorSettings
given = json.loads(sys.argv[1])
needed = {"bootstrap.servers": "unused:9092", "checkpoint": "unused"}
settings = CoordinatorSettings.load(None, {}, needed | given)
start_java(settings, settings.checkpoint, session_defaults(settings))
spark = create_session(settings, settings.checkpoint, defaults=session_defaults(settings))
jvms = [it for it in psutil.Process().children(recursive=True) if it.name() == "java"]
nice = {}
for thread in jvms[0].threads() if jvms else []:
    with open(f"/proc/{jvms[0].pid}/task/{thread.id}/comm") as name:
        nice[name.read().split()[0]] = os.getpriority(os.PRIO_PROCESS, thread.id)
conf = dict(spark.sparkContext.getConf().getAll())
conf |= {name: spark.conf.get(name) for name in ("spark.sql.shuffle.partitions",)}
def look(_):
    import os, pyspark.worker
    socket = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower()
    return sys.executable, pyspark.worker.read_udfs.__module__, socket
worker, reader, socket = spark.sparkContext.parallelize([1], 1).map(look).first()
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger(
    "org.apache.spark.sql.execution.streaming.state.StateStore"
)
log.warn("Loaded state store provider in loadTimeMs=2194 for storeId=0")
log.warn("something else")
told = {"conf": conf, "worker": worker, "reader": reader, "unix_socket": socket, "jvms": len(jvms)}
has_mllibs = spark.catalog.functionExists("vector_to_array")
print(json.dumps({**told, "nice": nice, "has_mllibs_functions": has_mllibs}))
spark.stop()
"""

# Sleeps again and again, and works in between. Spark would be patient with its executor for a second.
SLEEPER = """
import os, signal, time
from group_coordinator.jobs.session import create_session
from group_coordinator.streaming.daemon import session_defaults
from group_coordinator.streaming.settings import CoordinatorSettings
patience = {
    "spark.executor.heartbeatInterval": "500ms",
    "spark.network.timeoutInterval": "100ms",
    "spark.network.timeout": "1s",
    "spark.rpc.askTimeout": "60s",
}
needed = {"bootstrap.servers": "unused:9092", "checkpoint": "unused"}
settings = CoordinatorSettings.load(None, {}, needed | patience)
spark = create_session(settings, settings.checkpoint, defaults=session_defaults(settings))
jvm = spark.sparkContext._jvm.ProcessHandle.current().pid()
for _ in range(3):
    os.kill(jvm, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(jvm, signal.SIGCONT)
    print(spark.sparkContext.parallelize([1, 2], 2).sum())
spark.stop()
"""


def session(
    settings: dict[str, Any], environment: dict[str, str] | None = None, *submit: str
) -> dict[str, Any]:
    """Make a session in a process of its own; what it is like."""
    done = run([*(submit or (sys.executable, "-c", SCRIPT)), json.dumps(settings)], environment)
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


def run(command: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: it for name, it in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    env |= {"PYTHONPATH": str(ROOT)} | (environment or {})
    done = subprocess.run(
        command,
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.verify
def test_defaults_with_the_locked_jars() -> None:
    made = session({"state.partitions": 3, "spark.driver.extraClassPath": "/opt/mine/*"})

    conf = made["conf"]
    assert "spark.jars" not in conf
    paths = [*map(str, fetch("local", "spark")), "/opt/mine/*"]
    assert conf["spark.driver.extraClassPath"].split(":") == paths
    assert conf["spark.master"] == "local[2,4]"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.sql.streaming.noDataMicroBatches.enabled"] == "false"
    assert conf["spark.sql.streaming.stateStore.rocksdb.blockCacheSizeMB"] == "64"
    assert conf["spark.sql.streaming.stateStore.rocksdb.blockSizeKB"] == "64"
    assert conf["spark.sql.ui.retainedExecutions"] == "10"
    assert (made["worker"], made["reader"]) == (sys.executable, "group_coordinator.streaming.worker")
    assert made["unix_socket"] == "true"
    assert made["jvms"] == 1, "the one that was started ahead"
    # The second compiler waits for the first, and for all else that a start has to do.
    assert made["nice"]["C2"] > made["nice"]["C1"] == made["nice"]["java"]
    # Spark would find their extension in its jars, which takes most of a second to begin.
    assert not made["has_mllibs_functions"]
    # That Spark has been slow is nothing to be done about.
    assert "Loaded state store provider" not in made["stderr"]
    assert " WARN StateStore: something else" in made["stderr"]
    # Java's own.
    assert "WARNING" not in made["stderr"]


@pytest.mark.verify
def test_settings_win_over_defaults(tmp_path: Path) -> None:
    python = tmp_path / "python-of-workers"
    python.symlink_to(sys.executable)
    given = {
        "spark.master": "local[1]",
        "spark.app.name": "mine",
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.pyspark.python": str(python),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        # A jar of one's own: then no other is fetched, and the cache stays as it is.
        "spark.jars": str(fetch("spark")[0]),
    }
    cache = tmp_path / "cache"
    # Longer than the path of a socket may be.
    temporary = tmp_path / ("t" * 100)
    temporary.mkdir()
    url = "https://idp.example/token"
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": url,
        "spark.executor.extraJavaOptions": "-Dmine=1",
    }
    environment = {"GROUP_COORDINATOR_CACHE": str(cache), "TMPDIR": str(temporary)}
    made = session(given | login, environment)

    # Kafka's client in Java asks for tokens there, and nowhere else.
    assert made["conf"]["spark.driver.extraJavaOptions"].endswith(f" -D{ALLOWED_URLS}={url}")
    assert made["conf"]["spark.executor.extraJavaOptions"].endswith(f"-Dmine=1 -D{ALLOWED_URLS}={url}")
    assert {name: made["conf"][name] for name in given} == given
    assert not cache.exists()
    assert "spark.hadoop.fs.file.impl" not in made["conf"]
    # With a UI its history is wanted.
    assert "spark.sql.ui.retainedExecutions" not in made["conf"]
    assert (made["worker"], made["reader"]) == (str(python), "pyspark.worker")


@pytest.mark.verify
def test_what_spark_submit_is_given_wins(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7"]
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    made = session({}, {"PYSPARK_PYTHON": sys.executable}, str(spark_submit), *options, str(script))

    conf = made["conf"]
    assert (conf["spark.master"], conf["spark.sql.shuffle.partitions"]) == ("local[1]", "7")
    assert conf["spark.sql.streaming.noDataMicroBatches.enabled"] == "false"
    # The JVM runs already: what is not on its class path by then cannot be used.
    assert "spark.hadoop.fs.file.impl" not in conf


@pytest.mark.verify
def test_a_local_session_outlives_sleep() -> None:
    done = run([sys.executable, "-c", SLEEPER])

    assert done.stdout.splitlines() == ["3"] * 3
    # Spark says the first when it gives its executor up, and the second when that one ends. A heartbeat that
    # was under way during a sleep may fail by itself, which Spark shrugs off.
    for given_up in ("no recent heartbeats", "unable to send heartbeats"):
        assert given_up not in done.stderr
