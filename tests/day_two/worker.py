"""A worker of the story: each record takes it a moment, and 20 s while there is a file that makes it slow."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from group_coordinator import GroupConsumer


def main(name: str, bootstrap_servers: str, slow: Path) -> None:
    logging.basicConfig(
        level=logging.ERROR, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger("group_coordinator").setLevel(logging.WARNING)
    with GroupConsumer(
        "orders",
        group_id="orders",
        client_id=name,
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        max_poll_records=50,
        max_poll_interval_ms=150_000,
    ) as consumer:
        while True:
            for records in consumer.poll(timeout_ms=500).values():
                for _ in records:
                    time.sleep(20 if slow.exists() else 0.002)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
