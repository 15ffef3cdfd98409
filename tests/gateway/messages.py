"""Messages of Kafka's, drawn from their schemas: every API and version that the gateway reads."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from kafka.protocol.schemas.fields import ArrayField, SimpleField, StructArrayField, StructField
from kio.index import load_payload_module
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from group_coordinator.gateway.codec import _MESSAGES

VERSIONS = [
    (key, which, version)
    for key, kinds in _MESSAGES.items()
    for which, kind in enumerate(kinds)
    for version in range(kind.max_version + 1)
]
# kio, which is asked for its opinion, has no other errors, and no times beyond what Python's have.
_ERRORS = st.sampled_from([0, -1, 3, 14, 27, 82, 110])
_TIMES = st.integers(-1, 2**41)
_INTS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)


def kind_of(key: int, which: int) -> Any:
    return _MESSAGES[key][which]


_KINDS_OF_KIO = (EntityType.request, EntityType.response)


def kios(key: int, which: int, version: int) -> Any | None:
    """kio's class of a message; None if it has none: Kafka 4 has dropped some of the oldest versions."""
    kind = _KINDS_OF_KIO[which]
    if kind not in schema_name_map[api_key_map[key]].get(version, ()):
        return None
    return getattr(load_payload_module(key, version, kind), kind_of(key, which).__name__)


def drawn(draw: st.DrawFn, key: int, which: int, version: int) -> Any:
    kind = kind_of(key, which)
    return kind(version=version, **_fields(draw, kind._struct, version))


def _fields(draw: st.DrawFn, schema: StructField, version: int) -> dict[str, Any]:
    fields = [*schema.untagged_fields(version), *schema.tagged_fields(version)._fields]
    return {field.name: draw(_value(draw, field, version)) for field in fields}


def _value(draw: st.DrawFn, field: Any, version: int) -> st.SearchStrategy[Any]:
    value = _not_null(draw, field, version)
    return st.none() | value if field.nullable_for_version_q(version) else value


def _not_null(draw: st.DrawFn, field: Any, version: int) -> st.SearchStrategy[Any]:
    match field:
        case StructArrayField():
            value = st.lists(st.builds(lambda: _struct(draw, field.array_of, version)), max_size=2)
        case ArrayField():
            value = st.lists(_not_null(draw, field.array_of, version), max_size=2)
        case StructField():
            value = st.builds(lambda: _struct(draw, field, version))
        case SimpleField(type_str="string"):
            value = _text
        case SimpleField(type_str="bytes" | "records"):
            value = st.binary(max_size=8)
        case SimpleField(type_str="bool"):
            value = st.booleans()
        case SimpleField(type_str="uuid"):
            value = st.uuids()
        case SimpleField(type_str="bitfield"):
            value = st.sets(st.integers(0, 30), max_size=3)
        case SimpleField(type_str="float64"):
            value = st.floats(allow_nan=False)
        case _:
            value = _number(field)
    return value


def _number(field: SimpleField) -> st.SearchStrategy[int]:
    if field.name == "error_code":
        return _ERRORS
    if field.name.endswith("_ms") and field.type_str == "int64":
        return _TIMES
    bits = _INTS[field.type_str]
    return st.integers(-(2**bits), 2**bits - 1)


def _struct(draw: st.DrawFn, schema: StructField, version: int) -> Any:
    return schema.data_class(version=version, **_fields(draw, schema, version))
