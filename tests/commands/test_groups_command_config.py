from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.commands.command_config import client_config, read_properties

SASL = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2 \r\nc:3\nd 4\ne\n", {"a": "1", "b": "2 ", "c": "3", "d": "4", "e": ""}),
        ("# no\n! no\n\n   a=#1!\n", {"a": "#1!"}),
        ("a=one, \\\n   two\\\\\nb=x\n", {"a": "one, two\\", "b": "x"}),
        (r"a\=b\:\ c=\t\u00e4\z", {"a=b: c": "\täz"}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert expected == read_properties(text)


def test_security_settings_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=elsewhere:9092\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SASL} \\\n  username="u" password="p";\nclient.dns.lookup=use_all_dns_ips\n'
    )

    assert {
        "bootstrap_servers": ["k1:9092", "k2:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    } == client_config("k1:9092,k2:9092", str(path))


def test_a_value_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f'{SASL} username="u" password="p";\n')
    path = tmp_path / "client.properties"
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config.file={secret}\n"
    )

    assert client_config("k1:9092", str(path))["sasl_plain_password"] == "p"


def test_without_a_file_there_are_only_the_servers() -> None:
    assert {"bootstrap_servers": "k1:9092"} == client_config("k1:9092", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "security.protocol=SASL_SSL\n",
            "client.properties: sasl.mechanism is not set, and must be one of PLAIN",
        ),
        (
            "ssl.keystore.key=x\n",
            "client.properties: ssl.keystore.key cannot be used: put it into a PEM file",
        ),
        (
            "ssl.key.password.file=/nowhere\n",
            "client.properties: ssl.key.password.file names a file that cannot be read: No such file",
        ),
        (None, "client.properties cannot be read: No such file or directory"),
        (b"\xff", "client.properties is not text"),
    ],
)
def test_what_cannot_be_followed_is_one_line(tmp_path: Path, text: str | bytes | None, message: str) -> None:
    path = tmp_path / "client.properties"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(ValueError, match=message) as caught:
        client_config("k1:9092", str(path))
    assert "\n" not in str(caught.value)
