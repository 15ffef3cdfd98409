"""Lag, measured in one place: in records and in seconds, its trend, and partitions that stand still.

    coordinator.offsets ─► commits ─┐
                                    ├─► courses ─► lag of each group ─► Prometheus, coordinator.lag
    ends of the topics ─────────────┘

The coordinator is asked nothing: commits come from its compacted topic, and ends from the brokers.
"""
