"""By what a standby knows that a process has ended, and by what it does not."""

from __future__ import annotations

import socket

from group_coordinator.streaming.lifeline import Watcher
from tests.patience import wait_for


def listener() -> tuple[socket.socket, str]:
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"127.0.0.1:{server.getsockname()[1]}"


def test_a_process_that_has_ended_refuses_connections() -> None:
    server, address = listener()
    watcher = Watcher()
    assert not watcher.has_ended(address)
    # As its system does it, whether it was accepted or not.
    server.close()
    wait_for(lambda: watcher.has_ended(address))


def test_a_connection_that_breaks_is_no_end() -> None:
    server, address = listener()
    watcher = Watcher()
    with server:
        assert not watcher.has_ended(address)
        first, of_standby = server.accept()
        first.close()

        def is_connected_again() -> bool:
            assert not watcher.has_ended(address)
            server.settimeout(0.1)
            try:
                again, of_another = server.accept()
            except TimeoutError:
                return False
            again.close()
            return of_another != of_standby

        wait_for(is_connected_again)
    watcher.close()


HOSTILE = ["", ":", "127.0.0.1:99999", "127.0.0.1:-1", "a\0b:1", f"{'a' * 300}:1", f"127.0.0.1:{'9' * 5_000}"]
"""What somebody else's tick may say."""


def test_one_that_was_never_reached_is_not_known_to_have_ended() -> None:
    server, address = listener()
    server.close()
    watcher = Watcher()
    for nowhere in (address, address, "no address", "192.0.2.1:0", *HOSTILE):
        assert not watcher.has_ended(nowhere)


def test_another_coordinator_is_another_process() -> None:
    server, address = listener()
    other, elsewhere = listener()
    watcher = Watcher()
    with other:
        assert not watcher.has_ended(address)
        server.close()
        assert not watcher.has_ended(elsewhere)
    wait_for(lambda: watcher.has_ended(elsewhere))
