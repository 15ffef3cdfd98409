from __future__ import annotations

import logging
import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from group_coordinator.client.tokens import TokenProvider
from group_coordinator.deploy import extras
from group_coordinator.jobs.kafka_config import kafka_options, python_client_config
from group_coordinator.jobs.sasl import token_endpoint
from group_coordinator.jobs.settings import JobSettings, SettingsError

SECRET = "hunter2"
SCRAM = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="gc" password="{SECRET}";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}


@pytest.fixture
def pem(tmp_path: Path) -> str:
    file = tmp_path / "some.pem"
    file.write_text("-----BEGIN CERTIFICATE-----")
    return str(file)


def config_of(**java: str) -> dict[str, object]:
    """The arguments for these properties, without the brokers."""
    config = python_client_config("kafka:9092", {name.replace("_", "."): it for name, it in java.items()})
    del config["bootstrap_servers"]
    return config


def refusal(java: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        python_client_config("kafka:9092", java)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_brokers_become_a_list() -> None:
    assert python_client_config("a:9092, b:9093", {})["bootstrap_servers"] == ["a:9092", "b:9093"]


def test_without_properties_nothing_is_encrypted() -> None:
    assert config_of() == {"security_protocol": "PLAINTEXT"}


def test_properties_that_only_tune_java_are_left_out() -> None:
    assert config_of(fetch_min_bytes="10", client_dns_lookup="use_all_dns_ips") == config_of()


def test_the_protocol_is_read_in_any_case_as_java_does() -> None:
    assert config_of(security_protocol="ssl") == {"security_protocol": "SSL"}


def test_a_password_login() -> None:
    assert python_client_config("kafka:9092", SASL) == {
        "bootstrap_servers": ["kafka:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "gc",
        "sasl_plain_password": SECRET,
    }


@pytest.mark.parametrize(
    ("options", "login"),
    [
        ('username="a" password="b";', ("a", "b")),
        ("username='a' password='b' ;", ("a", "b")),
        ("password=b username=a;", ("a", "b")),
        ('username = "a"\n  password = "b";', ("a", "b")),
        (r'username="a" password="say \"b\" \\ ;";', ("a", r'say "b" \ ;')),
        ('username="password=x" password="username=y";', ("password=x", "username=y")),
        ('serviceusername="no" username="a" password="b";', ("a", "b")),
        ('username="a" password="b" tokenauth="false";', ("a", "b")),
    ],
)
def test_credentials_are_read_as_java_reads_them(options: str, login: tuple[str, str]) -> None:
    config = python_client_config("kafka:9092", SASL | {"sasl.jaas.config": f"any.Module required {options}"})

    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == login


@pytest.mark.parametrize("jaas", ["", "Module required;", f"Module required password={SECRET};"])
def test_refuses_a_login_without_credentials(jaas: str) -> None:
    assert "kafka.sasl.jaas.config has no username" in refusal(SASL | {"sasl.jaas.config": jaas})


def test_refuses_a_login_that_java_takes_from_elsewhere() -> None:
    java = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}

    assert "kafka.sasl.jaas.config has no username" in refusal(java)


def test_refuses_a_delegation_token() -> None:
    jaas = SCRAM.replace(";", ' tokenauth="true";')

    assert "delegation token" in refusal(SASL | {"sasl.jaas.config": jaas})


def test_refuses_mechanisms_that_kafka_does_not_have() -> None:
    message = refusal(SASL | {"sasl.mechanism": "scram-sha-512"})

    assert message.startswith(
        "kafka.sasl.mechanism is scram-sha-512, and must be one of PLAIN, SCRAM-SHA-256, "
    )


def test_refuses_javas_default_mechanism() -> None:
    java = {name: value for name, value in SASL.items() if name != "sasl.mechanism"}

    assert refusal(java).startswith("kafka.sasl.mechanism is not set, and must be one of ")


# -- tokens of an OAuth server ---------------------------------------------------------------------------

ENDPOINT = "https://idp.example/oauth2/token"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
BEARER = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": ENDPOINT,
    "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="gc" clientSecret="{SECRET}";',
}
IN_PROPERTIES = {name: value for name, value in BEARER.items() if name != "sasl.jaas.config"} | {
    "sasl.oauthbearer.client.credentials.client.id": "gc",
    "sasl.oauthbearer.client.credentials.client.secret": r'say "it"; \o/',
    "sasl.oauthbearer.scope": "kafka",
}


def test_a_token_login() -> None:
    config = python_client_config("kafka:9092", BEARER)

    assert config["sasl_mechanism"] == "OAUTHBEARER"
    # One token is enough for all clients of a process.
    provider = config["sasl_oauth_token_provider"]
    assert isinstance(provider, TokenProvider)
    assert python_client_config("kafka:9092", BEARER)["sasl_oauth_token_provider"] is provider
    other = BEARER | {"sasl.oauthbearer.scope": "other"}
    assert python_client_config("kafka:9092", other)["sasl_oauth_token_provider"] is not provider


def java_options(java: dict[str, str]) -> dict[str, str]:
    options = kafka_options(JobSettings(bootstrap_servers="kafka:9092", kafka=java))
    return {name.removeprefix("kafka."): value for name, value in options.items()}


def test_java_logs_in_with_a_token_as_any_version_takes_it() -> None:
    java = java_options(IN_PROPERTIES)

    assert java["sasl.login.callback.handler.class"] == f"{OAUTH}.OAuthBearerLoginCallbackHandler"
    assert java["sasl.jaas.config"] == (
        f'{OAUTH}.OAuthBearerLoginModule required password="" clientId="gc" '
        r'clientSecret="say \"it\"; \\o/" scope="kafka";'
    )
    assert not [name for name in java if name.startswith("sasl.oauthbearer.client.")]
    # Java waits for the OAuth server without end by itself.
    assert java["sasl.login.read.timeout.ms"] == "10000"
    assert (
        java_options(IN_PROPERTIES | {"sasl.login.read.timeout.ms": "1"})["sasl.login.read.timeout.ms"] == "1"
    )
    # What was read is what is written.
    assert java_options(java) | {"bootstrap.servers": ""} == java | {"bootstrap.servers": ""}


def test_other_logins_reach_java_as_they_are() -> None:
    assert java_options(SASL) == SASL | {"bootstrap.servers": "kafka:9092"}


def test_properties_win_over_the_options_of_the_login_module() -> None:
    java = java_options(BEARER | {"sasl.oauthbearer.client.credentials.client.id": "other"})

    assert 'clientId="other" clientSecret="hunter2"' in java["sasl.jaas.config"]


@pytest.mark.parametrize("package", [OAUTH, f"{OAUTH}.secured"])
def test_kafkas_own_handler_of_tokens_may_be_named(package: str) -> None:
    name = f"{package}.OAuthBearerLoginCallbackHandler"

    assert python_client_config("kafka:9092", BEARER | {"sasl.login.callback.handler.class": name})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sasl.oauthbearer.token.endpoint.url": ""},
            "kafka.sasl.oauthbearer.token.endpoint.url is not set: it is the URL that gives tokens",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "file:///token"},
            "kafka.sasl.oauthbearer.token.endpoint.url cannot be used: a token endpoint is an http or https",
        ),
        (
            {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/a,b"},
            "kafka.sasl.oauthbearer.token.endpoint.url has a blank, comma or quote in it",
        ),
        (
            {"sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientSecret="{SECRET}";'},
            "OAUTHBEARER needs clientId=... in kafka.sasl.jaas.config, or ",
        ),
        (
            {"sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required clientId=gc;"},
            "OAUTHBEARER needs clientSecret=... in kafka.sasl.jaas.config, or ",
        ),
        (
            {"sasl.jaas.config": BEARER["sasl.jaas.config"].replace(";", " ssl.truststore.location=/x.jks;")},
            "kafka.sasl.jaas.config: ssl.truststore.location must be a PEM file",
        ),
        (
            {"sasl.login.callback.handler.class": "com.example.Handler"},
            "kafka.sasl.login.callback.handler.class cannot be used: Python cannot run Java code",
        ),
    ],
)
def test_refuses_a_token_login_that_cannot_be(changes: dict[str, str], message: str) -> None:
    assert refusal(BEARER | changes).startswith(message)


def test_the_token_endpoint_has_a_trust_of_its_own(pem: str) -> None:
    options = f" ssl.truststore.type=PEM ssl.truststore.location={pem};"
    java = BEARER | {"sasl.jaas.config": BEARER["sasl.jaas.config"].replace(";", options)}

    assert refusal(java).startswith(
        "kafka.sasl.jaas.config: ssl.truststore.location or ssl.keystore.location"
    )


def test_the_one_endpoint_that_java_may_ask() -> None:
    assert token_endpoint(BEARER) == ENDPOINT
    assert token_endpoint(SASL | {"sasl.oauthbearer.token.endpoint.url": ENDPOINT}) is None
    assert token_endpoint(BEARER | {"security.protocol": "PLAINTEXT"}) is None


# -- Kerberos, and Amazon's IAM --------------------------------------------------------------------------

KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
MSK = "software.amazon.msk.auth.iam"
IAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Packages of extras that are there."""
    names = {"gssapi", "botocore"}
    found = ModuleSpec("found", None)
    monkeypatch.setattr(extras, "find_spec", lambda name: found if name in names else None)
    return names


def kerberos(**options: str) -> dict[str, str]:
    given = " ".join(f'{name}="{value}"' for name, value in options.items())
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "broker",
        "sasl.jaas.config": f"{KRB5} {given};",
    }


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (
            {"useKeyTab": "true", "keyTab": "KEYTAB", "principal": "gc@R"},
            {"KRB5_CLIENT_KTNAME": "FILE:KEYTAB", "KRB5CCNAME": "MEMORY:group-coordinator"},
        ),
        ({"useTicketCache": "true"}, {}),
        ({"useTicketCache": "true", "ticketCache": "/run/gc"}, {"KRB5CCNAME": "/run/gc"}),
    ],
)
def test_a_kerberos_login(
    installed: set[str],
    monkeypatch: pytest.MonkeyPatch,
    pem: str,
    options: dict[str, str],
    variables: dict[str, str],
) -> None:
    for name in ("KRB5_CLIENT_KTNAME", "KRB5CCNAME"):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    java = kerberos(**{name: value.replace("KEYTAB", pem) for name, value in options.items()})

    assert python_client_config("kafka:9092", java) == {
        "bootstrap_servers": ["kafka:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "broker",
    }
    assert {name: it for name, it in os.environ.items() if name.startswith("KRB5")} == {
        name: value.replace("KEYTAB", pem) for name, value in variables.items()
    }
    assert java_options(java) == java | {"bootstrap.servers": "kafka:9092"}


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (
            kerberos(useKeyTab="true", keyTab="/no"),
            "kafka.sasl.jaas.config: keyTab names no file that is there",
        ),
        (kerberos(useKeyTab="true"), "kafka.sasl.jaas.config: keyTab names no file that is there"),
        (kerberos(storeKey="true"), "kafka.sasl.jaas.config has neither useKeyTab=true with keyTab=... nor"),
        (
            kerberos(useTicketCache="true") | {"sasl.kerberos.service.name": ""},
            "kafka.sasl.kerberos.service.name is not set",
        ),
        (IAM | {"security.protocol": "SASL_PLAINTEXT"}, "kafka.security.protocol must be SASL_SSL"),
        (
            IAM | {"sasl.jaas.config": f'{MSK}.IAMLoginModule required awsProfileName="x";'},
            "kafka.sasl.jaas.config has the option awsProfileName, which Python cannot follow",
        ),
        (
            IAM | {"sasl.client.callback.handler.class": "com.example.Handler"},
            "kafka.sasl.client.callback.handler.class cannot be used",
        ),
    ],
)
def test_refuses_other_logins_that_cannot_be(installed: set[str], java: dict[str, str], message: str) -> None:
    assert refusal(java).startswith(message)


def test_a_login_by_iam_is_set_up_for_both(installed: set[str]) -> None:
    given = IAM | {
        "sasl.jaas.config": f"{MSK}.IAMLoginModule required;",
        "sasl.client.callback.handler.class": f"{MSK}.IAMClientCallbackHandler",
    }

    for java in (IAM, given):
        assert python_client_config("kafka:9092", java)["sasl_mechanism"] == "AWS_MSK_IAM"
        assert java_options(java) == given | {"bootstrap.servers": "kafka:9092"}


@pytest.mark.parametrize(
    ("java", "package", "extra"),
    [(kerberos(useTicketCache="true"), "gssapi", "kerberos"), (IAM, "botocore", "msk")],
)
def test_a_login_says_what_has_to_be_installed(
    installed: set[str], java: dict[str, str], package: str, extra: str
) -> None:
    installed.clear()

    message = refusal(java)

    assert f": {package} is not installed. " in message
    assert message.endswith(f"pip install '.[{extra}]'")


def test_refuses_a_protocol_that_does_not_exist() -> None:
    assert "kafka.security.protocol is TLS, and must be one of" in refusal({"security.protocol": "TLS"})


def test_pem_files(pem: str) -> None:
    assert python_client_config(
        "kafka:9092",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": pem,
            "ssl.keystore.type": "pem",
            "ssl.keystore.location": pem,
            "ssl.key.password": SECRET,
        },
    ) == {
        "bootstrap_servers": ["kafka:9092"],
        "security_protocol": "SSL",
        "ssl_cafile": pem,
        "ssl_certfile": pem,
        "ssl_password": SECRET,
    }


def test_nobody_is_asked_for_a_password_that_is_not_given(pem: str) -> None:
    config = config_of(security_protocol="SSL", ssl_keystore_type="PEM", ssl_keystore_location=pem)

    assert config["ssl_password"] == ""


@pytest.mark.parametrize("name", ["kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser"])
def test_loggers_that_tell_passwords_do_not_go_down_to_debug(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, name)

    python_client_config("kafka:9092", SASL)

    assert logging.getLogger(name).level == logging.INFO


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", [{}, {"type": "JKS"}, {"type": "PKCS12"}])
def test_refuses_stores_that_only_java_reads(store: str, kind: dict[str, str], pem: str) -> None:
    java = {"security.protocol": "SSL", f"ssl.{store}.location": pem, f"ssl.{store}.password": SECRET}
    java |= {f"ssl.{store}.{name}": value for name, value in kind.items()}

    assert f"kafka.ssl.{store}.location must be a PEM file (kafka.ssl.{store}.type = PEM)" in refusal(java)


def test_refuses_a_pem_file_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    java = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": missing,
    }

    assert refusal(java) == f"kafka.ssl.truststore.location: there is no file {missing}"


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("ssl.truststore.certificates", "kafka.ssl.truststore.location"),
        ("ssl.keystore.certificate.chain", "kafka.ssl.keystore.location"),
        ("ssl.keystore.key", "kafka.ssl.keystore.location"),
    ],
)
def test_refuses_certificates_in_the_settings_and_says_what_to_do(name: str, instead: str) -> None:
    message = refusal({"security.protocol": "SSL", name: SECRET})

    assert message.startswith(f"kafka.{name} cannot be used")
    assert instead in message


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "ssl.engine.factory.class",
    ],
)
def test_refuses_java_classes(name: str) -> None:
    assert refusal(SASL | {name: "com.example.Vault"}).startswith(f"kafka.{name} cannot be used")


def test_refuses_other_brokers_for_java_than_for_python() -> None:
    message = refusal({"bootstrap.servers": "other:9092"})

    assert message == "kafka.bootstrap.servers cannot be used: set bootstrap.servers instead"


def test_host_names_are_checked_unless_that_is_turned_off() -> None:
    name = "ssl.endpoint.identification.algorithm"

    def checked(java: dict[str, str]) -> bool:
        config = python_client_config("kafka:9092", {"security.protocol": "SSL"} | java)
        return bool(config.get("ssl_check_hostname", True))

    assert [checked({}), checked({name: "https"}), checked({name: ""})] == [True, True, False]
