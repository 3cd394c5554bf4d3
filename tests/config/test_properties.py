"""The syntax of java.util.Properties: the rules of its documentation, and what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.config.properties import BadProperties, parse_properties, write_properties

# Blanks, separators, escapes and line ends more often than chance would have them.
TEXT = st.text(st.sampled_from(" \t\f\r\n\\=:#!aü€𝄞\u0085\u2028") | st.characters(), max_size=12)


@pytest.mark.parametrize(
    "line", ["Truth = Beauty", " Truth:Beauty", "Truth                    :Beauty", "Truth Beauty", "Truth\tBeauty"]
)
def test_a_key_ends_at_an_equals_sign_a_colon_or_a_blank(line: str) -> None:
    assert parse_properties(line) == {"Truth": "Beauty"}


def test_a_backslash_continues_a_line_and_drops_the_next_indent() -> None:
    text = "fruits                           apple, banana, pear, \\\n     cantaloupe, watermelon, \\\r\n\tkiwi, mango"
    assert parse_properties(text) == {"fruits": "apple, banana, pear, cantaloupe, watermelon, kiwi, mango"}


def test_an_even_number_of_backslashes_ends_no_line_early() -> None:
    assert parse_properties("path=C:\\\\\nnext=1") == {"path": "C:\\", "next": "1"}


def test_a_continuation_line_may_look_like_a_comment() -> None:
    assert parse_properties("a=1\\\n#2") == {"a": "1#2"}


def test_comments_have_no_continuation_lines() -> None:
    assert parse_properties("# a \\\nb=1\n  ! c=2\n\n   \n") == {"b": "1"}


def test_a_backslash_at_the_end_of_the_text_is_dropped() -> None:
    assert parse_properties("a=b\\") == {"a": "b"}


def test_a_key_alone_has_an_empty_value() -> None:
    assert parse_properties("cheeses\nwines=\nbreads:") == {"cheeses": "", "wines": "", "breads": ""}


def test_separators_in_a_key_are_escaped() -> None:
    assert parse_properties(r"\:\=\ a=b") == {":= a": "b"}


def test_only_the_first_separator_counts() -> None:
    assert parse_properties("a==b=c:d") == {"a": "=b=c:d"}
    assert parse_properties("a = : b") == {"a": ": b"}


def test_blanks_after_a_value_are_part_of_it() -> None:
    assert parse_properties("a = b  ") == {"a": "b  "}


def test_escapes_and_unknown_escapes() -> None:
    assert parse_properties(r"a=\t\n\r\f\\\b\q\"") == {"a": '\t\n\r\f\\bq"'}


def test_unicode_escapes_and_pairs_of_them() -> None:
    assert parse_properties(r"a=\u00fc\u20AC\ud834\udd1e") == {"a": "ü€𝄞"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"\uxyza=1"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(BadProperties, match=r"Malformed \\uxxxx encoding"):
        parse_properties(text)


def test_the_last_value_of_a_repeated_key_counts() -> None:
    assert parse_properties("a=1\na=2") == {"a": "2"}


def test_only_the_line_ends_of_files_end_a_line() -> None:
    assert parse_properties("a=1\rb=2\r\nc=3\u2028d") == {"a": "1", "b": "2", "c": "3\u2028d"}


def test_it_writes_as_java_does() -> None:
    assert write_properties({" a b": " c d", "ü": "𝄞#"}, "made\nhere") == (
        "#made\n#here\n\\ a\\ b=\\ c d\n\\u00FC=\\uD834\\uDD1E\\#\n"
    )


@given(st.dictionaries(TEXT, TEXT, max_size=5), st.none() | TEXT)
def test_written_values_read_back(properties: dict[str, str], comment: str | None) -> None:
    written = write_properties(properties, comment)
    assert written.isascii()
    assert parse_properties(written) == properties


@given(TEXT)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except BadProperties:
        return
    assert parse_properties(write_properties(properties)) == properties
