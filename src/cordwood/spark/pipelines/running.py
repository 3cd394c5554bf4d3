"""**run_pipeline**: starts a pipeline's queries, shows their progress, and stops them."""

import json
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cordwood.client.errors import ClientError
from cordwood.spark.errors import SparkError, advised
from cordwood.spark.masters import LOCAL
from cordwood.spark.pipelines.display import Display, display
from cordwood.spark.pipelines.failure import sentence
from cordwood.spark.pipelines.figures import QueryFigures
from cordwood.spark.pipelines.outages import Outages
from cordwood.spark.pipelines.pipeline_file import Pipeline
from cordwood.spark.reports import listening
from cordwood.spark.sessions import session
from cordwood.spark.sink.leftovers import Leftovers

LOOK_EVERY_S = 0.5


class PipelineFailed(SparkError):
    """A query ended with an error, or could not be started."""


def run_in_session(
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    *,
    name: str,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    ui: bool = False,
    log_level: str = "OFF",
) -> None:
    """Calls `run_pipeline` in a new session, with a progress display. Ends open transactions on the way out. Raises
    `NoJava`, too."""
    watched = Watched()
    _drop_py4j_logs()
    with listening(watched.take):
        try:
            spark = session(name, master=master, settings=settings, ui=ui, log_level=log_level)
        except (PySparkException, Py4JError) as error:
            raise PipelineFailed(f"Spark did not start on {master}: {sentence(error)}") from error
        # PySpark's own handler calls Java in the middle of another call to Java.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with display() as shown:
                run_pipeline(pipeline, spark, arguments, shown, watched)
        finally:
            _stop_session(spark)
            for line in watched.leftovers.end():
                print(line, file=sys.stderr, flush=True)


def _stop_session(spark: SparkSession) -> None:
    """Stops Spark. Ctrl-C reaches Java as well as this process: if Java ends first, there is nothing left to stop."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
        with suppress(Py4JError, ConnectionError):
            spark.stop()


class Watched:
    """Reports of a pipeline's processes."""

    def __init__(self) -> None:
        self.leftovers = Leftovers()
        self._outages = Outages()
        self._reports: SimpleQueue[Mapping[str, Any]] = SimpleQueue()

    def take(self, report: Mapping[str, Any]) -> None:
        """In any thread."""
        self.leftovers.take(report)
        self._reports.put(report)

    def outages(self) -> Outages:
        while not self._reports.empty():
            self._outages.take(self._reports.get())
        return self._outages


def run_pipeline(
    pipeline: Pipeline, spark: SparkSession, arguments: Mapping[str, Any], shown: Display, watched: Watched
) -> None:
    """Runs until all queries have ended, or until Ctrl-C or SIGTERM; then stops all of them. Raises `PipelineFailed`;
    errors of the pipeline's own code are passed on. A second Ctrl-C, and one before there is a query, is a
    KeyboardInterrupt.
    """
    try:
        started = pipeline(spark, **arguments)
    except PySparkException as error:
        raise PipelineFailed(sentence(error)) from error
    except ClientError as error:
        raise PipelineFailed(advised(error)) from error
    queries = _queries(started, spark)
    figures = [QueryFigures(query.name or f"query {index}") for index, query in enumerate(queries, start=1)]
    with _stop_asked() as stop:
        try:
            while any(query.isActive for query in queries) and not stop.is_set():
                _look(queries, figures, shown, watched.outages())
                if not stop.is_set():
                    _raise_failure(queries)
                stop.wait(LOOK_EVERY_S)
        finally:
            for query in queries:
                query.stop()
            # Ctrl-C interrupts processes of Spark, too: their errors during shutdown are not failures.
            _look(queries, figures, shown, watched.outages(), is_stopped=stop.is_set())
        if not stop.is_set():
            _raise_failure(queries)


def _queries(started: StreamingQuery | Iterable[StreamingQuery] | None, spark: SparkSession) -> list[StreamingQuery]:
    """Those that it returned, and others that it has started and that still run."""
    # Those of Spark Connect are of another class.
    returned = list(started) if isinstance(started, Iterable) else [started] if started is not None else []
    known = {query.id for query in returned}
    return returned + [query for query in spark.streams.active if query.id not in known]


def _look(
    queries: Sequence[StreamingQuery],
    figures: Sequence[QueryFigures],
    shown: Display,
    outages: Outages,
    *,
    is_stopped: bool = False,
) -> None:
    for query, figure in zip(queries, figures, strict=True):
        last = query.lastProgress
        if last is not None and figure.is_new(last.timestamp):
            for progress in query.recentProgress:
                figure.add(json.loads(progress.json))
            figure.progressed_s = outages.now_s()
        figure.status = _status(query, outages.hold_up(figure.progressed_s), is_stopped)
    shown.show(figures, outages)


def _status(query: StreamingQuery, is_held_up: bool, is_stopped: bool) -> str:
    if query.isActive:
        return "waiting for brokers" if is_held_up else "running"
    return "failed" if not is_stopped and query.exception() is not None else "ended"


def _raise_failure(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise PipelineFailed(f"{query.name}: {sentence(error)}" if query.name else sentence(error))


def _drop_py4j_logs() -> None:
    """Keeps Py4J's tracebacks off the error stream, until the process ends.

    Py4J logs each call to Java that fails and raises as well, so nothing is lost. Ctrl-C ends Java together with this
    process: Py4J then logs the interrupted call, and from another thread each Java object that it cannot release.
    """
    for name in (None, "py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(name).addFilter(_is_not_from_py4j)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def _stop_asked() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM. Spark's own handler would cancel the jobs of queries, which then fail."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
