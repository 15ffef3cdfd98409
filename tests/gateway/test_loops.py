"""The event loop that a gateway runs on."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from group_coordinator.gateway import loops as module
from group_coordinator.gateway.loops import new_event_loop


@pytest.mark.parametrize("is_installed", [True, False])
def test_it_is_uvloops_where_that_is_installed(is_installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_installed:
        monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert isinstance(runner.get_loop(), uvloop.Loop) is is_installed
