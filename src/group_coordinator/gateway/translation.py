"""Between Kafka's messages and those of the contract, for each API of groups.

A request of Kafka's may be about several groups, and a record of the log is about one. So a request becomes a
list of contract requests, and their responses, in the same order, become Kafka's response:

    requests = to_contract(request, sender)
    response = to_kafka(request, responses)

Field names are the same on both sides but for a few. A field that a version lacks has its default when it is
read, and is not written. Each API has its pair of functions in its module of `group_apis/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis.table import GROUP_APIS, api_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from group_coordinator.coordinator_state.errors import Errors
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.gateway.frames import RequestHead
    from group_coordinator.gateway.group_apis.group_api import Pair


class Sender(NamedTuple):
    """The fields that all contract requests of one client have in common."""

    client_id: str
    client_host: str
    reply_partition: int
    next_request_id: Callable[[], str]
    group_prefix: str = ""
    """A text before the ids of groups in the log. Kafka's responses name groups as their requests do."""
    principal: str | None = None
    """The name that the broker has accepted; None if it is not known."""

    def about(self, group_id: str) -> dict[str, Any]:
        """The fields of a request about this group, under an id of its own."""
        return {
            "request_id": self.next_request_id(),
            "client_id": self.client_id,
            "client_host": self.client_host,
            "reply_partition": self.reply_partition,
            "group_id": self.group_prefix + group_id,
        }


_NOBODY = Sender("", "", 0, str)


def to_contract(request: Request, sender: Sender) -> list[AnyRequest]:
    """The contract requests for one of Kafka's, a record each; none if it names no group."""
    api_key, version, _ = request.head
    is_told = sender.principal is not None and GROUP_APIS[api_key].is_principal_told
    principal = sender.principal if is_told else UNSET

    def about(group_id: str) -> dict[str, Any]:
        return {**sender.about(group_id), "api_version": version, "principal": principal}

    return _pair(api_key).requests(request.message, version, about)


def to_kafka(request: Request, responses: Sequence[Any]) -> Any:
    """Kafka's response to `request`, of the contract's responses to what `to_contract` made of it."""
    return _pair(request.head.api_key).response(request.message, request.head.api_version, responses)


def _pair(api_key: int) -> Pair:
    pair = GROUP_APIS[api_key].pair
    assert pair is not None  # noqa: S101 - the gateway does not ask the coordinator for the others
    return pair


# -- refusals ------------------------------------------------------------------------------------------


def refusal(request: AnyRequest, error: Errors) -> Any:
    """The response that the coordinator would give if it answered `request` with `error`.

    The gateway gives it for errors of its own, and NONE to a leave that stands in the log.
    """
    return api_of(request).refused(request, error)


def refused(request: Request, error: Errors) -> Any:
    """Kafka's response if all of `request` is refused with `error`."""
    return to_kafka(request, [refusal(each, error) for each in to_contract(request, _NOBODY)])


def may_refuse_unread(head: RequestHead) -> bool:
    """Whether a request can be answered of which only the head is known."""
    api = GROUP_APIS.get(head.api_key)
    return api is not None and bool(api.unread_list)


def refused_unread(head: RequestHead) -> Any:
    """Kafka's response to a request that was too large to be read: an error that ends the attempt."""
    api = GROUP_APIS[head.api_key]
    empty = api.request(version=head.api_version, group_id="", member_id="", **{api.unread_list: []})
    return refused(Request(head, None, empty), api.too_large)
