"""PySpark's complaints that Spark has closed a pipe are silenced, and nothing else is."""

import os
import socket
import subprocess
import sys

import pytest
from pyspark.serializers import write_int

from cordwood.spark.closed_pipes import is_closed_by_spark

# A module of PySpark's that is the main one, as in a process that Spark has started.
_WORKER = """
import importlib.util, os, sys
spec = importlib.util.find_spec("pyspark.daemon")
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
sys.modules["__main__"] = main
from cordwood.spark.errors import told_plainly
with told_plainly():
    pass
from pyspark.serializers import write_int
read, written = os.pipe()
os.close(read)
pipe = os.fdopen(written, "wb", 0)
"""
_PRINTS = "\n    main.traceback.print_exc()\n    main.print('failed to flush', file=sys.stderr)\n"


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", _WORKER + program], capture_output=True, text=True).stderr


def test_a_worker_prints_nothing_about_a_pipe_closed_by_spark() -> None:
    assert run(f"try:\n    write_int(1, pipe)\nexcept OSError:{_PRINTS}") == ""
    assert run("write_int(1, pipe)") == ""


def test_errors_of_other_kinds_and_of_others_code_are_printed() -> None:
    for what in ("pipe.write(b'text')", "int('text')", "write_int('text', pipe)"):
        said = run(f"try:\n    {what}\nexcept Exception:{_PRINTS}")
        assert "Traceback" in said
        assert "failed to flush" in said
        assert "Traceback" in run(what)


def test_only_pyspark_can_find_that_spark_has_closed_a_pipe() -> None:
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "wb", 0) as pipe:
        with pytest.raises(BrokenPipeError) as closed:
            write_int(1, pipe)  # type: ignore[no-untyped-call]
        assert is_closed_by_spark(closed.value)
        with pytest.raises(BrokenPipeError) as ours:
            pipe.write(b"text")
        assert not is_closed_by_spark(ours.value)
    assert not is_closed_by_spark(None)


def test_the_pipe_may_be_the_file_of_a_socket() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, ours.makefile("wb", 0) as pipe:
        with pytest.raises(BrokenPipeError) as closed:
            write_int(1, pipe)  # type: ignore[no-untyped-call]
        assert is_closed_by_spark(closed.value)
        with pytest.raises(BrokenPipeError) as others:
            pipe.write(b"text")
        assert not is_closed_by_spark(others.value)
