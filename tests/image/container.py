"""Containers of the image, as strict as the manifests have them, beside a broker of this machine."""

from __future__ import annotations

import secrets
import subprocess
import urllib.error
import urllib.request

from tests.patience import PATIENCE_S, wait_for

__all__ = ["Bed", "Container", "get"]

# On tmpfs nothing may be executed unless it is asked for, and Spark loads RocksDB's library from /tmp.
_STRICT = (
    *("--network", "host", "--read-only", "--tmpfs", "/tmp:exec"),
    *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
    # It asks at the usual port, and this machine may have that in use.
    "--no-healthcheck",
)
_VOLUME = "/var/lib/coordinator"


class Bed:
    """What containers are made of: docker or podman, an image, and a broker."""

    def __init__(self, tool: str, image: str, bootstrap_servers: str) -> None:
        self.tool = tool
        self._image = image
        self._servers = bootstrap_servers
        self._name = f"group-coordinator-test-{secrets.token_hex(4)}"
        self._made: list[str] = []
        self._volumes: set[str] = set()

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of the tool's; what a container says is in `stdout`, all of it."""
        return subprocess.run(
            [self.tool, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=check,
        )

    def start(self, volume: str, *command: str, options: tuple[str, ...] = ()) -> Container:
        """Start the image's entry point with this command, and what it keeps on a volume of this name."""
        name = f"{self._name}-{len(self._made)}"
        self._made.append(name)
        self.run("run", "--detach", "--name", name, *options, *self._arguments(volume), *command)
        return Container(self, name)

    def once(self, volume: str, *command: str) -> str:
        """Run a command in a container of its own until it ends; return what it says."""
        done = self.run("run", "--rm", *self._arguments(volume), *command, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _arguments(self, volume: str) -> tuple[str, ...]:
        self._volumes.add(f"{self._name}-{volume}")
        return (
            *_STRICT,
            *("--volume", f"{self._name}-{volume}:{_VOLUME}"),
            *("--env", f"GROUP_COORDINATOR_BOOTSTRAP_SERVERS={self._servers}"),
            self._image,
        )

    def close(self) -> None:
        """Remove containers and volumes."""
        for name in self._made:
            self.run("rm", "--force", name)
        for volume in self._volumes:
            self.run("volume", "rm", volume)


class Container:
    """One that was started."""

    def __init__(self, bed: Bed, name: str) -> None:
        self._bed = bed
        self._name = name
        self._end = subprocess.Popen([bed.tool, "wait", name], stdout=subprocess.PIPE, text=True)

    @property
    def said(self) -> str:
        """All that it has said."""
        return self._bed.run("logs", self._name).stdout

    @property
    def is_running(self) -> bool:
        """Whether its first process has not ended."""
        return self._end.poll() is None

    def wait_until_ready(self, url: str) -> None:
        """Wait until this address answers with 200."""
        wait_for(lambda: _answers(url) or not self.is_running, said=lambda: self.said)
        assert self.is_running, self.said

    def inside(self, script: str) -> str:
        """Run a shell script beside what runs there; return what it says."""
        return self._bed.run("exec", self._name, "sh", "-c", script, check=False).stdout

    def kill(self) -> None:
        """Kill all its processes, as SIGKILL does."""
        self._bed.run("kill", "--signal", "KILL", self._name)
        self._exit_code()

    def stop(self) -> int:
        """Send SIGTERM, and return its exit code."""
        self._bed.run("kill", "--signal", "TERM", self._name)
        return self._exit_code()

    def _exit_code(self) -> int:
        said, _ = self._end.communicate(timeout=PATIENCE_S)
        return int(said)


def get(url: str) -> str:
    """Return what is at an address."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def _answers(url: str) -> bool:
    try:
        get(url)
    except (urllib.error.HTTPError, OSError):
        return False
    return True
