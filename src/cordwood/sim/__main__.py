"""`python -m cordwood.sim --seeds 0..1000`: histories of a node that is crashed and started again, judged."""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from enum import Enum
from functools import partial
from typing import Annotated, NamedTuple

import typer

from .record_life import life
from .workload import run_seed
from .workloads import WORKLOADS

app = typer.Typer(add_completion=False)

# Handed to a worker at once.
_CHUNK = 5

# Names of workloads.
Name = Enum("Name", {name: name for name in WORKLOADS})  # type: ignore[misc]
_NODE = Name("node")


class Outcome(NamedTuple):
    """The part of a result that is passed between processes."""

    workload: str
    seed: int
    violations: list[str]
    summary: str
    digest: str
    # The starts, faults and leaders of a cluster.
    timeline: str
    tail: str
    # The life of the first record that a violation names.
    life: str


@app.command()
def main(
    seeds: Annotated[str, typer.Option(metavar="A..B", help="From A up to, not including, B; or one seed.")],
    workload: Annotated[Name, typer.Option(help="The workload to run.")] = _NODE,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = os.cpu_count() or 1,
    keep_going: Annotated[bool, typer.Option(help="Run all seeds, also after one has failed.")] = False,
) -> None:
    """Run a node through histories of crashes, and judge what its clients saw. A failure prints how to replay it.

    Examples:

      python -m cordwood.sim --seeds 0..1000

      python -m cordwood.sim --workload transactions --seeds 17
    """
    try:
        chosen = parse_seeds(seeds)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--seeds") from error
    failed = 0
    with typer.progressbar(length=len(chosen), label="seeds", show_pos=True) as progress:
        for outcome in _outcomes(workload.value, chosen, jobs):
            progress.update(1)
            if outcome.violations:
                failed += 1
                typer.echo("\n" + describe(outcome))
                if not keep_going:
                    break
            elif len(chosen) == 1:
                typer.echo(f"\nseed {outcome.seed}: {outcome.summary}\ntrace {outcome.digest}")
    if failed:
        raise typer.Exit(1)
    typer.echo(f"{len(chosen)} histories: nothing lost, nothing twice, nothing out of order")


def parse_seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last) if dots else int(first) + 1)
    except ValueError:
        raise ValueError(f"{text!r} is not A..B, two numbers, nor one number") from None
    if not seeds:
        raise ValueError(f"{text!r} has no seed in it: B has to be more than A")
    return seeds


def outcome_of(seed: int, workload: str = "node") -> Outcome:
    result = run_seed(seed, workload)
    return Outcome(
        workload,
        seed,
        [str(one) for one in result.violations],
        result.summary(),
        result.digest,
        result.timeline,
        result.tail,
        next(filter(None, (life(result.history, str(one)) for one in result.violations)), ""),
    )


def describe(outcome: Outcome) -> str:
    shown = outcome.violations[:10]
    more = len(outcome.violations) - len(shown)
    return "\n".join(
        [
            f"seed {outcome.seed} of {outcome.workload} failed: {outcome.summary}",
            "",
            *(f"  VIOLATED  {violation}" for violation in shown),
            *([f"  and {more} more"] if more else []),
            "",
            *(["the cluster's history:", outcome.timeline, ""] if outcome.timeline else []),
            *(["the record's life:", outcome.life, ""] if outcome.life else []),
            "the end of its trace:",
            outcome.tail,
            "",
            f"replay it: python -m cordwood.sim --workload {outcome.workload} --seeds {outcome.seed}",
        ]
    )


def _outcomes(workload: str, seeds: range, jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(seeds) == 1:
        yield from map(partial(outcome_of, workload=workload), seeds)
        return
    chunks = [list(seeds[at : at + _CHUNK]) for at in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(max_workers=min(jobs, len(chunks))) as pool:
        futures = [pool.submit(_outcomes_of, workload, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _outcomes_of(workload: str, seeds: list[int]) -> list[Outcome]:
    return [outcome_of(seed, workload) for seed in seeds]


if __name__ == "__main__":
    app()
