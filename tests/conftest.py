"""Options of the test suite."""

import pytest
from hypothesis import settings

# A test is slow when the machine is: that is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--histories", type=int, default=2000, help="how many random histories drive the log (default: 2000)"
    )
