"""Actions at start-up that need the operator's consent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cordwood.metadata.image import MetadataImage
from cordwood.replica.strays import MANY_STRAYS, Unknown, unexplained

from .log_dirs import CannotStart

_NAMED = 5


class StartConsent(NamedTuple):
    """`cordwood up --allow-strays --accept-metadata-loss`."""

    # Setting aside any number of partitions that the metadata does not know.
    allow_strays: bool = False
    # Continuing although committed metadata is damaged or missing.
    accept_metadata_loss: bool = False


def check_strays(
    strays: Sequence[Unknown], image: MetadataImage, broker_id: int, consent: StartConsent, *, was_cut: bool
) -> None:
    """Raises `CannotStart` if the metadata, rather than the unknown partitions, seems to be wrong."""
    suspicious = unexplained(strays, image, broker_id)
    if consent.allow_strays or len(suspicious) <= (0 if was_cut else MANY_STRAYS):
        return
    named = ", ".join(str(stray) for stray in suspicious[:_NAMED])
    more = f" and {len(suspicious) - _NAMED} more" if len(suspicious) > _NAMED else ""
    cut = "was cut at a damage" if was_cut else "may be damaged, or older or newer than the partitions"
    raise CannotStart(
        f"the metadata does not know {len(suspicious)} of the partitions: {named}{more}. The metadata log {cut}. "
        "Restore it from a backup, or start with --allow-strays: these partitions are then renamed to ...-stray and "
        "kept, but not served"
    )
