"""The protocol of a Kafka consumer group's coordinator as a pure state machine (sans-IO).

Start reading at `classic/states.py` (the states of a group), `coordinator.py` (the loop that drives a group)
and `classic/rebalance.py` (the rules). `step.py` is the whole as one function.

Nothing in this package looks at a clock, draws a random number or does I/O. So the same log always gives the
same decisions. The linters check this.
"""
