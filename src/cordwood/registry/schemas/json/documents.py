"""The documents of a schema, itself and its references, and the resolution of `$ref` in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from cordwood.registry.schemas.schema import InvalidSchema

Spot = tuple[Any, str]
"""A schema within a document, and the base URI that holds there."""

_ANCHORS = ("$anchor", "$dynamicAnchor")
# Their values are data, even if they look like schemas.
_DATA = frozenset(["enum", "const", "default", "examples", "example"])


class Documents:
    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self._by_uri: dict[str, Spot] = {}
        self._bases: dict[int, str] = {}
        self.root_base = self._add(root, "")
        for name, document in others.items():
            base = self._add(document, name)
            # Also by the name of the reference, regardless of its own `$id`.
            self._by_uri.setdefault(name, (document, base))

    def _add(self, document: Any, name: str) -> str:
        base = _identified(document, name)
        self._by_uri.setdefault(base, (document, base))
        self._index(document, base)
        return base

    def _index(self, root: Any, base: str) -> None:
        """Without recursion: a document may be nested as deeply as JSON allows."""
        pending = [(root, base)]
        while pending:
            node, base = pending.pop()
            if isinstance(node, list):
                pending += [(each, base) for each in node]
            if not isinstance(node, dict):
                continue
            base = _identified(node, base)
            self._bases[id(node)] = base
            self._by_uri.setdefault(base, (node, base))
            for keyword in _ANCHORS:
                anchor = node.get(keyword)
                if isinstance(anchor, str):
                    self._by_uri.setdefault(f"{urldefrag(base).url}#{anchor}", (node, base))
            identifier = node.get("$id", node.get("id"))
            if isinstance(identifier, str) and identifier.startswith("#"):
                # Draft 4 to 7: an anchor.
                self._by_uri.setdefault(f"{urldefrag(base).url}{identifier}", (node, base))
            pending += [(value, base) for key, value in node.items() if key not in _DATA]

    def base_of(self, node: Any, otherwise: str) -> str:
        """The base URI within a schema of these documents."""
        return self._bases.get(id(node), otherwise)

    def resolve(self, reference: str, base: str) -> Spot:
        """Raises `InvalidSchema`."""
        try:
            uri = urljoin(base, reference) if reference != "#" else urldefrag(base).url
        except ValueError as error:
            raise InvalidSchema(f"$ref {reference!r} is not a URI: {error}") from None
        document_uri, fragment = urldefrag(uri)
        for candidate in (uri, reference):
            if candidate in self._by_uri:
                return self._by_uri[candidate]
        for candidate in (document_uri, urldefrag(reference).url, document_uri.rstrip("/")):
            if candidate in self._by_uri:
                document, document_base = self._by_uri[candidate]
                if not fragment:
                    return document, document_base
                if fragment.startswith("/"):
                    return self._at(document, document_base, fragment, reference)
        raise InvalidSchema(f"Unresolved $ref {reference!r}: no schema or reference has this name")

    def _at(self, document: Any, base: str, pointer: str, reference: str) -> Spot:
        node = document
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise InvalidSchema(f"Unresolved $ref {reference!r}: there is nothing at {key!r}")
            base = self._bases.get(id(node), base)
        return node, base


def _identified(node: Any, base: str) -> str:
    """The base URI within a schema."""
    if not isinstance(node, dict):
        return base
    identifier = node.get("$id", node.get("id"))
    if not isinstance(identifier, str) or identifier.startswith("#"):
        return base
    try:
        return urldefrag(urljoin(base, identifier)).url
    except ValueError:
        return base
