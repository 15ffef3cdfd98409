"""Kerberos for a test: a KDC of Debian's packages, and Python's library for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from group_coordinator.deploy.broker import _free_port
from tests.debian import unpacked
from tests.patience import PATIENCE_S, wait_for

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["REALM", "Kerberos"]

REALM = "TEST"
_PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "libkdb5-10", "libkadm5srv-mit12", "libgssrpc4", "libverto1"),
    *("libverto-libev1", "libev4", "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0"),
    *("python3-gssapi", "python3-decorator"),
)
_ADVICE = "These tests need Debian 12's packages: look at the network (http_proxy is honoured)"
_CLIENTS = f"""\
[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
[realms]
  {REALM} = {{
    kdc = 127.0.0.1:PORT
  }}
"""
_SERVER = f"""\
[kdcdefaults]
  kdc_listen = 127.0.0.1:PORT
  kdc_tcp_listen = 127.0.0.1:PORT
[realms]
  {REALM} = {{
    database_name = FOLDER/principal
    key_stash_file = FOLDER/stash
    max_life = 1h
  }}
[dbmodules]
  db_module_dir = LIBRARIES/krb5/plugins/kdb
"""


class Kerberos:
    """A KDC with all its files in one directory, while the context is open."""

    def __init__(self, directory: Path) -> None:
        """Raises `NoPackageError`."""
        directory.mkdir()
        self._directory = directory
        self._root = unpacked("kerberos", _PACKAGES, _ADVICE)
        (libraries,) = (self._root / "usr" / "lib").glob("*-linux-gnu")
        self._clients, server = directory / "krb5.conf", directory / "kdc.conf"
        names = {"PORT": str(_free_port()), "FOLDER": str(directory), "LIBRARIES": str(libraries)}
        for path, text in ((self._clients, _CLIENTS), (server, _SERVER)):
            path.write_text(re.sub("|".join(names), lambda found: names[found[0]], text))
        modules = [str(self._root / "usr" / "lib" / "python3" / "dist-packages")]
        if before := os.environ.get("PYTHONPATH"):
            modules.append(before)
        self.environment = {
            "KRB5_CONFIG": str(self._clients),
            "JDK_JAVA_OPTIONS": self.java_option,
            "LD_LIBRARY_PATH": str(libraries),
            "PYTHONPATH": os.pathsep.join(modules),
        }
        """For programs that log in, in Java and in Python."""
        self._own = os.environ | self.environment | {"KRB5_KDC_PROFILE": str(server)}

    @property
    def java_option(self) -> str:
        """Java reads no variable for that."""
        return f"-Djava.security.krb5.conf={self._clients}"

    def __enter__(self) -> Self:
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-database")
        log = self._directory / "kdc.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [self._root / "usr" / "sbin" / "krb5kdc", "-n"],
                env=self._own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            wait_for(lambda: "starting" in log.read_text(), said=log.read_text)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def keytab(self, principal: str) -> Path:
        """Add a principal with a random key, and return the file with that."""
        path = self._directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        assert path.is_file()
        return path

    def login(self, principal: str) -> str:
        """The configuration of Java's login module for a new principal."""
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.keytab(principal)}" principal="{principal}@{REALM}";'
        )

    def has_python(self) -> bool:
        """Whether Debian's library is for this Python."""
        command = [sys.executable, "-c", "import gssapi"]
        return subprocess.run(command, env=self._own, check=False, capture_output=True).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._root / "usr" / "sbin" / program, *arguments],
            env=self._own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
