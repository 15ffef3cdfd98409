"""A handful of programs do as they please, well or badly, and a model knows what they may expect.

`model.py` follows one group by what it says; here are the programs, the log they write, and the promise
that no group is ever stuck: whatever has happened, members that behave from now on end up in a Stable group
of exactly them, and a group that nobody cares for any more is gone in the end.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    MemberFenced,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    StateChanged,
)
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.responses import AnyResponse, GroupPicture
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from tests.coordinator_state import invariants
from tests.coordinator_state.model import (
    DEAD,
    EMPTY,
    GROUP,
    NEWEST,
    NONE,
    PREPARING,
    STABLE,
    TOPIC,
    Ask,
    Model,
    Protocols,
)
from tests.coordinator_state.model_offsets import BOTH, OPAQUE, Commit, Key, T, U
from tests.depth import cases

pytestmark = pytest.mark.drawn

EXAMPLES, STEPS = 250, 40

SECRET = b"secret"
START_MS = 1_000_000
UNITS = [b"%d" % number for number in range(8)]

# A client that behaves beats at least this often, and gives a rebalance at least that much time.
BEAT_MS = 3_000
PATIENCE_MS = 12_000

VERSIONS: dict[str, dict[str, int]] = {
    "new": NEWEST,
    "middle": {"join_group": 5, "sync_group": 3, "heartbeat": 3, "leave_group": 3, "offset_commit": 7},
    "skipless": {"join_group": 8, "sync_group": 5, "heartbeat": 4, "leave_group": 4, "offset_commit": 8},
    "old": {"join_group": 3, "sync_group": 2, "heartbeat": 2, "leave_group": 2, "offset_commit": 4},
    "oldest": {"join_group": 0, "sync_group": 0, "heartbeat": 0, "leave_group": 0, "offset_commit": 2},
}
# All have one name in common, so that clients of one kind never keep each other out.
READABLE: list[Protocols] = [
    (("range", T),),
    (("range", U),),
    (("range", T), ("sticky", BOTH)),
    (("sticky", U), ("range", T)),
]
PROTOCOLS: list[Protocols] = [*READABLE, (("sticky", OPAQUE), ("range", BOTH)), (("range", OPAQUE),)]
LONGEST_RETENTION_MS = 100_000

_responses = msgspec.json.Decoder(AnyResponse)
_events = msgspec.json.Decoder(AnyEvent)
_pictures = msgspec.json.Decoder(GroupPicture)


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


def divide(members: list[str], forget: str | None = None) -> dict[str, bytes]:
    """Give each work unit to one of `members`."""
    units: dict[str, list[bytes]] = {member_id: [] for member_id in members if member_id != forget}
    for i, unit in enumerate(UNITS if units else []):
        units[list(units)[i % len(units)]].append(unit)
    return {member_id: b" ".join(each) for member_id, each in units.items()}


class World:
    """One group, its log and clock, the model of it, and the programs."""

    def __init__(self, config: GroupConfig, actors: list[Actor], protocol_type: str, lag_ms: int) -> None:
        self.config = config
        self.actors = actors
        self.protocol_type = protocol_type
        self.model = Model(config)
        self.lag_ms = lag_ms
        """How far the watermark is behind: until then, time passes with the records only."""
        self.now = START_MS
        self.watermark_ms = 0
        self.offset = 0
        self.state: bytes | None = None
        self.deadline_ms: int | None = None
        self.picture: GroupPicture | None = None
        self.last_ask: Ask | None = None
        self.last_call: tuple[Any, ...] | None = None
        self.last_result: StepResult | None = None
        self.is_copy = False
        self.is_sound = True
        """False while a call is checked, and so for good once a check has failed."""

    # -- calls -------------------------------------------------------------------------------------

    def send(self, ask: Ask, at_ms: int | None = None) -> None:
        """Put a request on the log."""
        at_ms = self.now if at_ms is None else at_ms
        record = Record(TOPIC, 0, self.offset, at_ms, GROUP.encode(), ask.value)
        self.offset += 1
        self.last_ask = ask
        self.watermark_ms = max(self.watermark_ms, self.now - self.lag_ms)
        self._call(ask, [record])

    def advance(self) -> None:
        """Nothing has come until now."""
        self.watermark_ms = max(self.watermark_ms, self.now)
        self._call(None, [])

    def _call(self, ask: Ask | None, records: list[Record]) -> None:
        self.is_sound = False
        self.last_call = (GROUP.encode(), self.state, records, self.watermark_ms, self.config, SECRET)
        self.last_result = result = step(*self.last_call)
        before, self.state, self.deadline_ms = self.state, result.state, result.deadline_ms
        group = invariants.check(before, result, self.watermark_ms, self.config)
        outputs: dict[Channel, list[bytes | None]] = {channel: [] for channel in Channel}
        for output in result.outputs:
            outputs[output.channel].append(output.value)
        assert [] == outputs[Channel.REJECTED]
        answers = [_responses.decode(value or b"") for value in outputs[Channel.RESPONSES]]
        events = [_events.decode(value or b"") for value in outputs[Channel.EVENTS]]
        for value in outputs[Channel.GROUPS]:
            self.picture = None if value is None else _pictures.decode(value)
        self._count(answers, events)
        place, at_ms = (f"{TOPIC}-0-{records[0].offset}", records[0].timestamp_ms) if records else ("", 0)
        self.model.see(ask, place, at_ms, self.watermark_ms, answers, events)
        self.model.agrees_with_group(group, self.deadline_ms)
        self.model.agrees_with_picture(self.picture)
        for answer in answers:
            for actor in self.actors:
                if actor.name == answer.client_id:
                    actor.hear(answer)
        self.is_sound = True

    def _count(self, answers: list[Any], events: list[AnyEvent]) -> None:
        if self.is_copy:
            return
        for answer in answers:
            event(f"answer {answer.__struct_config__.tag} {answer.error}")
        for each in events:
            match each:
                case StateChanged():
                    event(f"{each.from_} to {each.to}")
                case MemberRemoved():
                    event(f"removed: {each.reason}")
                case MemberFenced() | OffsetsCommitted() | OffsetsExpired() | OffsetsDeleted():
                    event(f"{each.__struct_config__.tag} in {self.model.state}")
                case _:
                    event(str(each.__struct_config__.tag))

    # -- requests ----------------------------------------------------------------------------------

    def ask(self, actor: Actor, api: str, **fields: Any) -> Ask:
        """Make a request as `actor` would, but for `fields`."""
        asked = {
            "api": api,
            "request_id": f"{actor.name}-{self.offset}",
            "client_id": actor.name,
            "version": actor.versions.get(api, NEWEST[api]),
            "member_id": actor.member_id,
            "instance_id": actor.instance_id,
            "generation": actor.generation,
            "protocol_type": self.protocol_type,
        }
        return Ask(**(asked | fields))

    def join(self, actor: Actor, **fields: Any) -> None:
        asked = {
            "session_ms": actor.session_ms,
            "rebalance_ms": actor.rebalance_ms,
            "protocols": actor.protocols,
        }
        ask = self.ask(actor, "join_group", **(asked | fields))
        actor.next, actor.waits_for = "join", ask.request_id
        self.send(ask)

    def sync(self, actor: Actor, forget: str | None = None, **fields: Any) -> None:
        asked = {"protocol_name": actor.protocol_name, "assignments": divide(actor.told_members, forget)}
        ask = self.ask(actor, "sync_group", **(asked | fields))
        actor.next, actor.waits_for = "sync", ask.request_id
        self.send(ask)

    def beat(self, actor: Actor) -> None:
        self.send(self.ask(actor, "heartbeat"))

    def commit(self, actor: Actor, *commits: Commit, **fields: Any) -> None:
        self.send(self.ask(actor, "offset_commit", commits=commits, **fields))

    def ask_as_tool(self, api: str, **fields: Any) -> None:
        asked = {"version": NEWEST[api]} | fields
        self.send(Ask(api=api, request_id=f"tool-{self.offset}", client_id="tool", **asked))

    def leave(self, actor: Actor, *leaving: tuple[str, str | None]) -> None:
        self.send(self.ask(actor, "leave_group", leaving=leaving))

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
            assert ("GROUP_ID_NOT_FOUND" if not self.state and version == 6 else NONE) == answer.error
            self.model.agrees_with_description(answer, version)
        answer = self._answer_that_changes_nothing("offset_fetch", NEWEST["offset_fetch"])
        self.model.offsets.agrees_with_fetch(answer, None, NEWEST["offset_fetch"])

    def _answer_that_changes_nothing(self, api: str, version: int) -> Any:
        ask = Ask(api=api, request_id="d", client_id="d", version=version)
        record = Record(TOPIC, 0, self.offset, 0, GROUP.encode(), ask.value)
        result = step(GROUP.encode(), self.state, [record], 0, self.config, SECRET)
        assert (self.state, self.deadline_ms) == (result.state, result.deadline_ms)
        (output,) = result.outputs
        return _responses.decode(output.value or b"")

    def copy(self) -> World:
        """A world of its own that goes on from here."""
        twin = copy.copy(self)
        twin.model, twin.actors = copy.deepcopy((self.model, self.actors))
        twin.is_copy = True
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

    def is_gone_if_nobody_comes(self) -> None:
        """Silence: all are out, the group is Empty and then deleted, deadline by deadline."""
        session_ms, phase_ms = self.longest_ms()
        # The phase that is running ends, be it postponed until the sessions of static members end; who was
        # parked is then silent or does not sync, and is out; the phase that makes ends; then the group is
        # looked at, and once more if an id that was handed out is still good, or if there are offsets.
        bound_ms = 2 * (phase_ms + max(session_ms, phase_ms))
        bound_ms += session_ms + 2 * self.config.offsets_retention_check_interval_ms
        bound_ms += max(self.config.offsets_retention_minutes * 60_000, LONGEST_RETENTION_MS)
        start_ms = self.now = max(self.now, self.model.now, self.watermark_ms)
        at_once = self.copy()
        at_once.now += bound_ms
        at_once.advance()
        assert at_once.state is None
        while self.deadline_ms is not None:
            self.now = max(self.now, self.deadline_ms)
            assert self.now <= start_ms + bound_ms
            self.advance()
        assert (self.state, at_once.picture) == (None, self.picture)

    def settles_if_all_behave(self, behaving: list[Actor]) -> None:
        """From now on `behaving` behave and all others are silent: then the group is theirs, and Stable."""
        session_ms, phase_ms = self.longest_ms()
        # The phase that is running ends; who is silent and was parked is out a session later, and who has
        # not synced a phase later. Everybody hears of that with the next beat and joins again, or anew, at
        # worst in a group that has become Empty; those that there was no room for come once more.
        bound_ms = phase_ms + max(session_ms, phase_ms) + 2 * (BEAT_MS + phase_ms) + BEAT_MS
        self.now = max(self.now, self.model.now, self.watermark_ms)
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
        event(f"settled after {(self.now - start_ms) // 10_000}0 s", str(len(behaving)))
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


# -- the machine -----------------------------------------------------------------------------------


@st.composite
def configs(draw: st.DrawFn) -> GroupConfig:
    return GroupConfig(
        group_initial_rebalance_delay_ms=draw(st.sampled_from([0, 500, 3_000])),
        group_max_size=draw(st.sampled_from([2, 3, 1_000, 1_000])),
        offsets_retention_check_interval_ms=draw(st.sampled_from([1_000, 20_000, 600_000])),
        new_member_join_timeout_ms=draw(st.sampled_from([20_000, 300_000])),
        offsets_retention_minutes=draw(st.sampled_from([1, 1, 10_080])),
        max_group_offsets=draw(st.sampled_from([2, 20_000, 20_000])),
        offset_metadata_max_bytes=draw(st.sampled_from([3, 4_096])),
    )


# Two of the metadata have three UTF-16 units, one has four.
commits = st.builds(
    Commit,
    st.sampled_from("tuv"),
    st.integers(0, 1),
    st.integers(-1, 2**63 - 1),
    st.sampled_from([-1, 0, 7]),
    st.sampled_from([None, "", "m", "mmm", "é\N{GRINNING FACE}", "\N{GRINNING FACE}" * 2]),
)
some_commits = st.lists(commits, max_size=4).map(tuple)
keys: st.SearchStrategy[Key] = st.tuples(st.sampled_from("tuv"), st.integers(0, 1))
retentions_ms = st.sampled_from([-1, 0, 1_000, 20_000, LONGEST_RETENTION_MS])


SESSIONS_MS = [6_000, 10_000, 10_000, 30_000]
REBALANCES_MS = [5_000, 5_000, 20_000, 20_000, 60_000, 0, -1]
WHO = st.integers(0, 4)


@st.composite
def actors(draw: st.DrawFn) -> list[Actor]:
    """Some with names, and of these some that share one."""
    names = draw(
        st.sampled_from(
            [
                [None, None, None, "i1", "i1"],
                [None, None, "i1", "i1", "i2"],
                ["i1", "i1", "i2", "i3", "i3"],
                [None, None, None, None, None],
            ]
        )
    )
    protocols = draw(st.sampled_from([READABLE, READABLE, PROTOCOLS]))
    return [
        Actor(
            f"c{i}",
            name,
            draw(st.sampled_from(["new", "new", "middle", "skipless"] + ["old", "oldest"] * (not name))),
            draw(st.sampled_from(SESSIONS_MS)),
            draw(st.sampled_from(REBALANCES_MS)),
            draw(st.sampled_from(protocols)),
        )
        for i, name in enumerate(names)
    ]


class GroupMachine(RuleBasedStateMachine):
    """Rules are what programs and time may do; what must follow is checked with every call."""

    world: World

    @initialize(
        config=configs(),
        actors=actors(),
        protocol_type=st.sampled_from(["consumer", "consumer", "consumer", "connect"]),
        lag_ms=st.sampled_from([0, 0, 2_000, 10**9]),
        first=st.sets(WHO, max_size=4),
    )
    def begin(
        self, config: GroupConfig, actors: list[Actor], protocol_type: str, lag_ms: int, first: set[int]
    ) -> None:
        """Mostly there is a group already, for which it takes some steps that few runs would take."""
        self.world = World(config, actors, protocol_type, lag_ms)
        self._come_to_rest(first, 3_000)

    # -- programs that behave ----------------------------------------------------------------------

    def _behave(self, who: int, rounds: int) -> None:
        world = self.world
        for _ in range(rounds):
            for i in range(len(world.actors)):
                # Whoever has something to do, from the one that was drawn on.
                if world.behave(world.actors[(who + i) % len(world.actors)]):
                    break

    @rule(who=WHO)
    def one_behaves(self, who: int) -> None:
        self._behave(who, 1)

    @rule(who=WHO, rounds=st.integers(2, 4))
    def one_behaves_for_a_while(self, who: int, rounds: int) -> None:
        self._behave(who, rounds)

    def _all_behave(self, who: set[int], rounds: int) -> None:
        for _ in range(rounds):
            for i in sorted(who):
                self.world.behave(self.world.actors[i])

    @rule(who=st.sets(WHO, min_size=2), rounds=st.integers(1, 4))
    def some_behave(self, who: set[int], rounds: int) -> None:
        self._all_behave(who, rounds)

    def _come_to_rest(self, who: set[int], wait_ms: int) -> None:
        self._all_behave(who, 2)
        self.world.now += wait_ms
        self.world.advance()
        self._all_behave(who, 3)

    @rule(who=st.sets(WHO, min_size=2), wait_ms=st.sampled_from([0, 500, 3_000]))
    def some_come_to_rest(self, who: set[int], wait_ms: int) -> None:
        self._come_to_rest(who, wait_ms)

    # -- joins -------------------------------------------------------------------------------------

    @rule(who=WHO)
    def join(self, who: int) -> None:
        self.world.join(self.world.actors[who])

    @rule(who=WHO)
    def start_anew(self, who: int) -> None:
        actor = self.world.actors[who]
        actor.start()
        self.world.join(actor)

    @rule(which=st.integers(0, 4))
    def start_anew_while_an_answer_is_due(self, which: int) -> None:
        """Or before it has synced: its former run will not, and is told that it is fenced."""
        waiting = [it for it in self.world.actors if it.instance_id and (it.waits_for or it.next == "sync")]
        if waiting:
            waiting[which % len(waiting)].start()
            self.world.join(waiting[which % len(waiting)])

    @rule(who=WHO, protocols=st.sampled_from(PROTOCOLS), anew=st.booleans())
    def join_with_another_subscription(self, who: int, protocols: Protocols, anew: bool) -> None:
        actor = self.world.actors[who]
        actor.protocols = protocols
        if anew:
            actor.start()
        self.world.join(actor)

    @rule(who=WHO, session_ms=st.sampled_from(SESSIONS_MS), rebalance_ms=st.sampled_from(REBALANCES_MS))
    def join_with_other_timeouts(self, who: int, session_ms: int, rebalance_ms: int) -> None:
        actor = self.world.actors[who]
        actor.session_ms, actor.rebalance_ms = session_ms, rebalance_ms
        self.world.join(actor)

    @rule(who=WHO, age=st.sampled_from([*VERSIONS]))
    def upgrade(self, who: int, age: str) -> None:
        actor = self.world.actors[who]
        if actor.instance_id is None or age not in ("old", "oldest"):
            actor.age = age

    @rule(
        odd=st.sampled_from(
            [
                {"version": 3},
                {"version": 3, "rebalance_ms": 60_000, "session_ms": 30_000},
                {"version": 9},
                {"version": 3, "protocol_type": "connect"},
                {"version": 3, "protocols": (("sticky", T),)},
                {"protocols": ()},
                {"protocol_type": ""},
                {"session_ms": 5_999},
                {"session_ms": 1_800_001},
                {"member_id": "nobody"},
                {"version": 4, "instance_id": "i1"},
                {"instance_id": "i9"},
                {"version": 5, "instance_id": "i1"},
            ]
        )
    )
    def stranger_joins(self, odd: dict[str, Any]) -> None:
        """It is never heard of again: what it leaves behind has to go by itself."""
        ask = {"api": "join_group", "version": 9, "protocols": PROTOCOLS[2], "rebalance_ms": 20_000} | odd
        self.world.send(Ask(request_id=f"s-{self.world.offset}", client_id="stranger", **ask))

    @precondition(lambda self: self.world.model.pending)
    @rule(
        api=st.sampled_from(["join_group", "heartbeat", "leave_group", "offset_commit"]),
        name=st.sampled_from([None, "i9"]),
    )
    def stranger_uses_a_pending_id(self, api: str, name: str | None) -> None:
        member_id = next(iter(self.world.model.pending))
        ask = Ask(
            api=api,
            request_id=f"s-{self.world.offset}",
            client_id="stranger",
            version=NEWEST[api],
            member_id=member_id,
            instance_id=name,
            protocols=PROTOCOLS[2],
            leaving=((member_id, name),),
            commits=(Commit("t", 0, 1),),
        )
        self.world.send(ask)

    # -- syncs, heartbeats, leaves -----------------------------------------------------------------

    @rule(who=st.sets(WHO, min_size=2))
    def some_join_and_do_not_sync(self, who: set[int]) -> None:
        """All that is left for the new generation is that the leader says who owns what."""
        world = self.world
        for actor in world.actors:
            if actor.next == "beat" and actor.told_members:
                world.join(actor)
        for _ in range(2):
            for i in sorted(who):
                if world.actors[i].next != "sync":
                    world.behave(world.actors[i])

    @rule(who=WHO)
    def sync(self, who: int) -> None:
        self.world.sync(self.world.actors[who])

    @rule(which=st.integers(0, 4))
    def leader_syncs_and_forgets_somebody(self, which: int) -> None:
        world = self.world
        for actor in world.actors:
            if actor.told_members:
                world.sync(actor, forget=actor.told_members[which % len(actor.told_members)])

    @rule(times=st.integers(1, 2), claim=st.booleans())
    def followers_sync(self, times: int, claim: bool) -> None:
        """Before the leader does. What they say of who owns what is not heard."""
        world = self.world
        for _ in range(times):
            for actor in world.actors:
                if actor.next == "sync" and not actor.told_members:
                    world.sync(actor, **({"assignments": divide([actor.member_id])} if claim else {}))

    @rule(who=WHO)
    def beat(self, who: int) -> None:
        self.world.beat(self.world.actors[who])

    def _ids_of(self, actor: Actor, by_name: bool) -> tuple[str, str | None]:
        if actor.versions["leave_group"] < 3:
            return actor.member_id, None
        return ("" if by_name else actor.member_id), actor.instance_id

    @rule(who=WHO, by_name=st.booleans())
    def leave(self, who: int, by_name: bool) -> None:
        actor = self.world.actors[who]
        self.world.leave(actor, self._ids_of(actor, by_name))
        actor.start()

    @rule(
        who=st.lists(WHO, min_size=2, max_size=4),
        by_name=st.booleans(),
        version=st.sampled_from([2, 3, 4, 5, 5]),
    )
    def leave_together(self, who: list[int], by_name: bool, version: int) -> None:
        """Sent by one for several, that learn of it when they are told so."""
        world = self.world
        leaving = [self._ids_of(world.actors[i], by_name) for i in who]
        world.send(world.ask(world.actors[who[0]], "leave_group", leaving=tuple(leaving), version=version))

    @rule(
        who=WHO,
        other=WHO,
        api=st.sampled_from(["join_group", "sync_group", "heartbeat", "leave_group", "offset_commit"]),
        wrong=st.sampled_from(
            ["id", "no id", "generation", "guess", "instance", "other id", "former id", "protocol"]
        ),
    )
    def ask_what_is_wrong(self, who: int, other: int, api: str, wrong: str) -> None:
        """What a program might send that has missed something, or is somebody else."""
        world = self.world
        actor = world.actors[who]
        former = [*actor.former_ids, *world.actors[other].former_ids, "nobody"]
        fields: dict[str, Any] = {
            "id": {"member_id": "nobody"},
            "no id": {"member_id": "", "instance_id": None},
            "generation": {"generation": actor.generation - 1},
            "guess": {"generation": world.model.generation, "protocol_name": "range"},
            "instance": {"instance_id": f"i{other}", "version": NEWEST[api]},
            "other id": {"member_id": world.actors[other].member_id},
            "former id": {"member_id": former[0]},
            "protocol": {"protocol_name": "other", "protocol_type": "consumer", "version": NEWEST[api]},
        }[wrong]
        if api == "join_group":
            fields = {"protocols": actor.protocols, "rebalance_ms": actor.rebalance_ms} | fields
        elif api == "sync_group":
            fields = {"protocol_name": actor.protocol_name, "assignments": divide([actor.member_id])} | fields
        elif api == "offset_commit":
            fields = {"commits": (Commit("t", 0, 666),)} | fields
        ask = world.ask(actor, api, **fields)
        if api == "leave_group":
            ask = replace(ask, leaving=((ask.member_id, ask.instance_id),))
        world.send(ask)

    # -- offsets and the end of groups -------------------------------------------------------------

    @rule(who=WHO, commits=some_commits, retention_ms=retentions_ms)
    def commit(self, who: int, commits: tuple[Commit, ...], retention_ms: int) -> None:
        self.world.commit(self.world.actors[who], *commits, retention_ms=retention_ms)

    @rule(
        version=st.sampled_from([1, 2, 4, 5, 6, 8, 9, 9, 10]),
        commits=some_commits,
        retention_ms=retentions_ms,
        odd=st.sampled_from(
            [{}, {}, {}, {"generation": 0}, {"member_id": "nobody"}, {"version": 9, "instance_id": "i1"}]
        ),
    )
    def tool_commits(
        self, version: int, commits: tuple[Commit, ...], retention_ms: int, odd: dict[str, Any]
    ) -> None:
        fields = {"version": version, "commits": commits, "retention_ms": retention_ms} | odd
        self.world.ask_as_tool("offset_commit", **fields)

    @precondition(lambda self: not self.world.model.exists)
    @rule(version=st.sampled_from([2, 8, 9]), commits=some_commits)
    def member_of_a_group_that_is_gone_commits(self, version: int, commits: tuple[Commit, ...]) -> None:
        self.world.ask_as_tool("offset_commit", version=version, commits=commits, generation=3)

    @rule(version=st.integers(1, 9), asked=st.none() | st.lists(keys, max_size=5).map(tuple))
    def fetch(self, version: int, asked: tuple[Key, ...] | None) -> None:
        self.world.ask_as_tool("offset_fetch", version=version, partitions=asked)

    @rule(asked=st.sets(keys, min_size=1, max_size=2), some=st.sets(st.integers(0, 5)))
    def delete_offsets(self, asked: set[Key], some: set[int]) -> None:
        """Some that are there, and some that need not be."""
        kept = sorted(self.world.model.offsets.kept)
        there = {kept[i] for i in some if i < len(kept)}
        self.world.ask_as_tool("offset_delete", partitions=tuple(sorted(asked | there)))

    @rule(version=st.integers(0, 2))
    def delete_group(self, version: int) -> None:
        self.world.ask_as_tool("delete_group", version=version)

    @rule(api=st.sampled_from(["describe_group", "find_coordinator"]), version=st.integers(0, 6))
    def describe_or_find(self, api: str, version: int) -> None:
        self.world.ask_as_tool(api, version=version)

    # -- time --------------------------------------------------------------------------------------

    def _live_until(self, until_ms: int, *, by_commits: bool) -> None:
        """Those that can are heard of in time until then."""
        world = self.world
        while world.now < until_ms:
            world.now = min(world.now + BEAT_MS, until_ms)
            for actor in world.actors:
                if actor.generation >= 0 and actor.next != "stop":
                    if by_commits:
                        world.commit(actor, Commit("v", 0, world.offset))
                    else:
                        world.beat(actor)

    def _pass(self, until_ms: int, is_seen: bool) -> None:
        self.world.now = max(self.world.now, until_ms)
        if is_seen:
            self.world.advance()

    @rule(wait_ms=st.sampled_from([1, 100, 500, 1_000, 2_000, 3_000]), is_seen=st.booleans())
    def a_little_time_passes(self, wait_ms: int, is_seen: bool) -> None:
        self._pass(self.world.now + wait_ms, is_seen)

    @precondition(lambda self: self.world.deadline_ms is not None)
    @rule(beyond_ms=st.sampled_from([-1, 0, 0, 1]), is_seen=st.booleans())
    def it_is_about_the_next_deadline(self, beyond_ms: int, is_seen: bool) -> None:
        assert self.world.deadline_ms is not None
        self._pass(self.world.deadline_ms + beyond_ms, is_seen)

    @precondition(lambda self: self.world.model.members)
    @rule(is_seen=st.booleans(), beyond_ms=st.sampled_from([-1, 0]), by_commits=st.booleans())
    def the_sync_time_or_the_phase_is_over(self, is_seen: bool, beyond_ms: int, by_commits: bool) -> None:
        model = self.world.model
        until_ms = model.phase_until_ms if model.state == PREPARING else model.sync_until_ms
        if until_ms is not None:
            self._live_until(until_ms + beyond_ms, by_commits=by_commits)
        if is_seen:
            self.world.advance()

    @precondition(lambda self: self.world.model.state == STABLE)
    @rule(who=WHO, version=st.sampled_from([4, 9]), beyond_ms=st.sampled_from([-1, 0, 0]))
    def members_live_until_offsets_that_nobody_reads_are_over(
        self, who: int, version: int, beyond_ms: int
    ) -> None:
        world, model = self.world, self.world.model
        world.commit(world.actors[who], Commit("v", 1, 7), version=version, retention_ms=20_000)
        until_ms = min(model.offsets.gone_by_ms(), default=10**18) + beyond_ms
        if until_ms <= world.now + LONGEST_RETENTION_MS:
            self._live_until(until_ms, by_commits=False)
            world.advance()

    @rule(wait_ms=st.sampled_from([4_000, 4_000, 7_000, 31_000, 100_000]), is_seen=st.booleans())
    def much_time_passes(self, wait_ms: int, is_seen: bool) -> None:
        self._pass(self.world.now + wait_ms, is_seen)

    @rule()
    def nothing_comes(self) -> None:
        self.world.advance()

    @rule(
        who=WHO,
        api=st.sampled_from(["heartbeat", "offset_commit"]),
        back_ms=st.sampled_from([1, 2_000, 20_000]),
    )
    def clock_is_behind(self, who: int, api: str, back_ms: int) -> None:
        """Another broker leads the partition, whose clock is not right."""
        world = self.world
        ask = world.ask(world.actors[who], api, commits=(Commit("t", 0, back_ms),))
        world.send(ask, at_ms=world.now - back_ms)

    # -- the same again ----------------------------------------------------------------------------

    @precondition(lambda self: self.world.last_call is not None)
    @rule()
    def the_call_is_repeated(self) -> None:
        assert self.world.last_call is not None
        assert step(*self.world.last_call) == self.world.last_result

    @rule()
    def the_request_is_in_the_log_twice(self) -> None:
        """A producer without idempotence; a program of old that asks to be a member is two then."""
        ask = self.world.last_ask
        if ask is not None and (ask.api != "join_group" or ask.member_id or ask.version >= 4):
            self.world.advance()
            self.world.send(ask)

    @rule(who=st.sets(WHO))
    def it_settles_if_some_behave(self, who: set[int]) -> None:
        """On a copy: what happens next here is something else."""
        world = self.world.copy()
        world.settles_if_all_behave([world.actors[i] for i in who])

    @rule()
    def it_is_gone_if_nobody_comes(self) -> None:
        self.world.copy().is_gone_if_nobody_comes()

    # -- always ------------------------------------------------------------------------------------

    @invariant()
    def it_is_described_as_it_is(self) -> None:
        event(f"state {self.world.model.state}")
        self.world.describes_itself()

    def teardown(self) -> None:
        if not hasattr(self, "world") or not self.world.is_sound:
            return  # that is another failure, which is the one to be shown
        twin = self.world.copy()
        twin.settles_if_all_behave(twin.actors)
        twin.is_gone_if_nobody_comes()
        self.world.is_gone_if_nobody_comes()


class TestGroupMachine(GroupMachine.TestCase):
    settings = settings(
        max_examples=cases(EXAMPLES, deep=8 * EXAMPLES),
        stateful_step_count=STEPS,
        report_multiple_bugs=False,
    )
