"""`cordwood pipeline`: run, init, prepare."""

import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED, fail
from cordwood.cli.framework.assignments import parse_pairs
from cordwood.cli.terminal.output import note
from cordwood.client.addresses import DEFAULT_BOOTSTRAP

FIRST_FILE = Path("first_pipeline.py")

app = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True, add_completion=False)

_BOOTSTRAP = typer.Option(
    "--bootstrap",
    "-b",
    metavar="HOST:PORT",
    envvar="CORDWOOD_BOOTSTRAP",
    help="Bootstrap brokers, separated by commas.",
)


@app.command(
    epilog="Examples:\n\n"
    "cordwood pipeline run orders.py\n\n"
    "cordwood pipeline run orders.py --set topic=orders --set window='1 minute'\n\n"
    "cordwood pipeline run orders.py --master spark://10.0.0.5:7077 --conf spark.executor.memory=4g"
)
def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A Python file with a function pipeline(spark), or the spec of a Declarative Pipeline."
        ),
    ],
    master: Annotated[
        str,
        typer.Option(
            metavar="MASTER", help="Where Spark runs: local[4], spark://host:7077, sc://host:15002 (Spark Connect), …"
        ),
    ] = "local[*]",
    arguments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of pipeline(); may be repeated."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="One of Spark's settings; may be repeated."),
    ] = None,
    bootstrap: Annotated[str | None, _BOOTSTRAP] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Serve Spark's web page.")] = False,
    log_level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Level of Spark's log on the error stream: OFF, ERROR, WARN or INFO.")
    ] = "OFF",
) -> None:
    """Run a pipeline and show its queries' progress, until they end or Ctrl-C stops them.

    --bootstrap is passed to pipeline() if it has a parameter of that name, in place of its default. A Declarative
    Pipeline's spec (.yml) is run by Spark's own command, with --master, --conf and, as an environment variable,
    --bootstrap.
    """
    given, conf = parse_pairs(arguments or [], "--set"), parse_pairs(settings or [], "--conf")
    _check_level(log_level)
    _need_spark()
    from cordwood.spark.errors import SparkError
    from cordwood.spark.masters import BadMaster, check_master
    from cordwood.spark.pipelines.declarative import is_declarative, run_declarative
    from cordwood.spark.pipelines.pipeline_file import BadPipeline, arguments_of, load_pipeline, show_to_workers
    from cordwood.spark.pipelines.running import run_in_session

    try:
        check_master(master)
        if is_declarative(file):
            servers = bootstrap or DEFAULT_BOOTSTRAP
            raise typer.Exit(run_declarative(file, master=master, settings=conf, bootstrap=servers))
        # Check before Spark is started, which takes a while.
        pipeline = load_pipeline(file)
        passed = arguments_of(pipeline, given, {} if bootstrap is None else {"bootstrap": bootstrap})
        show_to_workers(file)
        _hint_at_archive(master)
        note(f"starting Spark ({master})")
        run_in_session(
            pipeline, passed, name=file.stem, master=master, settings=conf, ui=ui, log_level=log_level.upper()
        )
    except (BadMaster, BadPipeline) as error:
        fail(str(error), EXIT_BAD_INPUT)
    except SparkError as error:
        fail(str(error), EXIT_FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001  errors of the pipeline's own code are shown to its author
        print(_traceback_from(file, error), end="", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED) from None


@app.command(epilog="Examples:\n\ncordwood pipeline init\n\ncordwood pipeline init orders.py --bootstrap broker1:9092")
def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Path to write to.")] = FIRST_FILE,
    bootstrap: Annotated[str, _BOOTSTRAP] = DEFAULT_BOOTSTRAP,
) -> None:
    """Write a first pipeline that runs as it is."""
    # Creating the text needs no Spark.
    from cordwood.spark.pipelines.first_pipeline import first_pipeline

    try:
        with file.open("x") as opened:
            opened.write(first_pipeline(str(file), bootstrap))
    except FileExistsError:
        fail(f"{file} already exists; choose another name", EXIT_BAD_INPUT)
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_BAD_INPUT)
    print(f"{file} is a first pipeline; with a node at {bootstrap} it runs as it is:")
    print(f"  cordwood pipeline run {file}")


@app.command(epilog="Examples:\n\ncordwood pipeline prepare\n\ncordwood pipeline prepare --remove")
def prepare(
    remove: Annotated[bool, typer.Option("--remove", help="Remove the archives of all versions.")] = False,
) -> None:
    """Make Spark start faster on this machine: keep an archive of its classes, some 170 MB.

    This takes a minute or two, in which Spark works against a temporary node. The archive is in the user's cache
    directory and fits this Java and this PySpark only; after an upgrade of either, the old archive is ignored.
    """
    _need_spark()
    from cordwood.spark.class_archive import archive_folder, remove_archives
    from cordwood.spark.class_archive_making import make_archive
    from cordwood.spark.errors import SparkError
    from cordwood.testing import NodeError, node

    try:
        if remove:
            print(f"removed {remove_archives() / 1e6:,.0f} MB from {archive_folder()}")
            return
        with node(subprocess=True) as started:
            made = make_archive(started.bootstrap, lambda text: print(text, file=sys.stderr, flush=True))
    except (SparkError, NodeError, OSError) as error:
        fail(str(error), EXIT_FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    print(f"{made.path}: {made.size_mb} MB")
    print(f"Spark's first row: after {made.seconds_with:.1f} s, {made.seconds_without:.1f} s without")


def _hint_at_archive(master: str) -> None:
    from cordwood.spark.class_archive import is_worth_a_hint
    from cordwood.spark.java import find_java
    from cordwood.spark.local_master import is_local

    if is_local(master) and sys.stderr.isatty() and is_worth_a_hint(find_java()):
        note("Spark starts a third faster after `cordwood pipeline prepare`, which takes a minute and 170 MB")


def _need_spark() -> None:
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        fail("pipelines run on Spark, which is not installed: pip install 'cordwood[spark]'")


def _traceback_from(file: Path, error: Exception) -> str:
    """Returns the traceback from the pipeline's own file on; earlier frames mean nothing to its author."""
    frames = traceback.extract_tb(error.__traceback__)
    path = file.resolve()
    own = next((index for index, frame in enumerate(frames) if Path(frame.filename).resolve() == path), 0)
    told = ["Traceback (most recent call last):\n", *traceback.format_list(frames[own:])]
    return "".join([*told, *traceback.format_exception_only(error)])


def _check_level(level: str) -> None:
    if level.upper() not in ("OFF", "ERROR", "WARN", "INFO", "DEBUG"):
        raise typer.BadParameter(f"{level!r} is none of OFF, ERROR, WARN, INFO", param_hint="--log-level")
