from __future__ import annotations

from group_coordinator.gateway.addresses import Address
from group_coordinator.gateway.brokers import Brokers

AT = {node_id: Address(f"broker-{node_id}", 9092) for node_id in range(4)}


def brokers(*node_ids: int) -> Brokers:
    made = Brokers()
    made.replace({node_id: AT[node_id] for node_id in node_ids}, 0)
    return made


def test_the_newest_list_counts_and_an_empty_one_is_none() -> None:
    met = brokers(2, 0, 1)
    assert met.reachable == (0, 1, 2)
    assert met.is_at(1, AT[1])
    assert not met.is_at(3, AT[3])
    met.replace({2: Address("moved", 1), 3: AT[3]}, 0)
    assert (met.reachable, met.address(2), met.address(0)) == ((2, 3), Address("moved", 1), AT[0])
    assert not met.is_at(2, AT[2]), "it has moved"
    assert not met.is_at(0, AT[0]), "it has gone"
    met.replace({}, 0)
    assert met.reachable == (2, 3)


def test_a_broker_that_cannot_be_reached_is_not_named_for_a_while() -> None:
    met = brokers(0, 1)
    met.connected(1, 100, is_connected=False)
    assert met.reachable == (0,)
    met.settle(129.9)
    assert met.reachable == (0,)
    met.settle(130)
    assert met.reachable == (0, 1)
    met.connected(1, 140, is_connected=False)
    met.connected(1, 141, is_connected=True)
    assert met.reachable == (0, 1)
    for node_id in (0, 1):
        met.connected(node_id, 150, is_connected=False)
    assert met.reachable == (0, 1), "somebody has to be named"


def test_a_broker_without_a_port_is_not_named_and_is_counted_while_it_is_there() -> None:
    met = brokers(0, 1)
    met.offer(1, 0, is_offered=False)
    met.connected(0, 0, is_connected=False)
    assert (met.reachable, met.left_out) == ((0,), 1)
    met.replace({0: AT[0]}, 0)
    assert met.left_out == 0
    met.replace({0: AT[0], 1: AT[1]}, 0)
    met.offer(1, 0, is_offered=True)
    assert (met.reachable, met.left_out) == ((1,), 0)
