"""Namespaces of their own for a run: its network, its mounts and its processes end with it, however it ends.

The whole run is started again below `unshare`. When that ends, or the program that started it (also by SIGKILL), the
kernel kills all processes of the namespace, and takes back interfaces and mounts.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

_MARK = "CHAOS_CONFINED"
_TOOLS = ("unshare", "setpriv", "ip", "tc")
_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def is_confined() -> bool:
    return os.environ.get(_MARK) == "1"


def confine(arguments: list[str], module: str = "chaos") -> int | None:
    """Runs this program, which is `module`, with these arguments in its own namespaces, and returns its exit status;
    None where the machine does not allow it."""
    command = _unshare()
    if command is None:
        return None
    process = subprocess.Popen([*command, sys.executable, "-m", module, *arguments], env={**os.environ, _MARK: "1"})
    # `unshare` itself does not heed it, and its end is that of all others.
    signal.signal(signal.SIGTERM, lambda *_: process.kill())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # Ctrl-C reaches the run as well, which ends in order. A second one ends it at once.
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.kill()


def _unshare() -> list[str] | None:
    if any(shutil.which(tool) is None for tool in _TOOLS):
        return None
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *as_root, *_NAMESPACES]
    trial = "mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add trial && ip link add trial type bridge"
    tried = subprocess.run([*command, "sh", "-c", trial], capture_output=True, check=False)
    return command if tried.returncode == 0 else None
