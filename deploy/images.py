"""Builds the images that compose.yaml and the manifests name: `make image`.

`python deploy/images.py [target]` takes docker, podman or buildah, the first of them that can work. It needs
only the standard library, as the images are made where nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

IMAGES = {
    "coordinator": "group-coordinator",
    "light": "group-coordinator-light",
    "kubernetes": "group-coordinator-kubernetes",
}
"""The image's name for each target of the Dockerfile that somebody may want."""
RUNNERS = ("docker", "podman")
"""The tools that run an image, and not only build it."""

# The link in src/ is followed.
_ROOT = Path(__file__).resolve().parents[1]
_BUILDERS = (*RUNNERS, "buildah")
_DOCKERFILE = Path("deploy", "container", "Dockerfile")
# Taken from the environment as they are. Docker does not keep those of proxies in the image.
_ARGUMENTS = (
    "PYTHON_IMAGE",
    "SPARK_IMAGE",
    "PIP_INDEX_URL",
    "GROUP_COORDINATOR_MAVEN_URL",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
_ANSWER_S = 30


class ImageError(Exception):
    """No image can be made here; the message is one line that says what to do."""


def image(target: str) -> str:
    """Return the name of a target's image, with the project's version."""
    with (_ROOT / "pyproject.toml").open("rb") as file:
        return f"{IMAGES[target]}:{tomllib.load(file)['project']['version']}"


def tool(candidates: tuple[str, ...] = _BUILDERS) -> str:
    """Return the first of these tools that can work here. Raises ImageError if none can."""
    problems = []
    for name in candidates:
        if not (problem := _problem(name)):
            return name
        problems.append(f"{name}: {problem}")
    raise ImageError(
        f"An image needs {' or '.join(candidates)}, and none can work here. {'; '.join(problems)}."
    )


def build_command(name: str, target: str) -> list[str]:
    """Return the command by which a tool builds a target from the root of the repository."""
    arguments = [word for it in _ARGUMENTS if os.environ.get(it) for word in ("--build-arg", it)]
    # Docker finds the list beside the Dockerfile by itself, keeps layers, and its format has health checks.
    ignored = ("--ignorefile", f"{_DOCKERFILE}.dockerignore")
    others = [] if name == "docker" else [*ignored, "--layers", "--format", "docker"]
    return [
        *(name, "build", "--file", str(_DOCKERFILE), "--target", target, "--tag", image(target)),
        *others,
        *arguments,
        ".",
    ]


def _problem(name: str) -> str:
    """The reason why a tool cannot work; empty if it can. A client without its daemon cannot."""
    try:
        done = subprocess.run([name, "info"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except FileNotFoundError:
        return "not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return " ".join(str(error).split())
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no answer"])[-1]


def main() -> int:
    """Build the image that the command line names, by default the coordinator's."""
    parser = argparse.ArgumentParser(prog="python deploy/images.py")
    parser.add_argument("target", nargs="?", choices=IMAGES, default="coordinator")
    target = parser.parse_args().target
    try:
        name = tool()
        print(f"Building {image(target)} with {name}", flush=True)
        environment = {"DOCKER_BUILDKIT": "1"} | os.environ
        subprocess.run(build_command(name, target), cwd=_ROOT, env=environment, check=True)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
