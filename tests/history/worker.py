"""A member that is a process, to be killed at any time: it writes down what it owns, and commits.

    python -m tests.history.worker --bootstrap-servers ... --client-id a --slow-ms 2000 ...

Leaves on SIGTERM.
"""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from group_coordinator import GroupMember
from group_coordinator.jobs.signals import stop_event
from tests.faults.load import Listener, NotingChannel
from tests.faults.notes import Ended, Notebook, now_ms

SESSION_MS = 6_000
_BEAT_MS = 500
_POLL_MS = 200
_COMMIT_EVERY_S = 1.0


class SlowListener(Listener):
    """Takes its time to save what it has: until it is done, it does not join, and the others wait."""

    slow_ms = 0

    def on_partitions_revoked(self, revoked: frozenset[Any]) -> None:
        time.sleep(self.slow_ms / 1000)
        super().on_partitions_revoked(revoked)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.history.worker")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--requests", required=True, help="the request topic")
    parser.add_argument("--responses", required=True, help="the response topic")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True, help="a topic to share")
    parser.add_argument("--client-id", required=True)
    parser.add_argument("--notes", type=Path, required=True, help="the file to write notes to")
    parser.add_argument("--slow-ms", type=int, default=0, help="what it takes to give up what it has")
    options = parser.parse_args()
    stopping = stop_event(signal.SIGTERM)
    with Notebook(options.notes) as notebook:
        channel = NotingChannel(
            notebook,
            options.client_id,
            bootstrap_servers=options.bootstrap_servers,
            request_topic=options.requests,
            response_topic=options.responses,
        )
        member = GroupMember(
            group_id=options.group,
            client_id=options.client_id,
            channel=channel,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_BEAT_MS,
            max_poll_interval_ms=60_000,
        )
        listener = SlowListener(
            notebook, options.client_id, options.group, lambda: (member.member_id, member.generation_id)
        )
        listener.slow_ms = options.slow_ms
        member.subscribe(topics=[options.topic], listener=listener)
        commit_at = time.monotonic()
        while not stopping.is_set():
            owned = member.poll(_POLL_MS)
            if owned and time.monotonic() >= commit_at:
                commit_at = time.monotonic() + _COMMIT_EVERY_S
                member.commit_async(dict.fromkeys(owned, now_ms()))
        member.close()
        notebook.write(Ended(at_ms=now_ms(), client_id=options.client_id, how="closed"))


if __name__ == "__main__":
    main()
