"""The screen of the demo: a running commentary, and below it (on a terminal) the group as it is now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.demo.checks import Check
from group_coordinator.demo.observer import partitions_in

# The longest silence where there is no live picture.
_SILENCE_S = 2.0


@dataclass
class Status:
    """The facts that are known right now. `waiting_for` is None when nothing is awaited."""

    coordinator: str = "not started"
    picture: GroupPicture | None = None
    written: int = 0
    processed: int = 0
    twice: int = 0
    by_worker: dict[str, int] = field(default_factory=dict)
    waiting_for: str | None = None
    waiting_since: float = 0.0


class Screen:
    """Prints lines, with the seconds since `start` (a monotonic time) in front.

    On a terminal the group is shown below them, as it is now.
    """

    def __init__(self, console: Console, start: float) -> None:
        self._console = console
        self._start = self._spoke = start
        self._spinner = Spinner("dots")
        self._live: Live | None = None
        self.status = Status()

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live = Live(
                console=self._console, get_renderable=self._picture, refresh_per_second=8, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def step(self, sentence: str) -> None:
        """Announce the next step of the story."""
        self._print("")
        self._say(Text(sentence, style="bold"))

    def note(self, line: str, style: str = "") -> None:
        """Tell of something that has happened."""
        self._say(Text(f"  {line}", style=style))

    def refresh(self) -> None:
        """To be called often: without a terminal, says what is awaited when nothing else was said."""
        status = self.status
        if self._live is None and status.waiting_for and time.monotonic() - self._spoke > _SILENCE_S:
            self.note(f"... waiting for {status.waiting_for}{self._orders()}")

    def results(self, checks: Sequence[Check]) -> None:
        """Show how the story's claims fared."""
        table = Table(show_header=False, box=None, padding=(0, 1))
        for check in checks:
            mark = Text("held", style="green") if check.held else Text("FAILED", style="bold red")
            table.add_row(mark, check.claim, Text(check.detail, style="dim"))
        self._print("")
        self._print(table)

    def failure(self, message: str, end_of_log: str = "") -> None:
        """Say what went wrong, and what the process in question wrote last."""
        self.step(f"The story failed: {message}")
        for line in end_of_log.splitlines():
            self._print(Text(f"    {line}", style="dim"))

    # -- how it looks ----------------------------------------------------------------------------------

    def _say(self, text: Text) -> None:
        self._spoke = time.monotonic()
        row = Table.grid()
        row.add_row(Text(f"{self._spoke - self._start:5.1f} s  ", style="dim"), text)
        self._print(row)

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, highlight=False)

    def _orders(self) -> str:
        status = self.status
        return f"; {status.processed} of {status.written} orders processed" if status.written else ""

    def _picture(self) -> RenderableType:
        status = self.status
        lines: list[RenderableType] = [self._headline()]
        if status.picture is not None and status.picture.members:
            lines.append(self._members(status.picture))
        if status.written:
            lines.append(
                Text(f"{status.written} orders written, {status.processed} processed, {status.twice} twice")
            )
        if status.waiting_for:
            seconds = time.monotonic() - status.waiting_since
            self._spinner.update(text=Text(f"{status.waiting_for} ({seconds:.0f} s)", style="dim"))
            lines.append(self._spinner)
        return Panel(Group(*lines), border_style="dim")

    def _headline(self) -> Text:
        picture, coordinator = self.status.picture, self.status.coordinator
        text = Text("coordinator ")
        text.append(coordinator, style="green" if coordinator == "running" else "red")
        if picture is not None:
            text.append("   group ")
            text.append(picture.state, style="green" if picture.state == "Stable" else "yellow")
            text.append(f"   generation {picture.generation_id}")
        return text

    def _members(self, picture: GroupPicture) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for column in ("worker", "", "owns partitions", "processed"):
            table.add_column(column, justify="right" if column == "processed" else "left")
        for member in sorted(picture.members, key=lambda each: each.client_id):
            owned = " ".join(str(partition) for partition in sorted(partitions_in(member.member_assignment)))
            table.add_row(
                member.client_id,
                "leader" if member.member_id == picture.leader else "",
                owned or "-",
                str(self.status.by_worker.get(member.client_id, 0)),
            )
        return table
