"""Errors of Spark and Hadoop, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException


def first_line(error: Py4JJavaError | PySparkException) -> str:
    """Return what Spark or Hadoop says is wrong, without its place in Java."""
    text = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).strip().splitlines()[0]


def cause(error: Py4JJavaError | PySparkException) -> str:
    """Return the first cause, which a task that fails for a missing file has only deep inside."""
    origin = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if origin is None:
        return first_line(error)
    while (deeper := origin.getCause()) is not None:
        origin = deeper
    return str(origin.toString()).strip().splitlines()[0]


def with_stack(error: PySparkException) -> str:
    """Return all that Spark says, with the place in Java of the first cause."""
    deepest: object = error
    while (deeper := getattr(deepest, "_cause", None)) is not None:
        deepest = deeper
    return f"{error}\n{getattr(deepest, '_stackTrace', '') or ''}".rstrip()
