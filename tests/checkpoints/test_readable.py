"""Stored groups as people can read them."""

from __future__ import annotations

import msgspec

from group_coordinator.checkpoints.readable import readable
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state.scenario import Scenario
from tests.history.consumers import Consumers


def test_a_group_of_the_consumer_protocol_has_names_and_numbers_and_no_packed_bytes() -> None:
    group = Consumers({"orders": 4, "refunds": 1})
    group.join("m1", "orders", instance="worker-1")
    group.at(1_000)
    group.join("m2")
    group.beat("m1")
    assert group.state is not None
    told = readable(decode_group(group.state))

    assert msgspec.json.decode(msgspec.json.encode(told)) == told
    assert {"stored_topics", "stored_subscriptions"}.isdisjoint(told)
    assert (told["group_id"], told["generation_id"], told["assignor"]) == ("orders", 3, "uniform")
    assert (told["state"], told["metadata_version"]) == ("Reconciling", 2)
    assert told["topics"] == [
        {"name": "orders", "topic_id": "id-of-orders", "partitions": 4},
        {"name": "refunds", "topic_id": "id-of-refunds", "partitions": 1},
    ]
    m1, m2 = told["members"]["m1"], told["members"]["m2"]
    assert (m1["epoch"], m1["state"], m1["group_instance_id"]) == (2, "UNREVOKED_PARTITIONS", "worker-1")
    assert (m1["subscribed_topic_names"], m2["subscribed_topic_names"]) == (["orders"], ["orders", "refunds"])
    kept, lost = (
        sorted({0, 1, 2, 3} - {each for it in m1["pending"] for each in it["partitions"]}),
        m1["pending"],
    )
    assert m1["assigned"] == [{"topic_id": "id-of-orders", "name": "orders", "partitions": kept}]
    assert m1["target"] == m1["assigned"]
    assert [each["name"] for each in lost] == ["orders"]
    assert m2["pending"] == []
    assert {each["name"] for each in m2["target"]} == {"orders", "refunds"}
    assert "subscription" not in m1


def test_a_classic_group_has_its_fields() -> None:
    s = Scenario()
    s.stabilise("c1")
    s.commit("c1", {"t": {0: 7}})
    assert s.state is not None
    told = readable(decode_group(s.state))

    assert (told["group_id"], told["state"]) == ("orders", "Stable")
    assert [(each["topic"], each["partition"], each["offset"]) for each in told["offsets"]] == [("t", 0, 7)]
