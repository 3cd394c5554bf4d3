"""Each test with the fixture `run` runs on asyncio's loop and on uvloop's."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from tests.net.net_support import LOOPS, run_on


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    return partial(run_on, request.param)
