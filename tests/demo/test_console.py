from __future__ import annotations

from pathlib import Path

import pytest

from group_coordinator.demo.console import ConsoleOutput
from group_coordinator.demo.store import OrderStore

SAID = """\
[Consumer clientId=java-2, groupId=g] Successfully synced group in generation Generation{generationId=1, \
memberId='java-2-af', protocol='range'}
[Consumer clientId=java-2, groupId=g] Adding newly assigned partitions: [orders-0, orders-11]
Partition:0\tOffset:7\t{"order": 15}
[Consumer clientId=java-2, groupId=g] Revoke previously assigned partitions [orders-0, orders-11]
[Consumer clientId=java-2, groupId=g] Successfully synced group in generation Generation{generationId=2, \
memberId='java-2-af', protocol='range'}
[Consumer clientId=java-2, groupId=g] Adding newly assigned partitions: [orders-11]
Partition:11\tOffset:3\t{"order": 16}
Partition:11\tOff"""

RECORD = 'Partition:0\tOffset:7\t{"order": 15}\n'


def test_results_belong_to_the_generation_in_which_they_were_printed(tmp_path: Path) -> None:
    log, store = tmp_path / "log", OrderStore(tmp_path / "orders")
    output = ConsoleOutput("java-2", log, store)
    for end in (150, 400, len(SAID)):
        log.write_text(SAID[:end])
        output.take()
    with log.open("a") as more:
        more.write('set:4\t{"order": 17}\n')
    output.take()
    output.take()

    assert [each[:5] for each in store.orders()] == [
        (15, 0, 7, "java-2", 1),
        (16, 11, 3, "java-2", 2),
        (17, 11, 4, "java-2", 2),
    ]
    assert [(each.kind, each.partitions, each.member_id, each.generation) for each in store.ownership()] == [
        ("assigned", {0, 11}, "java-2-af", 1),
        ("revoked", {0, 11}, "java-2-af", 1),
        ("assigned", {11}, "java-2-af", 2),
    ]
    store.close()


@pytest.mark.parametrize("at", range(len(RECORD)))
def test_what_the_client_logs_within_a_record_is_taken_out_of_it(tmp_path: Path, at: int) -> None:
    """The consumer writes a record in parts, and its other thread does not wait for the last one."""
    log, store = tmp_path / "log", OrderStore(tmp_path / "orders")
    revoked = "[Consumer clientId=java-2, groupId=g] Revoke previously assigned partitions [orders-0]\n"
    log.write_text(f"{RECORD[:at]}{revoked}{RECORD[at:]}")
    ConsoleOutput("java-2", log, store).take()

    assert [each[:3] for each in store.orders()] == [(15, 0, 7)]
    assert [(each.kind, each.partitions) for each in store.ownership()] == [("revoked", {0})]
    store.close()
