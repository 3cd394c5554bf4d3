"""Requests of nodes on their own behalf: registrations, heartbeats, producer ids, ISRs, directories."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import alter_partition as partitions
from cordwood.metadata.controller import brokers, directories, producer_ids
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from cordwood.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from cordwood.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from cordwood.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse


@handles(ControllerRegistrationRequest)
async def controller_registration(
    controller: Controller, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    return await controller.decide(lambda image: brokers.register_controller(image, request))


@handles(BrokerRegistrationRequest)
async def broker_registration(
    controller: Controller, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    return await controller.decide_on_members(
        lambda members, image: members.register(
            image, request, cluster_id=controller.cluster_id, next_offset=controller.next_offset
        )
    )


@handles(BrokerHeartbeatRequest)
async def broker_heartbeat(
    controller: Controller, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    connection = context.connection
    connection_id = None if connection is None else connection.id
    response = await controller.decide_on_members(
        lambda members, image: members.heartbeat(image, request, connection_id, controller.next_offset)
    )
    if connection is not None:
        # It may be closed already; then the controller is notified at once.
        controller.watch(connection, request.broker_id)
    return response


@handles(AllocateProducerIdsRequest)
async def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    return await controller.decide(lambda image: producer_ids.allocate_producer_ids(image, request))


@handles(AlterPartitionRequest)
async def alter_partition(
    controller: Controller, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    return await controller.decide(lambda image: partitions.alter_partition(image, request, controller.defaults))


@handles(AssignReplicasToDirsRequest)
async def assign_replicas_to_dirs(
    controller: Controller, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    return await controller.decide(
        lambda image: directories.assign_replicas_to_dirs(image, request, controller.defaults)
    )
