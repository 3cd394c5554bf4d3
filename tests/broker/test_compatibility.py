"""docs/compatibility.md says what the handlers declare."""

from pathlib import Path

from cordwood.broker.handlers import HANDLERS
from cordwood.wire.schema import Versions
from generate_compatibility import page

ROOT = Path(__file__).parent.parent.parent


def test_the_page_is_what_the_handlers_declare() -> None:
    assert page() == (ROOT / "docs" / "compatibility.md").read_text(), "run tools/generate_compatibility.py"


def test_an_api_is_handled_once() -> None:
    keys = [handler.api_key for handler in HANDLERS]
    assert len(set(keys)) == len(keys)


def test_every_stable_version_is_served() -> None:
    for handler in HANDLERS:
        stable: Versions = handler.request.stable_versions
        assert handler.advertised.low <= stable.low
        assert handler.advertised.high == stable.high
