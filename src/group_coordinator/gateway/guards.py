"""The rights that each local request needs. A denied part of it is answered as by a broker.

A guard is a generator. It says which rights it has to know and is sent those that the client has. It says
which request is to be answered and is sent the response. It returns the response that the client gets, or the
error that refuses all of the request:

    granted = yield {right, ...}
    response = yield Ask(request)
    response = yield AskBroker(message)    about groups that are at the brokers
    matched = yield Match(pattern)         about the topics that a pattern matches
    return response

Each API has its guard in its module of `group_apis/`. A request of many groups is answered in turns, some
groups at a time, and each group once. So it becomes few records at a time for the coordinator, and few
questions to the broker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.groups import ListGroupsRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.encoded import EncodedList, entries_of
from group_coordinator.gateway.group_apis.guarding import AT_ONCE, Ask, AskBroker, Match, with_fields
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.moving import answer, leave_of
from group_coordinator.gateway.rights import Resource
from group_coordinator.gateway.sides import Sides, groups_of, id_of
from group_coordinator.gateway.translation import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.group_apis.guarding import Guard

_ONE_SIDE = Sides()
_AWAY = {Errors.COORDINATOR_LOAD_IN_PROGRESS.value, Errors.COORDINATOR_NOT_AVAILABLE.value}
"""With one of these for all groups of a turn the coordinator is not asked for those of the next ones."""
MOST_ANSWERED = 32 * 1024 * 1024
"""Bytes of one answer. The client is to ask again for the groups behind that."""


def guard(request: Request, prefix: str = "", sides: Sides = _ONE_SIDE) -> Guard:
    """The guard of a local request. `prefix`: stands before the ids of groups in all that brokers know.

    `sides`: the broker answers for the groups that are there. It judges their rights by itself.
    """
    exchange = _in_turns(
        request, _on(sides, request, GROUP_APIS[request.head.api_key].guard, is_guarded=True)
    )
    return _prefixed(exchange, prefix) if prefix else exchange


def unguarded(request: Request, sides: Sides = _ONE_SIDE) -> Guard:
    """The same where no rights are asked."""
    exchange = GROUP_APIS[request.head.api_key].unguarded or _ask
    return _in_turns(request, _on(sides, request, exchange, is_guarded=False))


def _on(
    sides: Sides, request: Request, exchange: Callable[[Request], Guard], *, is_guarded: bool
) -> Callable[[Request], Guard]:
    """The exchange, which asks the broker for its part of the groups."""
    if not sides.are_two:
        return exchange
    leave = leave_of(request)
    if leave is not None and sides.is_moving(request.message.group_id):
        guard_of_leave = GROUP_APIS[leave.head.api_key].guard if is_guarded else _ask
        return partial(_left, guard_of_leave, leave)
    if request.head.api_key == ListGroupsRequest.API_KEY:
        return partial(_listed, sides, exchange)
    return exchange if groups_of(request) is None else partial(_divided, sides, exchange)


def _left(exchange: Callable[[Request], Guard], leave: Request, _request: Request) -> Guard:
    """Let the member leave, whose group moves."""
    response = yield from exchange(leave)
    return response if isinstance(response, Errors) else Errors.NOT_COORDINATOR


def _divided(sides: Sides, exchange: Callable[[Request], Guard], request: Request) -> Guard:
    """Ask each side for its groups, and join the answers in the order of the request."""
    api, groups = GROUP_APIS[request.head.api_key], groups_of(request) or []
    theirs: list[Any] = []
    ours: list[Any] = []
    moving: list[Any] = []
    # Once: the sides may change before the broker has answered.
    for each in groups:
        group_id = id_of(each)
        part = moving if sides.is_moving(group_id) else theirs if sides.at_brokers(group_id) else ours
        part.append(each)
    if not (theirs or moving):
        return (yield from exchange(request))
    assert api.named is not None  # noqa: S101 - it names groups
    # Even without groups of its own, because the others' answers are put into it.
    response = answer(with_fields(request, **{api.named.field: moving}))
    results = list(getattr(response, api.results[0]))
    if theirs:
        response = yield AskBroker(with_fields(request, **{api.named.field: theirs}).message)
        results += getattr(response, api.results[0])
    if ours:
        own = with_fields(request, **{api.named.field: ours})
        results += getattr((yield from _whole(own, exchange)), api.results[0])
    by_id = {id_of(each): each for each in results}
    setattr(response, api.results[0], [by_id[id_of(each)] for each in groups])
    return response


def _listed(sides: Sides, exchange: Callable[[Request], Guard], request: Request) -> Guard:
    """List the groups of both sides. A broker may have others by names that are here now."""
    theirs = yield AskBroker(request.message)
    ours = yield from exchange(request)
    theirs.groups = [each for each in theirs.groups if sides.at_brokers(each.group_id)]
    return ours.beside(theirs)


def _prefixed(exchange: Guard, prefix: str) -> Guard:
    """The same guard, whose rights are on the groups as the coordinator knows them."""
    told: Any = None
    while True:
        try:
            wanted = exchange.send(told)
        except StopIteration as end:
            return end.value
        if isinstance(wanted, (Ask, AskBroker, Match)):
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
