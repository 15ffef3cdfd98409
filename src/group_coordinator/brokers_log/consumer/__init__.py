"""Groups of the consumer protocol (KIP-848) at the brokers.

`records.py` reads their records, and `state.py` is what is known of a group. `changes.py` tells what follows
of a record, with `members.py` for those about one member, and `telling.py` for what both tell.
"""
