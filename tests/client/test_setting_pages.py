"""Settings documented elsewhere: on a page, and for type checkers."""

import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.options.configuration import setting_names
from cordwood.client.options.keywords import AdminKeywords, ConsumerKeywords, ProducerKeywords
from cordwood.client.options.security import Security
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings, Settings

ROOT = Path(__file__).parents[2]
LEVELS = {"compression_gzip_level", "compression_lz4_level", "compression_zstd_level"}


def test_the_settings_page_is_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    generator = ROOT / "tools" / "generate_client_configs.py"
    subprocess.run([sys.executable, str(generator), "--docs", str(page)], check=True)
    assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "client-configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("keywords", "kind", "more"),
    [
        (AdminKeywords, AdminSettings, set()),
        (ProducerKeywords, ProducerSettings, LEVELS),
        (ConsumerKeywords, ConsumerSettings, set()),
    ],
)
def test_type_checkers_know_all_settings(keywords: type[object], kind: type[Settings], more: set[str]) -> None:
    known = {*setting_names(kind), *Security.__dataclass_fields__, *more}
    assert keywords.__optional_keys__ == known  # type: ignore[attr-defined]
