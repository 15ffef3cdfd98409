"""The identity of a checkpoint of `observe`: of which topic it tells.

A topic that was deleted and made again has the same places again. Its records would be passed over as ones
that were read before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.identity import check_topics, compare
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.checkpoints.files import CheckpointFiles

_FILE = "observe.json"


class _Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file. `topic_ids`: those that Kafka has told, by name."""

    state_partitions: int
    topic_ids: dict[str, str]


def claim_checkpoint(files: CheckpointFiles, state_partitions: int, topic_ids: Mapping[str, str]) -> None:
    """Claim a new checkpoint, or recognise an old one.

    Raises `CheckpointError` if it is another query's, was made with other values, or cannot be read or
    written.
    """
    text = files.read(_FILE)
    if text is None:
        if files.exists("offsets"):
            raise CheckpointError(
                f"{files.checkpoint} is the checkpoint of some other query (it has no {_FILE}): set "
                "observe.checkpoint to another directory"
            )
        found = _Identity(state_partitions=state_partitions, topic_ids={})
    else:
        try:
            found = ForeignJson[_Identity](_Identity).read(text)
        except UnreadableError as error:
            raise CheckpointError(f"{files.name(_FILE)} cannot be read: {error}") from None
    compare(files.checkpoint, "observe.state.partitions", found.state_partitions, state_partitions)
    check_topics(files.checkpoint, found.topic_ids, topic_ids)
    complete = msgspec.structs.replace(found, topic_ids={**topic_ids, **found.topic_ids})
    if text is None or complete != found:
        files.create()
        files.write(_FILE, msgspec.json.encode(complete))
