"""One module per API. `HANDLERS` is everything that this broker serves."""

from cordwood.broker.registry import Handler

from .api_versions import api_versions
from .fetch import fetch
from .metadata import metadata
from .produce import produce

HANDLERS: tuple[Handler, ...] = (
    produce,
    fetch,
    metadata,
    api_versions,
)
