"""The description of the API for programs (OpenAPI 3.1), made from the types of its questions and answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import msgspec

from group_coordinator.page.answers import Problem
from group_coordinator.page.api import JSON, OPERATIONS, PREFIX, PROBLEM, STREAM, Operation

_REFERENCE = "#/components/schemas/{name}"


def description() -> bytes:
    """The description, as JSON."""
    answers = [each.answer for each in OPERATIONS if each.kind == JSON]
    found, schemas = msgspec.json.schema_components([*answers, Problem], ref_template=_REFERENCE)
    of_answer = dict(zip((each.path for each in OPERATIONS if each.kind == JSON), found, strict=False))
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Group coordinator",
                "version": version("group-coordinator"),
                "description": "Groups as they are, and what has happened to them. It changes nothing.",
            },
            "paths": {
                f"{PREFIX}{each.path}": {"get": _operation(each, of_answer.get(each.path), found[-1])}
                for each in OPERATIONS
            },
            "components": {"schemas": schemas},
        }
    )


def _operation(operation: Operation, answer: Any, problem: Any) -> dict[str, Any]:
    ok: dict[str, Any] = {"description": "The answer.", "content": {JSON: {"schema": answer}}}
    if operation.kind == STREAM:
        told = "Server-sent events: `id` is an event's `event_id`, and `data` the event, as JSON in one line."
        ok = {"description": told, "content": {STREAM: {"schema": {"type": "string"}}}}
    words = operation.path.strip("/").split("/")
    return {
        "operationId": "_".join(words),
        "summary": operation.summary,
        "parameters": _parameters(operation.query),
        "responses": {
            "200": ok,
            "default": {"description": "What is wrong.", "content": {PROBLEM: {"schema": problem}}},
        },
    }


def _parameters(query: type[msgspec.Struct]) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(query)["$defs"][query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": of_name.pop("description", ""),
            "schema": of_name,
        }
        for name, of_name in schema["properties"].items()
    ]
