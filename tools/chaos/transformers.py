"""Processes that transform a topic in transactions, started again whenever they end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

from chaos.gaps import GapMeter
from chaos.transformer import STALLED, TransformerSpec

_PATIENCE_S = 60.0
_PAUSE_S = 0.2


class Transformer:
    """One of them at a time, under one transactional id. `ends` has the reasons of those that ended early."""

    def __init__(self, spec: TransformerSpec, meter: GapMeter, log: Path) -> None:
        self.spec = spec
        self.commits = 0
        self.stalls = 0
        self.ends: list[str] = []
        self._meter = meter
        self._log = log
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name=spec.transactional_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
        self._thread.join(_PATIENCE_S)
        self.kill()

    def kill(self) -> None:
        self._stopping.set()
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "chaos.transformer", self.spec.as_text()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
                )
            assert self._process.stdout is not None
            said = ""
            for line in self._process.stdout:
                said = line.strip()
                self._note(said)
                if said.startswith("committed "):
                    self.commits += 1
                    for partition in said.removeprefix("committed ").split(","):
                        self._meter.acknowledge(int(partition))
            status = self._process.wait()
            self._note(f"ended with {status}")
            if not self._stopping.is_set():
                self.stalls += status == STALLED
                self.ends.append(f"{self.spec.transactional_id} ended with {status}: {said}")
                self._stopping.wait(_PAUSE_S)

    def _note(self, text: str) -> None:
        with self._log.open("a") as log:
            log.write(f"{datetime.now()} {text}\n")
