"""Errors of an installation without extras: one sentence with what to install."""

import subprocess
import sys

import pytest


def error_without(module: str, code: str) -> str:
    """The last line of the traceback that `code` ends with where `module` is not installed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.modules[{module!r}] = None\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
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
