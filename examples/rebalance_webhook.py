"""Tell a chat or a pager when a group rebalances too often.

Posts JSON with a `text`, which most chats take, when a group has begun more than so many rebalances in so
many minutes, and again only after it has been calmer.

    make run                                                       # a broker and the coordinator
    python examples/rebalance_webhook.py --url https://chat.example.com/hooks/... --most 5 --minutes 10
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict, deque
from typing import Any
from urllib.request import Request, urlopen

from group_coordinator import EventReader

_TIMEOUT_S = 10


class Rebalances:
    """Counts the rebalances of each group. Time is that of the events, in ms."""

    def __init__(self, most: int, window_ms: int) -> None:
        self._most, self._window_ms = most, window_ms
        self._begun: defaultdict[str, deque[int]] = defaultdict(deque)
        self._told: set[str] = set()

    def take(self, event: dict[str, Any]) -> str | None:
        """Take an event; returns what is to be told, if anything is."""
        if event["event"] != "state_changed" or event["to"] != "PreparingRebalance":
            return None
        group, begun = event["group_id"], self._begun[event["group_id"]]
        begun.append(event["at_ms"])
        while begun[0] <= event["at_ms"] - self._window_ms:
            begun.popleft()
        if len(begun) <= self._most:
            self._told.discard(group)
            return None
        if group in self._told:
            return None
        self._told.add(group)
        minutes = self._window_ms / 60_000
        many = f"{len(begun)} times in {minutes:g} minutes"
        return f"{group} has rebalanced {many}, the last time: {event['reason']}"


def post(url: str, text: str) -> None:
    """Post a line. What goes wrong is printed, and the next one is tried all the same."""
    body = json.dumps({"text": text}).encode()
    try:
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - the user's own
        urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310
    except OSError as error:
        print(f"not told: {text}: {error}", flush=True)


def main(url: str, most: int, minutes: float, bootstrap_servers: str) -> None:
    """Watch until Ctrl-C."""
    rebalances = Rebalances(most, round(minutes * 60_000))
    with EventReader(bootstrap_servers=bootstrap_servers) as events:
        while True:
            for event in events.poll(timeout_ms=1_000):
                if (text := rebalances.take(event)) is not None:
                    print(text, flush=True)
                    post(url, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--most", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--bootstrap-server", dest="bootstrap_servers", default="localhost:9092")
    main(**vars(parser.parse_args()))
