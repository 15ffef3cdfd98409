"""The edge of a gateway process: its settings file, TLS, and a certificate that is replaced."""

from __future__ import annotations

import ssl
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from tests.commands.job import Process
from tests.gateway.test_listeners import PASSWORD, of_client
from tests.patience import wait_for
from tests.security.certificates import make_client_key

TOPICS = {name: f"edge-{name}" for name in ("requests", "responses", "groups", "orders")}


@pytest.mark.spark
def test_kafkas_clients_use_tls_and_the_certificate_is_replaced_while_they_do(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    keys = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        keys.append(make_client_key(tmp_path / name, PASSWORD).read_text())
    certificate = tmp_path / "gateway.pem"
    certificate.write_text(keys[0])
    config = tmp_path / "coordinator.toml"
    config.write_text(f"""
        bootstrap.servers = "{bootstrap_servers}"
        gateway.listen = "127.0.0.1:0"
        gateway.tls.certificate = "{certificate}"
        gateway.tls.key.password = "{PASSWORD}"
        gateway.metrics.port = 0
        topics.requests = "{TOPICS["requests"]}"
        topics.responses = "{TOPICS["responses"]}"
        topics.groups = "{TOPICS["groups"]}"
        log.format = "json"
    """)
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics(
            [NewTopic(each, num_partitions=1, replication_factor=1) for each in TOPICS.values()]
        )
    process = Process(tmp_path, "gateway", "--config", str(config))

    def said(event: str) -> str | None:
        (*_, found) = [None, *(line for line in process.said if event in line)]
        return found and found.partition(event)[2].partition('"')[0]

    try:
        process.wait_until(lambda: said("clients find the gateway at localhost:"))
        address = f"127.0.0.1:{said('clients find the gateway at localhost:')}"
        # The two certificates are of one name and no authority: they are told apart below.
        secure = {"bootstrap_servers": address, "security_protocol": "SSL", "ssl_context": of_client()}
        with closing(KafkaConsumer(TOPICS["orders"], auto_offset_reset="earliest", **secure)) as consumer:
            for number, (key, told) in enumerate([(keys[0], ""), (keys[1], ""), ("broken", "not ")]):
                if number:
                    certificate.write_text(key)
                    wait_for(partial(said, f"the certificate is {told}renewed"))
                expected = keys[min(number, 1)].partition("-----BEGIN CERTIFICATE-----")[2]
                shown = ssl.get_server_certificate(("127.0.0.1", int(address.rpartition(":")[2])))
                assert "".join(shown.split()) == "".join(f"-----BEGIN CERTIFICATE-----{expected}".split())
                with closing(KafkaProducer(acks="all", **secure)) as producer:
                    producer.send(TOPICS["orders"], b"%d" % number)
                records = wait_for(lambda: consumer.poll(timeout_ms=100))
                assert [each.value for found in records.values() for each in found] == [b"%d" % number]
        process.terminate()
        assert process.exit_code() == 0, process.said
    finally:
        process.kill()
