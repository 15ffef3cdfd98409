"""What is used of kafka-python without a public name: that it is there, and does what it is used for.

What `Positions` makes of it is tested with the consumer.
"""

from __future__ import annotations

from kafka.consumer.subscription_state import SubscriptionState
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.positions import AssignedRecords

A0, A1, A2 = (TopicPartition("a", i) for i in range(3))


def test_positions_are_missing_until_they_are_sought_looked_for_or_assigned_anew():
    records = AssignedRecords.__new__(AssignedRecords)  # without a broker to connect to
    records._subscription = SubscriptionState("earliest")
    records._subscription.assign_from_user([A0, A1, A2])
    assert records.without_position() == {A0, A1, A2}
    assert records.consumed() == {}

    records.seek(A0, 7)
    records.seek_to_end(A1)

    assert records.without_position() == {A2}
    assert records.consumed() == {A0: OffsetAndMetadata(7, "", -1)}
