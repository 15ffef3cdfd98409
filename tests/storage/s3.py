"""An S3 server on this machine: MinIO, from the PATH, else built once with Go and kept in the cache."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pyarrow.fs import S3FileSystem

from group_coordinator.deploy.broker import _free_port
from group_coordinator.deploy.jars import cache_dir, fetch
from tests.patience import PATIENCE_S, wait_for

__all__ = ["NoServerError", "ObjectStore", "minio"]

_MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
_BUILD_S = 1_800
_REGION = "us-east-1"
_BUCKET = "bucket"


class NoServerError(Exception):
    """There is no S3 server to be had; the message says why and what to do."""


def minio() -> Path:
    """The program; raises `NoServerError`."""
    if found := shutil.which("minio"):
        return Path(found)
    target = cache_dir().with_name("minio") / "minio"
    if not target.exists():
        _build(target)
    return target


def _build(target: Path) -> None:
    """Build it, which takes some minutes, and put it there when it is whole."""
    go = shutil.which("go")
    if go is None:
        raise NoServerError("there is no minio in the PATH, and no go to build it with: install one of them")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as directory:
        done = subprocess.run(
            [go, "install", _MODULE],
            env=os.environ | {"GOBIN": directory, "CGO_ENABLED": "0"},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
            raise NoServerError(f"go cannot build minio: {last}. Install minio, so that it is on the PATH")
        (Path(directory) / "minio").replace(target)


class ObjectStore:
    """A server with a bucket, until the context ends; its files are in `directory`.

    `environment`: the variables by which a process reaches it. `root`: the bucket.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = minio()
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"http://127.0.0.1:{self._port}"
        self.root = f"s3a://{_BUCKET}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
            "AWS_REGION": _REGION,
            "AWS_ENDPOINT_URL": self.address,
            # Of the deltalake package, which otherwise wants TLS.
            "AWS_ALLOW_HTTP": "true",
        }

    def settings(self, address: str = "") -> Mapping[str, str]:
        """Spark's settings, with which a job reaches the server, or another address of it."""
        jars = os.pathsep.join(map(str, fetch("s3a")))
        return {
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.hadoop.fs.s3a.endpoint": address or self.address,
            "spark.hadoop.fs.s3a.endpoint.region": _REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def options(self, name: str) -> list[str]:
        """Words of a command line for a checkpoint of that name in the bucket."""
        words = [word for setting, it in self.settings().items() for word in ("--set", f"{setting}={it}")]
        return [*words, "--checkpoint", f"{self.root}/{name}"]

    def __enter__(self) -> Self:
        self.start()
        S3FileSystem(
            access_key=self.environment["AWS_ACCESS_KEY_ID"],
            secret_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.address,
            region=_REGION,
            allow_bucket_creation=True,
        ).create_dir(_BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, anew if it was started before, and wait until it answers."""
        self.kill()
        log = self._directory.with_name(f"{self._directory.name}.log")
        own = {
            "MINIO_ROOT_USER": self.environment["AWS_ACCESS_KEY_ID"],
            "MINIO_ROOT_PASSWORD": self.environment["AWS_SECRET_ACCESS_KEY"],
            "MINIO_REGION": _REGION,
            # It asks nobody else for anything.
            "MINIO_UPDATE": "off",
            "MINIO_CALLHOME_ENABLE": "off",
            "MINIO_BROWSER": "off",
        }
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [self._program, "server", self._directory, "--address", f"127.0.0.1:{self._port}"],
                env=os.environ | own,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            wait_for(self._is_ready, said=lambda: log.read_text(errors="replace"))
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill it (SIGKILL), if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(f"{self.address}/minio/health/ready", timeout=PATIENCE_S):
                return True
        except OSError:
            return False
