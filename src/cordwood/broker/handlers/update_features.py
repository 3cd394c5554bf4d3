"""UpdateFeatures: finalized levels of features go up, or down where nothing is lost by that; all of them, or none.

Version 0 says by a flag whether a level may go down; version 1 says how, and can have it checked only. Up to version 1
each feature has its own result, from version 2 on there is one for the whole.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.deadline import within
from cordwood.broker.registry import Call, handles
from cordwood.metadata.controller import features
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@handles(UpdateFeaturesRequest)
async def update_features(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:
    controller = broker.controller
    response = await within(
        request.timeout_ms,
        controller.decide(
            lambda image: features.update_features(
                image, request, broker.id, broker.defaults, kraft_version=controller.log.quorum.kraft_version
            )
        ),
    )
    return response or UpdateFeaturesResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None, results=[])
