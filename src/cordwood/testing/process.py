"""A node in its own process, which can be killed; it ends with the test process."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from cordwood.testing import NodeError
from cordwood.testing.local_node import LocalNode, Setup

# Far longer than a start or stop takes, even on a busy machine.
_PATIENCE_S = 60.0
_SHOWN_LOG_CHARS = 4_000


class ProcessNode(LocalNode):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = ""

    @property
    def log(self) -> str:
        return self._log_path.read_text() if self._folder is not None and self._log_path.exists() else self._log

    @property
    def pid(self) -> int:
        if self._process is None:
            raise NodeError("the node is not running: it has no process id")
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._bootstrap = None
            self._process.kill()
            self._reap()

    def close(self) -> None:
        try:
            super().stop()
        finally:
            # Keep the log readable after the files are removed.
            self._log = self.log
            super().close()

    @property
    def _log_path(self) -> Path:
        assert self._folder is not None
        return self._folder / "log"

    def _start(self) -> tuple[str, str | None]:
        with self._log_path.open("ab") as log:
            # -P: a module in the tests' directory must not shadow one of ours. A separate session shields it from
            # Ctrl-C, on which the tests stop it anyway.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cordwood.testing.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        stdin, stdout = _pipes(self._process)
        setup = {
            "settings": dict(self.settings),
            "data": str(self.data.absolute()),
            "port": self._port,
            "registry_port": self._registry_port if self._has_registry else None,
            "log_level": self._log_level or "WARNING",
        }
        try:
            stdin.write(json.dumps(setup).encode() + b"\n")
            stdin.flush()
            said = self._first_line(stdout)
        except BaseException:
            self.kill()
            raise
        if "bootstrap" not in said:
            self.kill()
            raise NodeError(f"the node did not start: {said['error']}")
        return said["bootstrap"], said.get("registry")

    def _first_line(self, stdout: IO[bytes]) -> dict[str, Any]:
        readable, _, _ = select.select([stdout], [], [], _PATIENCE_S)
        line = stdout.readline() if readable else b""
        if not line:
            trouble = "it ended" if readable else f"the node was not ready after {_PATIENCE_S:g} s"
            return {"error": f"{trouble}\n{self.log[-_SHOWN_LOG_CHARS:]}"}
        said: dict[str, Any] = json.loads(line)
        return said

    def _stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        status = self._reap()
        if status:
            raise NodeError(f"the node ended with exit status {status}\n{self.log[-_SHOWN_LOG_CHARS:]}")

    def _reap(self) -> int:
        process = self._process
        assert process is not None
        self._process = None
        try:
            return process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise NodeError(f"the node did not stop within {_PATIENCE_S:g} s, and was killed\n{self.log}") from None
        finally:
            for pipe in _pipes(process):
                pipe.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
