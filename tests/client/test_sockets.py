"""What `tests/conftest.py` does about the sockets that kafka-python leaves open."""

from __future__ import annotations

import gc
import socket
from contextlib import closing

from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport


def test_a_client_that_is_closed_with_something_to_send_leaves_no_socket():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with closing(theirs):
            ours.setblocking(False)
            net = NetworkSelector(client_id="c1")
            transport = KafkaTCPTransport(net, ours)
            # More than fits on its way to somebody who does not read.
            transport.write(bytes(50_000_000))
            net.poll(timeout_ms=100)
            transport.close()
            net.close()

    assert ours.fileno() == -1


def test_a_connection_of_a_client_that_is_closed_leaves_no_socket():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        with closing(theirs):
            net = NetworkSelector(client_id="c1")
            net.close()
            KafkaTCPTransport(net, ours)
            del net
            gc.collect()

    assert ours.fileno() == -1
