"""A group, the programs that use it, and the log that they write: a world that observers look at."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, get_args

import msgspec

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.events import (
    MemberFenced,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    StateChanged,
)
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.coordinator_state.responses import AnyResponse
from group_coordinator.coordinator_state.step import StepResult, step
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from tests.coordinator_state.invariants import REMEMBERED_MS
from tests.coordinator_state.model import (
    DEAD,
    EMPTY,
    GROUP,
    NEWEST,
    STABLE,
    TOPIC,
    Model,
    Protocols,
)
from tests.coordinator_state.model_offsets import Commit
from tests.coordinator_state.model_time import NONE, Answer
from tests.coordinator_state.observer import SECRET, Observer, Step, check_cuts, some_outages

START_MS = 1_000_000
UNITS = [b"%d" % number for number in range(8)]

# A client that behaves beats at least this often, and gives a rebalance at least that much time.
BEAT_MS = 3_000
PATIENCE_MS = 12_000
LONGEST_RETENTION_MS = 100_000

VERSIONS: dict[str, dict[str, int]] = {
    "new": NEWEST,
    "middle": {"join_group": 5, "sync_group": 3, "heartbeat": 3, "leave_group": 3, "offset_commit": 7},
    "skipless": {"join_group": 8, "sync_group": 5, "heartbeat": 4, "leave_group": 4, "offset_commit": 8},
    "old": {"join_group": 3, "sync_group": 2, "heartbeat": 2, "leave_group": 2, "offset_commit": 4},
    "oldest": {"join_group": 0, "sync_group": 0, "heartbeat": 0, "leave_group": 0, "offset_commit": 2},
}
_responses = msgspec.json.Decoder(AnyResponse)
_FIELDS = {
    str(api.__struct_config__.tag): {it.encode_name for it in msgspec.structs.fields(api)}
    for api in get_args(AnyRequest)
}


@dataclass
class Actor:
    """A program, and what it remembers."""

    name: str
    instance_id: str | None
    age: str
    """Which versions of the protocol it speaks."""
    session_ms: int
    rebalance_ms: int
    protocols: Protocols
    member_id: str = field(default="", init=False)
    generation: int = field(default=-1, init=False)
    protocol_name: str | None = field(default=None, init=False)
    told_members: list[str] = field(default_factory=list, init=False)
    """The members that it is to divide the work among."""
    next: str = field(default="join", init=False)
    waits_for: str | None = field(default=None, init=False)
    """The join or sync that it has sent last, until it is answered."""
    former_ids: list[str] = field(default_factory=list, init=False)
    next_ms: int = field(default=0, init=False)
    """When it beats, or tries to join again, if it behaves."""

    @property
    def versions(self) -> dict[str, int]:
        return VERSIONS[self.age]

    def start(self) -> None:
        """Run anew: everything is forgotten, except a name."""
        if self.member_id:
            self.former_ids.append(self.member_id)
        self.member_id, self.generation, self.told_members = "", -1, []
        self.next, self.waits_for = "join", None

    def hear(self, answer: Any) -> None:
        is_awaited = self.waits_for == answer.request_id
        api = answer.__struct_config__.tag
        if is_awaited:
            self.waits_for = None
        elif api not in ("heartbeat", "offset_commit") or (
            self.waits_for is not None and self.next == "join"
        ):
            # It has given up on that one; and while it joins the others have nothing to say.
            return
        match api, answer.error:
            case "join_group", "NONE":
                self.member_id, self.generation = answer.member_id, answer.generation_id
                self.protocol_name = answer.protocol_name
                self.told_members = [it.member_id for it in answer.members if not answer.skip_assignment]
                self.next = "sync"
            case "sync_group", "NONE":
                self.next = "beat"
            case "join_group", "MEMBER_ID_REQUIRED":
                self.member_id = answer.member_id
            case _, "REBALANCE_IN_PROGRESS" | "ILLEGAL_GENERATION":
                self.next, self.waits_for = "join", None
            case _, "FENCED_INSTANCE_ID":
                # Its name is taken by another one. This one must not go on.
                self.next, self.waits_for = "stop", None
            case _, "NONE":
                pass
            case _:
                self.start()


def offer(protocols: Protocols) -> list[dict[str, Any]]:
    return [{"name": name, "metadata": metadata} for name, metadata in protocols]


def divide(members: list[str], forget: str | None = None) -> list[dict[str, Any]]:
    """Give each work unit to one of `members`."""
    units: dict[str, list[bytes]] = {member_id: [] for member_id in members if member_id != forget}
    for i, unit in enumerate(UNITS if units else []):
        units[list(units)[i % len(units)]].append(unit)
    return [{"member_id": member_id, "assignment": b" ".join(it)} for member_id, it in units.items()]


def topics_of(entries: list[Any], field: str, partition: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """The `topics` of a request about offsets: those of one topic that follow each other stand together."""
    return [
        {"name": name, field: [partition(each) for each in those]}
        for name, those in groupby(entries, key=itemgetter(0))
    ]


def commit_topics(commits: Iterable[Commit]) -> list[dict[str, Any]]:
    topics = topics_of(
        list(commits),
        "partitions",
        lambda it: {
            "partition_index": it.partition,
            "committed_offset": it.offset,
            "committed_leader_epoch": it.epoch,
            "committed_metadata": it.metadata,
        },
    )
    return [each | ({"topic_id": "1"} if len(each["partitions"]) % 2 else {}) for each in topics]


class World:
    """One group, its log and clock, the observer of it, and the programs."""

    def __init__(
        self,
        config: GroupConfig,
        actors: list[Actor],
        protocol_type: str = "consumer",
        lag_ms: int = 0,
        partitions: int = 1,
        step: Step = step,
        tell: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self.config = config
        self.actors = actors
        self.protocol_type = protocol_type
        self.outages: list[Outage] = []
        self.observer = Observer(Model(config, self.outages))
        self.lag_ms = lag_ms
        """How far the watermark is behind: until then, time passes with the records only."""
        self.partitions = partitions
        self.now = START_MS
        self.watermark_ms = 0
        self.log: list[Record] = []
        self.state: bytes | None = None
        self.deadline_ms: int | None = None
        self.last_request: dict[str, Any] | None = None
        self.last_call: tuple[Any, ...] | None = None
        self.last_result: StepResult | None = None
        self.is_sound = True
        """False while a call is checked, and so for good once a check has failed."""
        self._step = step
        self._tell = tell

    @property
    def model(self) -> Model:
        return self.observer.model

    # -- calls -------------------------------------------------------------------------------------

    def send(self, request: dict[str, Any], at_ms: int | None = None) -> None:
        """Put a request on the log."""
        self.last_request = request
        fields = _FIELDS[request["api"]] | {"api"}
        # A client's partitioner is its own: two of one group may disagree about where it lives.
        partition = sum(request["client_id"].encode()) % self.partitions
        self.put(
            msgspec.json.encode({name: it for name, it in request.items() if name in fields}),
            self.now if at_ms is None else at_ms,
            partition,
        )

    def put(self, value: bytes | None, at_ms: int, partition: int = 0) -> None:
        """Put a record on the log as it is."""
        record = Record(TOPIC, partition, len(self.log), at_ms, GROUP.encode(), value)
        self.log.append(record)
        self.watermark_ms = max(self.watermark_ms, self.now - self.lag_ms)
        self._call([record])

    def advance(self) -> None:
        """Nothing has come until now."""
        self.watermark_ms = max(self.watermark_ms, self.now)
        self._call([])

    def go_away(self, for_ms: int, *, closed: bool = False) -> None:
        """There is no coordinator for so long, from now on; what comes is read later."""
        newest = [self.now, self.watermark_ms, *(record.timestamp_ms for record in self.log)]
        begin_ms = max([*newest, *(outage.end_ms for outage in self.outages)])
        self.outages.append(Outage(begin_ms, begin_ms + for_ms, closed))

    def _call(self, records: list[Record]) -> None:
        self.is_sound = False
        before, outages = self.state, Outages(self.outages)
        self.last_call = (GROUP.encode(), before, records, self.watermark_ms, self.config, SECRET, outages)
        self.last_result = result = self._step(*self.last_call)
        self.state, self.deadline_ms = result.state, result.deadline_ms
        answers = self.observer.see(before, records, self.watermark_ms, result)
        self._count(answers)
        for _, answer in answers:
            for actor in self.actors:
                if actor.name == answer.client_id:
                    actor.hear(answer)
        self.is_sound = True

    def _count(self, answers: list[Answer]) -> None:
        for _, answer in answers:
            self._tell(f"answer {answer.__struct_config__.tag} {answer.error}")
        for each in self.observer.events:
            match each:
                case StateChanged():
                    self._tell(f"{each.from_} to {each.to}")
                case MemberRemoved():
                    self._tell(f"removed: {each.reason}")
                case MemberFenced() | OffsetsCommitted() | OffsetsExpired() | OffsetsDeleted():
                    self._tell(f"{each.__struct_config__.tag} in {self.model.state}")
                case _:
                    self._tell(str(each.__struct_config__.tag))

    # -- requests ----------------------------------------------------------------------------------

    def request(self, client_id: str, api: str, **fields: Any) -> dict[str, Any]:
        """Make a request; fields that its API has not are not sent."""
        return {
            "api": api,
            "request_id": f"{client_id}-{len(self.log)}",
            "client_id": client_id,
            "client_host": f"host of {client_id}",
            "group_id": GROUP,
            "api_version": NEWEST[api],
            **fields,
        }

    def ask(self, actor: Actor, api: str, **fields: Any) -> dict[str, Any]:
        """Make a request as `actor` would, but for `fields`."""
        asked = {
            "api_version": actor.versions.get(api, NEWEST[api]),
            "member_id": actor.member_id,
            "group_instance_id": actor.instance_id,
            "generation_id": actor.generation,
            "protocol_type": self.protocol_type,
        }
        if api == "join_group":
            asked |= {
                "session_timeout_ms": actor.session_ms,
                "rebalance_timeout_ms": actor.rebalance_ms,
                "protocols": offer(actor.protocols),
            }
        elif api == "sync_group":
            asked |= {"protocol_name": actor.protocol_name, "assignments": divide(actor.told_members)}
        return self.request(actor.name, api, **(asked | fields))

    def join(self, actor: Actor, **fields: Any) -> None:
        request = self.ask(actor, "join_group", **fields)
        actor.next, actor.waits_for = "join", request["request_id"]
        self.send(request)

    def sync(self, actor: Actor, **fields: Any) -> None:
        request = self.ask(actor, "sync_group", **fields)
        actor.next, actor.waits_for = "sync", request["request_id"]
        self.send(request)

    def beat(self, actor: Actor, **fields: Any) -> None:
        self.send(self.ask(actor, "heartbeat", **fields))

    def commit(self, actor: Actor, *commits: Commit, **fields: Any) -> None:
        self.send(self.ask(actor, "offset_commit", topics=commit_topics(commits), **fields))

    def ask_as_tool(self, api: str, **fields: Any) -> None:
        self.send(self.request("tool", api, **fields))

    def times_out(self, actor: Actor) -> None:
        """Nobody waits for ever for an answer that will not come: another request took the place."""
        members = self.model.members.values()
        parked = [ask.request_id for it in members for ask in (it.parked_join, it.parked_sync) if ask]
        if actor.waits_for not in parked:
            actor.waits_for = None

    def behave(self, actor: Actor) -> bool:
        """Do what a client of the protocol does next; False if that is to wait."""
        self.times_out(actor)
        if actor.next == "stop":
            return False
        if actor.waits_for is not None:
            if actor.next == "join":
                return False
            # It was told its generation, so it beats while it waits to hear what it owns.
            self.beat(actor)
        elif actor.next == "join":
            self.join(actor)
        elif actor.next == "sync":
            self.sync(actor)
        else:
            self.beat(actor)
        return True

    # -- promises ----------------------------------------------------------------------------------

    def describes_itself(self) -> None:
        """What is described and fetched is what the model knows."""
        for version in (3, 6):
            answer = self._answer_that_changes_nothing("describe_group", version)
            is_gone = not self.model.exists and version == 6
            assert ("GROUP_ID_NOT_FOUND" if is_gone else NONE) == answer.error
            self.model.agrees_with_description(answer, version)
        answer = self._answer_that_changes_nothing("offset_fetch", NEWEST["offset_fetch"])
        self.model.offsets.agrees_with_fetch(answer, NEWEST["offset_fetch"])

    def _answer_that_changes_nothing(self, api: str, version: int) -> Any:
        value = msgspec.json.encode(self.request("d", api, api_version=version))
        record = Record(TOPIC, 0, len(self.log), self.model.log_ms, GROUP.encode(), value)
        result = step(GROUP.encode(), self.state, [record], 0, self.config, SECRET)
        state = self.state
        if state is not None:
            group = decode_group(state)
            # Or the question would be later than what it came after.
            group.is_ahead = False
            state = encode_group(group)
        assert (state, self.deadline_ms) == (result.state, result.deadline_ms)
        (output,) = result.outputs
        return _responses.decode(output.value or b"")

    def repeats_itself(self) -> None:
        """A call that is made again gives the same."""
        if self.last_call is not None:
            assert self._step(*self.last_call) == self.last_result, "it decided otherwise"

    def may_be_cut(self, rng: Random) -> None:
        """However the log is cut into batches, it comes to the same; also with other limits and outages."""
        config, outages = self.config, self.outages
        if rng.random() < 0.5:
            config = msgspec.structs.replace(config, max_group_bytes=2_000)
            outages = some_outages(self.log, rng)
        check_cuts(self.log, config, outages, rng, self._step)

    def copy(self) -> World:
        """A world of its own that goes on from here."""
        twin = copy.copy(self)
        twin.observer, twin.actors, twin.log = copy.deepcopy((self.observer, self.actors, self.log))
        twin.outages = twin.observer.model.outages
        twin._tell = lambda _what: None
        return twin

    def longest_ms(self) -> tuple[int, int]:
        """The longest time that somebody may be silent, and the longest that a phase may take."""
        config = self.config
        members = list(self.model.members.values())
        sessions = [it.session_ms for it in [*members, *self.actors]]
        sessions += [it - self.model.now for it in self.model.pending.values()]
        rebalances = [it.rebalance_ms for it in [*members, *self.actors]]
        delay_ms = config.group_initial_rebalance_delay_ms
        phase_ms = max([PATIENCE_MS, delay_ms, config.group_min_session_timeout_ms, *rebalances])
        return max(sessions), phase_ms

    def _latest_ms(self) -> int:
        """When all that was sent is read."""
        ends = [outage.end_ms for outage in self.outages]
        return max([self.now, self.model.log_ms, self.watermark_ms, *ends])

    def is_gone_if_nobody_comes(self) -> None:
        """Silence: all are out, the group is Empty and then deleted, deadline by deadline."""
        session_ms, phase_ms = self.longest_ms()
        # The phase that is running ends, be it postponed until the sessions of static members end; who was
        # parked is then silent or does not sync, and is out; the phase that makes ends; then the group is
        # looked at, and once more if an id that was handed out is still good, or if there are offsets. A
        # deleted group stays known for a while.
        bound_ms = REMEMBERED_MS + 2 * (phase_ms + max(session_ms, phase_ms))
        bound_ms += session_ms + 2 * self.config.offsets_retention_check_interval_ms
        bound_ms += max(self.config.offsets_retention_minutes * 60_000, LONGEST_RETENTION_MS)
        start_ms = self.now = self._latest_ms()
        at_once = self.copy()
        at_once.now += bound_ms
        at_once.advance()
        assert at_once.state is None
        while self.deadline_ms is not None:
            self.now = max(self.now, self.deadline_ms)
            assert self.now <= start_ms + bound_ms
            self.advance()
        assert (self.state, at_once.observer.picture) == (None, self.observer.picture)

    def settles_if_all_behave(self, behaving: list[Actor]) -> None:
        """From now on `behaving` behave and all others are silent: then the group is theirs, and Stable."""
        session_ms, phase_ms = self.longest_ms()
        # The phase that is running ends; who is silent and was parked is out a session later, and who has
        # not synced a phase later. Everybody hears of that with the next beat and joins again, or anew, at
        # worst in a group that has become Empty; those that there was no room for come once more.
        bound_ms = phase_ms + max(session_ms, phase_ms) + 2 * (BEAT_MS + phase_ms) + BEAT_MS
        if self.outages and self.outages[-1].closed:
            self.go_away(1)  # else nobody could create a group
        self.now = self._latest_ms()
        start_ms = self.now
        for actor in behaving:
            # Who gives others no time to join cannot expect to be in a group with them.
            actor.rebalance_ms = max(actor.rebalance_ms, PATIENCE_MS)
            actor.age = "old" if actor.age == "oldest" else actor.age
            actor.next_ms = self.now
            self.times_out(actor)
        self._all_do_what_is_due(behaving)
        while not self._is_settled(behaving):
            assert self.now <= start_ms + bound_ms, "the group is stuck"
            self._sleep(behaving)
            self._all_do_what_is_due(behaving)
        # So it stays.
        generation = self.model.generation
        for _ in range(3):
            self._sleep(behaving)
            self._all_do_what_is_due(behaving)
        assert self._is_settled(behaving)
        assert generation == self.model.generation

    def _all_do_what_is_due(self, behaving: list[Actor]) -> None:
        while due := [actor for actor in behaving if self._is_due(actor)]:
            for actor in due:
                beats = actor.waits_for is not None or actor.next == "beat"
                self.behave(actor)
                # Who was refused tries again later. Whatever else it has learned, it acts on at once.
                has_learned = beats == (actor.next == "join")
                actor.next_ms = self.now + (0 if has_learned else min(BEAT_MS, actor.session_ms // 3))

    def _is_due(self, actor: Actor) -> bool:
        if actor.next == "stop" or (actor.next == "join" and actor.waits_for is not None):
            return False
        has_to_follow = actor.waits_for is None and actor.next != "beat" and actor.member_id
        return bool(has_to_follow) or actor.next_ms <= self.now

    def _sleep(self, behaving: list[Actor]) -> None:
        times = [actor.next_ms for actor in behaving if actor.next_ms > self.now]
        if self.deadline_ms is not None:
            times.append(max(self.deadline_ms, self.now + 1))
        self.now = min([*times, self.now + BEAT_MS])
        self.advance()

    def _is_settled(self, behaving: list[Actor]) -> bool:
        model = self.model
        alive = [actor for actor in behaving if actor.next != "stop"]
        if not alive:
            return model.state in (EMPTY, DEAD)
        inside = [actor for actor in alive if actor.next == "beat"]
        outside = {actor.instance_id or actor.name for actor in alive if actor not in inside}
        places = {actor.instance_id or actor.name for actor in alive}
        return (
            model.state == STABLE
            and model.members.keys() == {actor.member_id for actor in inside}
            # More than the limit if a static member was away while others took the last places.
            and len(inside) >= min(len(places), self.config.group_max_size)
            and not outside & {actor.instance_id or actor.name for actor in inside}
            and not model.pending
            and not any(member.owes_sync for member in model.members.values())
        )
