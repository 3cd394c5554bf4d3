"""Requests of clients that a broker forwards to the controller in an Envelope."""

from __future__ import annotations

from cordwood.net.api import OwnRequest
from cordwood.net.envelope import decode_host, decode_principal, unwrap, wrap
from cordwood.net.peers.channel import Channel
from cordwood.net.principal import ANONYMOUS
from cordwood.sim.cluster import Cluster, Layout
from cordwood.sim.machine import PORT
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.envelope import EnvelopeRequest
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.controller.controllers import Stage, on_stage

CLIENT = OwnRequest(version=5, client_id="a client")


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


def test_the_request_within_is_answered_in_the_version_of_the_client() -> None:
    async def test(stage: Stage) -> None:
        request = creation("a bad name")
        answer = await stage.channel.ask(wrap(request, CLIENT))
        assert answer.error_code == ErrorCode.NONE
        created = unwrap(request, CLIENT, answer).topics[0]
        assert (created.name, created.error_code) == ("a bad name", ErrorCode.INVALID_TOPIC_EXCEPTION)

    on_stage(test)


def test_the_principal_and_the_address_of_the_client_survive() -> None:
    envelope = wrap(creation("t"), CLIENT)
    assert decode_principal(envelope.request_principal) == ANONYMOUS
    # As Kafka's DefaultKafkaPrincipalBuilder writes it.
    assert envelope.request_principal == b"\0\0\x05User\x0aANONYMOUS\0\0"
    assert decode_host(envelope.client_host_address) == "0.0.0.0"


def test_requests_that_cannot_be_forwarded_are_refused() -> None:
    async def test(stage: Stage) -> None:
        for envelope, error in (
            (wrap(BrokerHeartbeatRequest(), OwnRequest(1)), ErrorCode.INVALID_REQUEST),
            (wrap(wrap(creation("t"), CLIENT), OwnRequest(0)), ErrorCode.INVALID_REQUEST),
            (EnvelopeRequest(request_data=b"", request_principal=b"", client_host_address=bytes(4)), PRINCIPAL_ERROR),
            (_with(request_data=b"\0\x13\0\x63\0\0\0\0"), ErrorCode.UNSUPPORTED_VERSION),
            (_with(request_data=b"\0\x13\0\x05"), ErrorCode.INVALID_REQUEST),
            (_with(client_host_address=b"\x7f"), ErrorCode.INVALID_REQUEST),
        ):
            assert (await stage.channel.ask(envelope)).error_code == error

    on_stage(test)


PRINCIPAL_ERROR = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def _with(**fields: bytes) -> EnvelopeRequest:
    envelope = wrap(creation("t"), CLIENT)
    for name, value in fields.items():
        setattr(envelope, name, value)
    return envelope


def test_any_broker_takes_a_clients_request_and_gets_it_to_the_controller() -> None:
    world = World(1, limit_s=60)

    async def main() -> None:
        cluster = Cluster(world, Layout(controllers=1, brokers=2, is_combined=False), {})
        await cluster.start()
        for number, machine in enumerate(cluster.brokers.values()):
            channel = await Channel.open(world.network.host("client"), machine.name, PORT, client_id="client")
            created = await channel.request(creation(f"t{number}"), 7)
            assert created.topics[0].error_code == ErrorCode.NONE
            channel.close()

    world.run(main())


def test_a_broker_that_is_not_the_controller_changes_its_own_configuration() -> None:
    world = World(1, limit_s=60)

    async def main() -> None:
        cluster = Cluster(world, Layout(controllers=1, brokers=2, is_combined=False), {})
        await cluster.start()
        key = AlterableConfig(name="log.retention.ms", config_operation=0, value="1000")
        resource = AlterConfigsResource(resource_type=4, resource_name="2", configs=[key])
        channel = await Channel.open(world.network.host("client"), "node2", PORT, client_id="client")
        altered = await channel.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert altered.responses[0].error_code == ErrorCode.NONE, altered.responses[0].error_message
        channel.close()

    world.run(main())
