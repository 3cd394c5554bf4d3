"""One module per API. `HANDLERS` is everything that this broker serves."""

from cordwood.broker.registry import Handler

from .api_versions import api_versions
from .metadata import metadata
from .produce import produce

HANDLERS: tuple[Handler, ...] = (
    produce,
    metadata,
    api_versions,
)
