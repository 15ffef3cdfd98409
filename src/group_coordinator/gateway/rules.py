"""The coordinator's limits, and the errors with which the gateway refuses what is beyond them.

Settings of coordinator and gateway may differ. The coordinator's hold once it has told them, because it would
refuse a record as a whole, with others' heartbeats in it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.seldom import Seldom
from group_coordinator.coordinator_state.wire import Rejection, read_request
from group_coordinator.gateway.group_apis.table import api_of
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.shares import Shares

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.responses import FindCoordinatorResponse
    from group_coordinator.gateway.outgoing import LogRecord

log = logging.getLogger(__name__)

_KAFKAS_COMMIT = 1_048_588
"""Bytes of a commit at a broker: its record batch in `__consumer_offsets`, by default."""
_MADE_UP = 37
"""Characters that the coordinator puts behind a client or instance id to make a member id of it."""


class Rules:
    """Refuses requests.

    `config` and `max_groups`: the coordinator's settings, as far as this process knows them.
    `group_prefix`: that of the contract's group ids, which alone is no id.
    """

    def __init__(self, config: GroupConfig, group_prefix: str, max_groups: int = 0) -> None:
        self.config = config
        self.shares = Shares(max_groups)
        self._group_prefix = group_prefix
        self._too_large, self._crowded = Seldom(), Seldom()

    @property
    def largest_frame(self) -> int:
        """Bytes of the largest request of a group that is read whole, to be taken or refused."""
        return max(Limits.whole_frame, self.config.max_request_bytes)

    def follow(self, told: FindCoordinatorResponse) -> None:
        """Take the limits that the coordinator has told."""
        self.shares.most = told.max_groups
        before = self.config
        self.config = msgspec.structs.replace(
            before, max_request_bytes=told.max_request_bytes, max_id_length=told.max_id_length
        )
        if self.config != before:
            log.warning(
                "the coordinator's max.request.bytes (%d) and max.id.length (%d) count, and not those of "
                "this gateway (%d and %d): give both the same settings",
                *(told.max_request_bytes, told.max_id_length, before.max_request_bytes, before.max_id_length),
            )

    def refuses(self, asked: AnyRequest, record: LogRecord, now_s: float) -> Errors | None:
        """Return the error for a request that the contract cannot take, or that the stream could not read."""
        if asked.group_id == self._group_prefix:
            return Errors.INVALID_GROUP_ID
        config = self.config
        is_too_long = len(record.value) > config.max_request_bytes
        if is_too_long or asked.partitions_named > config.max_request_partitions:
            return self.too_large(asked, now_s)
        if len(asked.member_named) > config.max_id_length + _MADE_UP:
            return Errors.INVALID_REQUEST
        read = read_request(Record("", 0, 0, 0, record.key, record.value), config)
        return Errors.INVALID_REQUEST if isinstance(read, Rejection) else None

    def too_large(self, asked: AnyRequest, now_s: float) -> Errors:
        """Return the error for a request that is too large, which ends the attempt."""
        if count := self._too_large.happened(now_s):
            log.warning(
                "%d requests are refused: they would take more than max.request.bytes (%d) in the log",
                *(count, self.config.max_request_bytes),
            )
        return api_of(asked).too_large

    @property
    def most_metadata(self) -> int:
        """Characters of all metadata of a commit that may be written as several: as many as Kafka takes."""
        return max(_KAFKAS_COMMIT, self.config.max_request_bytes)

    def refuses_to(self, whose: str, asked: AnyRequest, record: LogRecord, now_s: float) -> Errors | None:
        """Return the same, or the error for a client called `whose` that has begun too many groups."""
        return self.refuses(asked, record, now_s) or self._crowds(asked, whose, now_s)

    def _crowds(self, asked: AnyRequest, whose: str, now_s: float) -> Errors | None:
        if not api_of(asked).begins_group(asked) or self.shares.may_begin(asked.group_id, whose, now_s):
            return None
        if count := self._crowded.happened(now_s):
            log.warning(
                "%d requests that would begin groups are refused: %s has begun most of max.groups (%d)",
                *(count, repr(whose), self.shares.most),
            )
        return Errors.COORDINATOR_NOT_AVAILABLE
