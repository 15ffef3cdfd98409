from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.coordinator_state.stored import decode_group
from tests.conformance.classic.core import RACE_MS, Core, Outcome
from tests.conformance.classic.setups import SETUPS

START = 1_000_000


class Played:
    """A core whose broker does what the first outcome says."""

    def __init__(self) -> None:
        self.core = Core("orders", SETUPS["plain"].core, lambda _before, _request, _after: None)
        self.now = START
        self.count = 0
        self.ids: dict[str, str] = {}

    def send(self, api: str, client: str, **fields: Any) -> list[Outcome]:
        outcomes = self.possible(api, client, **fields)
        self.keep(outcomes[:1])
        return outcomes

    def possible(self, api: str, client: str, **fields: Any) -> list[Outcome]:
        self.count += 1
        envelope = {
            "api": api,
            "request_id": f"{client}-{self.count}",
            "client_id": client,
            "group_id": "orders",
        }
        return self.core.handle(envelope | fields, self.now)

    def wait(self, duration: int) -> list[Outcome]:
        self.now += duration
        outcomes = self.core.pass_time(self.now)
        self.keep(outcomes[:1])
        return outcomes

    def keep(self, outcomes: list[Outcome]) -> None:
        self.core.keep(outcomes)
        for answer in outcomes[0].answers.values():
            if answer["api"] == "join_group":
                self.ids[answer["client_id"]] = answer["member_id"]

    def join(self, client: str, names: str = "ab", session: int = 10_000) -> list[Outcome]:
        outcomes = self.possible_join(client, names, session)
        self.keep(outcomes[:1])
        return outcomes

    def possible_join(self, client: str, names: str = "ab", session: int = 10_000) -> list[Outcome]:
        return self.possible(
            "join_group",
            client,
            api_version=3,
            session_timeout_ms=session,
            rebalance_timeout_ms=5_000,
            member_id=self.ids.get(client, ""),
            protocol_type="consumer",
            protocols=[{"name": name, "metadata": b""} for name in names],
        )

    def leave(self, client: str) -> list[Outcome]:
        return self.send("leave_group", client, members=[{"member_id": self.ids[client]}])


@pytest.fixture
def played() -> Played:
    return Played()


def test_one_member_leaves_no_choice(played: Played) -> None:
    assert len(played.join("c1")) == 1
    assert len(played.wait(10)) == 1


def test_anybody_may_lead_when_the_leader_goes(played: Played) -> None:
    for client in ("c1", "c2", "c3", "c1"):
        played.join(client)

    played.core.keep(played.leave("c1"))

    assert {group.leader for group in groups_of(played)} == {played.ids["c2"], played.ids["c3"]}


def test_a_choice_that_was_made_in_secret_shows_later(played: Played) -> None:
    for client in ("c1", "c2", "c3", "c1"):
        played.join(client)
    played.core.keep(played.leave("c1"))
    played.core.keep(played.possible_join("c2"))

    outcomes = played.possible_join("c3")

    leaders = {outcome.answers["c2-6"]["leader"] for outcome in outcomes}
    assert leaders == {played.ids["c2"], played.ids["c3"]}


@pytest.mark.parametrize(("votes", "winners"), [(("ab", "ba"), {"a", "b"}), (("ab", "ab"), {"a"})])
def test_either_may_win_on_a_tie(played: Played, votes: tuple[str, str], winners: set[str]) -> None:
    first, second = votes
    played.join("c1", first)
    played.join("c2", second)

    outcomes = played.join("c1", first)

    assert {answer["protocol_name"] for it in outcomes for answer in it.answers.values()} == winners


def test_deadlines_that_race_may_come_in_any_order(played: Played) -> None:
    # The time to sync ends for both when the session of one does.
    for client, session in (("c1", 5_000), ("c2", 20_000), ("c1", 5_000)):
        played.join(client, session=session)

    played.core.keep(played.wait(5_000))

    assert {group.state for group in groups_of(played)} == {"PreparingRebalance", "Empty"}


def test_deadlines_that_do_not_race_come_in_order(played: Played) -> None:
    for client, session in (("c1", 5_000 - RACE_MS), ("c2", 20_000), ("c1", 5_000 - RACE_MS)):
        played.join(client, session=session)

    played.core.keep(played.wait(5_000))

    assert {group.state for group in groups_of(played)} == {"PreparingRebalance"}


def groups_of(played: Played) -> list[Any]:
    return [decode_group(state) for state in played.core.states if state is not None]
