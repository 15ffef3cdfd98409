"""The gate before a client's requests, where it has to log in at its broker (SASL).

A login takes its turn on the client's own connection to the broker. Nothing passes before it but ApiVersions,
and nothing is answered here before the broker has shown that it is complete. A broker works on one request of
it at a time, so what comes next waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.login import Login

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.frames import RequestHead
    from group_coordinator.gateway.holders import Holders
    from group_coordinator.gateway.patience import Patience
    from group_coordinator.gateway.relay import Relay
    from group_coordinator.gateway.slots import Slots

_HANDSHAKE, _AUTHENTICATE = SaslHandshakeResponse.API_KEY, SaslAuthenticateResponse.API_KEY
SASL = (_HANDSHAKE, _AUTHENTICATE)
"""The APIs of a login."""
_BEFORE_LOGIN = (ApiVersionsResponse.API_KEY, *SASL)
_SIGN_OF_LIFE = MetadataRequest(version=1, topics=[])
"""A broker answers it only to a client that has logged in."""


class LoginGate:
    """The gate of one client. `is_needed`: whether it has to log in.

    `ask_broker` asks the client's broker something: it takes a request, and who is given the response and the
    time then. `on_name` is given the name under which the broker has accepted the client. `fail` ends the
    connection for a reason.
    """

    __slots__ = (
        "_ask_broker",
        "_fail",
        "_holders",
        "_login",
        "_on_name",
        "_patience",
        "_relay",
        "_slots",
        "is_needed",
        "latest",
        "waiting",
    )

    def __init__(
        self,
        slots: Slots,
        relay: Relay,
        holders: Holders,
        patience: Patience,
        ask_broker: Callable[[Any, Callable[[Any, float], None]], None],
        on_name: Callable[[str | None], None],
        fail: Callable[[str], None],
        *,
        is_needed: bool,
    ) -> None:
        self._slots, self._relay, self._holders, self._patience = slots, relay, holders, patience
        self._ask_broker, self._on_name, self._fail = ask_broker, on_name, fail
        self.is_needed = is_needed
        self.latest = -1
        """The key of the API that the client has used last."""
        self._login = Login()
        self.waiting: tuple[RequestHead, bytes] | None = None
        """A request of a login that waits for its turn."""

    @property
    def is_shut(self) -> bool:
        """Whether nothing but a login may come."""
        return self.is_needed and not self._login.may_be_done

    @property
    def is_open(self) -> bool:
        """Whether the gateway may answer the client."""
        return not self.is_needed or self._login.is_done

    def is_open_at(self, now_s: float) -> bool:
        """Whether it may now, without asking the broker: its session is not over."""
        return not self.is_needed or (self._login.is_done and not self._login.is_over(now_s))

    def lets(self, api_key: int) -> bool:
        """Whether a request of this API may come now."""
        return not self.is_needed or self._login.may_be_done or api_key in _BEFORE_LOGIN

    def pass_when_open(self, now_s: float, go: Callable[[], None]) -> None:
        """Call `go` once the gateway may answer the client. Raises `FrameError` if it may not any more."""
        if self.is_open:
            if self._login.is_over(now_s):
                raise FrameError("the session of its login is over")
            go()
            return

        def logged_in(_response: Any, _now_s: float) -> None:
            self._login.is_done = True
            try:
                go()
            except FrameError as error:
                self._fail(f"{error}")
            self._holders.end(self)

        # The broker alone knows whether a login is complete. If not, it closes the connection.
        self._holders.add(self)
        self._ask_broker(_SIGN_OF_LIFE, logged_in)

    def take(self, head: RequestHead, frame: bytes) -> bool:
        """Take a request of a login, to be passed on in its turn; returns False if it was refused."""
        if head.api_key == _HANDSHAKE and head.api_version == 0:
            # After it the client would send bytes that are no frames.
            error = Errors.UNSUPPORTED_VERSION.value
            refusal = SaslHandshakeResponse(version=0, error_code=error, mechanisms=[])
            self._slots.await_local().fill(codec.encode_response(refusal, head.correlation_id))
            return False
        self._login.asked(codec.decode_request(frame).message)
        self.waiting = (head, frame)
        self._holders.add(self)
        return True

    def pass_waiting(self) -> None:
        """Pass the request on that waits: everything before it has been answered."""
        assert self.waiting is not None  # noqa: S101 - the caller has looked
        (head, frame), self.waiting = self.waiting, None

        def answered(response: bytes) -> bytes:
            if head.api_key == _AUTHENTICATE:
                told = codec.decode_response(head.api_key, head.api_version, response)
                if self._login.answered(told, self._relay.heard_s):
                    self._on_name(self._login.principal)
                if self._login.may_be_done:
                    self._patience.has_asked = True
            self._holders.end(self)
            return response

        self._slots.await_upstream(head.correlation_id, answered)
        self._relay.pass_on(frame)

    def keep(self, now_s: float) -> None:
        """Ask a broker that has been silent for long for a sign of life, if a login would be lost with it."""
        if self._relay.is_open and now_s - self._relay.heard_s > Limits.keep_alive_s:
            # In the middle of a login a broker takes nothing else.
            is_between = not len(self._slots) and self.latest not in SASL
            if is_between and self.is_needed and self.is_open_at(now_s):
                self._ask_broker(_SIGN_OF_LIFE, lambda _response, _now_s: None)
            self._relay.heard_s = now_s
