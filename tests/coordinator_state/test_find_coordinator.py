"""FindCoordinator."""

from __future__ import annotations

from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.partitioning import partition_for_key, state_partition_for_key
from tests.coordinator_state.scenario import Scenario, only


def test_where_a_group_is():
    s = Scenario()
    s.layout = Layout(request_partitions=7, state_partitions=5)
    reply = only(s.send("find_coordinator", "admin"))
    assert (reply.error, reply.topic) == ("NONE", "requests")
    assert reply.partition == partition_for_key(b"orders", 7)
    assert reply.state_partition == state_partition_for_key(b"orders", 5)
    assert (s.state, s.events) == (None, [])


def test_limits_are_told():
    s = Scenario(max_request_bytes=5_000, max_id_length=99)
    s.layout = Layout(max_groups=7)
    reply = only(s.send("find_coordinator", "admin"))
    assert (reply.max_request_bytes, reply.max_id_length, reply.max_groups) == (5_000, 99, 7)


def test_unknown_version():
    reply = only(Scenario().send("find_coordinator", "admin", api_version=7))
    assert (reply.error, reply.topic, reply.partition, reply.state_partition) == (
        "UNSUPPORTED_VERSION",
        "",
        -1,
        -1,
    )
