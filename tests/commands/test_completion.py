"""Completion in the shells that click knows, as docs/run.md has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("group-coordinator")
BASH = """
eval "$(_GROUP_COORDINATOR_COMPLETE=bash_source group-coordinator)"
COMP_WORDS=(group-coordinator eve)
COMP_CWORD=1
_group_coordinator_completion group-coordinator eve group-coordinator
echo "${COMPREPLY[@]}"
"""
# Its own functions for completion work in a line that is being typed, and nowhere else.
ZSH = """
compdef() { echo "compdef $@" }
compadd() { echo "compadd $@" }
_describe() { echo "_describe ${(P)3}" }
words=(group-coordinator eve)
CURRENT=2
eval "$(_GROUP_COORDINATOR_COMPLETE=zsh_source group-coordinator)"
_group_coordinator_completion
"""


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH)])
def test_the_name_of_a_command_is_completed(shell: str, script: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    path = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    done = subprocess.run(
        [shell, "-c", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert "events" in done.stdout, done
