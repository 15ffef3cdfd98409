"""The page of a member: its life, as far as the story of its group tells it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from group_coordinator.history.story import Story
from group_coordinator.history.timeline import sentences_list
from group_coordinator.history.timeline.explain import Explainer
from group_coordinator.history.timeline.text import counted, writer
from group_coordinator.page.group_page import member_link
from group_coordinator.page.html import Column, link, note, part, said, section, table, utc
from group_coordinator.page.sides import Where

_MOST = 500
MOST_COMMITS = 200


def member_part(
    where: Where,
    member_id: str,
    story: Story | None,
    period: tuple[datetime, datetime],
    commits: Sequence[dict[str, Any]] | None,
    past: dict[str, object],
) -> str:
    """All that is known of a member in a time.

    `commits`: rows of the history; None if it was not asked. `past`: the way there, if there is a history.
    """
    lines = f"<p>{link('/group', 'The group', **where)}</p>\n"
    if commits is None and past:
        lines += f"<p>{link('/member', 'Look at its last day in the history', **where, **past)}</p>\n"
    explainer = None if story is None else Explainer(story)
    life = [] if explainer is None else explainer.life(member_id)
    if story is None or explainer is None or not life:
        return part(lines + note("Nothing is known of this member in that time."))
    lines += _names(story, member_id)
    if len(life) > _MOST:
        lines += note(f"The newest {_MOST} of {counted(len(life), 'statement')}.")
    # All of it is about this member.
    life = [replace(each, member_id=None) for each in life[-_MOST:]]
    told = sentences_list(life, writer(*period), member_link(where))
    lines += section("life", f"From {utc(period[0])} to {utc(period[1])} UTC", told)
    return part(lines + section("commits", "Commits", _commits(commits)))


def _names(story: Story, member_id: str) -> str:
    known = next((each for each in reversed(story.memberships) if each.member_id == member_id), None)
    if known is None:
        return ""
    facts = [f"client {said(known.client_id, 'unknown')}"]
    if known.group_instance_id:
        facts.append(f"instance {said(known.group_instance_id)}")
    if known.client_host:
        facts.append(f"host {said(known.client_host)}")
    return f'<p class="facts">{" · ".join(facts)}</p>\n'


def _commits(commits: Sequence[dict[str, Any]] | None) -> str:
    if commits is None:
        return note("Commits of members are in the history, and nowhere else.")
    if not commits:
        return note("The history has no commit of this member in that time.")
    columns = (
        *(Column("time (UTC)"), Column("topic")),
        *(Column(name, is_number=True) for name in ("partition", "committed", "generation")),
        *(Column("metadata"), Column("principal")),
    )
    rows = (
        (
            utc(each["at"]),
            said(each["topic"]),
            f"{each['partition']}",
            f"{each['committed_offset']:,}",
            f"{each['generation_id']:,}",
            said(each["metadata"], "") if each["metadata"] else "",
            said(each["principal"], "") if each["principal"] else "",
        )
        for each in commits
    )
    first = note(f"The first {MOST_COMMITS}.") if len(commits) >= MOST_COMMITS else ""
    return first + table(columns, rows, "commits", "Commits")
