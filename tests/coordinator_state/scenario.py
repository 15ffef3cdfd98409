"""A tiny language for scripted groups: a clock that is set by hand, a log, and what came out of it.

    s = Scenario()
    s.at(3_000)                       # nothing comes until then
    replies = s.join("c1")            # the replies that come out, whoever they are for
    assert errors(replies) == {"c1": "NONE"}
    assert s.states() == ["Empty", "PreparingRebalance", "CompletingRebalance"]

Every word goes the way a record goes, as JSON through `step`, and the model looks at what comes of it.
A scenario remembers, as a client would, which id and generation each client was told last.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import NO_OUTAGES
from group_coordinator.coordinator_state.responses import AnyResponse, JoinGroupMember
from group_coordinator.coordinator_state.step import Channel, Output, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state import invariants
from tests.coordinator_state.model import Model
from tests.coordinator_state.observer import Observer

GROUP = "orders"
TOPIC = "requests"
SECRET = b"secret"

# What clients of Kafka 0.11 to 2.1 speak: a first join makes a member at once.
OLD = {"join_group": 3, "sync_group": 2, "heartbeat": 2, "leave_group": 2}
NEWEST: dict[str, int] = {}

_responses = msgspec.json.Decoder(AnyResponse)


def clock(text: str) -> int:
    """Read 10:00:03 as milliseconds."""
    hours, minutes, seconds = map(int, text.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000


def errors(replies: list[AnyResponse]) -> dict[str, str]:
    """Say what each client was told, in the order in which they were."""
    assert len({reply.client_id for reply in replies}) == len(replies), "a client got two replies"
    return {reply.client_id: reply.error for reply in replies}


def of_partitions(reply: Any) -> dict[str, dict[int, int]]:
    """Error codes of an offset_commit's or offset_delete's reply, by topic and partition."""
    return {
        topic.name: {each.partition_index: each.error_code for each in topic.partitions}
        for topic in reply.topics
    }


def _commit_topics(topics: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "partitions": [
                {"partition_index": index}
                | ({"committed_offset": offset} if isinstance(offset, int) else offset)
                for index, offset in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]


def _fetched(partition: Any) -> tuple[int, int, str]:
    assert partition.error_code == 0
    return partition.committed_offset, partition.committed_leader_epoch, partition.metadata


def only(replies: list[Any]) -> Any:
    """Take the one reply."""
    (reply,) = replies
    return reply


class Scenario:
    """One group, its log and its clock. Settings of the group are given by name."""

    def __init__(self, versions: dict[str, int] = NEWEST, **config: int) -> None:
        # No initial delay, as in the Kafka of the old books, unless a test is about it.
        self.config = GroupConfig(**({"group_initial_rebalance_delay_ms": 0} | config))
        self.versions = versions
        self.now = 0
        self.outages = NO_OUTAGES
        self.layout = Layout()
        self.state: bytes | None = None
        self.deadline: int | None = None
        self.log: list[Record] = []
        self.outputs: list[Output] = []
        self.events: list[dict[str, Any]] = []
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.revoked: Counter[str] = Counter()
        self.assigned: Counter[str] = Counter()
        self._owes_revoke: dict[str, bool] = {}
        # What tests assign here are no units of work.
        self._observer = Observer(Model(self.config, [], units_of=lambda _: ()))
        self._is_judged = "max_group_bytes" not in config
        self._stored: bytes | None = None

    # -- time --------------------------------------------------------------------------------------

    def at(self, now: int) -> list[AnyResponse]:
        """Nothing comes until `now`; the replies are what deadlines have brought about."""
        assert now >= self.now, "a script's clock does not go back"
        self.now = now
        return self._step([])

    def wait(self, duration: int) -> list[AnyResponse]:
        """Nothing comes for `duration`."""
        return self.at(self.now + duration)

    # -- requests ----------------------------------------------------------------------------------

    def send(self, api: str, client: str, **fields: Any) -> list[AnyResponse]:
        """Put a request on the log, field by field; a field of `...` is left out."""
        request = {
            "api": api,
            "request_id": f"{client}-{len(self.log)}",
            "client_id": client,
            "group_id": GROUP,
            "api_version": self.versions.get(api, ...),
        } | fields
        return self.put(msgspec.json.encode({name: it for name, it in request.items() if it is not ...}))

    def put(self, value: bytes | None, key: bytes | None = GROUP.encode()) -> list[AnyResponse]:
        """Put a record on the log as it is."""
        record = Record(TOPIC, 0, len(self.log), self.now, key, value)
        self.log.append(record)
        return self._step([record])

    def ask(self, client: str, **fields: Any) -> list[AnyResponse]:
        """Send one JoinGroup and leave it at that; fields that are not given are what a client would send."""
        fields = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.ids.get(client, ""),
            "group_instance_id": self.instances.get(client, ...),
            "protocol_type": "consumer",
            "protocols": {"range": b""},
        } | fields
        if isinstance(fields["protocols"], dict):
            fields["protocols"] = [
                {"name": name, "metadata": data} for name, data in fields["protocols"].items()
            ]
        if self._owes_revoke.get(client, True):
            # As onPartitionsRevoked is called: before the first join of a rebalance, not before a retry.
            self.revoked[client] += 1
            self._owes_revoke[client] = False
        return self.send("join_group", client, **fields)

    def join(self, client: str, **fields: Any) -> list[AnyResponse]:
        """Join as a client does: if an id is required, take the one given out and join with it."""
        replies = self.ask(client, **fields)
        if [reply.error for reply in replies] == ["MEMBER_ID_REQUIRED"]:
            replies = self.ask(client, **fields)
        return replies

    def sync(
        self, client: str, assignments: dict[str, bytes] | None = None, **fields: Any
    ) -> list[AnyResponse]:
        """Sync; `assignments` are by client."""
        fields = {
            "member_id": self.ids.get(client, ""),
            "group_instance_id": self.instances.get(client, ...),
            "generation_id": self.generations.get(client, -1),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": self.ids[name], "assignment": data}
                for name, data in (assignments or {}).items()
            ],
        } | fields
        return self.send("sync_group", client, **fields)

    def heartbeat(self, client: str, **fields: Any) -> list[AnyResponse]:
        """Send a heartbeat."""
        fields = {
            "member_id": self.ids.get(client, ""),
            "group_instance_id": self.instances.get(client, ...),
            "generation_id": self.generations.get(client, -1),
        } | fields
        return self.send("heartbeat", client, **fields)

    def heartbeat_of(self, *clients: str, **fields: Any) -> list[AnyResponse]:
        """Send a heartbeat of several members, in one request of the first."""
        members = [
            {"member_id": self.ids.get(client, ""), "generation_id": self.generations.get(client, -1)}
            | ({"group_instance_id": self.instances[client]} if client in self.instances else {})
            for client in clients
        ]
        return self.send("heartbeat", clients[0], **({"members": members} | fields))

    def leave(self, *clients: str, **fields: Any) -> list[AnyResponse]:
        """Let `clients` leave in one request of the first."""
        members = [
            {"member_id": self.ids.get(client, "")}
            | ({"group_instance_id": self.instances[client]} if client in self.instances else {})
            for client in clients
        ]
        fields = {"members": members} | fields
        return self.send("leave_group", clients[0], **fields)

    # -- offsets -----------------------------------------------------------------------------------

    def commit(self, client: str, topics: dict[str, Any], **fields: Any) -> list[AnyResponse]:
        """Commit as a member does: `topics` is {"t": {0: 5}}; for 5 there may be all fields of one."""
        fields = {
            "member_id": self.ids.get(client, ""),
            "group_instance_id": self.instances.get(client, ...),
            "generation_id": self.generations.get(client, -1),
        } | fields
        return self.send("offset_commit", client, topics=_commit_topics(topics), **fields)

    def fetch(self, topics: dict[str, list[int]] | None = None, **fields: Any) -> dict[str, dict[int, Any]]:
        """Fetch all that is committed, or for `topics`; {"t": {0: (offset, leader epoch, metadata)}}."""
        named = (
            None
            if topics is None
            else [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
        )
        reply = only(self.send("offset_fetch", "admin", topics=named, **fields))
        assert reply.error == "NONE"
        return {
            topic.name: {each.partition_index: _fetched(each) for each in topic.partitions}
            for topic in reply.topics
        }

    def delete_offsets(self, topics: dict[str, list[int]], **fields: Any) -> list[AnyResponse]:
        """Delete what is committed for {"t": [0, 1]}."""
        named = [
            {"name": name, "partitions": [{"partition_index": each} for each in indexes]}
            for name, indexes in topics.items()
        ]
        return self.send("offset_delete", "admin", topics=named, **fields)

    # -- static members ----------------------------------------------------------------------------

    def static(self, *clients: str) -> None:
        """Let `clients` be static members from now on; the instance id of c1 is C1."""
        self.instances |= {client: client.upper() for client in clients}

    def restart(self, client: str, successor: str | None = None, **fields: Any) -> list[AnyResponse]:
        """Start a static member's program anew: it knows no id, and joins.

        `successor` is the new run's client id, if the two runs are to be told apart.
        """
        successor = successor or client
        self.instances[successor] = self.instances[client]
        self.ids.pop(successor, None)
        return self.join(successor, **fields)

    # -- short cuts --------------------------------------------------------------------------------

    def form(self, *clients: str, **fields: Any) -> None:
        """Make a group in its sync phase: the first client leads, all are in one generation."""
        for client in clients:
            self.join(client, **fields)
        if self.group.state == "PreparingRebalance" and self.group.previous_state != "Empty":
            for client in clients:
                if self.member(client).awaiting_join is None:
                    self.join(client, **fields)
        assert self.group.state == "CompletingRebalance"

    def stabilise(self, *clients: str, **fields: Any) -> None:
        """Make a Stable group of `clients`; each owns its own name."""
        self.form(*clients, **fields)
        for client in reversed(clients):
            self.sync(client, {name: name.encode() for name in clients})
        assert self.group.state == "Stable"

    # -- questions ---------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is a group; one that was deleted lately is stored as well."""
        return self.state is not None and not self.group.is_dead

    @property
    def group(self) -> ClassicGroup:
        """The stored group."""
        assert self.state is not None
        return decode_group(self.state)

    def member(self, client: str) -> Any:
        """What the group knows of `client`; None if it is no member."""
        group = self.group
        if client in self.instances and client not in self.ids:
            # It has not been told its id yet.
            return group.members.get(group.static_members.get(self.instances[client], ""))
        return group.members.get(self.ids[client])

    def session_deadline(self, client: str) -> int | None:
        """When the session of `client` ends."""
        return self.member(client).session_deadline_ms

    def states(self) -> list[str]:
        """All states the group has been in, in order."""
        return ["Empty"] + [event["to"] for event in self.events if event["event"] == "state_changed"]

    def removed(self) -> list[tuple[str, str]]:
        """Who was removed, and why, in order."""
        return [
            (event["client_id"], event["reason"])
            for event in self.events
            if event["event"] == "member_removed"
        ]

    def happened(self, event: str) -> list[dict[str, Any]]:
        """All events of one kind, in order."""
        return [each for each in self.events if each["event"] == event]

    def reasons(self) -> list[str]:
        """The reasons of all moves, with clients' names where their ids stood."""
        reasons = [event["reason"] for event in self.happened("state_changed")]
        for client, member_id in self.ids.items():
            reasons = [reason.replace(member_id, client) for reason in reasons]
        return reasons

    def picture(self) -> dict[str, Any] | None:
        """The newest picture of the group; None after a tombstone."""
        pictures = [output.value for output in self.outputs if output.channel is Channel.GROUPS]
        return None if pictures[-1] is None else msgspec.json.decode(pictures[-1])

    def published(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """What `coordinator.offsets` keeps, by (group, topic, partition)."""
        kept: dict[tuple[Any, ...], dict[str, Any]] = {}
        for output in self.outputs:
            if output.channel is Channel.OFFSETS:
                key = tuple(msgspec.json.decode(output.key or b""))
                kept.pop(key, None)
                if output.value is not None:
                    kept[key] = msgspec.json.decode(output.value)
        return kept

    def told_members(self, reply: Any) -> list[str]:
        """Name the members that a join reply lists."""
        names = {member_id: client for client, member_id in self.ids.items()}
        listed: list[JoinGroupMember] = reply.members
        return [names[member.member_id] for member in listed]

    # -- the machine -------------------------------------------------------------------------------

    def _step(self, records: list[Record]) -> list[AnyResponse]:
        now, outages = self.now, self.outages
        result = step(GROUP.encode(), self.state, records, now, self.config, SECRET, outages, self.layout)
        if self._may_be_judged():
            self._observer.see(self.state, records, self.now, result)
        else:
            invariants.check(self.state, result, self.now, self.config, self.outages)
        self._stored = result.state
        self.state, self.deadline = result.state, result.deadline_ms
        self.outputs += result.outputs
        self.events += [
            msgspec.json.decode(output.value or b"")
            for output in result.outputs
            if output.channel is Channel.EVENTS
        ]
        return self._read_replies(result)

    def _may_be_judged(self) -> bool:
        """The model knows of no limit in bytes, nor of what a test does to the state or the past."""
        model = self._observer.model
        new = [outage for outage in self.outages if outage not in model.outages]
        is_past = any(outage.start_ms < model.log_ms for outage in new)
        self._is_judged = self._is_judged and self.state is self._stored and not is_past
        model.config, model.layout, model.outages = self.config, self.layout, [*model.outages, *new]
        return self._is_judged

    def _read_replies(self, result: StepResult) -> list[AnyResponse]:
        replies = [
            _responses.decode(output.value or b"")
            for output in result.outputs
            if output.channel is Channel.RESPONSES
        ]
        for reply in replies:
            client = reply.client_id
            if reply.error == "MEMBER_ID_REQUIRED":
                self.ids[client] = reply.member_id
            elif reply.error == "NONE" and reply.__struct_config__.tag == "join_group":
                self.ids[client], self.generations[client] = reply.member_id, reply.generation_id
            elif reply.error == "NONE" and reply.__struct_config__.tag == "sync_group":
                self.assigned[client] += 1
                self._owes_revoke[client] = True
        return replies
