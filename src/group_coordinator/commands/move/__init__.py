"""`group-coordinator move`: a group goes to the other side, with its committed offsets.

`steps.py` has the steps and their order, `places.py` both sides over Kafka, and `command.py` the options.
"""
