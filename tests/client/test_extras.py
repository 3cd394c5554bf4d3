"""Errors of an installation without extras: one sentence with what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

import cordwood.testing


def error_without(module: str, code: str, *, exit_code: int = 1) -> str:
    """The last line on the error stream where `module` is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.modules[{module!r}] = None\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, done
    return done.stderr.splitlines()[-1]


NO_PYARROW = "ImportError: Arrow needs pyarrow, which is not installed: pip install 'cordwood[arrow]'"
BLOCKING = """
import cordwood
import cordwood.testing
with cordwood.testing.node() as node:
    {}
"""


@pytest.mark.parametrize(
    "code",
    [
        BLOCKING.format(
            "next(cordwood.Consumer(node.topic(), bootstrap_servers=node.bootstrap, group_id='g').arrow())"
        ),
        BLOCKING.format("cordwood.Producer(bootstrap_servers=node.bootstrap).send_arrow([], node.topic())"),
        "from cordwood.wire.arrow import to_arrow\nto_arrow(b'')",
    ],
    ids=["Consumer.arrow", "Producer.send_arrow", "to_arrow"],
)
def test_arrow_without_pyarrow_names_the_package_to_install(code: str) -> None:
    assert error_without("pyarrow", code) == NO_PYARROW


@pytest.mark.parametrize(
    "code",
    [
        "from cordwood.spark import session",
        "import cordwood.spark\ncordwood.spark.session()",
        "import cordwood.spark\ncordwood.spark.run",
    ],
)
def test_spark_without_pyspark_names_the_package_to_install(code: str) -> None:
    told = "ImportError: cordwood.spark needs pyspark, which is not installed: pip install 'cordwood[spark]'"
    assert error_without("pyspark", code) == told


@pytest.mark.parametrize(
    ("package", "code", "told"),
    [
        (
            "fastavro",
            "from cordwood.registry import Serializer",
            "ImportError: cordwood.registry.Serializer needs fastavro, which is not installed: "
            "pip install 'cordwood[registry]'",
        ),
        (
            "pyarrow",
            "from cordwood.registry import arrow_type",
            "ImportError: cordwood.registry.arrow_type needs pyarrow, which is not installed: "
            "pip install 'cordwood[arrow,registry]'",
        ),
    ],
)
def test_schemas_without_their_packages_name_what_to_install(package: str, code: str, told: str) -> None:
    assert error_without(package, code).replace("cordwood.registry.packages.PackagesMissing", "ImportError") == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["consume", "orders", "-n", "1", "--registry", "http://127.0.0.1:1"],
            "cordwood: this needs google.protobuf, which is not installed: pip install 'cordwood[registry]'",
        ),
        (
            ["produce", "orders", "--registry", "http://127.0.0.1:1"],
            "cordwood: this needs google.protobuf, which is not installed: pip install 'cordwood[registry]'",
        ),
        (
            ["registry", "--port", "0"],
            "cordwood: a schema registry needs google.protobuf, which is not installed: "
            "pip install 'cordwood[registry]'",
        ),
    ],
    ids=["consume", "produce", "registry"],
)
def test_the_command_without_packages_for_schemas_says_what_to_install(arguments: list[str], told: str) -> None:
    with cordwood.testing.node() as node:
        node.topic("orders")
        command = ["cordwood", *arguments, "--bootstrap", node.bootstrap]
        code = f"from cordwood.cli.main import main\nsys.argv = {command!r}\nmain()"
        assert error_without("google.protobuf", code) == told


def test_a_node_whose_registry_lacks_packages_does_not_start(tmp_path: Path) -> None:
    command = ["cordwood", "up", "--port", "0", "--registry-port", "0", "--data", str(tmp_path / "data")]
    code = f"from cordwood.cli.main import main\nsys.argv = {command!r}\nmain()"
    assert error_without("jsonschema_rs", code, exit_code=2) == (
        "cordwood up: The schema registry at http://127.0.0.1:0 cannot start: a schema registry needs jsonschema_rs, "
        "which is not installed: pip install 'cordwood[registry]'"
    )
