"""`make chaos SEED=7 MINUTES=10`: faults at random on a cluster under load, and a table of what they cost.

Exits with 1 if anything was violated; then the nodes' directories and logs stay where they are.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from types import FrameType

from chaos.checks import Kind, Violation
from chaos.cluster import NODE_IDS, ChaosCluster, DidNotHappen
from chaos.confinement import confine, is_confined
from chaos.faults import FAULTS, Fault, Scene
from chaos.network import Loopback, Namespaces, Network
from chaos.report import table
from chaos.results import CORDWOOD, KAFKA, ResultsFile
from chaos.run import Load, Run, shuffled

_SECONDS_PER_MINUTE = 60


def main() -> int:
    options = _options()
    if not options.loopback and not is_confined():
        status = confine(sys.argv[1:])
        if status is not None:
            return status
        print("No namespaces here (unshare, ip and tc, and the right to use them): nodes run on loopback addresses,")
        print("without faults of links and full disks.", flush=True)
    seed = Random().randrange(1_000_000) if options.seed is None else options.seed
    # Our clients log their retries, which are many here.
    logging.getLogger("cordwood").setLevel(logging.ERROR)
    # SIGTERM ends a run as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=options.data))
    system = KAFKA if options.kafka else CORDWOOD
    print(f"{system}, seed {seed}, {options.minutes:g} minutes, in {folder}", flush=True)
    # The folder's name is new.
    results = ResultsFile(options.results, f"seed {seed}, {folder.name}", system) if options.results else None
    violations = _run(options, seed, folder, results)
    for violation in violations:
        print(f"VIOLATION {violation}")
    print(f"{len(violations)} violations" + (f"; everything is in {folder}" if violations else ""), flush=True)
    if not violations and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if violations else 0


def _run(options: argparse.Namespace, seed: int, folder: Path, results: ResultsFile | None) -> list[Violation]:
    random = Random(seed)
    network: Network = Namespaces(NODE_IDS) if is_confined() else Loopback(NODE_IDS)
    cluster = ChaosCluster(folder, network, kafka=options.kafka, small_disks=is_confined())
    load = Load(cluster.bootstrap, folder / "clients", seed)
    scene = Scene(cluster, random, load.topics, options.hold)
    run = Run(cluster, load, scene)
    try:
        cluster.start()
        load.start()
        faults = shuffled(_faults(options.only, network, is_confined()), random)
        end = time.monotonic() + options.minutes * _SECONDS_PER_MINUTE
        while time.monotonic() < end and len(run.outcomes) < options.faults:
            fault = next(faults)
            print(f"{len(run.outcomes) + 1:4} {fault.name}", end="", flush=True)
            outcome = run.strike(fault)
            if results is not None:
                results.add(outcome)
            gaps = "  ".join(
                f"{name} {gap.overall:.1f}/{gap.worst_partition:.1f}" for name, gap in outcome.gaps.items()
            )
            print(f" ({outcome.detail}): {gaps}  in sync after {outcome.in_sync_s:.1f} s", flush=True)
        run.judge()
        run.violations += _crashes(cluster)
        if results is not None:
            results.judge(run.violations)
    except KeyboardInterrupt:
        print("\ninterrupted; histories are not judged")
    except DidNotHappen as error:
        run.violations.append(Violation(Kind.LIVENESS, str(error)))
        if results is not None:
            results.judge(run.violations)
    finally:
        load.kill()
        cluster.close()
    _print_summary(run)
    return run.violations


def _print_summary(run: Run) -> None:
    print()
    print(table(run.outcomes))
    print()
    for writer in run.load.writers:
        print(f"{writer.name}: {writer.history.count} records acknowledged")
    for each in run.load.transformers:
        ends = f"; ended {len(each.ends)} times, {each.stalls} of them stalled" if each.ends else ""
        print(f"transformer {each.spec.transactional_id}: {each.commits} transactions{ends}")
        for text in each.ends[:5]:
            print(f"    {text}")
    print(f"{len(run.outcomes)} faults")


def _faults(only: list[str], network: Network, has_small_disks: bool) -> list[Fault]:
    possible = [
        fault
        for fault in FAULTS
        if (network.has_links or not fault.needs_links) and (has_small_disks or not fault.needs_small_disk)
    ]
    return [fault for fault in possible if not only or fault.name in only]


def _crashes(cluster: ChaosCluster) -> list[Violation]:
    """Exceptions of a node's own, by its log."""
    return [
        Violation(Kind.LIVENESS, f"node {node.id} has logged {node.output.count('Traceback')} tracebacks")
        for node in cluster.nodes.values()
        if "Traceback" in node.output
    ]


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="which faults come in which order (default: any)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults (default: 10)")
    parser.add_argument("--faults", type=int, default=1_000_000, help="at most so many")
    parser.add_argument("--only", action="append", default=[], choices=[each.name for each in FAULTS])
    parser.add_argument("--hold", type=float, default=12.0, help="seconds that a fault lasts (default: 12)")
    parser.add_argument("--kafka", type=Path, help="a directory with Apache Kafka's jars in lib: Kafka's nodes instead")
    parser.add_argument("--loopback", action="store_true", help="no namespaces, even where they are possible")
    parser.add_argument("--data", type=Path, help="where the run's directory is created")
    parser.add_argument("--results", type=Path, help="append what each fault cost, and the judgement, as JSON lines")
    parser.add_argument("--keep", action="store_true", help="keep that directory")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
