"""An index of `coordinator.groups`, for ListGroups.

Kafka's tools ask every broker and put the answers together; some add them up. So each node lists its share:
the groups whose coordinator it is said to be.

A request of 14 bytes may ask for thousands of groups, again and again. So lists are kept and not made. Each
group has its bytes, and each node has the list of its groups until one of them changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.admin.groups import ListGroupsResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import wire
from group_coordinator.gateway.addresses import coordinator_of, hash_of
from group_coordinator.gateway.codec import is_flexible
from group_coordinator.gateway.encoded import EncodedList
from group_coordinator.gateway.renewals import KnownPatterns
from group_coordinator.gateway.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_LIST = ListGroupsResponse.API_KEY
_STATE_VERSION, _KIND_VERSION = 4, 5
_SAME_UNTIL = 2
"""Up to this version entries are the same."""

_Sort = tuple[str, str]
"""The kind and the state of a group, by which lists choose."""


class ListedGroup(NamedTuple):
    """A group, as far as a list tells of it."""

    state: str
    protocol_type: str
    kind: str = "classic"
    """The protocol that its members speak, "classic" or "consumer"."""
    known: KnownPatterns | None = None
    """The patterns of its members; None if they have none."""


@dataclass(eq=False, slots=True)
class _Kept:
    """A group, and its entries in the lists of those versions that somebody has asked for."""

    hashed: int
    group: ListedGroup
    entries: dict[int, bytes] = field(default_factory=dict)


class _Part(NamedTuple):
    """The groups of a node that are of one kind and in one state: names, entries, and these joined."""

    names: Sequence[str]
    entries: Sequence[bytes]
    joined: bytes


class Listing(EncodedList):
    """The response to a ListGroups."""

    def __init__(self, version: int, parts: Sequence[_Part], error: Errors = Errors.NONE) -> None:
        count = sum(len(each.names) for each in parts)
        super().__init__(_LIST, version, count, [each.joined for each in parts], error.value)
        self._parts = parts

    @property
    def names(self) -> list[str]:
        """The ids of the groups that are listed."""
        return [name for each in self._parts for name in each.names]

    def only(self, names: Collection[str]) -> Listing:
        """The response with these groups alone."""
        pairs = [pair for each in self._parts for pair in zip(each.names, each.entries, strict=True)]
        kept = [pair for pair in pairs if pair[0] in names]
        return Listing(self.version, [_part(kept)], Errors(self.error_code))


class Groups:
    """The groups by id. It is ready once it has read what there was when the gateway started.

    `prefix`: groups without it are other people's, and it is not shown. `elsewhere`: whether a group is not
    here any more, although it is known.
    """

    def __init__(self, prefix: str = "", elsewhere: Callable[[str], bool] = lambda _: False) -> None:
        self._prefix, self._elsewhere = prefix, elsewhere
        self._groups: dict[str, _Kept] = {}
        self._nodes: tuple[int, ...] = ()
        """Those among which the groups are divided."""
        self._of_node: defaultdict[int | None, dict[str, _Kept]] = defaultdict(dict)
        self._lists: dict[tuple[int | None, int], dict[_Sort, _Part]] = {}
        """By node and version the groups of each sort, of nodes whose groups have not changed since."""
        self.unseen = Unseen()
        """Pictures that clients were told of and that are not in here yet."""
        self.is_ready = False

    def put(self, group_id: str, group: ListedGroup | None) -> None:
        """Take a newer picture of a group; None: it has been deleted."""
        if not group_id.startswith(self._prefix):
            return
        known = self._groups.get(group_id)
        if known is not None and known.group == group:
            return
        self._groups.pop(group_id, None)
        hashed = hash_of(group_id) if known is None else known.hashed
        node_id = coordinator_of(hashed, self._nodes)
        self._of_node[node_id].pop(group_id, None)
        if group is not None:
            self._groups[group_id] = self._of_node[node_id][group_id] = _Kept(hashed, group)
        for version in range(_SAME_UNTIL, _KIND_VERSION + 1):
            self._lists.pop((node_id, version), None)

    def knows(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return f"{self._prefix}{group_id}" in self._groups

    def sides_changed(self) -> None:
        """Other groups are elsewhere from now on."""
        self._lists.clear()

    def listed(self, message: Any, node_id: int, nodes: tuple[int, ...]) -> Listing:
        """The response to a ListGroups at a node, with its share. `nodes`: all of them, sorted."""
        if not self.is_ready:
            return Listing(message.version, [], Errors.COORDINATOR_LOAD_IN_PROGRESS)
        if nodes != self._nodes:
            self._divide(nodes)
        states = {state.strip().lower() for state in message.states_filter or ()}
        kinds = {kind.lower() for kind in message.types_filter or ()}
        parts = self._parts(node_id, max(message.version, _SAME_UNTIL))
        return Listing(
            message.version,
            [
                part
                for (kind, state), part in parts.items()
                if (not kinds or kind in kinds) and (not states or state.lower() in states)
            ],
        )

    def _divide(self, nodes: tuple[int, ...]) -> None:
        self._nodes = nodes
        self._of_node.clear()
        self._lists.clear()
        for group_id, kept in self._groups.items():
            self._of_node[coordinator_of(kept.hashed, nodes)][group_id] = kept

    def _parts(self, node_id: int, version: int) -> dict[_Sort, _Part]:
        if (found := self._lists.get((node_id, version))) is None:
            pairs: defaultdict[_Sort, list[tuple[str, bytes]]] = defaultdict(list)
            for group_id, kept in self._of_node.get(node_id, {}).items():
                name = group_id.removeprefix(self._prefix)
                if self._elsewhere(name):
                    continue
                if (entry := kept.entries.get(version)) is None:
                    entry = kept.entries[version] = _entry(name, kept.group, version)
                pairs[kept.group.kind, kept.group.state].append((name, entry))
            found = {sort: _part(of_sort) for sort, of_sort in pairs.items()}
            self._lists[node_id, version] = found
        return found


def _part(pairs: Sequence[tuple[str, bytes]]) -> _Part:
    entries = [entry for _, entry in pairs]
    return _Part([name for name, _ in pairs], entries, b"".join(entries))


def _entry(name: str, group: ListedGroup, version: int) -> bytes:
    texts = [name, group.protocol_type]
    if version >= _STATE_VERSION:
        texts.append(group.state)
    if version >= _KIND_VERSION:
        texts.append(group.kind)
    flexible = is_flexible(_LIST, version)
    return b"".join(wire.text(each, is_flexible=flexible) for each in texts) + (b"\0" if flexible else b"")
