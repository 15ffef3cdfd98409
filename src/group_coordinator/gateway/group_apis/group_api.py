"""The form in which a module says what the gateway knows of its API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from kafka.protocol.api_message import ApiMessage
from msgspec import Struct

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis.guarding import Guard

About: TypeAlias = Callable[[str], dict[str, Any]]
"""It returns the fields that all contract requests have, for the group with this id."""
Responses: TypeAlias = Sequence[Any]
"""The contract's responses, in the order of the requests."""


class Pair(NamedTuple):
    """The way to the contract and the way back. Each is given a message of Kafka's and its version."""

    requests: Callable[[Any, int, About], list[AnyRequest]]
    response: Callable[[Any, int, Responses], Any]


def like(source: Any, kind: Any, **others: Any) -> Any:
    """An object of `kind` with what `source` has in fields of the same names, and with `others`.

    One of the two is Kafka's message, or a part of it, and the other one the contract's. In Kafka's messages
    the elements of lists may stay the contract's, because kafka-python reads fields by their names.
    """
    same = {name: getattr(source, name) for name in _same(source.__class__, kind)}
    return kind(**{**same, **others})


@cache
def _same(source: Any, kind: Any) -> list[str]:
    names = kind.__struct_fields__ if issubclass(kind, Struct) else kind.fields
    return [name for name in names if hasattr(source, name)]


def alike(kind: Any) -> Callable[[Any, int, Responses], Any]:
    """The way back where one response of the contract has all that Kafka's has."""

    def response(_message: Any, version: int, responses: Responses) -> Any:
        (answer,) = responses
        return like(answer, kind, version=version)

    return response


def _once(groups: list[str]) -> list[str]:
    return list(dict.fromkeys(groups))


class Named(NamedTuple):
    """The list in Kafka's request that names its groups, and the version that brought it."""

    field: str
    since: int = 0
    once: Callable[[list[Any]], list[Any]] = _once
    """The list with each group once."""


def _refused(asked: AnyRequest, error: Errors) -> Any:
    return asked.refused(error, None)


class GroupApi(NamedTuple):
    """All that the gateway knows of one API."""

    request: type[ApiMessage]
    response: type[ApiMessage]
    contract: type[AnyRequest] | None
    guard: Callable[[Request], Guard]
    """It ends with Kafka's response, or with the error that refuses all of the request."""
    pair: Pair | None = None
    """None: the gateway answers by itself, and does not ask the coordinator."""
    own_newest: int | None = None
    """The newest version that clients are offered; None: the contract's."""
    named: Named | None = None
    """None: a request is about one group, or names none."""
    results: tuple[str, ...] = ()
    """The fields of Kafka's response that lead to its results: of lists within lists, the outermost first."""
    throttle_since: int = 0
    """The version that brought the throttle time, where the response is a list of groups."""
    is_principal_told: bool = True
    """Whether the contract's request has the client's name."""
    unread_list: str = ""
    """The list that may make a request too large to be read, if the response names nothing of the request."""
    too_large: Errors = Errors.INVALID_REQUEST
    """The error for a request that is too large for the log, which ends the attempt."""
    refused: Callable[[Any, Errors], Any] = _refused
    """The contract's response to one of its requests if the coordinator answered with the error."""
    unguarded: Callable[[Request], Guard] | None = None
    """The guard where no rights are asked; None: the request is answered as it is."""
    begins_group: Callable[[Any], bool] = lambda _: False
    """Whether a request of the contract's may begin a group."""
    wait_s: Callable[[Any, float | None], float] = lambda *_: 8
    """How long a request waits for the coordinator. It is given the member's rebalance timeout, if known."""
    late: Errors = Errors.COORDINATOR_NOT_AVAILABLE
    """The error for a request that has waited so long in the log."""

    @property
    def key(self) -> int:
        """Kafka's number of the API."""
        return int(self.request.API_KEY)

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return str(self.request.name).removesuffix("Request")

    @property
    def newest(self) -> int:
        """The newest version that clients are offered."""
        if self.own_newest is None:
            assert self.contract is not None  # noqa: S101 - one of the two is given
            return self.contract.NEWEST_VERSION
        return self.own_newest
