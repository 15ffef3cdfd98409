"""The images are built with a tool that can work, for every name that the manifests have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from group_coordinator.deploy import images
from group_coordinator.deploy.images import IMAGES, ImageError, build_command, image, tool

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that programs are looked up in."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_the_first_tool_that_can_work_is_taken(tools: Path) -> None:
    install(tools, "docker", "echo Cannot connect to the daemon >&2; exit 1")
    install(tools, "buildah", "exit 0")
    assert tool() == "buildah"

    install(tools, "podman", "exit 0")
    assert tool() == "podman"


def test_without_one_the_error_says_what_each_lacks(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tools, "docker", "echo Cannot connect to the daemon >&2; exit 1")
    install(tools, "buildah", "exit 0")
    with pytest.raises(ImageError, match="docker: Cannot connect to the daemon; podman: not installed"):
        tool(images.RUNNERS)

    (tools / "buildah").unlink()
    monkeypatch.setattr("sys.argv", ["images"])
    assert images.main() == 1
    assert capsys.readouterr().err == (
        "error: An image needs docker or podman or buildah, and none can work here. "
        "docker: Cannot connect to the daemon; podman: not installed; buildah: not installed.\n"
    )


def test_arguments_come_from_the_environment_and_health_checks_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in images._ARGUMENTS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_IMAGE", "python:3.13-slim-trixie")
    command = build_command("podman", "coordinator")

    assert command[-3:] == ["--build-arg", "PYTHON_IMAGE", "."]
    # The other format of images has none.
    assert command[command.index("--format") + 1] == "docker"
    assert "--format" not in build_command("docker", "coordinator")


def test_all_images_of_the_manifests_can_be_built() -> None:
    dockerfile = (DEPLOY / "container" / "Dockerfile").read_text()
    named = {
        name
        for path in (DEPLOY / "kubernetes").rglob("*.yaml")
        for name in re.findall(r"image: (\S+)", path.read_text())
    }

    assert named == {image(target) for target in IMAGES}
    assert set(IMAGES) <= set(re.findall(r"^FROM \S+ AS (\w+)$", dockerfile, re.MULTILINE))
