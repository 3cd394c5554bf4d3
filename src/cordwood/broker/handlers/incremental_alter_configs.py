"""IncrementalAlterConfigs: see `metadata.answers.incremental_alter_configs`."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.answers import incremental_alter_configs as answers
from cordwood.net.api import Call, handles
from cordwood.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    return await answers.incremental_alter_configs(
        request, broker.config, broker.image, lambda wanted: broker.controller.ask(wanted, call)
    )
