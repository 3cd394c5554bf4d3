"""Options of the test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--histories", type=int, default=2000, help="how many random histories drive the log (default: 2000)"
    )
