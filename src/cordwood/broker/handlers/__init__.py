"""One module per API. `HANDLERS` is everything that this broker serves."""

from cordwood.broker.registry import Handler

from .api_versions import api_versions
from .delete_records import delete_records
from .describe_producers import describe_producers
from .fetch import fetch
from .init_producer_id import init_producer_id
from .list_offsets import list_offsets
from .metadata import metadata
from .offset_for_leader_epoch import offset_for_leader_epoch
from .produce import produce

HANDLERS: tuple[Handler, ...] = (
    produce,
    fetch,
    delete_records,
    describe_producers,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
    metadata,
    api_versions,
)
