"""The member's side of the group protocol.

`member.py` has the class that programs use. It puts the others together. `membership.py` is the classic
protocol (sans-IO), and `consumer_membership.py` the consumer protocol, with `consumer_requests.py`.
`any_membership.py` has what both have in common, with `offsets.py` for commits and fetches, and
`group_protocol.py` chooses. `work.py` and `consumer_work.py` are what a group shares. `channel.py` is the
way to the coordinator and back, and `shared.py` is one for many members. `consumer.py` adds the records of
the partitions that a member owns, and `positions.py` where to go on in them. `admin.py` looks at groups, and
changes them, from outside. `events.py` reads what happens to them. `tokens.py` has the tokens that a client
logs in with by OAUTHBEARER. `group_coordinator` has the names for programs.
"""

from __future__ import annotations

from group_coordinator.client.kafka_python import repair

repair()
