"""A Spark session with settings that fit this machine, or the cluster that it is given.

>>> spark = cordwood.spark.session()
>>> reading = spark.read.format("cordwood").option("kafka.bootstrap.servers", "localhost:9092")
"""

import os
import sys
import warnings
from collections.abc import Mapping

from pyspark.sql import SparkSession

from cordwood.spark.class_archive import use_archive
from cordwood.spark.java import provide_java
from cordwood.spark.kept_files import kept_file
from cordwood.spark.local_master import is_local, processors, tell_cores
from cordwood.spark.masters import CONNECT, LOCAL, check_master
from cordwood.spark.sink.leftovers import end_leftovers_at_exit
from cordwood.spark.worker_nursery import start_nursery
from cordwood.spark.worker_python import worker_python

_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MB = 1024 * 1024
_LEAST_MEMORY_MB, _MOST_MEMORY_MB = 1024, 4096

_ALWAYS: Mapping[str, str] = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # The source handles filters on offset, partition and timestamp.
    "spark.sql.python.filterPushdown.enabled": "true",
    # State in bounded memory; transformWithState has no other.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Limits the wait for a query that does not stop.
    "spark.sql.streaming.stopTimeout": "60s",
}

# Until the session is there and its level is set. Spark says so in two lines if the root's level is another.
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.hadoop.name = org.apache.hadoop.util.NativeCodeLoader
logger.hadoop.level = error
# A session that cannot be started is an exception, which says the same without a stack trace.
logger.context.name = org.apache.spark.SparkContext
logger.context.level = off
logger.metrics.name = org.apache.spark.metrics.MetricsSystem
logger.metrics.level = error
"""


def session(
    name: str = "cordwood",
    *,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    ui: bool = False,
    log_level: str = "ERROR",
) -> SparkSession:
    """Returns the existing session, or a new one.

    `master` is Spark's: `local[*]` runs on this machine; `spark://host:7077` and the others on a cluster; and
    `sc://host:15002` on a Spark Connect server. `settings` are Spark's and override the ones chosen here. `ui` enables
    Spark's web page. If Spark runs here, it needs a Java (`cordwood.spark.java`). Raises `BadMaster`, `NoJava`.
    """
    check_master(master)
    if master.startswith(CONNECT):
        connecting = SparkSession.builder.remote(master).appName(name)
        for key, value in {**_ALWAYS, **(settings or {})}.items():
            connecting = connecting.config(key, value)
        return connecting.getOrCreate()
    if is_local(master):
        end_leftovers_at_exit()
    prepare_environment(master, settings)
    chosen = joined_settings(session_settings(master, ui=ui, traces=log_level != "OFF"), settings or {})
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # PySpark warns about pandas 3; the parts used here are tested with it.
        warnings.filterwarnings("ignore", ".*pandas", FutureWarning)
        made = builder.getOrCreate()
    made.sparkContext.setLogLevel(log_level)
    return made


def prepare_environment(master: str = LOCAL, settings: Mapping[str, str] | None = None) -> None:
    """Sets the environment of Spark's scripts: Java, Python, for a local master the address, and a class archive if
    there is one and `settings` do not name another."""
    tell_cores(master)
    if is_local(master):
        start_nursery()
        # Workers run with the packages of their parent, wherever the path points. Spark uses the driver's variable for
        # its calls to a data source.
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            if os.environ.get(name, sys.executable) == sys.executable:
                os.environ[name] = worker_python()
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    java = provide_java()
    if is_local(master):
        use_archive(java, settings or {})


def session_settings(master: str = LOCAL, *, ui: bool = False, traces: bool = True) -> dict[str, str]:
    """Spark's settings, by its names. `traces`: log messages have Java's stack traces."""
    log4j = kept_file("log4j2.properties", _LOG4J if traces else _LOG4J.replace("%ex", "%ex{none}"))
    chosen = {
        **_ALWAYS,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log4j}",
    }
    if is_local(master):
        chosen |= {
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            # Spark's 200 are for clusters: each is a separate task in every batch.
            "spark.sql.shuffle.partitions": str(processors()),
            "spark.driver.memory": f"{driver_memory_mb(_memory_mb())}m",
            # Over TCP a task waits once or twice for an acknowledgement that comes 40 ms late: Spark sends small pieces
            # to Python, with Nagle's algorithm. PySpark before 4.1 takes no notice of this.
            "spark.python.unix.domain.socket.enabled": "true",
        }
    return chosen


def joined_settings(chosen: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Given settings override those chosen here; Java options are concatenated, and the later wins."""
    joined = {**chosen, **given}
    if _JAVA_OPTIONS in given and _JAVA_OPTIONS in chosen:
        joined[_JAVA_OPTIONS] = f"{chosen[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    return joined


def driver_memory_mb(memory_mb: int) -> int:
    """A quarter of the machine: Python's workers and brokers on the same machine need memory, too."""
    return min(max(memory_mb // 4, _LEAST_MEMORY_MB), _MOST_MEMORY_MB)


def _memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MB
