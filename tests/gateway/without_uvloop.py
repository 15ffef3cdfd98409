"""Runs a module as if uvloop was not installed.

python -m tests.gateway.without_uvloop python -m MODULE ARGUMENTS
"""

from __future__ import annotations

import runpy
import sys

sys.modules["uvloop"] = None  # type: ignore[assignment]
sys.argv = sys.argv[3:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
