"""A tiny language for scripted consumer groups: a clock that is set by hand, a log, and what came out of it.

    s = group()                                   # a fixture
    reply = s.join("m0", "a")                     # joins, and says what it knows of topic a
    assert s.told(reply) == (2, {"a": [0, 1]})    # its epoch, and its partitions
    assert s.of("m0") == {"a": [0, 1]}

Every word goes the way a record goes, as JSON through `step`. A scenario remembers, as a client would, which
epoch and which partitions each member was told last. In the end its log is read again in other batches.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.responses import (
    AnyResponse,
    GroupPicture,
    InvalidRequestResponse,
)
from group_coordinator.coordinator_state.step import Channel, Output, step
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state import invariants
from tests.coordinator_state.consumer import invariants as of_consumers
from tests.coordinator_state.observer import Batch, Step, check_cuts, play

GROUP = "orders"
TOPIC = "requests"
SECRET = b"secret"

Names = dict[str, list[int]]
"""Partitions by the names of their topics."""

_responses = msgspec.json.Decoder(AnyResponse)
_refusals = msgspec.json.Decoder(InvalidRequestResponse)
_pictures = msgspec.json.Decoder(GroupPicture)


def partitions_of(assignment: Any) -> Names | None:
    """An assignment of an answer; None if it says that nothing has changed."""
    return None if assignment is None else {topic.name: topic.partitions for topic in assignment}


class Consumers:
    """One group, its log and its clock. Settings are given by name; the interval between assignments is 0."""

    def __init__(self, step: Step = step, **config: Any) -> None:
        self.config = GroupConfig(**({"group_consumer_assignment_interval_ms": 0} | config))
        self.now = 1_000_000
        self.outages: list[Outage] = []
        self.state: bytes | None = None
        self.deadline: int | None = None
        self.log: list[Record] = []
        self.outputs: list[Output] = []
        self.events: list[dict[str, Any]] = []
        self.picture: GroupPicture | None = None
        self.brokers: dict[str, tuple[str | None, int]] = {"a": ("A", 2), "b": ("B", 2)}
        """The topics at the brokers: id and number of partitions. A join says what it names of them."""
        self.epochs: dict[str, int] = {}
        self.held: dict[str, Names] = {}
        self.instances: dict[str, str] = {}
        self._step = step

    # -- time and records --------------------------------------------------------------------------

    def wait(self, ms: int) -> list[Any]:
        """Nothing comes for so long; deadlines fire."""
        self.now += ms
        return self._call([])

    def put(self, value: bytes | None, key: bytes | None = GROUP.encode()) -> list[Any]:
        """Put a record on the log as it is; the replies to it."""
        record = Record(TOPIC, 0, len(self.log), self.now, key, value)
        self.log.append(record)
        return self._call([record])

    def request(self, api: str, client: str = "tool", **fields: Any) -> dict[str, Any]:
        """Make a request; a field of `...` is left out."""
        made = {
            "api": api,
            "request_id": f"r{len(self.log)}",
            "client_id": client,
            "group_id": GROUP,
        } | fields
        return {name: it for name, it in made.items() if it is not ...}

    def send(self, api: str, client: str = "tool", **fields: Any) -> Any:
        """Send a request; its reply, or None if there is none."""
        replies = self.put(msgspec.json.encode(self.request(api, client, **fields)))
        assert len(replies) <= 1
        return replies[0] if replies else None

    def away(self, ms: int, *, closed: bool = False) -> None:
        """There is no coordinator for so long, from now on; `closed`: nor may there be another group."""
        self.outages.append(Outage(self.now, self.now + ms, closed))
        self.now += ms

    # -- members -----------------------------------------------------------------------------------

    def hints(self, *names: str) -> list[dict[str, Any]]:
        """Say what the brokers know of these topics."""
        known = [(name, *self.brokers[name]) for name in names if name in self.brokers]
        return [{"name": name, "topic_id": topic_id, "partitions": count} for name, topic_id, count in known]

    def heartbeat(self, member: str, epoch: int, **fields: Any) -> Any:
        """Send one heartbeat, and remember what its member is told."""
        reply = self.send(
            "consumer_group_heartbeat",
            **({"client": f"client of {member}", "member_id": member, "member_epoch": epoch} | fields),
        )
        if reply is not None and reply.error == "NONE":
            self._hear(reply.member_id, reply.member_epoch, reply.assignment)
        return reply

    def join(self, member: str, *names: str, **fields: Any) -> Any:
        """Join; fields that are not given are what a client would send."""
        asked = {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(names),
            "topic_partitions": [],
            "topics": self.hints(*names),
            "group_instance_id": self.instances.get(member, ...),
        }
        return self.heartbeat(member, 0, **(asked | fields))

    def beat(self, member: str, **fields: Any) -> Any:
        """Beat with the epoch that the member was told last."""
        asked = {"group_instance_id": self.instances.get(member, ...)}
        return self.heartbeat(member, self.epochs[member], **(asked | fields))

    def ack(self, member: str, **fields: Any) -> Any:
        """Beat, and say that it has what it was told and nothing else."""
        return self.beat(member, **({"topic_partitions": self.owned(self.held[member])} | fields))

    def full(self, member: str, *names: str, **fields: Any) -> Any:
        """Beat, and say everything, as clients do after an error."""
        asked = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(names)}
        return self.ack(member, **(asked | fields))

    def alive(self, *members: str, **fields: Any) -> Any:
        """Say in one heartbeat that several members are alive."""
        of_all = [{"member_id": each, "member_epoch": self.epochs.get(each, 1)} for each in members]
        reply = self.send("consumer_group_heartbeat", **({"members": of_all} | fields))
        if reply is not None:
            for each in reply.members:
                if each.error_code == 0:
                    self._hear(each.member_id, each.member_epoch, each.assignment)
        return reply

    def leave(self, member: str, epoch: int = -1, **fields: Any) -> Any:
        """Leave for good, or with -2 for a while."""
        asked = {"group_instance_id": self.instances.get(member, ...)}
        return self.heartbeat(member, epoch, **(asked | fields))

    def owned(self, partitions: Names) -> list[dict[str, Any]]:
        """Partitions as a member says that it has them."""
        return [
            {"topic_id": self.brokers[name][0], "partitions": each}
            if self.brokers[name][0]
            else {"name": name, "partitions": each}
            for name, each in partitions.items()
        ]

    def settle(self, *members: str) -> None:
        """Let members beat and acknowledge until the group is Stable."""
        for _ in range(6):
            if self.group.state == "Stable":
                return
            for member in members or list(self.group.members):
                self.ack(member)
        assert self.group.state == "Stable"

    def _hear(self, member: str | None, epoch: int, assignment: Any) -> None:
        assert member is not None
        if epoch <= 0:
            self.epochs.pop(member, None)
            self.held.pop(member, None)
            return
        self.epochs[member] = epoch
        if assignment is not None:
            self.held[member] = partitions_of(assignment) or {}

    # -- offsets and topics ------------------------------------------------------------------------

    def commit(self, member: str, epoch: int, topics: dict[str, list[int]], **fields: Any) -> int:
        """Commit offset 5 for partitions; the error code of the commit, which each partition has as well."""
        named = [
            {"name": name, "partitions": [{"partition_index": it, "committed_offset": 5} for it in each]}
            for name, each in topics.items()
        ]
        ids = {"member_id": member, "generation_id": epoch}
        reply = self.send("offset_commit", **(ids | {"topics": named} | fields))
        codes = {each.error_code for topic in reply.topics for each in topic.partitions}
        assert codes == {reply.error_code}
        return int(reply.error_code)

    def committed(self) -> Names:
        """The partitions that have an offset."""
        found: Names = {}
        for topic, partition in invariants.committed(decode_group(self.state or b"")):
            found.setdefault(topic, []).append(partition)
        return found

    def resolved(self, *topics: str, user: str = "") -> dict[str, Any]:
        """What a heartbeat says of its pattern: it matches these topics, of which the brokers know this."""
        return {"resolved": {"topics": list(topics), "user": user}, "topics": self.hints(*topics)}

    def resolves(self, pattern: str, *topics: str, user: str | None = None, **fields: Any) -> None:
        """Write what a pattern of members matches now, as the watcher does or a gateway."""
        found = [{"pattern": pattern, "topics": list(topics), "user": user}]
        self.metadata(*topics, **({"patterns": found} | fields))

    def patterns(self) -> dict[tuple[str, str | None], list[str] | None]:
        """The patterns of the newest picture, and what they match."""
        assert self.picture is not None
        told = self.picture.patterns
        return {} if told is msgspec.UNSET else {(it.pattern, it.user): it.topics for it in told}

    def metadata(self, *names: str, gone: tuple[str, ...] = (), **fields: Any) -> None:
        """Write what the brokers know of these topics, as the watcher does."""
        version = self.group.topics.version
        asked = {"based_on": version, "topics": self.hints(*names), "gone": list(gone)}
        assert self.send("topic_metadata", "watcher", **(asked | fields)) is None

    # -- questions ---------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        """The stored group."""
        group = decode_group(self.state or b"")
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def summary(self) -> tuple[str, int, int]:
        """The state, the group epoch and the epoch of the assignment."""
        group = self.group
        return str(group.state), group.generation_id, group.assignment_epoch

    def told(self, reply: Any) -> tuple[int, Names | None]:
        """The epoch and the assignment of a reply without an error."""
        assert reply.error == "NONE"
        return reply.member_epoch, partitions_of(reply.assignment)

    def of(self, member: str) -> Names:
        """The partitions that are assigned to a member, and not to be given up."""
        return self._by_name(self.group.members[member].share.assigned)

    def pending(self, member: str) -> Names:
        """The partitions that a member is to give up."""
        return self._by_name(self.group.members[member].share.pending)

    def target(self, member: str) -> Names:
        """The partitions that a member is to have."""
        return self._by_name(unpack(self.group.members[member].target))

    def _by_name(self, partitions: Any) -> Names:
        return dict(self.group.topics.by_name(partitions))

    def happened(self, event: str) -> list[dict[str, Any]]:
        """All events of one kind, in order."""
        return [each for each in self.events if each["event"] == event]

    def rejected(self) -> list[str]:
        """The reasons for which records were refused without an answer."""
        values = [it.value or b"" for it in self.outputs if it.channel is Channel.REJECTED]
        return [msgspec.json.decode(value)["reason"] for value in values]

    def describe(self, **fields: Any) -> Any:
        """Ask how the group looks."""
        return self.send("consumer_group_describe", **fields)

    # -- the machine -------------------------------------------------------------------------------

    def _call(self, records: list[Record]) -> list[Any]:
        outages = Outages(self.outages)
        before = self.state
        result = self._step(GROUP.encode(), before, records, self.now, self.config, SECRET, outages)
        group = invariants.check(before, result, self.now, self.config, outages)
        self.state, self.deadline = result.state, result.deadline_ms
        self.outputs += result.outputs
        for output in result.outputs:
            if output.channel is Channel.EVENTS:
                self.events.append(msgspec.json.decode(output.value or b""))
            elif output.channel is Channel.GROUPS:
                self.picture = None if output.value is None else _pictures.decode(output.value)
        if isinstance(group, ConsumerGroup):
            of_consumers.agrees_with_picture(group, self.picture)
        replies = [it.value or b"" for it in result.outputs if it.channel is Channel.RESPONSES]
        return [_read(value) for value in replies]

    def is_the_same_however_it_is_cut(self) -> None:
        """Read the log again, in one batch and in many, and compare what was decided."""
        whole = play([Batch(self.log, self.now)], self.config, self.outages, self._step)
        for channel, again in (
            (Channel.RESPONSES, whole.responses),
            (Channel.EVENTS, whole.events),
            (Channel.REJECTED, whole.rejected),
        ):
            assert again == [output for output in self.outputs if output.channel is channel], (
                "decisions differ"
            )
        # A group that is forgotten between two calls is one that is remembered as Dead within one.
        assert whole.state == self.state, "states differ"
        check_cuts(self.log, self.config, self.outages, Random(len(self.log)), self._step)


def _read(value: bytes) -> Any:
    # One to a record that is no request may be one to no API.
    decoder = _refusals if b'"error_code":42' in value and b'"member_epoch"' not in value else _responses
    return decoder.decode(value)
