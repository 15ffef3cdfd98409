"""The brokers of the classic protocol."""

from __future__ import annotations

from tests.conformance.setups import setup

__all__ = ["SETUPS"]

_AT_ONCE_MS = 20

SETUPS = {
    "plain": setup({}),
    "tight": setup({"group_initial_rebalance_delay_ms": 200, "group_max_size": 3}),
    # What may go goes at once: so soon that the driver does not look before it is gone.
    "brief": setup({"offsets_retention_check_interval_ms": _AT_ONCE_MS}),
}
