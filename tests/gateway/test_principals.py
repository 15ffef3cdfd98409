"""Names in logins, read as a broker reads them, and when they count."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest

from group_coordinator.gateway.login import Login
from group_coordinator.gateway.principals import MECHANISMS

HUGE = 1_000_000
"""Bytes: the largest frame of a login."""


def name_in(mechanism: str, message: bytes) -> str | None:
    return MECHANISMS[mechanism].name_in(message)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0J\u00f6rg, \u4eba=1\0secret".encode(), "J\u00f6rg, \u4eba=1"),
        (b"alice\0mallory\0secret", None),
        (b"\0\0secret", None),
        (b"\0alice", None),
        (b"\0mallory\0secret\0alice", None),
        (b"\0al\xffice\0secret", None),
        (b"\0al\xed\xa0\x80ice\0secret", None),
        (b"", None),
        (b"\0" * HUGE, None),
        (b"\0" + b"a" * HUGE + b"\0secret", "a" * HUGE),
    ],
)
def test_plain(message: bytes, name: str | None) -> None:
    assert name_in("PLAIN", message) == name


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"n,,n=alice,r=nonce", "alice"),
        (b"n,a=alice,n=alice,r=nonce", "alice"),
        (b"n,,m=reserved,n=alice,r=nonce,ext=1", "alice"),
        (b"n,,n=a=2Cb=3Dc,r=nonce", "a,b=c"),
        (b"n,,n=a=3D2Cb,r=nonce", "a=2Cb"),
        (b"n,,n=alice,r=nonce,tokenauth=false", "alice"),
        (b"n,,n=the-id-of-a-token,r=nonce,tokenauth=true", None),
        (b"n,,n=the-id-of-a-token,r=nonce,ext=1,TokenAuth=TRUE,ext=2", None),
        (b"n,a=alice,n=mallory,r=nonce", None),
        (b"n,,n=a=2cb,r=nonce", None),
        (b"n,,n=a=b,r=nonce", None),
        (b"n,,n=,r=nonce", None),
        (b"n,,n=alice", None),
        (b"n,,n=alice,r=nonce,n=mallory\n,", None),
        (b"n,,r=nonce,n=alice", None),
        (b"y,,n=alice,r=nonce", None),
        ("n,,n=J\u00f6rg,r=nonce".encode(), None),
        (b"n,,n=al\0ice,r=nonce", None),
        (b"n,,n=" + b"=3D" * (HUGE // 3) + b",r=nonce", "=" * (HUGE // 3)),
        (b"n,,n=" + b"=2C" * (HUGE // 3) + b",r=", None),
        (b"n,,n=alice,r=nonce" + b",x=1" * (HUGE // 4) + b",", None),
    ],
)
def test_scram(mechanism: str, message: bytes, name: str | None) -> None:
    assert name_in(mechanism, message) == name


def bearer(payload: bytes, header: bytes = b"n,,", more: bytes = b"") -> bytes:
    token = b".".join(base64.urlsafe_b64encode(it).rstrip(b"=") for it in (b"{}", payload, b"signature"))
    return b"%b\x01auth=Bearer %b\x01%b\x01" % (header, token, more)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (bearer(b'{"iss":"here","sub":"alice","exp":1}'), "alice"),
        (bearer(b'{"sub":"J\\u00f6rg \xe4\xba\xba"}', more=b"team=a=b\x01"), "J\u00f6rg \u4eba"),
        (bearer(b'{"sub":"alice"}', header=b"n,a=alice,"), "alice"),
        (bearer(b'{"sub":"alice"}').replace(b"Bearer", b"BEARER  "), "alice"),
        # As a broker does, which takes the last one.
        (bearer(b'{"sub":"mallory","sub":"alice"}'), "alice"),
        (bearer(b'{"sub":"mallory"}', header=b"n,a=alice,"), None),
        (bearer(b'{"sub":"mallory"}', more=b"auth=Bearer e30.e30.e30\x01"), None),
        (bearer(b'{"sub":" alice"}'), None),
        (bearer(b'{"sub":""}'), None),
        (bearer(b'{"sub":7}'), None),
        (bearer(b'{"sub":null}'), None),
        (bearer(b'["sub"]'), None),
        (bearer(b'{"client_id":"alice"}'), None),
        (bearer(b'{"sub":"\\ud800"}'), None),
        (bearer(b'{"sub":"al\xffice"}'), None),
        (bearer(b'{"sub":"alice"'), None),
        (bearer(b'{"a":' + b"[" * HUGE + b"]" * HUGE + b',"sub":"alice"}'), None),
        (bearer(b'{"a":' * (HUGE // 5) + b"1" + b"}" * (HUGE // 5)), None),
        (bearer(b'{"sub":"' + b"a" * HUGE + b'"}'), "a" * HUGE),
        (b"n,,\x01auth=Bearer opaque\x01\x01", None),
        (b"n,,\x01auth=Bearer a.b.c.d.e\x01\x01", None),
        (b"n,,\x01auth=Bearer e30.A.e30\x01\x01", None),
        (b"n,,\x01auth=Basic e30.eyJzdWIiOiJhIn0.e30\x01\x01", None),
        (b"n,,\x01\x01", None),
        (b"\x01", None),
        (b"n,,\x01" + b"a=b\x01" * (HUGE // 4), None),
    ],
)
def test_oauthbearer(message: bytes, name: str | None) -> None:
    assert name_in("OAUTHBEARER", message) == name


@pytest.mark.drawn
@given(
    st.sampled_from(sorted(MECHANISMS)),
    st.one_of(
        st.binary(),
        st.lists(
            st.sampled_from([b"n", b",", b"a=", b"n=", b"r=", b"\0", b"\x01", b"alice", b"=2C", b"\xff"])
        ).map(b"".join),
        st.binary().map(bearer),
    ),
)
def test_any_bytes_give_a_name_that_can_be_written_or_none(mechanism: str, message: bytes) -> None:
    name = name_in(mechanism, message)
    assert name is None or name.encode()


# -- when a name counts --------------------------------------------------------------------------------


class Broker:
    """Answers the messages of one client's logins."""

    def __init__(self) -> None:
        self.login = Login()
        self.now_s = 0.0

    def begin(self, mechanism: str) -> None:
        self.login.asked(SaslHandshakeRequest(version=1, mechanism=mechanism))

    def take(
        self, message: bytes, answer: bytes = b"", *, error_code: int = 0, lifetime_ms: int = 0
    ) -> str | None:
        """Take a message; returns the client's name after the answer."""
        before = self.login.principal
        self.login.asked(SaslAuthenticateRequest(version=2, auth_bytes=message))
        assert self.login.principal == before, "nothing counts before the broker has answered"
        response = SaslAuthenticateResponse(
            version=2, error_code=error_code, auth_bytes=answer, session_lifetime_ms=lifetime_ms
        )
        self.login.answered(response, self.now_s)
        return self.login.principal


def test_a_name_counts_after_the_last_round() -> None:
    broker = Broker()
    broker.begin("SCRAM-SHA-512")
    assert broker.take(b"n,,n=alice,r=nonce", b"r=nonce2,s=,i=4096") is None
    assert broker.take(b"c=biws,r=nonce2,p=", b"v=") == "alice"


def test_a_name_does_not_count_if_the_proof_is_wrong() -> None:
    broker = Broker()
    broker.begin("SCRAM-SHA-512")
    broker.take(b"n,,n=alice,r=nonce", b"r=nonce2,s=,i=4096")
    assert broker.take(b"c=biws,r=nonce2,p=", error_code=58) is None
    # A broker closes the connection then; if it did not, the next message would be no login either.
    assert broker.take(b"\0mallory\0secret") is None


def test_a_token_that_was_refused_gives_no_name_to_the_next_one() -> None:
    broker = Broker()
    broker.begin("OAUTHBEARER")
    assert broker.take(bearer(b'{"sub":"alice"}'), b'{"status":"invalid_token"}') is None
    assert broker.take(bearer(b'{"sub":"mallory"}')) is None


def test_a_login_of_another_kind_has_no_name() -> None:
    broker = Broker()
    broker.begin("AWS_MSK_IAM")
    assert broker.take(b"\0alice\0secret", lifetime_ms=1_000) is None
    assert broker.login.is_over(1.5)


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_second_login_that_is_refused_changes_nothing(rounds: int) -> None:
    broker = Broker()
    broker.begin("SCRAM-SHA-256")
    for lifetime_ms in (0, 10_000):
        broker.take(b"n,,n=alice,r=nonce", b"some", lifetime_ms=lifetime_ms)
    broker.now_s = 5.0
    broker.begin("SCRAM-SHA-256")
    for _ in range(rounds):
        assert broker.take(b"n,,n=mallory,r=nonce", b"some") == "alice"
        # Nor does one that does not come to its end.
        assert (broker.login.is_over(9.9), broker.login.is_over(10.1)) == (False, True)
    assert broker.take(b"n,,n=mallory,r=nonce", error_code=58) == "alice"
    assert (broker.login.is_over(9.9), broker.login.is_over(10.1)) == (False, True)


def test_a_second_login_that_is_accepted_counts_from_then_on() -> None:
    broker = Broker()
    broker.begin("PLAIN")
    broker.take(b"\0alice\0secret", lifetime_ms=10_000)
    broker.now_s = 5.0
    broker.begin("PLAIN")
    assert broker.take(b"\0alice\0another", lifetime_ms=10_000) == "alice"
    assert (broker.login.is_over(14.9), broker.login.is_over(15.1)) == (False, True)
