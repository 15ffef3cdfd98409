"""The query that watches the groups that are at the brokers.

It reads the log that the brokers' own coordinators keep of them, `__consumer_offsets`, and writes what it
sees into topics as the coordinator's are. Brokers are only read, and no group is joined.
"""
