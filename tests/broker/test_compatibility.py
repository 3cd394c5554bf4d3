"""docs/compatibility.md says what the handlers declare."""

from pathlib import Path
from typing import Any

import pytest

from cordwood.broker.handlers import HANDLERS as BROKER_HANDLERS
from cordwood.controller.handlers import HANDLERS as CONTROLLER_HANDLERS
from cordwood.net.api import Handler
from cordwood.wire.schema import Versions
from generate_compatibility import page

HANDLERS = pytest.mark.parametrize("handlers", [BROKER_HANDLERS, CONTROLLER_HANDLERS], ids=["broker", "controller"])
ROOT = Path(__file__).parent.parent.parent


def test_the_page_matches_the_handlers() -> None:
    assert page() == (ROOT / "docs" / "compatibility.md").read_text(), "run tools/generate_compatibility.py"


@HANDLERS
def test_an_api_is_handled_once(handlers: tuple[Handler[Any], ...]) -> None:
    keys = [handler.api_key for handler in handlers]
    assert len(set(keys)) == len(keys)


@HANDLERS
def test_every_stable_version_is_served(handlers: tuple[Handler[Any], ...]) -> None:
    for handler in handlers:
        stable: Versions = handler.request.stable_versions
        assert handler.advertised.low <= stable.low
        assert handler.advertised.high == stable.high
