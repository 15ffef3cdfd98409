"""The worst that each request of groups can be: it is counted before it is looked at."""

from __future__ import annotations

import pytest

from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.errors import FrameError
from tests.gateway.worst import WORST, Counted, Worst

MEGABYTE = 999_000


def test_every_request_of_groups_with_a_list_is_there() -> None:
    local = {key for key, api in APIS.items() if api.way in (Way.STREAM, Way.GATEWAY)}
    # A heartbeat has no list, and the lists of OffsetDelete are not compact.
    assert {each.api_key for each in WORST.values()} == local - {12, 47}


@pytest.mark.parametrize("worst", WORST.values(), ids=WORST)
def test_a_request_has_so_many_elements_and_no_more(worst: Worst) -> None:
    most = codec.MOST_ELEMENTS - worst.others
    assert codec.decode_request(worst.of(most)).elements == codec.MOST_ELEMENTS
    with pytest.raises(FrameError, match="elements"):
        codec.decode_request(worst.of(most + 1))


@pytest.mark.parametrize("worst", WORST.values(), ids=WORST)
def test_a_megabyte_of_elements_is_refused_before_the_first_is_looked_at(
    worst: Worst, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One look at a varint for each length and for each section of tagged fields.
    monkeypatch.setattr(codec, "_varint", counted := Counted(codec._varint))
    with pytest.raises(FrameError, match="elements"):
        codec.decode_request(worst.of(MEGABYTE // len(worst.element)))
    assert counted.calls < 20
    # It is no more with the longest head.
    with pytest.raises(FrameError, match="elements"):
        codec.decode_request(
            worst._replace(client_id=b"c" * (2**15 - 1)).of(MEGABYTE // len(worst.element) - 40_000)
        )
    assert counted.calls < 40
