"""The protocol of a Kafka consumer group's coordinator as a pure state machine (sans-IO).

Start reading at `states.py` (what a group can be), `coordinator.py` (how it is driven) and
`rebalance.py` (the rules). `step.py` is the whole as one function.

Nothing in this package looks at a clock, draws a random number or does I/O, and import-linter sees to it:
the same log must always give the same decisions.
"""
