from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator.gateway.limits import Limits
from group_coordinator.gateway.patience import Ending, Patience


def asked(patience: Patience) -> None:
    patience.has_asked = True


def nothing(_patience: Patience) -> None:
    pass


def unfinished(patience: Patience) -> None:
    asked(patience)
    patience.unfinished_s = 100


def stuck(patience: Patience) -> None:
    asked(patience)
    patience.stuck_s = 100


def ended(patience: Patience) -> None:
    asked(patience)
    patience.ends(100)
    patience.ends(200)


IDLE, GONE = Ending("idle", at_once=False), Ending("idle", at_once=True)


@pytest.mark.parametrize("is_owed", [True, False])
@pytest.mark.parametrize(
    ("story", "limit_s", "ending"),
    [
        # However much of the first request has come, and whatever is owed for its begin.
        (nothing, Limits.first_frame_s, IDLE),
        (unfinished, Limits.local_frame_s, Ending("unfinished requests", at_once=True)),
        (stuck, Limits.idle_s, GONE),
        (ended, Limits.end_s, Ending("unread responses", at_once=True)),
    ],
)
def test_what_takes_too_long_ends_the_connection(
    story: Callable[[Patience], None], limit_s: float, ending: Ending, is_owed: bool
) -> None:
    patience = Patience(100)
    story(patience)
    patience.heard_s = 100 + limit_s
    assert patience.over(100 + limit_s, is_owed=is_owed, is_between=True) is None
    assert patience.over(100.1 + limit_s, is_owed=is_owed, is_between=True) == ending


@pytest.mark.parametrize(
    ("is_owed", "is_between", "ending"),
    [(False, True, IDLE), (False, False, IDLE), (True, True, None), (True, False, IDLE)],
)
def test_a_silent_client_may_wait_for_a_response_but_not_with_half_a_request(
    is_owed: bool, is_between: bool, ending: Ending | None
) -> None:
    patience = Patience(100)
    asked(patience)
    assert patience.over(100 + Limits.idle_s, is_owed=is_owed, is_between=is_between) is None
    assert patience.over(100.1 + Limits.idle_s, is_owed=is_owed, is_between=is_between) == ending
