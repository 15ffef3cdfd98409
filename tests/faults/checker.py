"""What must be true after a run, whatever was killed: pure functions over what the run has left behind.

The judge of most of it is the core itself, offline: given the whole log in one step it has no batches, no
restarts and no repeats, so what it decides is what the coordinator should have decided. The core could be
wrong in both: so the model looks at what it decides, and the members have noted what they saw.
"""

from __future__ import annotations

from collections import Counter
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.standstills import PartitionOutages
from tests.coordinator_state.model import Model
from tests.coordinator_state.observer import Observer
from tests.faults import members, told
from tests.faults.view import View, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.faults.history import History, Written

__all__ = ["check", "figures"]


def check(history: History) -> list[Violation]:
    """All that is wrong in `history`."""
    view = View(history)
    rules = (
        repeated_answers,
        decisions,
        answers,
        rejects,
        repeated_events,
        events,
        pictures,
        members.one_owner_by_notes,
        members.expired_though_beating,
        members.failed,
        told.rows_of_events,
        told.one_owner_at_a_time,
        told.owners_as_members_saw_it,
    )
    return [violation for rule in rules for violation in rule(view)]


def figures(history: History) -> Counter[str]:
    """What a run has come to, in numbers."""
    view = View(history)
    counts = Counter(
        {
            "requests": len(history.requests),
            "answers repeated": len(history.responses) - sum(len(each) for each in view.answers.values()),
            "events repeated": len(history.events) - sum(len(each) for each in view.events.values()),
            "outages": len(history.outages),
        }
    )
    for group_events in view.events.values():
        for event in group_events:
            if event["event"] == "member_removed":
                counts[f"members removed: {event['reason']}"] += 1
            elif event["event"] in ("generation_completed", "offsets_committed"):
                counts[event["event"]] += 1
    return counts


# -- answers ---------------------------------------------------------------------------------------------


def repeated_answers(view: View) -> Iterator[Violation]:
    """An answer may come again, but then it is the same, byte for byte and on the same partition."""
    for request_id, different in view.answers.items():
        if len(different) > max(view.times_asked.get(request_id, 1), 1):
            group_id = msgspec.json.decode(different[0][1] or b"{}")["group_id"]
            yield Violation("repeated answers differ", str(group_id), f"{request_id}: {different}")


def decisions(view: View) -> Iterator[Violation]:
    """What the core decides about the whole log is what the model foretells."""
    history = view.history
    known = PartitionOutages(history.outages, history.standstills, history.layout.request_partitions)
    for group_id, (records, result) in view.replayed.decided.items():
        model = Model(
            view.config, list(known.of(group_id.encode())), group_id, members.units_in, history.layout
        )
        try:
            reached_ms = known.reached_ms(group_id.encode(), history.watermark_ms)
            Observer(model).see(None, records, reached_ms, result)
        except AssertionError as error:
            place = extract_tb(error.__traceback__)[-1]
            yield Violation("the core is wrong", group_id, f"{error} in {place.name}: {place.line}")


def answers(view: View) -> Iterator[Violation]:
    """The answers are those of the replay, and no others. A question may be put off (`max.read.bytes`)."""
    expected: dict[str, list[tuple[bytes | None, bytes | None, int | None]]] = {}
    for answer in view.replayed.responses:
        expected.setdefault(_decode(answer[1])["request_id"], []).append(answer)
    for request_id in expected.keys() | view.answers.keys():
        wanted = expected.get(request_id, [])
        found = [it for it in view.answers.get(request_id, []) if not (wanted and _is_put_off(it[1]))]
        if not found and request_id in view.answers:
            continue
        for key, value, partition in wanted:
            if not any((key, value) == it[:2] and partition in (None, it[2]) for it in found):
                rule = "a request is answered otherwise" if found else "an answer is missing"
                group_id = str(_decode(value)["group_id"])
                yield Violation(rule, group_id, f"{value!r} should be among {found}")
        for answer in found:
            if not any(answer[:2] == it[:2] for it in wanted):
                group_id = str(_decode(answer[1])["group_id"])
                yield Violation("an answer comes from nowhere", group_id, f"{answer}: not in {wanted}")


def _is_put_off(value: bytes | None) -> bool:
    answer = _decode(value)
    may_be = answer["api"] in ("describe_group", "offset_fetch")
    return may_be and answer.get("error") == Errors.COORDINATOR_LOAD_IN_PROGRESS.name


def rejects(view: View) -> Iterator[Violation]:
    """What is no request is recorded, and nothing else is."""
    found = {it.value for it in view.history.rejected}
    for value in found ^ view.replayed.rejected:
        what = "should not be there" if value in found else "is missing"
        yield Violation("the rejected records are others", "", f"{value!r} {what}")


# -- events and pictures ---------------------------------------------------------------------------------


def repeated_events(view: View) -> Iterator[Violation]:
    """An event may come again, but then it is the same; two events never have one id."""
    first: dict[str, bytes] = {}
    for it in view.history.events:
        event, value = _decode(it.value), it.value or b""
        if first.setdefault(event["event_id"], value) != value:
            detail = f"{value!r} and {first[event['event_id']]!r}"
            yield Violation("two events have one id", event["group_id"], detail)


def events(view: View) -> Iterator[Violation]:
    """Every request was applied once: the events are those of the replay, one by one, in the same order."""
    expected = {
        group_id: [_decode(value) for value in values] for group_id, values in view.replayed.events.items()
    }
    for group_id in expected.keys() | view.events.keys():
        wanted, found = expected.get(group_id, []), view.events.get(group_id, [])
        if wanted == found:
            continue
        wanted_ids, found_ids = [it["event_id"] for it in wanted], [it["event_id"] for it in found]
        for event in wanted:
            if event["event_id"] not in found_ids:
                yield Violation("an event is missing", group_id, f"{event}")
        for event in found:
            if event["event_id"] not in wanted_ids:
                yield Violation("an event comes from nowhere", group_id, f"{event}")
            elif event not in wanted:
                yield Violation("an event is another", group_id, f"{event}")
        if set(wanted_ids) == set(found_ids) and wanted_ids != found_ids:
            at = next(i for i, ids in enumerate(zip(wanted_ids, found_ids, strict=True)) if ids[0] != ids[1])
            detail = f"{wanted_ids[at]} should come before {found_ids[at]}"
            yield Violation("events are out of order", group_id, detail)


def pictures(view: View) -> Iterator[Violation]:
    """The newest pictures of groups and offsets are what there is at the end."""
    for name, written, expected in (
        ("the picture of a group", view.history.groups, view.replayed.groups),
        ("an offset", view.history.offsets, view.replayed.offsets),
    ):
        newest = _newest(written)
        for key in expected.keys() | newest.keys():
            if key not in newest or newest[key] != expected.get(key, b""):
                detail = f"{newest.get(key)!r} should be {expected.get(key)!r}"
                yield Violation(f"{name} is wrong", (key or b"").decode(errors="replace"), detail)


def _newest(written: Iterable[Written]) -> dict[bytes | None, bytes | None]:
    return {it.key: it.value for it in written}


def _decode(value: bytes | None) -> Any:
    return msgspec.json.decode(value or b"{}")
