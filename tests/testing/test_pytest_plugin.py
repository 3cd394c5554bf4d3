"""The pytest plugin, in sessions of pytest of its own."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"

RunPytest = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_pytest(tmp_path: Path) -> RunPytest:
    """A session over one file of tests, in an empty directory."""

    def run(tests: str, *options: str, ini: str = "[pytest]\n") -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(tests)
        (tmp_path / "pytest.ini").write_text(ini)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    return run


def test_the_examples_of_the_documentation_run(run_pytest: RunPytest) -> None:
    page = (DOCS / "testing.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (ini,) = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    (options,) = re.findall(r"```sh\npytest (.*?)\n```", page, re.DOTALL)
    session = run_pytest("\n\n".join(examples), *options.split(), ini=ini)
    assert session.returncode == 0, session.stdout + session.stderr
    assert f"{len(examples)} passed" in session.stdout


def test_all_tests_of_a_session_share_a_node_and_no_topics(run_pytest: RunPytest) -> None:
    session = run_pytest(
        """
        seen = []

        def test_one(cordwood_broker):
            seen.append((cordwood_broker.bootstrap, cordwood_broker.topic("orders")))

        def test_two(cordwood_broker):
            seen.append((cordwood_broker.bootstrap, cordwood_broker.topic("orders")))
            (first, its_topic), (second, other_topic) = seen
            assert first == second
            assert its_topic != other_topic
            assert its_topic.startswith("test-one-orders-")
        """.replace("\n        ", "\n")
    )
    assert "2 passed" in session.stdout, session.stdout


def test_the_fixture_does_not_hide_the_module(run_pytest: RunPytest) -> None:
    session = run_pytest(
        """
        import cordwood

        def test_it(cordwood_broker):
            with cordwood.Producer(bootstrap_servers=cordwood_broker.bootstrap) as producer:
                producer.send(cordwood_broker.topic(), b"x").result()
        """.replace("\n        ", "\n")
    )
    assert "1 passed" in session.stdout, session.stdout


def test_the_older_name_of_the_fixture_still_works(run_pytest: RunPytest) -> None:
    session = run_pytest("def test_it(cordwood, cordwood_broker):\n    assert cordwood is cordwood_broker\n")
    assert "1 passed" in session.stdout, session.stdout


def test_the_command_line_wins_over_the_ini_file(run_pytest: RunPytest) -> None:
    ini = "[pytest]\ncordwood_settings =\n    num.partitions=2\n    auto.create.topics.enable=false\n"
    tests = (
        "def test_it(cordwood_broker):\n"
        "    assert cordwood_broker.node.settings == {'num.partitions': '3', 'auto.create.topics.enable': 'false'}\n"
    )
    session = run_pytest(tests, "--cordwood-set", "num.partitions=3", ini=ini)
    assert "1 passed" in session.stdout, session.stdout


def test_the_nodes_log_is_shown_with_a_test_that_fails(run_pytest: RunPytest) -> None:
    session = run_pytest("def test_it(cordwood_broker):\n    assert False\n", "--cordwood-log-level", "INFO")
    assert "Log of the Cordwood node" in session.stdout
    assert "Opened 0 partitions" in session.stdout


def test_a_setting_without_a_value_is_a_usage_error(run_pytest: RunPytest) -> None:
    session = run_pytest("def test_it(cordwood_broker): pass\n", "--cordwood-set", "num.partitions")
    assert "'num.partitions' is not a setting; expected NAME=VALUE" in session.stdout


def test_an_unknown_log_level_is_a_usage_error(run_pytest: RunPytest) -> None:
    session = run_pytest("def test_it(cordwood_broker): pass\n", "--cordwood-log-level", "LOUD")
    assert "argument --cordwood-log-level: invalid choice: 'LOUD'" in session.stderr


def test_a_session_without_the_fixture_imports_nothing_of_the_node(run_pytest: RunPytest) -> None:
    session = run_pytest(
        "import sys\n\n"
        "def test_it():\n"
        "    mine = {name for name in sys.modules if name.startswith('cordwood')}\n"
        "    assert mine == {'cordwood', 'cordwood.testing', 'cordwood.testing.pytest_plugin'}\n"
    )
    assert "1 passed" in session.stdout, session.stdout
