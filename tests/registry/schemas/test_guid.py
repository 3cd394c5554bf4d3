"""Guids are an MD5 over all that makes up a schema, the same in every registry."""

from __future__ import annotations

import hashlib
import uuid

from cordwood.registry.schemas.schema import Reference
from cordwood.registry.state.records import guid_of


def test_guid_of_a_text_is_its_md5() -> None:
    assert guid_of('"int"', ()) == str(uuid.UUID(bytes=hashlib.md5(b'"int"').digest()))


def test_guid_depends_on_references_metadata_and_rules_but_not_on_their_order() -> None:
    plain = guid_of("s", ())
    referring = guid_of("s", (Reference("n", "s", 1),))
    described = guid_of("s", (), {"properties": {"a": "1", "b": "2"}})
    ruled = guid_of("s", (), None, {"domainRules": [{"name": "r", "type": "CEL"}]})
    assert len({plain, referring, described, ruled}) == 4
    assert described == guid_of("s", (), {"properties": {"b": "2", "a": "1"}})
