"""The watcher's questions, and its records."""

from __future__ import annotations

from itertools import pairwise

import pytest

from group_coordinator.coordinator_state.requests.consumer import TopicFacts
from group_coordinator.jobs.topic_answers import MalformedAnswerError
from group_coordinator.streaming.watching.differences import Differences
from group_coordinator.streaming.watching.watch import Record, Watch
from tests.streaming.watching.cluster import (
    NO_LEADER,
    NONE,
    UNKNOWN,
    UNSEEN,
    Cluster,
    Watching,
    known,
    topic_id,
)


def facts(name: str, number: int, partitions: int) -> TopicFacts:
    return TopicFacts(name=name, partitions=partitions, topic_id=topic_id(number))


def test_a_group_that_knows_what_brokers_say_is_told_nothing() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    assert watching.go_on(60) == []
    assert list(watching.watch.watched) == ["t"]
    assert watching.cluster.asked[0] == ["t"]


def test_a_name_that_a_group_knows_nothing_of_is_told_at_once() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    watching.go_on(20)
    watching.watch.pictured("g", 0, [known("t")])
    assert watching.go_on(1.5) == [Record("g", 0, Differences(topics=(facts("t", 1, 12),)))]


def test_a_topic_that_has_grown_is_told_after_one_round_and_not_twice() -> None:
    cluster = Cluster(t=(NONE, 1, 12))
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    watching.go_on(20)
    cluster.topics["t"] = (NONE, 1, 24)
    grown = Record("g", 3, Differences(topics=(facts("t", 1, 24),)))
    assert watching.go_on(5.2) == [grown]
    assert watching.go_on(20) == []
    watching.watch.pictured("g", 4, [known("t", 1, 24)])
    assert watching.go_on(60) == []


def test_fewer_partitions_of_the_same_id_are_never_told() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    watching.watch.pictured("g", 3, [known("t", 1, 13)])
    assert watching.go_on(60) == []


def test_a_topic_is_gone_when_two_rounds_have_said_so() -> None:
    cluster = Cluster(t=(NONE, 1, 12))
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    watching.go_on(20)
    del cluster.topics["t"]
    rounds = len(watching.rounds)
    while not (records := watching.step()):
        assert watching.now_s < 1_100
    assert records == [Record("g", 3, Differences(gone=("t",)))]
    assert len(watching.rounds) == rounds + 2
    # The second comes early, and not every one after it.
    assert watching.rounds[-1] - watching.rounds[-2] == 1
    watching.watch.pictured("g", 4, [known("t", 1)])
    assert watching.go_on(60) == []
    # It does not come back, but another one may have its name.
    cluster.topics["t"] = (NONE, 1, 12)
    assert watching.go_on(60) == []
    cluster.topics["t"] = (NONE, 2, 2)
    assert watching.go_on(7) == [Record("g", 4, Differences(topics=(facts("t", 2, 2),)))]


def test_a_topic_that_one_round_does_not_find_is_not_gone() -> None:
    cluster = Cluster(t=(NONE, 1, 12))
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    for _ in range(20):
        before = len(watching.rounds)
        while len(watching.rounds) == before:
            assert watching.step() == []
        # One that has it, and then one that lags behind.
        if "t" in cluster.topics:
            del cluster.topics["t"]
        else:
            cluster.topics["t"] = (NONE, 1, 12)


@pytest.mark.parametrize("error", [UNSEEN, NO_LEADER, 17])
def test_any_other_error_leaves_the_topic_alone_and_a_new_row_begins(error: int) -> None:
    cluster = Cluster(t=(UNKNOWN, 0, 0))
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    for number in range(20):
        cluster.topics["t"] = ((error, UNKNOWN)[number % 2], 0, 0)
        before = len(watching.rounds)
        while len(watching.rounds) == before:
            assert watching.step() == []
    cluster.topics["t"] = (error, 1, 24)
    assert watching.go_on(60) == []
    assert set(watching.watch.unseen) == ({"t"} if error == UNSEEN else set())
    cluster.topics["t"] = (NONE, 1, 24)
    assert watching.go_on(6) == [Record("g", 3, Differences(topics=(facts("t", 1, 24),)))]
    assert set(watching.watch.unseen) == set()


def test_what_no_broker_has_answered_begins_a_new_row() -> None:
    cluster = Cluster()
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    for number in range(20):
        watching.is_away = number % 2 == 1
        before = len(watching.rounds)
        while len(watching.rounds) == before:
            assert watching.step() == []
    watching.is_away = False
    assert watching.go_on(12) == [Record("g", 3, Differences(gone=("t",)))]


def test_a_name_of_another_id_is_told_when_two_rounds_have_said_so() -> None:
    cluster = Cluster(t=(NONE, 2, 3))
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1, 12)])
    while not (records := watching.step()):
        assert watching.now_s < 1_100
    assert records == [Record("g", 3, Differences(topics=(facts("t", 2, 3),)))]
    assert len(watching.rounds) == 2


def test_two_rounds_count_only_after_the_picture_that_they_are_about() -> None:
    """Another watcher may have told of a topic that was made in the meantime."""
    cluster = Cluster()
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1)])
    watching.go_on(20)
    watching.watch.pictured("g", 4, [known("t", 2, 3)])
    cluster.topics["t"] = (NONE, 2, 3)
    assert watching.go_on(60) == []


def test_a_group_whose_members_change_is_told_all_the_same() -> None:
    cluster = Cluster()
    watching = Watching(cluster)
    records = []
    for number in range(200):
        watching.watch.pictured("g", 3, [known("t", 1, 12 + number)])
        records += watching.step()
    assert records == [Record("g", 3, Differences(gone=("t",)))]


def test_an_id_that_was_another_ones_before_is_not_believed_again() -> None:
    cluster = Cluster(t=(NONE, 1, 1))
    watching = Watching(cluster)
    watching.watch.pictured("g", 1, [known("t", 1, 1)])
    watching.go_on(12)
    for number in range(2, 110):
        cluster.topics["t"] = (NONE, number, 1)
        assert watching.go_on(12) != []
        watching.watch.pictured("g", number, [known("t", number, 1)])
        watching.go_on(12)
    cluster.topics["t"] = (NONE, 60, 1)
    assert watching.go_on(60) == []
    cluster.topics["t"] = (NONE, 109, 1)
    assert watching.go_on(60) == []


def test_units_and_names_that_no_broker_can_have_are_not_asked_about() -> None:
    watching = Watching(Cluster())
    strange = [known(name) for name in ("", "a b", "ä", "x" * 250, "a\n", "a/b")]
    watching.watch.pictured("g", 3, [known("units", partitions=5), known("t"), *strange])
    watching.watch.pictured("units", 3, [known("units", partitions=5)])
    assert watching.go_on(20) == []
    assert watching.cluster.asked[0] == ["t"]
    assert list(watching.watch.watched) == ["t"]


def test_names_that_nobody_has_any_more_are_not_asked_about() -> None:
    watching = Watching(Cluster(t=(UNSEEN, 0, 0), u=(NONE, 2, 2)))
    watching.watch.pictured("g", 3, [known("t"), known("u", 2, 2)])
    watching.watch.pictured("h", 3, [known("u", 2, 2)])
    watching.go_on(1)
    watching.watch.pictured("g", 3, [known("u", 2, 2)])
    watching.watch.left("h")
    watching.watch.left("never there")
    watching.cluster.asked.clear()
    watching.go_on(6)
    assert watching.cluster.asked == [["u"]]
    assert set(watching.watch.unseen) == set()
    watching.watch.pictured("g", 3, [])
    watching.cluster.asked.clear()
    watching.go_on(20)
    assert watching.cluster.asked == []
    assert len(watching.watch.watched) == 0


def test_a_record_that_no_picture_follows_is_written_again_and_each_time_later() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    watching.watch.pictured("g", 0, [known("t")])
    times = [watching.now_s for _ in range(40_000) if watching.step()]
    waits = [round(after - before) for before, after in pairwise(times)]
    for wait, least in zip(waits, (30, 60, 120, 240, 480, 480, 480), strict=False):
        assert least <= wait <= least + 6
    assert len(times) > 7


def test_a_group_that_refuses_all_because_of_one_is_told_the_others_one_by_one() -> None:
    watching = Watching(Cluster(big=(NONE, 1, 200), gone=(UNKNOWN, 0, 0), t=(NONE, 3, 2)))
    watching.watch.pictured("g", 7, [known("big", 1, 1), known("gone", 2, 2), known("t", 3, 1)])
    records = watching.go_on(900)
    big, t, gone = facts("big", 1, 200), facts("t", 3, 2), "gone"
    # The doubtful one comes a round later.
    assert [each.tells for each in records[:5]] == [
        Differences(topics=(big, t)),
        Differences(topics=(big, t), gone=(gone,)),
        Differences(topics=(big,)),
        Differences(topics=(t,)),
        Differences(gone=(gone,)),
    ]


def test_what_has_changed_since_is_written_at_once() -> None:
    cluster = Cluster(t=(NONE, 1, 12))
    watching = Watching(cluster)
    watching.watch.pictured("g", 0, [known("t")])
    assert len(watching.go_on(2)) == 1
    cluster.topics["t"] = (NONE, 1, 13)
    assert watching.go_on(6) == [Record("g", 0, Differences(topics=(facts("t", 1, 13),)))]


def test_a_picture_of_the_same_version_is_waited_for_no_longer_than_before() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12), u=(NONE, 2, 2)))
    watching.watch.pictured("g", 5, [known("t")])
    assert len(watching.go_on(2)) == 1
    watching.watch.pictured("g", 5, [known("t"), known("u", 2, 2)])
    assert watching.go_on(20) == []
    # A difference that is none any more is not written again.
    watching.watch.pictured("g", 5, [known("u", 2, 2)])
    assert watching.go_on(60) == []


def test_a_large_record_is_written_in_parts_each_based_on_the_one_before() -> None:
    names = [f"t{number:03}" for number in range(100)]
    cluster = Cluster(**{name: (NONE, number + 1, 1) for number, name in enumerate(names)})
    watching = Watching(cluster, Watch(interval_s=5, most_bytes=6_000))
    group = {name: known(name) for name in names}
    version, records = 0, []
    while watching.now_s < 1_060:
        watching.watch.pictured("g", version, list(group.values()))
        for record in watching.step():
            assert record.based_on == version
            records.append(record)
            group |= {
                each.name: known(each.name, names.index(each.name) + 1, each.partitions)
                for each in record.tells.topics
            }
            version += 1
    assert [len(record.tells.topics) for record in records] == [41, 41, 18]


def test_a_record_has_one_topic_at_least() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 1), u=(NONE, 2, 1)), Watch(interval_s=5, most_bytes=1))
    watching.watch.pictured("g", 0, [known("t"), known("u")])
    assert [len(record.tells.topics) for record in watching.go_on(2)] == [1]


def test_ten_thousand_groups_of_a_topic_that_grows_are_told_in_less_than_30_s_and_never_many_at_once() -> (
    None
):
    cluster = Cluster(t=(NONE, 1, 12))
    watching = Watching(cluster)
    for number in range(10_000):
        watching.watch.pictured(f"g{number}", 1, [known("t", 1, 12)])
    assert watching.go_on(20) == []
    cluster.topics["t"] = (NONE, 1, 13)
    at_once, took = [], 0.0
    while sum(at_once) < 10_000:
        at_once.append(len(watching.step()))
        took += 0.1
    assert took < 25
    assert max(at_once) <= 60
    assert not watching.watch.has_more


def test_after_a_pause_no_more_are_told_at_once() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    for number in range(500):
        watching.watch.pictured(f"g{number}", 0, [known("t")])
    watching.step()
    assert watching.watch.has_more
    watching.now_s += 4
    assert len(watching.step()) == 60
    assert watching.watch.due(watching.now_s - 0.0999).records == []


def test_topics_are_asked_about_in_parts() -> None:
    names = [f"t{number:04}" for number in range(2_500)]
    watching = Watching(Cluster())
    watching.watch.pictured("g", 0, [known(name) for name in names])
    watching.step()
    assert watching.cluster.asked == [names[:1_000], names[1_000:2_000], names[2_000:]]


def test_a_part_has_no_more_partitions_than_brokers_can_tell_of_at_once() -> None:
    cluster = Cluster(a=(NONE, 1, 30_000), b=(NONE, 2, 30_000), c=(NONE, 3, 5), d=(NONE, 4, 5))
    watching = Watching(cluster)
    watching.watch.pictured("g", 0, [known(name) for name in "abc"])
    watching.step()
    watching.watch.pictured("g", 0, [known(name) for name in "abcd"])
    cluster.asked.clear()
    watching.go_on(6)
    assert cluster.asked[:2] == [["a"], ["b", "c", "d"]]


def test_rounds_take_half_of_all_time_at_most() -> None:
    watch = Watch(interval_s=5, most_bytes=1_000)
    watch.begin(0)
    begun = []
    now_s = 0.0
    while now_s < 100:
        if watch.due(now_s).begins_round:
            begun.append(now_s)
            now_s += 20
        now_s += 0.5
    assert begun == [0, 41, 82]


def test_a_new_name_does_not_wait_for_the_next_round_but_many_do_not_make_many_rounds() -> None:
    watching = Watching(Cluster())
    watching.go_on(10)
    watching.rounds.clear()
    for number in range(200):
        watching.watch.pictured(f"g{number}", 0, [known(f"t{number}")])
        watching.step()
    assert len(watching.rounds) <= 8


def test_an_answer_that_cannot_be_read_counts_as_none() -> None:
    watching = Watching(Cluster(t=(NONE, 1, 12)))
    watching.watch.pictured("g", 0, [known("t")])
    (part,) = watching.watch.due(watching.now_s).parts
    with pytest.raises(MalformedAnswerError):
        watching.watch.told(part, b"\x05")
    watching.watch.missed(part)
    assert watching.go_on(6) == [Record("g", 0, Differences(topics=(facts("t", 1, 12),)))]


def test_what_brokers_said_before_another_coordinator_had_its_turn_is_old() -> None:
    cluster = Cluster()
    watching = Watching(cluster)
    watching.watch.pictured("g", 3, [known("t", 1)])
    watching.go_on(20)
    # Meanwhile the topic is made again, and the other one has told the group.
    cluster.topics["t"] = (NONE, 2, 3)
    watching.watch.begin(watching.now_s)
    watching.watch.pictured("g", 4, [known("t", 2, 3)])
    assert watching.go_on(60) == []


def test_groups_that_name_too_many_topics_are_left_out_until_there_is_room() -> None:
    cluster = Cluster(a=(NONE, 1, 1))
    watching = Watching(cluster, Watch(interval_s=5, most_bytes=1_000, most_pairs=3))
    watching.watch.pictured("small", 0, [known("a")])
    watching.watch.pictured("large", 0, [known("a"), known("b"), known("c")])
    assert watching.watch.left_out == {"large"}
    assert [record.group_id for record in watching.go_on(2)] == ["small"]
    watching.watch.pictured("small", 1, [known("a"), known("b"), known("c"), known("d")])
    assert watching.watch.left_out == {"large", "small"}
    assert len(watching.watch.watched) == 0
    watching.watch.pictured("large", 0, [known("a"), known("b"), known("c")])
    watching.watch.left("small")
    assert watching.watch.left_out == set()
    assert [record.group_id for record in watching.go_on(6)] == ["large"]
