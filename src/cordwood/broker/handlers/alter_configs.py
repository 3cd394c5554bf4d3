"""AlterConfigs: see `metadata.answers.alter_configs`."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.answers import alter_configs as answers
from cordwood.net.api import Call, handles
from cordwood.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(AlterConfigsRequest)
async def alter_configs(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    return await answers.alter_configs(
        request, broker.config, broker.image, lambda wanted: broker.controller.ask(wanted, call)
    )
