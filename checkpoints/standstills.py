"""The error by which a query ends that has met a request of a partition that stood still.

A standstill is open until its partition takes requests again. The stateful function lets no time pass for
groups of the partition meanwhile, and refuses records that are later than its begin. So nothing depends on
what happens first.
"""

from __future__ import annotations

__all__ = ["STOOD_STILL", "StoodStillError"]

STOOD_STILL = "[STOOD_STILL]"
"""The condition in the error."""


class StoodStillError(Exception):
    """A partition takes requests again; the message has `STOOD_STILL` and the partition."""
