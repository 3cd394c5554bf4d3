"""Records what `kafka-storage format` of Apache Kafka does: files, messages, exit codes.

python tools/record_formatting.py KAFKA_DIR

Writes tests/vectors/formatting.json.gz, which tests/cli/node/test_format.py compares `cordwood format` with.
"""

import base64
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "formatting.json.gz"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DYNAMIC = "controller.quorum.bootstrap.servers=localhost:9093"
STATIC = "controller.quorum.voters=1@localhost:9093,2@localhost:9094,3@localhost:9095"
NAMES = "controller.listener.names=CONTROLLER"
COMBINED = f"process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n{NAMES}"
BROKER = f"process.roles=broker\nnode.id=5\nlisteners=PLAINTEXT://:9092\n{NAMES}"
CONTROLLER = f"process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://0.0.0.0:9093\n{NAMES}"
ONE = "log.dirs=a"
SEVERAL = "log.dirs=a,b\nmetadata.log.dir=m"
OWN = "1@localhost:9093:JEXY6aqzQY-32P5TStzaFg"
OTHER = "2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A"

# Name, configuration, the arguments of one or more runs in the same directories.
CASES: list[tuple[str, tuple[str, ...], list[list[str]]]] = [
    ("no controllers named", (COMBINED, DYNAMIC, ONE), [[]]),
    ("standalone", (COMBINED, DYNAMIC, ONE), [["--standalone"], ["--standalone"], ["--standalone", "-g"]]),
    ("standalone controller", (CONTROLLER, DYNAMIC, ONE), [["--standalone"]]),
    ("advertised", (CONTROLLER, "advertised.listeners=CONTROLLER://h:7", DYNAMIC, ONE), [["--standalone"]]),
    ("standalone broker", (BROKER, DYNAMIC, ONE), [["--standalone"]]),
    ("static", (COMBINED, STATIC, ONE), [[], [], ["-g"]]),
    ("static and standalone", (COMBINED, STATIC, ONE), [["--standalone"]]),
    ("static and initial", (COMBINED, STATIC, ONE), [["--initial-controllers", OWN]]),
    ("static and none", (COMBINED, STATIC, ONE), [["--no-initial-controllers"]]),
    ("static broker", (BROKER, STATIC, SEVERAL), [[]]),
    ("initial", (COMBINED, DYNAMIC, SEVERAL), [["--initial-controllers", f"{OTHER},{OWN}"]]),
    ("initial without itself", (COMBINED, DYNAMIC, ONE), [["--initial-controllers", OTHER]]),
    ("initial at a broker", (BROKER, DYNAMIC, ONE), [["--initial-controllers", OTHER]]),
    ("none", (COMBINED, DYNAMIC, ONE), [["--no-initial-controllers"]]),
    ("broker", (BROKER, DYNAMIC, ONE), [[]]),
    ("broker and none", (BROKER, DYNAMIC, ONE), [["--no-initial-controllers"]]),
    ("static kraft.version=1", (COMBINED, STATIC, ONE), [["--feature", "kraft.version=1"]]),
    ("static kraft.version=0", (COMBINED, STATIC, ONE), [["--feature", "kraft.version=0"]]),
    ("another cluster", (COMBINED, STATIC, ONE), [[], ["-g", "--cluster-id", "another"]]),
    *(
        (f"feature {feature}", (COMBINED, DYNAMIC, ONE), [["-s", "--feature", feature]])
        for feature in (
            *("kraft.version=0", "kraft.version=1", "metadata.version=20", "metadata.version=99", "group.version=0"),
            *("transaction.version=9", "nope.version=1", "share.version=0", "streams.version=1", "foo", "foo=bar"),
        )
    ),
    *(
        (f"release {release}", (COMBINED, DYNAMIC, ONE), [["-s", "--release-version", release]])
        for release in ("3.3-IV3", "3.0-IV1", "3.5", "3.9", "4.0", "4.0-IV1", "4.1-IV0", "4.2-IV0", "4.3.1", "junk")
    ),
    ("release and version", (COMBINED, DYNAMIC, ONE), [["-s", "-r", "4.0", "--feature", "metadata.version=25"]]),
    ("too old for it", (COMBINED, DYNAMIC, ONE), [["-s", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"]]),
    ("old with it", (COMBINED, DYNAMIC, ONE), [["-s", "-r", "3.9", "-f", "transaction.version=2"]]),
    ("twice", (COMBINED, DYNAMIC, ONE), [["--initial-controllers", f"{OWN},{OWN}"]]),
    ("empty", (COMBINED, DYNAMIC, ONE), [["--initial-controllers", ","]]),
]


def main() -> None:
    kafka = Path(sys.argv[1])
    recorded = [_record(kafka, name, "\n".join(config) + "\n", runs) for name, config, runs in CASES]
    with gzip.GzipFile(VECTORS, "wb", mtime=0) as file:
        file.write(json.dumps(recorded, indent=1).encode())


def _record(kafka: Path, name: str, config: str, runs: list[list[str]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "server.properties").write_text(config)
        done = [_run(kafka, folder, arguments) for arguments in runs]
        files = {
            str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and path.name != "server.properties"
        }
    return {"name": name, "config": config, "runs": done, "files": files}


def _run(kafka: Path, folder: str, arguments: list[str]) -> dict[str, Any]:
    given = [*([] if "--cluster-id" in arguments else ["--cluster-id", CLUSTER]), *arguments]
    command = ["java", "-cp", f"{kafka}/lib/*", "kafka.tools.StorageTool", "format", "-c", "server.properties", *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("Bootstrap metadata", "2"))]
    errors = [line for line in done.stderr.splitlines() if line and not line.startswith(("\tat", "SLF4J", "2"))]
    return {"arguments": given, "status": done.returncode, "stdout": lines, "stderr": errors[:1]}


main()
