"""The log against a list, over random histories with crashes. `--histories N` runs more than the usual number."""

import pytest

from tests.log.history import History

_CHUNK = 50


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    total = metafunc.config.getoption("histories")
    metafunc.parametrize("first_seed", range(0, total, _CHUNK))


def test_a_log_holds_what_was_flushed_and_nothing_else_than_what_was_written(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + _CHUNK):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
