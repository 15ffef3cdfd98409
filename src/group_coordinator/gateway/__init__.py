"""The gateway: Kafka's own clients use it as their bootstrap server, and the stream coordinates their groups.

    bytes ──► frames ──► slots ──► upstream            what is not about groups: streamed, not decoded
                           └─────► codec ──► translation ──► stream ──► answers

From `frames` to `groups` nothing does I/O: bytes and time come in as arguments, and bytes go out as results.
"""
