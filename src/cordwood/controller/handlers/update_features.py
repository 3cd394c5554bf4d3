"""UpdateFeatures: finalized levels of features go up, or down where nothing is lost by that; all of them, or none.

Version 0 says by a flag whether a level may go down; version 1 says how, and can have it checked only. Up to version 1
each feature has its own result, from version 2 on there is one for the whole. The timeout is not looked at, as in
Kafka. kraft.version can go up from 0 to 1: the voters of controller.quorum.voters enter the metadata log, and can be
changed from then on.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import features
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(UpdateFeaturesRequest)
async def update_features(
    controller: Controller, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    return await controller.decide(
        lambda image: features.update_features(
            image,
            request,
            controller.id,
            controller.defaults,
            kraft_version=controller.kraft_version,
            upgrade_kraft_version=lambda level: controller.upgrade_kraft_version(
                level, validate_only=request.validate_only
            ),
        )
    )
