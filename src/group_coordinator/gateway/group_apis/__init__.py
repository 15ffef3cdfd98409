"""The APIs of groups that the gateway answers: a module for each, and `table.py`, which lists them.

A module has all that the gateway knows of its API: versions, the way to the contract and back, rights, limits
and errors. Other modules ask the table.

Source: `docs/contract.md`, the message definitions of Apache Kafka 4.2, and its kafka.server.KafkaApis. That
class says which rights an API needs. It puts a denied part of a request in front of the rest, behind it, or
at its place.
"""
