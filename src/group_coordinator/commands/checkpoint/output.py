"""The output of `checkpoint inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from group_coordinator.commands.output import json_of
from group_coordinator.commands.tables import Column, Row, Table, as_wide_as_needed

if TYPE_CHECKING:
    from group_coordinator.checkpoints.inspection import Inspection

_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000


def as_json(inspection: Inspection) -> str:
    """Return everything as JSON, with the names of `Inspection`, times in ms and sizes in bytes."""
    return json_of(inspection, indent=2) + "\n"


def as_table(inspection: Inspection) -> str:
    """Return the same for people."""
    lines = [*_facts(inspection).lines()]
    topics = [
        (topic, partition, offset)
        for topic, partitions in sorted(inspection.offsets.items())
        for partition, offset in sorted(partitions.items())
    ]
    lines += _table(("TOPIC", "PARTITION", "END-OFFSET"), topics)
    if (groups := inspection.groups) is not None:
        lines += _table(("STATE", "#GROUPS"), groups.by_state.items())
        lines += _table(("STATE-PARTITION", "#GROUPS"), groups.partitions.items())
        lines += _table(
            ("LARGEST", "STATE", "#MEMBERS", "#OFFSETS", "SIZE"),
            [(it.group_id, it.state, it.members, it.offsets, _size(it.bytes)) for it in groups.largest],
        )
    return "".join(f"{line}\n" for line in lines)


def _facts(inspection: Inspection) -> Table:
    identity, batch, groups = inspection.identity, inspection.batch, inspection.groups
    on_disk = "" if inspection.disk_bytes is None else f" ({_size(inspection.disk_bytes)} on the disk)"
    facts: dict[str, str] = {
        "checkpoint": inspection.checkpoint,
        "size": f"{_size(inspection.bytes)}{on_disk}",
        "schema version": str(identity.schema_version),
        "state partitions": str(identity.state_partitions),
        "batches planned": _range(inspection.planned),
        "batches committed": _range(inspection.committed),
    }
    if batch is not None:
        provider = batch.conf.get("spark.sql.streaming.stateStore.providerClass", "-")
        facts["state store"] = provider.rpartition(".")[2]
        facts["batch"] = f"{batch.batch_id}{'' if batch.is_committed else ' (running, or to be run again)'}"
        facts["planned at"] = _time(batch.timestamp_ms)
        facts["watermark"] = _time(batch.watermark_ms)
    if groups is not None:
        facts["groups"] = f"{groups.total}, {_size(groups.bytes)}"
        facts["members"] = str(groups.members)
        facts["offsets"] = str(groups.offsets)
    facts["outages"] = str(len(inspection.outages))
    return Table((Column("", 18), Column("")), list(facts.items()), bare=True, apart=False)


def _table(headings: tuple[str, ...], rows: Iterable[Row]) -> Iterator[str]:
    listed = list(rows)
    return Table(as_wide_as_needed(headings), listed, hidden=not listed).lines()


def _range(batches: tuple[int, int] | None) -> str:
    return "-" if batches is None else f"{batches[0]} to {batches[1]}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds") if at_ms else "-"


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.3g} {unit}"
        count /= _STEP
    return f"{count:.3g} {_UNITS[-1]}"
