"""How many groups a client may begin."""

from __future__ import annotations

from itertools import count

import pytest

from group_coordinator.gateway.shares import Shares

MOST = 300
NUMBERS = count()


@pytest.fixture
def shares() -> Shares:
    shares = Shares()
    shares.most = MOST
    return shares


def begin(shares: Shares, whose: str, most: int, now_s: float = 0) -> list[str]:
    """Let a client begin so many groups, which then are there; returns those that it may begin."""
    names = [f"{whose}-{next(NUMBERS)}" for _ in range(most)]
    begun = [name for name in names if shares.may_begin(name, whose, now_s)]
    for name in begun:
        shares.put(name, now_s, is_there=True)
    return begun


def test_nobody_fills_all_places(shares: Shares) -> None:
    begun = [("mallory", MOST), ("mallory", MOST), ("alice", 10), ("bob", MOST), ("carol", MOST)]
    assert [len(begin(shares, whose, most)) for whose, most in begun] == [270, 0, 10, 18, 2]


def test_requests_on_their_way_count_as_well(shares: Shares) -> None:
    asked = [shares.may_begin(f"{number}", "mallory", 0) for number in range(MOST)]
    assert sum(asked) == 270
    assert shares.may_begin("0", "mallory", 0), "it is asked for again"
    # The coordinator has refused them all.
    assert shares.may_begin("later", "mallory", 120)
    assert len(begin(shares, "alice", MOST, 120)) == 270


def test_deleted_groups_count_for_a_while(shares: Shares) -> None:
    for name in begin(shares, "mallory", MOST):
        shares.put(name, 1, is_there=False)
    assert begin(shares, "mallory", MOST, 120) == [], "the coordinator remembers them"
    assert len(begin(shares, "mallory", MOST, 121)) == 270


def test_groups_of_others_take_places_and_are_nobodys(shares: Shares) -> None:
    for number in range(MOST):
        shares.put(f"there-{number}", 0, is_there=number < 280)
    assert len(begin(shares, "alice", MOST)) == 18
    assert shares.may_begin("there-1", "alice", 0), "it is there"


def test_anybody_may_begin_groups_while_the_limit_is_not_known() -> None:
    assert len(begin(Shares(), "alice", MOST)) == MOST


def test_nothing_is_kept_of_clients_whose_groups_are_gone(shares: Shares) -> None:
    for number in range(1_000):
        (name,) = begin(shares, f"client-{number}", 1, number * 200)
        shares.put(name, number * 200, is_there=False)
    kept = (shares._held, shares._begun, shares._absent, shares._there)
    assert [len(each) for each in kept] == [1, 1, 1, 0]
