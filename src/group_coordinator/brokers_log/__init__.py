"""Groups at the brokers, as Kafka's own coordinator writes them down in `__consumer_offsets`.

`records.py` reads a record. `changes.py` tells what follows of two states of a group of the classic protocol.
`consumer/` tells what follows of a record of the consumer protocol. `step.py` is one call of a stateful
function, like the one in `coordinator_state/step.py`. There is no I/O and no clock.
"""
