"""`group-coordinator groups`: what kafka-consumer-groups.sh is to Kafka's own groups.

`options.py` is what can be asked for, `actions.py` what is done then, `views.py` the rows that are shown,
`reset.py` and `plan.py` where offsets are reset to, and `output.py` how all of it is written.
"""
