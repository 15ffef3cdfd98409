"""A group's deadline as Spark keeps it.

Spark calls for a group whose timeout is before the watermark (`FlatMapGroupsWithStateExec`), and `step` fires
a deadline that is not after it. If the deadline itself were the timeout, a group without a request would be
called a batch late. Then a replay of the log would find decisions that the query has not made yet.
"""

from __future__ import annotations


def timeout_of(deadline_ms: int) -> int:
    """The timeout with which Spark calls as soon as the watermark has come to `deadline_ms`.

    It is not before a watermark that `deadline_ms` is after, as Spark wants it.
    """
    # PySpark refuses a timeout of 0.
    return max(deadline_ms - 1, 1)
