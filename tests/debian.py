"""Programs of Debian's packages, unpacked into the cache.

Nothing is installed, so nobody has to be root: apt gets lists and a cache of its own.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.deploy.jars import cache_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NoPackageError", "unpacked"]

_DOWNLOAD_S = 240
_APT = """
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::Languages "none";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class NoPackageError(Exception):
    """A package cannot be had; the message says why and what to do."""


def unpacked(name: str, packages: Sequence[str], advice: str) -> Path:
    """Return the folder `name` of the cache with the packages' files.

    Raises `NoPackageError`, with `advice` in the end.
    """
    target = cache_dir().with_name(name)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk and renamed when it is whole, as other processes may do the same.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as made:
        folder = Path(made)
        for package in _download(folder, packages, advice):
            _run(advice, "dpkg", "-x", package, folder / "whole", cwd=folder)
        try:
            (folder / "whole").rename(target)
        except OSError:
            if not target.exists():
                raise
    return target


def _download(folder: Path, packages: Sequence[str], advice: str) -> list[Path]:
    configuration = folder / "apt.conf"
    configuration.write_text(_APT.format(folder=folder))
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    # One of the machine's other registries may be away; whether the lists are enough shows below.
    updated = _run(advice, "apt-get", "-c", configuration, "update", cwd=folder, check=False)
    fetched = _run(advice, "apt-get", "-c", configuration, "download", *packages, cwd=folder, check=False)
    found = list(folder.glob("*.deb"))
    if len(found) < len(packages):
        said = f"{updated}\n{fetched}".strip().splitlines()
        # The first says what is the matter, the last one what comes of it.
        problems = [line for line in said if line.startswith(("E:", "W:"))] or said
        told = " ".join(dict.fromkeys(problems[:1] + problems[-1:]))
        raise NoPackageError(f"apt-get cannot fetch {' '.join(packages)}: {told}. {advice}")
    return found


def _run(advice: str, *command: str | Path, cwd: Path, check: bool = True) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DOWNLOAD_S,
            check=check,
        )
    except FileNotFoundError:
        raise NoPackageError(f"there is no {command[0]} to fetch it with. {advice}") from None
    except subprocess.TimeoutExpired:
        raise NoPackageError(f"{command[0]} took longer than {_DOWNLOAD_S} s. {advice}") from None
    except subprocess.CalledProcessError as error:
        raise NoPackageError(f"{command[0]} failed: {error.stdout.strip()}. {advice}") from None
    return done.stdout
