"""`python -m benchmarks [NAME]`: `--help` lists them; all, without a name, take six hours."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure latency and throughput."""
    if context.invoked_subcommand is None:
        for command in main.commands.values():
            if command is not draw:
                context.invoke(command)


_json = click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here, too.")


@main.command()
@_json
def core(file: Path | None) -> None:
    """Measure the protocol core alone, without Spark or Kafka: seconds."""
    from benchmarks.core import run

    run(file)


@main.command()
@_json
def consumers(file: Path | None) -> None:
    """Measure groups of the consumer protocol beside classic ones, in the core alone: a minute."""
    from benchmarks.consumers import run

    run(file)


@main.command()
@click.option("--groups", default=40, show_default=True, help="Groups of each size.")
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(min=1))
@_json
def offsets(*, groups: int, rounds: int, file: Path | None) -> None:
    """Measure heartbeats in groups with many committed offsets, in the core and in the query: minutes."""
    from benchmarks.offsets import run

    run(groups, rounds, file)


_rounds = click.option("--rounds", default=7, show_default=True, type=click.IntRange(min=1))
_few_rounds = click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
"""Where each takes many minutes, and has its neighbours right beside it."""
_beside = click.option(
    "--beside", type=click.Path(exists=True, path_type=Path), help="Another checkout with a .venv."
)
_settings = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting of all streams."
)
_WARM_UP_HELP = "Seconds, for each stream."
_warm_up = click.option("--warm-up", default=45, show_default=True, help=_WARM_UP_HELP)
_long_warm_up = click.option("--warm-up", default=120, show_default=True, help=_WARM_UP_HELP)
"""Where the stream has one core, which the compiler of its JVM shares."""


@main.command()
@click.option("--topics", default=10_000, show_default=True)
@click.option("--partitions", default=12, show_default=True, help="Of each topic.")
@_rounds
@_json
def watching(*, topics: int, partitions: int, rounds: int, file: Path | None) -> None:
    """Measure what it costs to watch the topics of consumer groups: half a minute."""
    from benchmarks.watching import Plan, run

    run(Plan(topics, partitions, rounds), file)


@main.command()
@_rounds
@click.option("--seconds", default=4.0, show_default=True, help="Of fetches, per way and round.")
@_beside
@_json
def passing(*, rounds: int, seconds: float, beside: Path | None, file: Path | None) -> None:
    """Measure what the gateway costs a client whose requests it passes on: 4 minutes."""
    from benchmarks.passing import Plan, run

    run(Plan(rounds, seconds, beside), file)


@main.command()
@click.option("--seconds", default=5.0, show_default=True, help="Of each attack.")
@_beside
@_json
def innocent(*, seconds: float, beside: Path | None, file: Path | None) -> None:
    """Measure how long a client waits at a gateway beside another one that means harm: 8 minutes."""
    from benchmarks.gateways import interpreter_of
    from benchmarks.innocent import Plan, run

    before = {} if beside is None else {"beside": interpreter_of(beside)}
    run(Plan(seconds, {**before, "here": sys.executable}), file)


@main.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@_long_warm_up
@click.option("--seconds", default=15.0, show_default=True, help="For each measurement, per round.")
@click.option(
    "--parts", default="pipelined,join,asking,5000,1000,10000", show_default=True, help="What is measured."
)
@_beside
@_json
def beating(
    *, rounds: int, warm_up: int, seconds: float, parts: str, beside: Path | None, file: Path | None
) -> None:
    """Measure what members that speak Kafka's protocol cost through the gateway: half an hour."""
    from benchmarks.beating import Plan, run

    run(Plan(rounds, warm_up, seconds, tuple(parts.split(",")), beside), file)


@main.command()
@_few_rounds
@_warm_up
@click.option("--sizes", default="1000,10000", show_default=True, help="Members.")
@click.option("--partitions", default="8,256", show_default=True, help="Of the response topic.")
@click.option("--sample", default=16, show_default=True, help="Real members among them.")
@click.option("--seconds", default=15.0, show_default=True, help="For each measurement, per round.")
@_settings
@_json
def egress(
    *,
    rounds: int,
    warm_up: int,
    sizes: str,
    partitions: str,
    sample: int,
    seconds: float,
    assignments: tuple[str, ...],
    file: Path | None,
) -> None:
    """Measure what a broker sends members that beat every 3 s, with and without answers: 15 minutes."""
    from benchmarks.egress import Plan, run

    settings = _parsed(assignments)
    run(Plan(rounds, _numbers(sizes), _numbers(partitions), sample, warm_up, seconds, settings), file)


@main.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--groups", default=10, show_default=True, help="Groups of 100 members.")
@click.option("--records", default=1_000_000, show_default=True, help="Heartbeats of the backlog.")
@click.option(
    "--bound",
    "bounds",
    multiple=True,
    type=click.IntRange(min=1),
    default=(50_000, 200_000),
    show_default=True,
    help="A `max.batch.records`.",
)
@click.option("--one-batch/--no-one-batch", default=True, help="With a bound that is the whole backlog.")
@_settings
@_json
def backlog(
    *,
    rounds: int,
    groups: int,
    records: int,
    bounds: tuple[int, ...],
    one_batch: bool,
    assignments: tuple[str, ...],
    file: Path | None,
) -> None:
    """Measure how fast a backlog is read, and in how much memory: 10 minutes."""
    from benchmarks.backlog import Plan, run

    run(Plan(rounds, groups, records, bounds, one_batch, _parsed(assignments)), file)


@main.command()
@_rounds
@click.option("--groups", default=5_000, show_default=True, help="Groups of one member.")
@click.option("--warm-up", default=5, show_default=True, help="Backlogs before the first round.")
@_json
def workers(*, rounds: int, groups: int, warm_up: int, file: Path | None) -> None:
    """Measure ways from Spark to a function in Python, those of `transformWithState` among them: minutes."""
    from benchmarks.workers import Plan, run

    run(Plan(rounds, groups, warm_up), file)


@main.command()
@_few_rounds
@click.option("--members", default=200, show_default=True, help="Each in a group of its own.")
@click.option(
    "--questions",
    multiple=True,
    type=click.IntRange(min=1),
    default=(750, 7_500),
    show_default=True,
    help="In a flood, beside none at all.",
)
@click.option("--seconds", default=30.0, show_default=True, help="Of heartbeats, in each part of a round.")
@_json
def flood(
    *, rounds: int, members: int, questions: tuple[int, ...], seconds: float, file: Path | None
) -> None:
    """Measure what a flood of questions about a large group does to others: 8 minutes."""
    from benchmarks.flood import Plan, run

    run(Plan(rounds, members, questions, seconds), file)


@main.command()
@_rounds
@_warm_up
@click.option("--requests", default=100, show_default=True, help="One at a time, per round.")
@click.option("--groups", default=20, show_default=True, help="Groups of the open loop.")
@click.option("--rate", default=200, show_default=True, help="Requests per second of the open loop.")
@click.option("--seconds", default=10, show_default=True, help="Length of the open loop, per round.")
@_settings
@_json
def latency(
    *,
    rounds: int,
    warm_up: int,
    requests: int,
    groups: int,
    rate: int,
    seconds: int,
    assignments: tuple[str, ...],
    file: Path | None,
) -> None:
    """Measure round trips beside those of streams that do less: 20 minutes."""
    from benchmarks.latency import Plan, run

    run(Plan(rounds, warm_up, requests, groups, rate, seconds), _parsed(assignments), file)


@main.command()
@_few_rounds
@_long_warm_up
@click.option("--begin", default=10_000, show_default=True, help="Groups of the first step.")
@click.option("--steps", default=14, show_default=True, help="At most; each has a tenth more groups.")
@click.option("--step", default=15, show_default=True, help="Seconds of a step.")
@_json
def groups(*, rounds: int, warm_up: int, begin: int, steps: int, step: int, file: Path | None) -> None:
    """Measure how many groups of one member a core sustains: 40 minutes."""
    from benchmarks.groups import Plan, run

    run(Plan(rounds, begin, steps, step, warm_up), file)


@main.command()
@_rounds
@_long_warm_up
@click.option("--shapes", default="100x100,10x1000", show_default=True, help="Groups, and members of each.")
@click.option("--seconds", default=5, show_default=True, help="For each rate, per round.")
@_json
def big_groups(*, rounds: int, warm_up: int, shapes: str, seconds: int, file: Path | None) -> None:
    """Measure heartbeats per CPU-second in big groups, beside the broker: an hour and a quarter.

    The stream with a batch a second has five times the warm-up.
    """
    from benchmarks.big_groups import Plan, run

    pairs = [shape.split("x") for shape in shapes.split(",")]
    run(Plan(rounds, tuple((int(groups), int(size)) for groups, size in pairs), warm_up, seconds), file)


@main.command()
@_few_rounds
@click.option("--sizes", default="3,30,300,3000", show_default=True, help="Members of a group.")
@_json
def rebalance(*, rounds: int, sizes: str, file: Path | None) -> None:
    """Measure how long groups take to be Stable, beside the broker: a quarter of an hour."""
    from benchmarks.rebalance import Plan, run

    run(Plan(rounds, _numbers(sizes)), file)


@main.command()
@_few_rounds
@click.option("--sizes", default="3,30,300,3000", show_default=True, help="Members of a group.")
@_json
def settling(*, rounds: int, sizes: str, file: Path | None) -> None:
    """Measure how long groups of the consumer protocol take to be at rest, beside the broker: 20 minutes."""
    from benchmarks.settling import Plan, run

    run(Plan(rounds, _numbers(sizes)), file)


@main.command()
@_rounds
@_warm_up
@click.option("--sizes", default="1000,10000,100000", show_default=True, help="Groups.")
@click.option("--seconds", default=10, show_default=True, help="Per round.")
@_settings
@_json
def size(
    *, rounds: int, warm_up: int, sizes: str, seconds: int, assignments: tuple[str, ...], file: Path | None
) -> None:
    """Measure what many groups cost of which nobody is heard: a quarter of an hour."""
    from benchmarks.size import Plan, run

    run(Plan(rounds, _numbers(sizes), warm_up, seconds, _parsed(assignments)), file)


@main.command()
@_rounds
@_warm_up
@click.option("--groups", default=100, show_default=True)
@click.option("--calm", default=75, show_default=True, help="Seconds of nothing before each measurement.")
@click.option("--seconds", default=15, show_default=True, help="Per round.")
@click.option("--kind", "kinds", multiple=True, help="Of the streams; by default each.")
@_settings
@_json
def idle(
    *,
    rounds: int,
    warm_up: int,
    groups: int,
    calm: int,
    seconds: int,
    kinds: tuple[str, ...],
    assignments: tuple[str, ...],
    file: Path | None,
) -> None:
    """Measure what a coordinator costs that nobody asks anything: twenty minutes."""
    from benchmarks.idle import KINDS, Plan, run

    run(Plan(rounds, groups, warm_up, calm, seconds, kinds or KINDS, _parsed(assignments)), file)


@main.command()
@click.option("--groups", default=1_000, show_default=True)
@click.option("--topics", default=100, show_default=True, help="That the groups share evenly.")
@click.option("--partitions", default=12, show_default=True, help="Of each topic.")
@click.option("--interval", default=15.0, show_default=True, help="Seconds between two measurements.")
@click.option("--intervals", default=4, show_default=True, type=click.IntRange(min=1))
@_json
def lag(
    *, groups: int, topics: int, partitions: int, interval: float, intervals: int, file: Path | None
) -> None:
    """Measure what it costs to measure the lag of many groups: 3 minutes."""
    from benchmarks.lag import Plan, run

    run(Plan(groups, topics, partitions, interval, intervals), file)


@main.command()
@_few_rounds
@click.option("--groups", default=500, show_default=True)
@click.option("--partitions", default=20, show_default=True, help="In which each group commits.")
@click.option("--commits", default=300_000, show_default=True, help="Of a backlog.")
@click.option(
    "--keys", default=1_000_000, show_default=True, help="Of a log that is read from its beginning."
)
@_json
def observe(*, rounds: int, groups: int, partitions: int, commits: int, keys: int, file: Path | None) -> None:
    """Measure what it costs to watch groups at the brokers, beside a query that only reads: 20 minutes."""
    from benchmarks.observe import Plan, run

    run(Plan(rounds, groups, partitions, commits, keys), file)


@main.command()
@_rounds
@click.option("--groups", default=10_000, show_default=True)
@click.option("--members", default=10, show_default=True, help="Of each group.")
@click.option("--events", default=100_000, show_default=True, help="Of all groups, in the last day.")
@_json
def page(*, rounds: int, groups: int, members: int, events: int, file: Path | None) -> None:
    """Measure how long the page and its API take over many groups: seconds."""
    from benchmarks.page import Plan, run

    run(Plan(rounds, groups, members, events), file)


@main.command()
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(min=1))
@click.option("--groups", default=20, show_default=True, help="Groups of one member.")
@click.option("--rate", default=20.0, show_default=True, help="Heartbeats per second.")
@click.option("--ways", default="standby,cold,upgrade", show_default=True, help="What is measured.")
@_settings
@_json
def failover(
    *, rounds: int, groups: int, rate: float, ways: str, assignments: tuple[str, ...], file: Path | None
) -> None:
    """Measure how long nobody is answered when a coordinator is killed or upgraded: 12 minutes."""
    from benchmarks.failover import Plan, run

    run(Plan(rounds, groups, rate, tuple(ways.split(",")), _parsed(assignments)), file)


@main.command()
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--groups", default=100, show_default=True)
@click.option("--size", default=10, show_default=True, help="Members of each group.")
@_settings
@_json
def standing_by(
    *, minutes: float, groups: int, size: int, assignments: tuple[str, ...], file: Path | None
) -> None:
    """Look whether a standby takes a busy coordinator for dead: half an hour."""
    from benchmarks.standing_by import Plan, run

    run(Plan(minutes, groups, size, _parsed(assignments)), file)


@main.command()
@click.option("--minutes", default=30, show_default=True)
@click.option("--groups", default=1000, show_default=True)
@click.option("--sample", default=50, show_default=True, help="Seconds between two looks.")
@_json
def endurance(*, minutes: int, groups: int, sample: int, file: Path | None) -> None:
    """Measure whether memory, batches, checkpoint and topics stay as they are: half an hour."""
    from benchmarks.endurance import Plan, run

    run(Plan(minutes, groups, sample), file)


@main.command()
@_few_rounds
@_warm_up
@click.option("--delays", default="0,10,30", show_default=True, help="ms added to each call of the store.")
@click.option("--rate", default=2.0, show_default=True, help="Heartbeats per second.")
@click.option("--seconds", default=20.0, show_default=True, help="Per way and round.")
@_settings
@_json
def object_store(
    *,
    rounds: int,
    warm_up: int,
    delays: str,
    rate: float,
    seconds: float,
    assignments: tuple[str, ...],
    file: Path | None,
) -> None:
    """Measure what batches take whose checkpoint is on an S3 server, near and far: a quarter of an hour.

    It needs MinIO, or Go to build it with, so it is the last of all.
    """
    from benchmarks.object_store import Plan, run

    run(Plan(rounds, _numbers(delays), rate, warm_up, seconds, _parsed(assignments)), file)


@main.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("target", type=click.Path(path_type=Path, exists=True, file_okay=False))
def draw(source: Path, target: Path) -> None:
    """Draw what NAME.json in SOURCE says, each NAME a benchmark, as NAME.svg in TARGET."""
    from benchmarks.picture import draw_all

    for file in draw_all(source, target):
        click.echo(file)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _parsed(assignments: tuple[str, ...]) -> dict[str, str]:
    return dict(assignment.split("=", 1) for assignment in assignments)


if __name__ == "__main__":
    main()
