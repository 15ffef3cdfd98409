from __future__ import annotations

from typing import Any

from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.parties import Guest, Parties
from group_coordinator.gateway.turns import Turns

TURNS = Turns(lambda _go: None, lambda: 100.0)


def test_a_party_has_so_many_connections_and_makes_so_many_in_a_second() -> None:
    connections: Any = iter(range(100))
    parties = Parties(3, connection_rate=2)
    assert not parties.refuses("a", 100)
    first = parties.enter("a", next(connections), 100)
    assert not parties.refuses("a", 100)
    parties.enter("a", next(connections), 100)
    parties.enter("a", next(connections), 101)
    assert parties.refuses("a", 101), "three"
    assert not parties.refuses("b", 101)
    parties.enter("b", next(connections), 101)
    assert parties.largest(101) is first
    parties.enter("c", next(connections), 200)
    assert not parties.refuses("c", 200)
    parties.enter("c", next(connections), 200)
    assert parties.refuses("c", 200), "too fast"
    assert not parties.refuses("c", 201)


class Connections(dict[Any, None]):
    """Those of a party. It counts how often somebody asks for their number."""

    asked = 0

    def __len__(self) -> int:
        Connections.asked += 1
        return super().__len__()


def test_many_clients_that_want_a_place_at_once_are_not_compared_with_all_hosts_each() -> None:
    parties = Parties(0)
    for number in range(1_000):
        parties.of(f"{number}").connections = Connections({number: None})
    Connections.asked = 0
    for _ in range(100):
        parties.largest(100.0)
    assert Connections.asked <= 1_000
    parties.enter("7", "one more", 100.0)
    assert parties.largest(100.2) is parties.of("7")


class Connection:
    looked_at = 0
    is_known = True

    def __init__(self, heard_s: float) -> None:
        self._heard_s = heard_s

    @property
    def heard_s(self) -> float:
        Connection.looked_at += 1
        return self._heard_s


def test_a_host_gives_a_quiet_place_without_a_look_at_all_of_thousands() -> None:
    party = Parties(0).of("a")
    there = [Connection(1_000 - number) for number in range(1_000)]
    party.connections = dict.fromkeys(there)
    assert party.quietest() is there[99]
    assert Connection.looked_at <= 100
    there[3].is_known = False
    assert party.quietest() is there[3]


def test_parties_are_forgotten_when_nothing_of_them_need_be_known() -> None:
    connection: Any = "connection"
    parties = Parties(0, connection_rate=1)
    party = parties.enter("a", connection, 100)
    party.account.add(0.1, 100)
    parties.forget(1_000)
    assert parties.of("a") is party, "it is connected"
    guest = Guest(TURNS)
    guest.joins(party)
    guest.leaves(connection)
    parties.forget(100)
    assert parties.of("a") is party, "it has taken time, and made a connection"
    parties.forget(1_000)
    assert parties.of("a") is not party


def test_requests_that_a_party_has_sent_too_fast_are_not_forgotten_with_its_connections() -> None:
    parties = Parties(0, request_rate=1)
    connection: Any = "connection"
    guest = Guest(TURNS)
    guest.joins(parties.enter("a", connection, 100))
    assert [guest.asks(100) for _ in range(10)][-1] == 10
    guest.leaves(connection)
    parties.forget(105)
    assert parties.of("a").requests.wait_s(105) == 5
    parties.forget(111)
    assert parties.of("a").requests.wait_s(111) == 0


def test_a_guest_s_place_goes_by_what_it_has_taken_and_by_what_its_party_has() -> None:
    hosts = Parties(0)
    host = hosts.of("host")
    heavy, light, other = Guest(TURNS), Guest(TURNS), Guest(TURNS)
    for each in (heavy, light):
        each.joins(host)
    other.joins(hosts.of("other"))
    assert heavy.party is light.party is host
    heavy.took(0.01, 100)
    assert (heavy.taken_s(100), light.taken_s(100)) == (0.01, 0)
    assert heavy.together_s(100) == other.together_s(100) == 0
    heavy.took(Limits.party_s, 100)
    assert heavy.together_s(100) == light.together_s(100) > 0, "all of the host are behind"
    assert other.together_s(100) == 0


def test_a_user_s_requests_and_time_are_its_own_and_no_longer_its_host_s() -> None:
    connection: Any = "connection"
    hosts, users = Parties(0, request_rate=1), Parties(0, request_rate=1)
    guest = Guest(TURNS)
    guest.joins(hosts.enter("host", connection, 100))
    own = guest.holding
    assert guest.asks(100) == 1
    assert guest.party is hosts.of("host")
    alice, bob = users.enter("alice", connection, 100), users.enter("bob", connection, 100)
    guest.joins_user(alice, connection)
    assert guest.holding is alice.holding is not own
    assert guest.party is alice
    assert [guest.asks(100) for _ in range(2)] == [1, 2]
    guest.took(1, 100)
    assert alice.account.taken_s(100) > Limits.party_s
    assert hosts.of("host").account.taken_s(100) == 0
    guest.joins_user(bob, connection)
    assert (list(alice.connections), list(bob.connections)) == ([], [connection])
    guest.leaves(connection)
    assert not bob.connections
    assert not hosts.of("host").connections
