"""The requests of one member, numbered, until they are taken to be sent."""

from __future__ import annotations

from typing import Any

from group_coordinator.client.member_settings import AnySettings
from group_coordinator.coordinator_state.requests import AnyRequest


class Outgoing:
    """Makes what all requests of a member carry, and keeps requests in their order.

    Request ids are `<client id>-<instance>-<n>`, or with a mark of their kind before the number. `instance`
    has to be unique to this object for as long as answers are kept. So its member takes no answer to an
    earlier one with the same client id. `reply_partition`: partition of the response topic that the member
    reads.
    """

    def __init__(self, settings: AnySettings, instance: str, reply_partition: int) -> None:
        self._settings = settings
        self._reply_partition = reply_partition
        self._prefix = f"{settings.client_id}-{instance}-"
        self.count = 0
        """The number of the newest request."""
        self._requests: list[AnyRequest] = []

    def take(self) -> list[AnyRequest]:
        """The requests to send, in order. Each is returned once."""
        requests, self._requests = self._requests, []
        return requests

    def put(self, request: AnyRequest) -> None:
        """Have a request sent."""
        self._requests.append(request)

    def envelope(self, kind: str = "") -> dict[str, Any]:
        """Make what all requests carry, with a request id of its own. `kind`: a mark in the id."""
        self.count += 1
        return {
            "request_id": f"{self._prefix}{kind}{self.count}",
            "client_id": self._settings.client_id,
            "client_host": self._settings.client_host,
            "reply_partition": self._reply_partition,
            "group_id": self._settings.group_id,
        }

    def number_of(self, request_id: str, kind: str = "") -> int | None:
        """The number of a request of this kind; None if it is not of this member."""
        number = request_id.removeprefix(self._prefix + kind)
        is_own = number != request_id and number.isascii() and number.isdecimal()
        return int(number) if is_own and len(number) <= len(str(self.count)) else None
