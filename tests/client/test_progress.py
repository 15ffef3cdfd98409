from __future__ import annotations

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.progress import Progress


@pytest.mark.parametrize(
    ("committed", "log_end", "lag"),
    [
        (OffsetAndMetadata(5, "", None), 12, 7),
        # Nothing is committed, though something is known of the partition.
        (OffsetAndMetadata(-1, "", None), 12, None),
        (None, 12, None),
        # Units of work have no log.
        (OffsetAndMetadata(5, "", None), None, None),
    ],
)
def test_lag(committed: OffsetAndMetadata | None, log_end: int | None, lag: int | None) -> None:
    progress = Progress(TopicPartition("t", 0), committed, log_end, None)
    assert progress.lag == lag
    assert progress.offset in {5, None}
