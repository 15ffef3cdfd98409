"""Kroxylicious, a proxy for Kafka in Java, as a neighbour: its own runtime, and a main class for it.

The jars are locked (`deploy/jars.lock`) and fetched when they are first needed. Nothing that is installed
needs them.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from group_coordinator.deploy.jars import JarError, fetch
from group_coordinator.deploy.java import JavaNotFound, find_java

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KroxyliciousError", "command"]

_MAIN = """
import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.*;

public class Main {
    public static void main(String[] args) throws Exception {
        var parser = new ConfigParser();
        var config = parser.parseConfiguration(Files.readString(Path.of(args[0])));
        try (var proxy = new KafkaProxy(parser, config, Features.defaultFeatures())) {
            proxy.startup();
            System.out.println(args[1]);
            proxy.block();
        }
    }
}
"""
_CONFIG = """
virtualClusters:
  - name: passing
    targetCluster: {{bootstrapServers: "{brokers}"}}
    gateways: [{{name: default, portIdentifiesNode: {{bootstrapAddress: "{address}"}}}}]
"""


class KroxyliciousError(Exception):
    """It cannot be run here; the message is one line."""


def command(directory: Path, brokers: str, address: str, ready: str) -> list[str]:
    """The command that proxies the brokers at `address`, and the ports behind it, and prints `ready` then.

    Raises KroxyliciousError if there is no Java that compiles, or the jars cannot be fetched.
    """
    source, config, classes = directory / "Main.java", directory / "kroxylicious.yaml", directory / "classes"
    source.write_text(_MAIN, encoding="utf-8")
    config.write_text(_CONFIG.format(brokers=brokers, address=address), encoding="utf-8")
    try:
        java = str(find_java())
        path = ":".join(map(str, (classes, *fetch("kroxylicious"))))
        # Not run from its source: that would keep the compiler in its memory.
        compiler = (java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(classes), "-cp", path)
        subprocess.run([*compiler, str(source)], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise KroxyliciousError(f"it needs a JDK: {java} does not compile: {error.stderr[:200]}") from error
    except (JarError, JavaNotFound) as error:
        raise KroxyliciousError(f"{error}") from error
    return [java, "-cp", path, "Main", str(config), ready]
