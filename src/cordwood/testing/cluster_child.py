"""The process of a `LocalCluster`: it forks the nodes, and kills and starts single ones on command. Its setup and then
commands come as lines of JSON on stdin; it answers each on stdout. The end of stdin, when the test process exits, stops
all nodes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from cordwood.broker.start.consent import StartConsent
from cordwood.config.layers import Layer
from cordwood.local.folder import BadFolder, ClusterFolder
from cordwood.local.layout import Layout
from cordwood.local.node_child import run_node
from cordwood.local.supervisor import ChildFailed, Program, Report, Supervisor
from cordwood.testing.assembly import TEST_DEFAULTS

_STDIN = 0
_HOST = "127.0.0.1"


def main() -> None:
    setup = json.loads(_read_line())
    layout = Layout(setup["brokers"], setup["controllers"])
    try:
        folder = ClusterFolder.open_or_create(Path(setup["data"]), layout, _HOST, 0)
    except BadFolder as error:
        _say({"error": str(error)})
        return
    extra = Layer("the defaults for tests", TEST_DEFAULTS), Layer("settings", setup["settings"])

    def run(number: int, report: Report, supervisor: int) -> int:
        member = folder.members[number]
        logging.basicConfig(
            level=setup["log_level"].upper(),
            format=f"%(asctime)s node {member.id}: %(levelname)s %(name)s: %(message)s",
            stream=sys.stderr,
        )
        # Commands are for the supervisor only. Descriptor 0 stays taken: libuv takes no file there.
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), _STDIN)
        return run_node([*folder.layers(member), *extra], StartConsent(), report, supervisor)

    programs = [
        Program(str(member.id), partial(run, number), member.stop_stage) for number, member in enumerate(folder.members)
    ]
    with Supervisor(programs, restarts=False) as supervisor:
        try:
            ready = supervisor.start()
        except ChildFailed as error:
            _say({"error": str(error)})
            return
        brokers = {str(member.id): ready[str(member.id)]["bootstrap"] for member in folder.members if member.is_broker}
        _say({"brokers": brokers, "pids": {name: supervisor.pid(name) for name in ready}})
        supervisor.watch((_STDIN, partial(_obey, supervisor)))


def _obey(supervisor: Supervisor) -> bool:
    line = _read_line()
    if not line:
        return False
    command: dict[str, Any] = json.loads(line)
    name = command["node"]
    try:
        if command["do"] == "kill":
            supervisor.kill(name)
        elif command["do"] == "stop":
            supervisor.stop_children([name])
        elif supervisor.pid(name) is None:
            supervisor.start_child(name)
        _say({"pid": supervisor.pid(name)})
    except ChildFailed as error:
        _say({"error": str(error)})
    return True


def _read_line() -> bytes:
    """Byte by byte: a buffered reader would take what follows the line, too."""
    line = bytearray()
    while (byte := os.read(_STDIN, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _say(said: dict[str, Any]) -> None:
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
