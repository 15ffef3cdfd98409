"""What the two sides say, in the same few words, so that it can be held side by side and kept in a file.

An answer to a heartbeat is `@3 a012 b3`: the epoch, and the partitions if it says any; `!110` if it is an
error with nothing else. Whatever is not as always makes it longer. A group is a line, and two lines for each
member. Topics are called by their letters. The order in which an answer has topics, partitions and members
says nothing, and the texts of errors differ.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from tests.conformance.messages import offsets_by_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.conformance.consumer.topics import Topics

__all__ = ["Short", "answer_in_short", "group_in_short", "patch", "patched"]

Short = str | dict[str, Any]

_NOTHING = {"member_id": None, "member_epoch": 0, "heartbeat_interval_ms": 0, "assignment": None}
_DULL = {"api", "request_id", "client_id", "group_id", "error", "error_message", "topics"}


def answer_in_short(
    request: Mapping[str, Any], answer: Mapping[str, Any], topics: Topics, interval_ms: int
) -> Short:
    """What is compared of an answer to `request`. `interval_ms`: that of heartbeats, as it is set."""
    match request["api"]:
        case "consumer_group_heartbeat":
            return _beat(request, answer, topics, interval_ms)
        case "consumer_group_describe":
            return _described(answer, topics)
        case "offset_commit" | "offset_delete":
            return _of_partitions(request, answer, topics)
        case "offset_fetch" if answer["error_code"]:
            return f"!{answer['error_code']}"
        case "offset_fetch":
            return _offsets(answer, topics)
    short = {name: _plain(value) for name, value in answer.items() if name not in _DULL}
    return {name: value for name, value in short.items() if value not in (None, [], {})}


def group_in_short(
    described: Mapping[str, Any], fetched: Mapping[str, Any], topics: Topics
) -> dict[str, Any]:
    """What is compared of a group: its description, and all that is committed."""
    group = _described(described, topics)
    found = {"group": group} if isinstance(group, str) else group
    return found | {"offsets": _offsets(fetched, topics)}


def _beat(request: Mapping[str, Any], answer: Mapping[str, Any], topics: Topics, interval_ms: int) -> Short:
    fields = {name: answer[name] for name in _NOTHING}
    if answer["error_code"] and fields == _NOTHING:
        return f"!{answer['error_code']}"
    epoch = answer["member_epoch"]
    said = f"@{epoch}"
    if answer["assignment"] is not None:
        said = f"{said} {_partitions(answer['assignment'], topics)}"
    usual_ms = interval_ms if epoch >= 0 else 0
    is_usual = answer["member_id"] == request["member_id"] and answer["heartbeat_interval_ms"] == usual_ms
    if is_usual and not answer["error_code"]:
        return said
    return {"said": said} | {
        name: answer[name] for name in ("error_code", "member_id", "heartbeat_interval_ms")
    }


def _described(group: Mapping[str, Any], topics: Topics) -> Short:
    if group["error_code"]:
        return f"!{group['error_code']}"
    epochs = f"{group['group_epoch']}/{group['assignment_epoch']}"
    members = {each["member_id"]: _member(each, topics) for each in group["members"]}
    return {"group": f"{group['group_state']} {epochs} {group['assignor_name']}", "members": members}


def _member(member: Mapping[str, Any], topics: Topics) -> dict[str, str]:
    own, target = (_partitions(member[each], topics) for each in ("assignment", "target_assignment"))
    names = "".join(sorted(topics.letter(name) for name in member["subscribed_topic_names"]))
    # Kafka says "" for no pattern.
    said = {
        "instance": member["group_instance_id"],
        "rack": member["rack_id"],
        "regex": topics.pattern_text(member["subscribed_topic_regex"]) or None,
    }
    rest = "".join(f" {name}={value}" for name, value in said.items() if value is not None)
    who = f"{member['client_id']} {member['client_host']} type={member['member_type']}"
    return {"at": f"@{member['member_epoch']} {own} -> {target}", "is": f"{who} names={names}{rest}"}


def _partitions(partitions: Iterable[Mapping[str, Any]], topics: Topics) -> str:
    told = topics.letters(partitions)
    # No topic has ten partitions, so a partition is a digit.
    return " ".join(letter + "".join(map(str, numbers)) for letter, numbers in told.items()) or "-"


def _of_partitions(request: Mapping[str, Any], answer: Mapping[str, Any], topics: Topics) -> dict[str, Any]:
    """The error of each partition: Kafka has no other place for that of a whole commit."""
    told = {
        (topic["name"], each["partition_index"]): each["error_code"]
        for topic in answer["topics"]
        for each in topic["partitions"]
    }
    return {
        f"{topics.letter(topic['name'])}{each['partition_index']}": told.get(
            (topic["name"], each["partition_index"]), answer["error_code"]
        )
        for topic in request["topics"]
        for each in topic["partitions"]
    }


def _offsets(fetched: Mapping[str, Any], topics: Topics) -> dict[str, Any]:
    found = {}
    for place, (offset, *_) in offsets_by_partition(fetched["topics"]).items():
        name, _, number = place.rpartition("-")
        found[f"{topics.letter(name)}{number}"] = offset
    return dict(sorted(found.items()))


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            plain = {name: _plain(each) for name, each in value.items()}
            return {name: each for name, each in plain.items() if each is not None}
        case list():
            return [_plain(each) for each in value]
    return value


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What makes `after` of `before`: only what is new, and null for what is gone (RFC 7386)."""
    changes: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if old != value:
            is_nested = isinstance(old, dict) and isinstance(value, dict)
            changes[name] = patch(old, value) if is_nested else value
    return changes


def patched(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What `patch` has made the changes of."""
    after = dict(before)
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict) and isinstance(before.get(name), dict):
            after[name] = patched(before[name], value)
        else:
            after[name] = value
    return after
