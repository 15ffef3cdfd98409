"""Groups of the consumer protocol beside classic ones, in the core alone, without Spark or Kafka.

* Heartbeats: a call of `step` with one heartbeat, at groups of several sizes. `own`: a request of one member.
  `of many`: the same as gateways send it.
* Stored bytes of a member that has ten partitions.
* Joins: 1,000 members join in one batch; one partition for each.
* Written bytes: one more member joins, and all come to rest. A classic group rebalances for it. Each has one
  partition.

Both kinds take turns in each round, and the ratios are medians of the rounds. Joins are measured in seconds
of CPU, as they take long enough for others to be in between.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.core import (
    CONFIG,
    KEY,
    SECRET,
    form_group,
    join_of,
    per_second,
    rebalance_of,
    record_of,
    responses,
    step_of,
    written,
)
from benchmarks.report import show, write
from group_coordinator.coordinator_state.step import step
from group_coordinator.coordinator_state.stored import decode_group

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.log import Record

_HEARTBEAT_GROUPS = (1, 100, 3000)
_WRITTEN_GROUPS = (1000, 3000)
_JOINS = 1000
_OF_EACH = 10
_ROUNDS = 5
_TOPIC = {"name": "orders", "topic_id": "8484b1de-ca7f-4c9f-abdd-0bb92f639aad"}
_AT_ONCE = msgspec.structs.replace(CONFIG, group_consumer_assignment_interval_ms=0)
_INTERVAL_MS = 5_000


def run(file: Path | None) -> None:
    """Measure, print and write."""
    beats = {members: _heartbeats(members) for members in _HEARTBEAT_GROUPS}
    show(
        "Heartbeats: the time of one, to that of a classic one",
        ["members in the group", "own", "of many"],
        [[str(each), f"{own:.2f}", f"{of_many:.2f}"] for each, (own, of_many) in beats.items()],
    )
    size = len(Group(100, 100 * _OF_EACH).settle().state or b"") / 100
    joins = _joins()
    of_one_join = {members: _written(members) for members in _WRITTEN_GROUPS}
    rows = [
        ["stored bytes of a member", f"{size:.0f}"],
        *[[f"1,000 joins, {name}, to classic ones", f"{ratio:.2f}"] for name, ratio in joins.items()],
        *[
            [f"bytes written for one join to {each} members, to a classic rebalance", f"{ratio:.2f}"]
            for each, ratio in of_one_join.items()
        ],
    ]
    show("The rest", ["measure", "found"], rows)
    write(file, {"heartbeats": beats, "stored_bytes": size, "joins": joins, "written": of_one_join})


class Group:
    """A group of truthful members: each does what the last answer says."""

    def __init__(self, members: int, partitions: int, config: GroupConfig = CONFIG) -> None:
        self._config, self._topics = config, [{**_TOPIC, "partitions": partitions}]
        self._now_ms, self._offset = 1_000, 0
        self.state: bytes | None = None
        self.written = 0
        """Bytes of all outputs so far."""
        self.join_s = 0.0
        """The time that the newest joins have taken."""
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, list[int]] = {}
        self.join(members)

    def join(self, count: int) -> None:
        """So many more members join, in one batch."""
        before = len(self._epochs)
        for number in range(before, before + count):
            self._epochs[f"member-{number:05d}-0123456789abcdef"] = 0
        self.join_s = self._send(
            [self._beat(it, is_join=True) for it, epoch in self._epochs.items() if epoch == 0]
        )

    def settle(self) -> Group:
        """All beat, interval by interval, until the group is Stable."""
        while str(decode_group(self.state or b"").state) != "Stable":
            self._now_ms += _INTERVAL_MS
            self._send([self._beat(it) for it in self._epochs])
        return self

    def one_heartbeat(self, *, of_many: bool) -> Record:
        """A heartbeat of a member in the middle, which says that it is alive."""
        member_id = list(self._epochs)[len(self._epochs) // 2]
        alive = {"member_id": member_id, "member_epoch": self._epochs[member_id]}
        fields = {"members": [alive]} if of_many else alive
        return record_of(self._offset, self._now_ms + 1, "consumer_group_heartbeat", "client", **fields)

    def _beat(self, member_id: str, *, is_join: bool = False) -> Record:
        self._offset += 1
        owned = self._owned.get(member_id, [])
        said: dict[str, Any] = {"topic_partitions": [{**_TOPIC, "partitions": owned}] if owned else []}
        if is_join:
            said |= {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": [_TOPIC["name"]]}
            said["topics"] = self._topics
        epoch = self._epochs[member_id]
        return record_of(
            self._offset,
            self._now_ms,
            "consumer_group_heartbeat",
            "client",
            member_id=member_id,
            member_epoch=epoch,
            **said,
        )

    def _send(self, records: list[Record]) -> float:
        """Returns the seconds that it takes."""
        begun = time.process_time()
        result = step(KEY, self.state, records, 0, self._config, SECRET)
        taken_s = time.process_time() - begun
        self.state = result.state
        self.written += written(result)
        for answer in responses(result):
            assert not answer["error_code"], answer
            self._epochs[answer["member_id"]] = answer["member_epoch"]
            if answer["assignment"] is not None:
                partitions = [it for topic in answer["assignment"] for it in topic["partitions"]]
                self._owned[answer["member_id"]] = partitions
        return taken_s


def _heartbeats(members: int) -> tuple[float, float]:
    """The time of a heartbeat, own and of many, to that of a classic one."""
    classic, ids = form_group(members)
    generation = decode_group(classic).generation_id
    beat = record_of(0, 44_000, "heartbeat", "c0", member_id=ids[members // 2], generation_id=generation)
    group = Group(members, members * _OF_EACH).settle()
    own_beat, of_many_beat = (group.one_heartbeat(of_many=each) for each in (False, True))
    ways = {
        "classic": lambda: step_of(classic, [beat]),
        "own": lambda: step_of(group.state, [own_beat]),
        "of many": lambda: step_of(group.state, [of_many_beat]),
    }
    rounds = [{name: per_second(work, 1) for name, work in ways.items()} for _ in range(_ROUNDS)]
    own, of_many = (
        statistics.median(each["classic"] / each[name] for each in rounds) for name in ("own", "of many")
    )
    return own, of_many


def _joins() -> dict[str, float]:
    """The CPU time in which 1,000 members join in one batch, to that of classic ones."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(_ROUNDS):
        asked = step_of(None, [join_of(number, 1_000, number) for number in range(_JOINS)])
        ids = [answer["member_id"] for answer in responses(asked)]
        joins = [join_of(_JOINS + number, 2_000, number, member_id=it) for number, it in enumerate(ids)]
        begun = time.process_time()
        step_of(asked.state, joins)
        classic = time.process_time() - begun
        for name, config in (("as by default", CONFIG), ("interval 0", _AT_ONCE)):
            times[name].append(Group(_JOINS, _JOINS, config).join_s / classic)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _written(members: int) -> float:
    """The bytes that are written for one join to a group, to those of a classic rebalance."""
    group = Group(members, members + 1).settle()
    before = group.written
    group.join(1)
    consumers = group.settle().written - before
    state, ids = form_group(members)
    return consumers / rebalance_of(state, ids)
