"""`cordwood registry`: a registry in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import cordwood.testing
from cordwood.runtime.blocking_http import exchange


def test_registry_serves_schemas_of_any_cluster_to_its_users(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who may\nme: secret\n")
    with cordwood.testing.node() as node:
        command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", node.bootstrap, "--port", "0"]
        with subprocess.Popen([*command, "--users", str(users)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            assert exchange(url, "GET", "/subjects", {}, None, 30.0).status == 401
            allowed = {"authorization": "Basic bWU6c2VjcmV0"}
            assert exchange(url, "GET", "/subjects", allowed, None, 30.0).body == b"[]"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
