"""A member with a script: what it sends, and what is answered by hand."""

from __future__ import annotations

import dataclasses

from group_coordinator.client.member_settings import MemberSettings
from group_coordinator.client.membership import Membership
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Protocol,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    JoinGroupMember,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)

SETTINGS = MemberSettings(
    group_id="orders",
    client_id="c1",
    client_host="host",
    session_timeout_ms=9_000,
    max_poll_interval_ms=60_000,
    request_timeout_ms=30_000,
    retry_backoff_ms=500,
)
PROTOCOLS = [Protocol("range", b"r"), Protocol("sticky", b"s")]
HEARTBEAT = 3_000
JOIN_TIMEOUT = 65_000
STATIC = dataclasses.replace(SETTINGS, group_instance_id="w1")
RESPONSES = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
}


class Script:
    """A member, a clock and a log of what it sent."""

    def __init__(self, member_settings: MemberSettings = SETTINGS, wall_ahead_ms: int | None = None) -> None:
        self.now = 1_000_000
        self.ahead_ms = wall_ahead_ms
        self.member = Membership(member_settings, "i1", 3, wall_ahead_ms)
        self.log: list[tuple[int, AnyRequest]] = []

    def sent(self, *kinds: type) -> list[AnyRequest]:
        """What has been sent since the last time."""
        new = self.member.take_requests()
        self.log += [(self.now, request) for request in new]
        return [request for request in new if not kinds or isinstance(request, kinds)]

    def wait(self, ms: int, *, polling: bool = True) -> list[AnyRequest]:
        """Let time pass, timer by timer, with a user that polls or does not."""
        end, sent = self.now + ms, []
        while (timer := self.member.next_timer()) is not None and timer <= end:
            self.now = max(self.now, timer)
            if polling:
                self.member._polled_at = self.now
            self.member.handle_timer(self.now)
            sent += self.sent()
        self.now = end
        return sent

    def answer(self, request: AnyRequest, error: Errors = Errors.NONE, **fields: object) -> list[AnyRequest]:
        response = RESPONSES[type(request)].to(request.reply_to, request.group_id, error, **fields)
        self.member.receive(response, self.now)
        return self.sent()

    def join(self) -> JoinGroupRequest:
        self.member.poll(self.now)
        self.member.join("consumer", PROTOCOLS, self.now)
        (request,) = self.sent()
        assert isinstance(request, JoinGroupRequest)
        return request

    def grant(
        self, join: AnyRequest, leader: str = "other", generation_id: int = 1, **fields: object
    ) -> list[AnyRequest]:
        members = [JoinGroupMember(each, None, b"") for each in ("m1", "m2")] if leader == "m1" else []
        return self.answer(
            join,
            generation_id=generation_id,
            protocol_type="consumer",
            protocol_name="range",
            leader=leader,
            member_id="m1",
            members=members,
            **fields,
        )

    def completing(self, leader: str = "other") -> list[AnyRequest]:
        join: AnyRequest = self.join()
        if self.member.settings.group_instance_id is None:
            (join,) = self.answer(join, Errors.MEMBER_ID_REQUIRED, member_id="m1")
        return self.grant(join, leader)

    def stable(self, leader: str = "other") -> None:
        sent = self.completing(leader)
        if leader == "m1":
            generation = self.member.generation
            assert generation is not None
            self.member.assign(generation, {"m1": b"mine", "m2": b"yours"}, self.now)
            sent = self.sent()
        self.grant_sync(sent[0])

    def grant_sync(self, sync: AnyRequest) -> list[AnyRequest]:
        return self.answer(sync, protocol_type="consumer", protocol_name="range", assignment=b"mine")

    def heartbeat(self) -> AnyRequest:
        (request,) = [each for each in self.wait(HEARTBEAT) if isinstance(each, HeartbeatRequest)]
        return request
