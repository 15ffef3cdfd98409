"""`group-coordinator groups`: what kafka-consumer-groups.sh is to Kafka's own groups.

`options.py` checks what is asked for, and `actions.py` does it. `views.py` has the rows of tables, and
`output.py` writes them. `reset.py` and `plan.py` find the offsets to reset to.
"""
