"""`cordwood up --metrics-port`."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest


def up(data: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cordwood", "up", "--port", "0", "--data", str(data), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_ready_line_says_where_the_metrics_are(tmp_path: Path) -> None:
    with up(tmp_path, "--metrics-port", "0") as node:
        assert node.stdout is not None
        found = re.search(r"metrics at (\S+)", node.stdout.readline())
        try:
            assert found is not None
            with urllib.request.urlopen(found[1]) as page:
                assert page.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                assert re.search(rb'cordwood_info{version="[^"]+",records="(compiled|pure Python)"', page.read())
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait() == 0


def test_a_port_that_is_taken_is_named_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with up(tmp_path, "--metrics-port", str(port)) as node:
            _, stderr = node.communicate()
    assert node.returncode == 2
    assert stderr.startswith(f"cordwood up: --metrics-port {port}: cannot listen on 127.0.0.1:{port}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_wanted", [False, True])
def test_http_is_imported_only_when_used(tmp_path: Path, is_wanted: bool) -> None:
    """It would cost each node a third of its start, and megabytes."""
    options = ["--metrics-port", "0"] if is_wanted else []
    command = [sys.executable, "-X", "importtime", "-m", "cordwood", "up", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stderr is not None
        # The pipe would fill up, were it read only later.
        with ThreadPoolExecutor() as threads:
            errors = threads.submit(node.stderr.read)
            assert "is ready" in node.stdout.readline()
            node.send_signal(signal.SIGTERM)
            imported = {line.rpartition("|")[2].strip() for line in errors.result().splitlines()}
    assert "cordwood.node" in imported
    assert (imported & {"h11", "starlette", "anyio", "cordwood.net.http"} != set()) is is_wanted
