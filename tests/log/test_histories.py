"""The log against a list, over random histories with crashes. `--histories N` runs more than the usual number."""

import pytest

from tests.log.history import History

_CHUNK = 50


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    total = metafunc.config.getoption("histories")
    metafunc.parametrize("first_seed", range(0, total, _CHUNK))


def test_a_log_contains_all_flushed_records_and_only_written_ones(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + _CHUNK):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
