"""The gateway: Kafka's own clients use it as their bootstrap server, and the stream coordinates their groups.

    connection ──► conversation ──► relay ──► upstream       what is not about groups: streamed, not decoded
                         └──► local requests ──► codec ──► translation ──► stream ──► answers

Sockets are the business of `listeners`, `connection` and `upstream`, and the log is that of `stream`. Between
them nothing does I/O: bytes and time come in as arguments, and bytes go out as results.
"""
