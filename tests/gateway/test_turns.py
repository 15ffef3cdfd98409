from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import pytest

from group_coordinator.gateway.parties import Guest, Parties
from group_coordinator.gateway.turns import Account, Turns


class Loop:
    """An event loop: what comes soon comes in the next round, before what sockets have brought."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()
        self.turns = Turns(self._soon.append, lambda: 100.0)
        self.came: list[str] = []

    def round(self, *arrived: Callable[[], None]) -> None:
        due = [*self._soon, *arrived]
        self._soon.clear()
        for each in due:
            each()

    def turn(self, *arrived: Callable[[], None]) -> None:
        """Let something come, and have the next turn."""
        self.round()
        self.round(*arrived)

    def work(self, whose: Client, seconds: float, size: int = 0) -> None:
        """Let so much work wait."""

        def go() -> None:
            self.came.append(whose.name)
            whose.took(seconds)
            self.turns.took(seconds)

        self.turns.wait(whose, size, go)

    @property
    def is_idle(self) -> bool:
        return not self._soon


class Client:
    """A client of a party, what it has taken, and what its party has taken together."""

    together: ClassVar[defaultdict[str, float]] = defaultdict(float)

    def __init__(self, name: str, taken_s: float = 0.0, party: str | None = None) -> None:
        self.name, self._taken_s = name, taken_s
        self.party = party or f"{name} alone"
        Client.together.pop(self.party, None)

    def together_s(self, _now_s: float) -> float:
        return Client.together[self.party]

    def taken_s(self, _now_s: float) -> float:
        return self._taken_s

    def took(self, seconds: float) -> None:
        self._taken_s += seconds
        Client.together[self.party] += seconds


def test_a_turn_is_over_after_some_milliseconds_and_the_next_one_is_free() -> None:
    loop = Loop()
    loop.turns.took(0.009)
    assert loop.turns.are_free
    loop.turns.took(0.002)
    assert not loop.turns.are_free
    loop.round()
    loop.round()
    assert loop.turns.are_free
    assert loop.is_idle


def test_who_has_taken_least_comes_first_also_if_it_comes_later() -> None:
    loop = Loop()
    loop.turns.took(1)
    for number in range(3):
        loop.work(Client(f"heavy {number}", 0.5), 0.1)
    innocent = Client("innocent")
    loop.turn(lambda: loop.work(innocent, 0.0001))
    assert loop.came == ["heavy 0"], "one of them is a turn"
    loop.turn()
    assert loop.came == ["heavy 0", "innocent"], "it is ranked before the next one, which does not hold it up"
    loop.turn()
    assert loop.came == ["heavy 0", "innocent", "heavy 1"]
    loop.turn()
    loop.turn()
    assert loop.came[-1] == "heavy 2"
    assert loop.turns.are_free
    assert loop.is_idle


def test_what_a_party_has_taken_while_its_clients_wait_does_not_put_one_of_them_behind_the_others() -> None:
    loop = Loop()
    heavy = [Client(f"heavy {number}", 0.002 * (1 + number), "host") for number in range(10)]
    loop.turns.took(1)
    for each in heavy:
        loop.work(each, 0.1)
    for _ in range(5):
        loop.turn()
    assert len(loop.came) == 5
    loop.work(Client("innocent", 0, "host"), 0.0001)
    loop.turn()
    assert loop.came[5] == "innocent"


def test_a_party_that_has_taken_much_is_behind_another_one() -> None:
    loop = Loop()
    loop.turns.took(1)
    loop.work(Client("first", 0, "host"), 0.1)
    loop.work(Client("second", 0, "host"), 0.1)
    loop.turn()
    loop.work(Client("other", 0.05), 0.1)
    loop.turn()
    loop.turn()
    assert loop.came == ["first", "other", "second"]


def test_who_has_sent_least_comes_first_and_beyond_some_size_all_are_the_same() -> None:
    loop = Loop()
    loop.turns.took(1)
    for size in (10**9, 10**8, 6_000, 30):
        loop.work(Client(f"{size}"), 0.1, size)
    for _ in range(4):
        loop.turn()
    assert loop.came == ["30", "6000", "1000000000", "100000000"]


def test_what_is_cheap_is_done_in_one_turn_up_to_its_end() -> None:
    loop = Loop()
    loop.turns.took(1)
    one = Client("one")
    for _ in range(25):
        loop.work(one, 0.001)
    loop.turn()
    assert len(loop.came) == 10
    loop.turn()
    assert len(loop.came) == 20


def test_who_waits_again_does_not_have_the_turn_for_ever() -> None:
    loop, went, client = Loop(), list[int](), Client("one")

    def again() -> None:
        went.append(1)
        loop.turns.wait(client, 0, again)

    loop.turns.wait(client, 0, again)
    for turns in (1, 2, 3):
        loop.turn()
        assert len(went) == turns


def test_work_that_fails_does_not_keep_the_others_waiting() -> None:
    loop = Loop()
    loop.turns.took(1)
    loop.turns.wait(Client("failing"), 0, lambda: {}["missing"])
    loop.work(Client("other", 0.5), 0.1)
    with pytest.raises(KeyError):
        loop.turn()
    loop.turn()
    assert loop.came == ["other"]


def test_who_was_alone_for_long_does_not_wait_until_all_others_have_taken_as_much() -> None:
    loop = Loop()
    first, others = Client("first", 0.5, "host"), [Client(f"{number}", 0.3, "host") for number in range(10)]
    loop.turns.took(1)
    loop.work(first, 0.1)
    for _ in range(5):
        for each in others:
            loop.work(each, 0.1)
    for _ in range(20):
        loop.turn()
    assert loop.came.index("first") == 0
    assert loop.came.count("0") == 2, "those who have taken much come in the order in which they have waited"


def test_a_party_that_was_alone_for_long_does_not_wait_until_all_others_have_taken_as_much() -> None:
    loop, hosts, went = Loop(), Parties(0), list[Guest]()
    guests = [Guest(loop.turns) for _ in range(11)]
    for number, each in enumerate(guests):
        each.joins(hosts.of(f"host {number}"))
    first, *others = guests
    first.took(10, 100)
    loop.turns.took(1)

    def ask(whose: Guest) -> None:
        loop.turns.wait(whose, 0, partial(go, whose))

    def go(whose: Guest) -> None:
        went.append(whose)
        whose.took(0.1, 100)
        loop.turns.took(0.1)
        ask(whose)

    for each in guests:
        ask(each)
    for _ in range(60):
        loop.turn()
    assert went.index(first) <= 3 * len(others), "each of the others has had three tenths of a second"
    assert 3 <= went.count(first) <= 4


def test_an_account_forgets_a_fiftieth_of_the_time_that_passes() -> None:
    account = Account(1.0)
    account.add(1, 100)
    assert account.taken_s(100) == 1
    assert account.taken_s(110) == pytest.approx(0.8)
    account.add(0.1, 110)
    assert account.taken_s(110) == pytest.approx(0.9)
    assert account.taken_s(1_000) == 0


def test_an_account_remembers_no_more_than_it_may() -> None:
    account = Account(0.02)
    account.add(100, 100)
    assert account.taken_s(100) == 0.02
