"""The rights that each local request needs. A denied part of it is answered as by a broker.

A guard is a generator. It says which rights it has to know and is sent those that the client has. It says
which request is to be answered and is sent the response. It returns the response that the client gets, or the
error that refuses all of the request:

    granted = yield {right, ...}
    response = yield Ask(request)
    return response

Each API has its guard in its module of `group_apis/`. A request of many groups is answered in turns, some
groups at a time, and each group once. So it becomes few records at a time for the coordinator, and few
questions to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.encoded import EncodedList, entries_of
from group_coordinator.gateway.group_apis.guarding import AT_ONCE, Ask, with_fields
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.rights import Resource
from group_coordinator.gateway.translation import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.group_apis.guarding import Guard

__all__ = ["MOST_ANSWERED", "guard", "unguarded"]

_AWAY = {Errors.COORDINATOR_LOAD_IN_PROGRESS.value, Errors.COORDINATOR_NOT_AVAILABLE.value}
"""With one of these for all groups of a turn the coordinator is not asked for those of the next ones."""
MOST_ANSWERED = 32 * 1024 * 1024
"""Bytes of one answer. The client is to ask again for the groups behind that."""


def guard(request: Request, prefix: str = "") -> Guard:
    """The guard of a local request. `prefix`: stands before the ids of groups in all that brokers know."""
    exchange = _in_turns(request, GROUP_APIS[request.head.api_key].guard)
    return _prefixed(exchange, prefix) if prefix else exchange


def unguarded(request: Request) -> Guard:
    """The same where no rights are asked."""
    return _in_turns(request, _ask)


def _prefixed(exchange: Guard, prefix: str) -> Guard:
    """The same guard, whose rights are on the groups as the coordinator knows them."""
    told: Any = None
    while True:
        try:
            wanted = exchange.send(told)
        except StopIteration as end:
            return end.value
        if isinstance(wanted, Ask):
            told = yield wanted
            continue
        named = {
            each._replace(name=prefix + each.name) if each.resource is Resource.GROUP else each: each
            for each in wanted
        }
        granted = yield named
        told = frozenset(each for asked, each in named.items() if asked in granted)


def _ask(request: Request) -> Guard:
    return (yield Ask(request))


def _in_turns(request: Request, exchange: Callable[[Request], Guard]) -> Guard:
    """Run `exchange` for some groups at a time, and put its responses together."""
    api, version = GROUP_APIS[request.head.api_key], request.head.api_version
    if api.named is None or version < api.named.since:
        return (yield from _whole(request, exchange))
    groups = api.named.once(getattr(request.message, api.named.field))
    turns = [
        with_fields(request, **{api.named.field: groups[start : start + AT_ONCE]})
        for start in range(0, len(groups), AT_ONCE)
    ]
    if len(turns) <= 1:
        return (yield from _whole(with_fields(request, **{api.named.field: groups}), exchange))
    count, entries, error = 0, [], None
    for turn in turns:
        response = refused(turn, error) if error else (yield from _held(_whole(turn, exchange)))
        added, encoded = entries_of(response)
        count += added
        entries.append(encoded)
        codes = {each.error_code for each in getattr(response, api.results[0])}
        if api.pair is not None and codes <= _AWAY:
            error = Errors(max(codes))
        elif sum(map(len, entries)) > MOST_ANSWERED:
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    return EncodedList(api.key, version, count, entries)


def _whole(request: Request, exchange: Callable[[Request], Guard]) -> Guard:
    """The exchange, which ends with Kafka's response even if an error refuses all of the request."""
    response = yield from exchange(request)
    return refused(request, response) if isinstance(response, Errors) else response


def _held(exchange: Guard) -> Guard:
    """The exchange, after whose requests something else may be asked."""
    told = None
    while True:
        try:
            wanted = exchange.send(told)
        except StopIteration as end:
            return end.value
        told = yield wanted._replace(is_last=False) if isinstance(wanted, Ask) else wanted
