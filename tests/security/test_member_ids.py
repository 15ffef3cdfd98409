"""Member ids cannot be guessed by somebody who knows all but the secret."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.member_ids import member_id_of

SECRET = b"a secret of the deployment"


def record(offset: int, topic: str = "coordinator.requests") -> Record:
    """One of many in a row, as somebody who floods the log could lay them around another's join."""
    return Record(topic, 0, offset, 1_700_000_000_000, b"orders", b"{}")


def bits_of(member_id: str, prefix: str = "c1") -> int:
    return int(member_id.removeprefix(f"{prefix}-").replace("-", ""), 16)


def ids(count: int, secret: bytes = SECRET) -> list[int]:
    return [bits_of(member_id_of(secret, record(offset), "c1")) for offset in range(count)]


def test_an_id_has_128_bits_and_each_of_them_counts() -> None:
    count = 4_000
    ones = Counter(bit for it in ids(count) for bit in range(128) if it >> bit & 1)

    # A fair coin shows 2000 heads, give or take 32; eight times that is never seen.
    assert all(abs(ones[bit] - count / 2) < 256 for bit in range(128))
    assert max(ids(count)).bit_length() == 128


def test_ids_of_neighbours_have_nothing_in_common() -> None:
    """Who gets ids of its own, before and after another's, knows nothing of the one in between."""
    found = ids(4_000)
    distances = [(one ^ other).bit_count() for one, other in itertools.pairwise(found)]

    assert len(set(found)) == len(found)
    assert abs(sum(distances) / len(distances) - 64) < 1
    assert min(distances) > 20


def test_the_place_alone_gives_no_id() -> None:
    """Everything but the secret is public: the topic, partition and offset are in the events."""
    own = record(17)
    place = f"{own.topic}\0{own.partition}\0{own.offset}\0{own.timestamp_ms}".encode()
    wanted = bits_of(member_id_of(SECRET, own, "c1"))
    unkeyed = {
        int.from_bytes(hashlib.new(name, place).digest()[:16])
        for name in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b")
    }

    assert wanted not in unkeyed
    assert wanted not in ids(100, b"")
    assert wanted not in ids(100, SECRET[:-1])
    assert wanted not in ids(100, SECRET + b"\0x")


def test_what_a_client_chooses_does_not_shape_the_rest() -> None:
    """Nor can two clients that ask at two places get the same id, whatever they call themselves."""
    rest = {bits_of(member_id_of(SECRET, record(17), name), name) for name in ("c1", "", "c1-0000")}

    assert len(rest) == 1
