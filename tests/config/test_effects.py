"""Nothing is silently ignored: of every key it is written down whether Cordwood goes by it."""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from cordwood.config.effects import SECTIONS, Effect, Section, effect_on_broker

ROOT = Path(__file__).parent.parent.parent
GENERATOR = ROOT / "tools" / "generate_configs.py"
DEFINITIONS = ROOT / "src" / "cordwood" / "config" / "definitions"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_every_key_has_an_effect(section: Section) -> None:
    missing = [
        name
        for name in section.definitions
        if not any(fnmatchcase(name, key) for rule in section.rules for key in rule.keys)
    ]
    assert missing == []


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_every_line_of_the_table_is_the_word_on_some_key(section: Section) -> None:
    """A pattern that matches nothing, or only what an earlier one has, is a mistake."""
    for rule in section.rules:
        for key in rule.keys:
            assert any(fnmatchcase(name, key) and section.rule_of(name) is rule for name in section.definitions), key


def test_an_effect_can_be_looked_up() -> None:
    assert effect_on_broker("log.retention.ms").effect is Effect.WORKS
    assert effect_on_broker("num.io.threads").effect is Effect.NEVER


def test_definitions_and_the_page_match_the_facts(tmp_path: Path) -> None:
    page = tmp_path / "configuration.md"
    subprocess.run([sys.executable, str(GENERATOR), "--into", str(tmp_path), "--docs", str(page)], check=True)
    generated = {file.name: file.read_text() for file in (tmp_path / "definitions").glob("*.py")}
    assert generated == {file.name: file.read_text() for file in DEFINITIONS.glob("*.py")}
    assert page.read_text() == (ROOT / "docs" / "configuration.md").read_text()


def test_a_rule_that_is_not_known_stops_the_generator(tmp_path: Path) -> None:
    facts = (
        '{"version": "9", "broker": [{"name": "a", "type": "INT", "valid": "odd", "importance": "LOW", "default": 1}]}'
    )
    (tmp_path / "configs.json").write_text(facts)
    ended = subprocess.run(
        [sys.executable, str(GENERATOR), str(tmp_path), "--into", str(tmp_path), "--docs", str(tmp_path / "page")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode != 0
    assert "a: no rule for what Kafka prints as 'odd'" in ended.stderr
