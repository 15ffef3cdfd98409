"""Member ids that nobody can guess, and that are the same each time a record is handled."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.log import Record


def member_id_of(secret: bytes, record: Record, prefix: str) -> str:
    """The id for the member that `record` asks to be.

    Kafka appends a random UUID to the client id. A batch that runs again must hand out the same id as before,
    because the first answer may already be on its way. So the 128 bits come from the record's place in the
    log, under a secret of the deployment. Nobody can compute them without the secret. The record's time is
    part of its place, because offsets start at 0 again when a topic is created again.
    """
    place = f"{record.topic}\0{record.partition}\0{record.offset}\0{record.timestamp_ms}".encode()
    digest = hmac.digest(secret, place, "sha256").hex()
    return f"{prefix}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
