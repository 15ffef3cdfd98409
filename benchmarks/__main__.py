"""`python -m benchmarks [core | offsets | latency]`: without a name all run, which takes 15 minutes."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure latency and throughput."""
    if context.invoked_subcommand is None:
        context.invoke(core)
        context.invoke(offsets)
        context.invoke(latency)


_json = click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures here, too.")


@main.command()
@_json
def core(file: Path | None) -> None:
    """Measure the protocol core alone, without Spark or Kafka: seconds."""
    from benchmarks.core import run

    run(file)


@main.command()
@click.option("--groups", default=40, show_default=True, help="Groups of each size.")
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(min=1))
@_json
def offsets(*, groups: int, rounds: int, file: Path | None) -> None:
    """Measure heartbeats in groups with many committed offsets, in the core and in the query: minutes."""
    from benchmarks.offsets import run

    run(groups, rounds, file)


@main.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--warm-up", default=30, show_default=True, help="Seconds before the first round, per stream.")
@click.option("--requests", default=150, show_default=True, help="One at a time, per round.")
@click.option("--groups", default=20, show_default=True, help="Groups of the open loop.")
@click.option("--rate", default=200, show_default=True, help="Requests per second of the open loop.")
@click.option("--seconds", default=30, show_default=True, help="Length of the open loop, per round.")
@click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting of the coordinator."
)
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
    """Measure round trips beside those of a stream that only passes records on: ten minutes."""
    from benchmarks.latency import Plan, run

    settings = dict(assignment.split("=", 1) for assignment in assignments)
    run(Plan(rounds, warm_up, requests, groups, rate, seconds), dict(settings), file)


if __name__ == "__main__":
    main()
