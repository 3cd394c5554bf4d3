"""IncrementalAlterConfigs: see `metadata.answers.incremental_alter_configs`."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.answers import incremental_alter_configs as answers
from cordwood.metadata.controller import configs
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    controller: Controller, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    async def decide(wanted: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        return await controller.decide(
            lambda image: configs.incremental_alter_configs(image, wanted, controller.config_schema)
        )

    return await answers.incremental_alter_configs(
        request, controller.config, controller.image, decide, takes_others=True
    )
