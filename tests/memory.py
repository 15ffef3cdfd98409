"""How much memory a coordinator takes whose processes are children of the test's."""

from __future__ import annotations

from contextlib import suppress

import psutil


class Memory:
    """The most bytes that one of the query's Python workers was seen to hold, and Spark's JVM."""

    def __init__(self) -> None:
        self.worker = self.jvm = 0

    def look(self) -> None:
        for process in psutil.Process().children(recursive=True):
            # It may have ended since.
            with suppress(psutil.NoSuchProcess):
                command, held = process.cmdline(), process.memory_info().rss
                if "group_coordinator.streaming.daemon" in command:
                    self.worker = max(self.worker, held)
                if "org.apache.spark.deploy.SparkSubmit" in command:
                    self.jvm = max(self.jvm, held)
