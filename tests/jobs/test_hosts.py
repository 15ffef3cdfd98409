from __future__ import annotations

import socket

import pytest

from group_coordinator.jobs.hosts import host_of, listening_host, written


@pytest.mark.parametrize(
    ("text", "host", "before_a_port"),
    [
        ("kafka", "kafka", "kafka"),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7"),
        ("[::1]", "::1", "[::1]"),
        ("::1", "::1", "[::1]"),
        ("[fe80::1%eth0]", "fe80::1%eth0", "[fe80::1%eth0]"),
        ("", "", ""),
    ],
)
def test_brackets_are_no_part_of_a_host(text: str, host: str, before_a_port: str) -> None:
    assert host_of(text) == host
    assert written(host) == before_a_port


@pytest.mark.parametrize(
    "text", ["kafka:9092", "[::1]:9092", "[::1", "::1]", "[kafka]", "[]", "kafka]", "1:2"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no host"):
        host_of(text)


def test_no_host_is_all_addresses_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_both, bound in ((True, "::"), (False, "")):
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda has_both=has_both: has_both)
        assert (listening_host(""), listening_host("[::1]")) == (bound, "::1")
