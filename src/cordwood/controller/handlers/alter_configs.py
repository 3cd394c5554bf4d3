"""AlterConfigs: see `metadata.answers.alter_configs`."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.answers import alter_configs as answers
from cordwood.metadata.controller import configs
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(AlterConfigsRequest)
async def alter_configs(
    controller: Controller, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    async def decide(wanted: AlterConfigsRequest) -> AlterConfigsResponse:
        return await controller.decide(lambda image: configs.alter_configs(image, wanted, controller.config_schema))

    return await answers.alter_configs(request, controller.config, controller.image, decide, takes_others=True)
