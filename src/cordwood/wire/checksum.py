"""CRC-32C, the checksum of batches and producer snapshots, from the package `crc32c`.

Only the compiled part of that package is loaded. The whole package looks up its own version at import, which pulls in
parsers for e-mail and zip files: a twentieth of a node's start-up time, and 3 MB.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c


def _compiled_part() -> Any:
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        # A release with another layout.
        import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if not TYPE_CHECKING:
    crc32c = _compiled_part().crc32c
