"""A handful of programs do as they please, well or badly, and a model knows what they may expect.

`model.py` follows one group by what it says; here are the programs, the log they write, and the promise
that no group is ever stuck: whatever has happened, members that behave from now on end up in a Stable group
of exactly them, and a group that nobody cares for any more is gone in the end.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from group_coordinator.coordinator_state.config import GroupConfig
from tests.coordinator_state.model import NEWEST, PREPARING, STABLE, Protocols
from tests.coordinator_state.model_offsets import BOTH, OPAQUE, Commit, Key, T, U
from tests.coordinator_state.world import (
    BEAT_MS,
    LONGEST_RETENTION_MS,
    VERSIONS,
    Actor,
    World,
    commit_topics,
    divide,
    offer,
    topics_of,
)
from tests.depth import cases

pytestmark = pytest.mark.drawn

EXAMPLES, STEPS = cases(120, deep=2_000), 40

# All have one name in common, so that clients of one kind never keep each other out.
READABLE: list[Protocols] = [
    (("range", T),),
    (("range", U),),
    (("range", T), ("sticky", BOTH)),
    (("sticky", U), ("range", T)),
]
PROTOCOLS: list[Protocols] = [*READABLE, (("sticky", OPAQUE), ("range", BOTH)), (("range", OPAQUE),)]

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
reasons = st.sampled_from([None, None, "", "why", "\x1b\N{GRINNING FACE}" * 127])
retentions_ms = st.sampled_from([-1, 0, 1_000, 20_000, LONGEST_RETENTION_MS])


# Who has sent the one can be read, and so is answered.
NONSENSE = b'{"request_id":"r","client_id":"s","surprise":1}'
WRONG_TYPE = b'{"api":"heartbeat","request_id":"r","client_id":"s","group_id":"orders","member_id":1}'
SESSIONS_MS = [6_000, 10_000, 10_000, 30_000]
REBALANCES_MS = [5_000, 5_000, 20_000, 20_000, 60_000, 0, -1]
WHO = st.integers(0, 4)
QUIET = st.sampled_from([{}, {"quiet": True}])


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
    rng: Random

    @initialize(
        config=configs(),
        actors=actors(),
        protocol_type=st.sampled_from(["consumer", "consumer", "consumer", "connect"]),
        lag_ms=st.sampled_from([0, 0, 2_000, 10**9]),
        partitions=st.sampled_from([1, 1, 2]),
        first=st.sets(WHO, max_size=4),
        seed=st.integers(0, 2**32),
    )
    def begin(
        self,
        config: GroupConfig,
        actors: list[Actor],
        protocol_type: str,
        lag_ms: int,
        partitions: int,
        first: set[int],
        seed: int,
    ) -> None:
        """Mostly there is a group already, for which it takes some steps that few runs would take."""
        self.world = World(config, actors, protocol_type, lag_ms, partitions, tell=event)
        self.rng = Random(seed)
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
                {"api_version": 3},
                {"api_version": 3, "rebalance_timeout_ms": 60_000, "session_timeout_ms": 30_000},
                {"api_version": 9},
                {"api_version": 3, "protocol_type": "connect"},
                {"api_version": 3, "protocols": offer((("sticky", T),))},
                {"protocols": []},
                {"protocol_type": ""},
                {"session_timeout_ms": 5_999},
                {"session_timeout_ms": 1_800_001},
                {"member_id": "nobody"},
                {"api_version": 4, "group_instance_id": "i1"},
                {"group_instance_id": "i9"},
                {"api_version": 5, "group_instance_id": "i1"},
            ]
        )
    )
    def stranger_joins(self, odd: dict[str, Any]) -> None:
        """It is never heard of again: what it leaves behind has to go by itself."""
        self._stranger("join_group", **odd)

    def _stranger(self, api: str, **fields: Any) -> None:
        join = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 20_000,
            "protocol_type": "consumer",
            "protocols": offer(PROTOCOLS[2]),
        }
        self.world.send(self.world.request("stranger", api, **(join | fields)))

    @precondition(lambda self: self.world.model.pending)
    @rule(
        api=st.sampled_from(["join_group", "heartbeat", "leave_group", "offset_commit"]),
        name=st.sampled_from([None, "i9"]),
    )
    def stranger_uses_a_pending_id(self, api: str, name: str | None) -> None:
        ids = {"member_id": next(iter(self.world.model.pending)), "group_instance_id": name}
        topics = commit_topics([Commit("t", 0, 1)])
        self._stranger(api, **ids, generation_id=-1, members=[ids], topics=topics)

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
                forgotten = actor.told_members[which % len(actor.told_members)]
                world.sync(actor, assignments=divide(actor.told_members, forgotten))

    @rule(times=st.integers(1, 2), claim=st.booleans())
    def followers_sync(self, times: int, claim: bool) -> None:
        """Before the leader does. What they say of who owns what is not heard."""
        world = self.world
        for _ in range(times):
            for actor in world.actors:
                if actor.next == "sync" and not actor.told_members:
                    world.sync(actor, **({"assignments": divide([actor.member_id])} if claim else {}))

    @rule(who=WHO, quiet=QUIET)
    def beat(self, who: int, quiet: dict[str, bool]) -> None:
        self.world.beat(self.world.actors[who], **quiet)

    @rule(who=st.lists(WHO, min_size=2, max_size=3), quiet=QUIET)
    def beat_together(self, who: list[int], quiet: dict[str, bool]) -> None:
        """One sends heartbeats of all that share a program."""
        world = self.world
        asked = [world.ask(world.actors[i], "heartbeat") for i in who]
        fields = ("member_id", "group_instance_id", "generation_id")
        members = [{name: each[name] for name in fields} for each in asked]
        world.send(world.request(world.actors[who[0]].name, "heartbeat", members=members, **quiet))

    def _ids_of(self, actor: Actor, by_name: bool) -> dict[str, str | None]:
        if actor.versions["leave_group"] < 3:
            return {"member_id": actor.member_id}
        return {"member_id": "" if by_name else actor.member_id, "group_instance_id": actor.instance_id}

    @rule(who=WHO, by_name=st.booleans())
    def leave(self, who: int, by_name: bool) -> None:
        actor = self.world.actors[who]
        self.world.send(self.world.ask(actor, "leave_group", members=[self._ids_of(actor, by_name)]))
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
        ask = world.ask(world.actors[who[0]], "leave_group", members=leaving, api_version=version)
        world.send(ask)

    @rule(
        who=WHO,
        other=WHO,
        api=st.sampled_from(["join_group", "sync_group", "heartbeat", "leave_group", "offset_commit"]),
        wrong=st.sampled_from(
            ["id", "no id", "generation", "guess", "instance", "other id", "former id", "protocol", "version"]
        ),
    )
    def ask_what_is_wrong(self, who: int, other: int, api: str, wrong: str) -> None:
        """What a program might send that has missed something, or is somebody else."""
        world = self.world
        actor = world.actors[who]
        former = [*actor.former_ids, *world.actors[other].former_ids, "nobody"]
        fields: dict[str, Any] = {
            "id": {"member_id": "nobody"},
            "no id": {"member_id": "", "group_instance_id": None},
            "generation": {"generation_id": actor.generation - 1},
            "guess": {"generation_id": world.model.generation, "protocol_name": "range"},
            "instance": {"group_instance_id": f"i{other}", "api_version": NEWEST[api]},
            "other id": {"member_id": world.actors[other].member_id},
            "former id": {"member_id": former[0]},
            "protocol": {"protocol_name": "other", "protocol_type": "consumer", "api_version": NEWEST[api]},
            "version": {"api_version": NEWEST[api] + 1},
        }[wrong]
        topics = commit_topics([Commit("t", 0, 666)])
        ask = world.ask(actor, api, **({"topics": topics} | fields))
        if api == "sync_group" and not actor.told_members:
            ask["assignments"] = divide([actor.member_id])
        ids = {"member_id": ask["member_id"], "group_instance_id": ask["group_instance_id"]}
        world.send(ask | {"members": [ids]} if api == "leave_group" else ask)

    @rule(value=st.sampled_from([None, b"", b"{", b"\xff", NONSENSE, WRONG_TYPE]))
    def something_comes_that_is_no_request(self, value: bytes | None) -> None:
        self.world.put(value, self.world.now)

    # -- offsets and the end of groups -------------------------------------------------------------

    @rule(who=WHO, commits=some_commits, retention_ms=retentions_ms)
    def commit(self, who: int, commits: tuple[Commit, ...], retention_ms: int) -> None:
        self.world.commit(self.world.actors[who], *commits, retention_time_ms=retention_ms)

    @rule(
        version=st.sampled_from([1, 2, 4, 5, 6, 8, 9, 9, 10]),
        commits=some_commits,
        retention_ms=retentions_ms,
        odd=st.sampled_from(
            [{}, {}, {}, {"generation_id": 0}, {"member_id": "nobody"}, {"group_instance_id": "i1"}]
        ),
        reason=reasons,
    )
    def tool_commits(
        self,
        version: int,
        commits: tuple[Commit, ...],
        retention_ms: int,
        odd: dict[str, Any],
        reason: str | None,
    ) -> None:
        fields = {"api_version": 9 if odd.get("group_instance_id") else version} | odd
        topics = commit_topics(commits)
        self.world.ask_as_tool(
            "offset_commit", topics=topics, retention_time_ms=retention_ms, reason=reason, **fields
        )

    @precondition(lambda self: not self.world.model.exists)
    @rule(version=st.sampled_from([2, 8, 9]), commits=some_commits)
    def member_of_a_group_that_is_gone_commits(self, version: int, commits: tuple[Commit, ...]) -> None:
        topics = commit_topics(commits)
        self.world.ask_as_tool("offset_commit", api_version=version, topics=topics, generation_id=3)

    @rule(version=st.integers(1, 9), asked=st.none() | st.lists(keys, max_size=5))
    def fetch(self, version: int, asked: list[Key] | None) -> None:
        topics = None if asked is None else topics_of(asked, "partition_indexes", lambda key: key[1])
        self.world.ask_as_tool("offset_fetch", api_version=version, topics=topics)

    @rule(asked=st.sets(keys, min_size=1, max_size=2), some=st.sets(st.integers(0, 5)), reason=reasons)
    def delete_offsets(self, asked: set[Key], some: set[int], reason: str | None) -> None:
        """Some that are there, and some that need not be."""
        kept = sorted(self.world.model.offsets.kept)
        there = {kept[i] for i in some if i < len(kept)}
        topics = topics_of(sorted(asked | there), "partitions", lambda key: {"partition_index": key[1]})
        self.world.ask_as_tool("offset_delete", topics=topics, reason=reason)

    @rule(version=st.integers(0, 2), reason=reasons)
    def delete_group(self, version: int, reason: str | None) -> None:
        self.world.ask_as_tool("delete_group", api_version=version, reason=reason)

    @rule(api=st.sampled_from(["describe_group", "find_coordinator"]), version=st.integers(0, 6))
    def describe_or_find(self, api: str, version: int) -> None:
        self.world.ask_as_tool(api, api_version=version)

    # -- time --------------------------------------------------------------------------------------

    def _live_until(self, until_ms: int, *, by_commits: bool) -> None:
        """Those that can are heard of in time until then."""
        world = self.world
        while world.now < until_ms:
            world.now = min(world.now + BEAT_MS, until_ms)
            for actor in world.actors:
                if actor.generation >= 0 and actor.next != "stop":
                    if by_commits:
                        world.commit(actor, Commit("v", 0, len(world.log)))
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
            # The model's clock stands still in outages.
            until_ms += model.log_ms - model.now
            self._live_until(until_ms + beyond_ms, by_commits=by_commits)
        if is_seen:
            self.world.advance()

    @precondition(lambda self: self.world.model.state == STABLE)
    @rule(who=WHO, version=st.sampled_from([4, 9]), beyond_ms=st.sampled_from([-1, 0, 0]))
    def members_live_until_offsets_that_nobody_reads_are_over(
        self, who: int, version: int, beyond_ms: int
    ) -> None:
        world, model = self.world, self.world.model
        world.commit(world.actors[who], Commit("v", 1, 7), api_version=version, retention_time_ms=20_000)
        until_ms = min(model.offsets.gone_by_ms(), default=10**18) + model.log_ms - model.now + beyond_ms
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
        topics = commit_topics([Commit("t", 0, back_ms)])
        world.send(world.ask(world.actors[who], api, topics=topics), at_ms=world.now - back_ms)

    @rule(
        for_ms=st.sampled_from([1, 2_000, 20_000, 1_000_000]),
        wait_ms=st.sampled_from([0, 1_000, 25_000]),
        is_over=st.booleans(),
        closed=st.sampled_from([False, False, True]),
    )
    def coordinator_is_away(self, for_ms: int, wait_ms: int, is_over: bool, closed: bool) -> None:
        """Somebody may write to the log meanwhile, or not before it is over."""
        self.world.go_away(for_ms, closed=closed)
        self.world.now += wait_ms
        if is_over:
            self.world.now = max(self.world.now, self.world.outages[-1].end_ms)

    # -- the same again ----------------------------------------------------------------------------

    @rule()
    def the_call_is_repeated(self) -> None:
        self.world.repeats_itself()

    @rule()
    def the_request_is_in_the_log_twice(self) -> None:
        """A producer without idempotence; a program of old that asks to be a member is two then."""
        ask = self.world.last_request
        is_two = ask is not None and ask["api"] == "join_group" and not ask.get("member_id")
        if ask is not None and not (is_two and ask["api_version"] < 4):
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
        self.world.may_be_cut(self.rng)
        self.world.is_gone_if_nobody_comes()


class TestGroupMachine(GroupMachine.TestCase):
    settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        report_multiple_bugs=False,
    )


def test_group_with_late_offsets_is_gone_in_time() -> None:
    """It is looked at often, so all that takes its time has to be counted, to the minute after its end."""
    config = GroupConfig(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=1_000)
    world = World(config, [Actor("c0", None, "new", 6_000, 5_000, READABLE[0])])
    (actor,) = world.actors
    for _ in range(3):
        world.behave(actor)
    world.now += 5_999
    world.commit(actor, Commit("t", 0, 1))
    world.is_gone_if_nobody_comes()


def test_group_that_was_offsets_only_gets_its_first_member_long_after_it_began() -> None:
    """Its offset was committed again since, so its time does not run from when the group began."""
    config = GroupConfig(offsets_retention_check_interval_ms=1_000, offsets_retention_minutes=1)
    world = World(config, [Actor("c0", "i1", "new", 6_000, 5_000, READABLE[0])])
    (actor,) = world.actors
    world.commit(actor, Commit("t", 0, 1))
    world.now += 59_000
    world.commit(actor, Commit("t", 0, 2))
    world.now += 4_000
    world.join(actor)
    assert ("t", 0) in world.model.offsets.kept
