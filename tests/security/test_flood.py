"""What bounds somebody who floods the request topic: the quota that the guide gives each user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from tests.patience import wait_for
from tests.security.conftest import password_of
from tests.security.rights import rights_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOPIC = "flooded"
BYTES_PER_SECOND = 1_000


@pytest.fixture
def topic(secured: SecuredBroker) -> Iterator[str]:
    secured.operator.create_topics({TOPIC: {"num_partitions": 1}})
    secured.operator.wait_for_topics([TOPIC])
    rights = rights_of("A member", {"coordinator.requests": TOPIC})
    for user in ("stranger", "member"):
        secured.grant(user, rights)
    yield TOPIC
    for user in ("stranger", "member"):
        secured.grant(user, [])


def throttled_ms(producer: KafkaProducer) -> float:
    """For how long the broker has held back an answer to this producer, at most."""
    found: float = producer.metrics()["producer-metrics"]["throttle-time-max"]
    return max(found, 0)


def test_a_quota_holds_back_who_floods_and_nobody_else(secured: SecuredBroker, topic: str) -> None:
    secured.limit("stranger", BYTES_PER_SECOND)
    flooding, beating = (
        KafkaProducer(**secured.client_config(user, password_of(user))) for user in ("stranger", "member")
    )

    def send() -> bool:
        for producer, size in ((flooding, 4 * BYTES_PER_SECOND), (beating, 1)):
            producer.send(topic, key=b"reports", value=bytes(size)).get(30)
        return throttled_ms(flooding) > 0

    try:
        wait_for(send)
        assert throttled_ms(beating) == 0
    finally:
        flooding.close()
        beating.close()
        secured.limit("stranger", None)
