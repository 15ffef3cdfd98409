"""`group-coordinator groups`: what kafka-consumer-groups.sh is to Kafka's own groups.

`command.py` has the options, and `options.py` checks them. `doing.py` connects, and has `actions.py` do what
is asked for. `views.py` has the rows of tables. `reset.py` and `plan.py` find the offsets to reset to.
"""
