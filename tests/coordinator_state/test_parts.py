"""Results in parts, and the limit for requests that only read."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state import step as module
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, Output, StepResult, step, steps

METADATA = "m" * 1_000


def commit(number: int) -> dict[str, Any]:
    partition = {"partition_index": number, "committed_offset": 5, "committed_metadata": METADATA}
    return {"api": "offset_commit", "topics": [{"name": "t", "partitions": [partition]}]}


FETCH = {"api": "offset_fetch"}
HEARTBEAT = {"api": "heartbeat", "generation_id": 1, "member_id": "m"}
LOG = [*map(commit, range(4)), *[FETCH] * 6, {"api": "fly"}, commit(9), HEARTBEAT, FETCH]


def records(requests: list[dict[str, Any]]) -> list[Record]:
    names = {"client_id": "c", "group_id": "g"}
    values = [msgspec.json.encode(each | names | {"request_id": f"{n}"}) for n, each in enumerate(requests)]
    return [Record("requests", 0, n, 1_000 + n, b"g", value) for n, value in enumerate(values)]


def parts(config: GroupConfig) -> list[StepResult]:
    return list(steps(b"g", None, records(LOG), 2_000, config, b"secret"))


@pytest.mark.parametrize(
    ("most_bytes", "most_records", "expected"), [(1, 99, 15), (9_000, 99, 6), (10**6, 3, 5)]
)
def test_parts_are_the_whole(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, most_records: int, expected: int
) -> None:
    config = GroupConfig()
    whole = step(b"g", None, records(LOG), 2_000, config, b"secret")
    monkeypatch.setattr(module, "_PART_BYTES", most_bytes)
    monkeypatch.setattr(module, "_PART_RECORDS", most_records)
    made = parts(config)

    assert len(made) == expected
    again = step(b"g", None, records(LOG), 2_000, config, b"secret")
    # It is measured when one looks, among it the answers to heartbeats before.
    assert again._replace(read_bytes=0) == whole._replace(read_bytes=0)
    assert [each.state for each in made[:-1]] == [None] * (len(made) - 1)
    largest = max(len(output.value or b"") for output in whole.outputs)
    for each in made:
        decided = [output for output in each.outputs if output.channel is not Channel.OFFSETS]
        assert sum(len(output.value or b"") for output in decided) < most_bytes + 2 * largest
        assert len(each.requests) + len(each.rejections) <= most_records


def test_reading_beyond_the_limit_is_put_off_and_nothing_else_is() -> None:
    config = GroupConfig(max_read_bytes=10_000)
    result = step(b"g", None, records(LOG), 2_000, config, b"secret")

    told = Counter((reply.response.__struct_config__.tag, reply.response.error) for reply in result.replies)
    assert told["offset_commit", "NONE"] == 5
    assert told["offset_fetch", "NONE"] == 3
    assert told["offset_fetch", "COORDINATOR_LOAD_IN_PROGRESS"] == 4
    # The limit is for what is asked at once.
    (later,) = step(b"g", result.state, records([FETCH]), 3_000, config, b"secret").replies
    assert later.response.error == "NONE"


def test_a_member_that_asks_again_and_again_for_what_it_was_told_is_put_off() -> None:
    """Each answer has 4 kB or more: the leader's members, or an assignment."""
    config = GroupConfig(max_read_bytes=10_000, group_initial_rebalance_delay_ms=0)
    protocol = {"name": "range", "metadata": base64.b64encode(bytes(3_000)).decode()}
    join = {
        "api": "join_group",
        "api_version": 9,
        "group_instance_id": "i",
        "protocol_type": "consumer",
        "protocols": [protocol],
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
    }
    result = step(b"g", None, records([join]), 2_000, config, b"secret")
    (joined,) = (reply.response for reply in result.replies)
    sync = {"api": "sync_group", "api_version": 5, "generation_id": 1, "member_id": joined.member_id}
    sync |= {"group_instance_id": "i", "protocol_type": "consumer", "protocol_name": "range"}
    assignment = {"member_id": joined.member_id, "assignment": protocol["metadata"]}
    again = {**join, "member_id": joined.member_id}
    log = [again] * 9 + [sync | {"assignments": [assignment]}] + [sync] * 9 + [join] * 9

    told = Counter(
        (reply.response.__struct_config__.tag, reply.response.error)
        for reply in step(b"g", result.state, records(log), 3_000, config, b"secret").replies
    )

    assert told == {
        # What the member asks for once in a batch, it is told.
        ("join_group", "NONE"): 1 + 3,
        ("join_group", "COORDINATOR_NOT_AVAILABLE"): 5 + 9,
        ("sync_group", "NONE"): 1 + 1,
        ("sync_group", "REBALANCE_IN_PROGRESS"): 8,
    }


def test_offsets_that_come_and_go_do_not_wait_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []
    for number in range(20):
        topic = {
            "name": f"t{number}",
            "partitions": [{"partition_index": n, "committed_offset": 5} for n in range(9)],
        }
        gone = {"name": topic["name"], "partitions": [{"partition_index": n} for n in range(1, 9)]}
        requests += [
            {"api": "offset_commit", "topics": [topic]},
            {"api": "offset_delete", "topics": [gone]},
        ]
    whole = step(b"g", None, records(requests), 2_000, GroupConfig(), b"secret")
    monkeypatch.setattr(module, "_PART_OFFSETS", 20)
    made = list(steps(b"g", None, records(requests), 2_000, GroupConfig(), b"secret"))

    assert len(made) == 10
    assert max(len(pictures_of([each])) for each in made) < 20 + 9
    assert made[-1].state == whole.state
    assert newest(pictures_of(made)) == newest(pictures_of([whole]))
    assert Counter(value is None for _, value in newest(pictures_of(made)).values()) == {True: 160, False: 20}


def pictures_of(made: list[StepResult]) -> list[Output]:
    return [output for each in made for output in each.outputs if output.channel is Channel.OFFSETS]


def newest(pictures: list[Output]) -> dict[bytes | None, tuple[int | None, bytes | None]]:
    """As Kafka's compaction leaves them; places never go back."""
    left: dict[bytes | None, tuple[int | None, bytes | None]] = {}
    for each in pictures:
        assert each.key not in left or (left[each.key][0] or 0) < (each.place or 0)
        left[each.key] = each.place, each.value
    return left
