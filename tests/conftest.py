"""Options of the test suite."""

import signal

import pytest
from hypothesis import settings

# Shells start background jobs with SIGINT ignored, which processes inherit: tests that send it would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test is slow when the machine is: that is no failure.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--histories", type=int, default=2000, help="how many random histories drive the log (default: 2000)"
    )
