from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

import pytest

from group_coordinator.deploy import submit
from group_coordinator.deploy.jars import read_lock
from group_coordinator.deploy.submit import PackError, main_program, pack, spark_options

# What the project's code imports on a driver or an executor, from the tables of pyproject.toml.
IMPORTED = {
    "click",
    "delta",
    "kafka",
    "msgspec",
    "numpy",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "rich",
    "structlog",
}
OURS = {"group_coordinator"}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    pack(output)
    return output


@pytest.mark.spark
def test_the_folder_has_all_that_is_needed_and_nothing_of_spark(packed: Path) -> None:
    names = {path.name for path in (packed / "group-coordinator").iterdir()}

    assert names > IMPORTED | OURS | {"main.py"}
    assert not names & {"pyspark", "py4j", "pytest", "tests", "bin"}
    assert not list(packed.glob("**/__pycache__"))


@pytest.mark.spark
def test_it_runs_in_a_python_that_has_nothing_installed(packed: Path) -> None:
    program = main_program(packed)
    done = subprocess.run(
        # Without site-packages, and nothing from the environment; the program's folder has to be given.
        [sys.executable, "-BSIc", f"import sys; sys.path.insert(0, {str(program.parent)!r})\n{CHECK}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"group-coordinator, version {version('group-coordinator')}"]


def test_without_rich_it_can_be_asked_what_to_do() -> None:
    """Which shows downloads, and comes with the extra that somebody may have forgotten."""
    program = "import sys; sys.modules['rich'] = None; from group_coordinator.deploy import submit"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


CHECK = """
import msgspec, numpy, pandas, pyarrow
import group_coordinator.coordinator_state.step, group_coordinator.jobs.settings
from group_coordinator.commands.cli import main
main(["--version"], prog_name="group-coordinator")
"""


@pytest.mark.spark
def test_the_archive_is_the_folder(packed: Path) -> None:
    folder = packed / "group-coordinator"
    with ZipFile(packed / "group-coordinator.zip") as archive:
        archived = {info.filename: info.file_size for info in archive.infolist() if not info.is_dir()}

    assert archived == {
        str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()
    }


@pytest.mark.spark
def test_packing_again_leaves_nothing_from_before(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "_needed", lambda _: [])
    for left in ("group-coordinator/left.py", "jars/left.jar"):
        (packed.parent / "again" / left).parent.mkdir(parents=True)
        (packed.parent / "again" / left).touch()
    pack(packed.parent / "again")

    assert not list((packed.parent / "again").glob("**/left.*"))
    assert "left.py" not in ZipFile(packed.parent / "again" / "group-coordinator.zip").namelist()


@pytest.mark.spark
def test_the_options_name_what_is_there(packed: Path) -> None:
    options = spark_options(packed)
    values = dict(zip(options[::2], options[1::2], strict=True))

    jars = values["--jars"].split(",")
    assert [Path(jar).name for jar in jars] == sorted(jar.filename for jar in read_lock("spark"))
    archive, _, folder = values["--archives"].partition("#")
    logging = values["--driver-java-options"].removeprefix("-Dlog4j2.configurationFile=")
    assert all(Path(file).is_file() for file in (*jars, archive, logging, main_program(packed)))
    assert f"spark.executorEnv.PYTHONPATH={folder}" in options


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_pandas(name: str) -> object:
        if name == "pandas":
            raise PackageNotFoundError(name)
        return real(name)

    real = submit.distribution
    monkeypatch.setattr(submit, "distribution", without_pandas)

    with pytest.raises(
        PackError, match=r"^pandas is not installed here. Run: pip install '.\[delta,spark\]'$"
    ):
        pack(tmp_path / "dist")

    assert not (tmp_path / "dist").exists()


def test_the_command_line_fails_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Path) -> None:
        raise PackError("it cannot be packed")

    monkeypatch.setattr(submit, "pack", refuse)
    monkeypatch.setattr("sys.argv", ["submit", "--output", str(tmp_path)])

    assert submit.main() == 1
    assert capsys.readouterr().err == "error: it cannot be packed\n"
