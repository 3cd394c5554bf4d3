"""The topic that stores all schemas: created if missing, rejected if its settings could lose some."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType
from cordwood.client.admin.topics import NewTopic
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid

from .errors import UnusableTopic

_log = logging.getLogger(__name__)

DEFAULT_TOPIC = "_schemas"
_DEFAULT_REPLICAS = 3
_LIKE = "offsets.topic.replication.factor"
_LOOK_S = 0.25
_SETTING = "cordwood.registry.topic.replication.factor, or --replication-factor of cordwood registry"


class SchemasTopic(NamedTuple):
    id: Uuid
    max_batch_bytes: int


async def prepare_topic(admin: Admin, topic: str, replication_factor: int | None, timeout_s: float) -> SchemasTopic:
    """Raises `UnusableTopic`, or a `ClientError`.

    A missing topic is created once there are enough brokers: otherwise it would have fewer replicas for good, just
    because these brokers started first."""
    if topic not in await admin.list_topics(internal=True):
        await _create(admin, topic, replication_factor, timeout_s)
    await admin.until_topics_led([topic])
    described = (await admin.describe_topics([topic]))[topic]
    if len(described.partitions) != 1:
        raise UnusableTopic(
            f"Topic {topic} has {len(described.partitions)} partitions; it must have 1, so that schemas have one order"
        )
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    names = ["cleanup.policy", "max.message.bytes", "min.insync.replicas"]
    entries: list[ConfigEntry] = (await admin.describe_configs([resource], names))[resource]
    values = {entry.name: entry.value for entry in entries}
    policy = values.get("cleanup.policy")
    if policy != "compact":
        raise UnusableTopic(
            f"Topic {topic} has cleanup.policy={policy}, by which schemas are deleted after a while. Repair it with:\n"
            f"  cordwood config set topic {topic} cleanup.policy=compact"
        )
    replicas = len(described.partitions[0].replicas)
    wanted = replication_factor if replication_factor is not None else await _usual_replicas(admin)
    if replicas < wanted:
        _log.warning(
            "Topic %s has %d of %d replicas (%s): schemas cannot be written, and may be lost, when %s fails. "
            "Add replicas with cordwood reassign",
            topic,
            replicas,
            wanted,
            _SETTING,
            "its broker" if replicas == 1 else "one of its brokers",
        )
    return SchemasTopic(described.id, int(values.get("max.message.bytes") or _DEFAULT_MAX_BYTES))


_DEFAULT_MAX_BYTES = 1_048_588


async def _create(admin: Admin, topic: str, replication_factor: int | None, timeout_s: float) -> None:
    replicas = replication_factor if replication_factor is not None else await _usual_replicas(admin)
    # With three replicas one may fail: acknowledged records are on two.
    configs = {"cleanup.policy": "compact", "min.insync.replicas": str(max(1, min(2, replicas - 1)))}
    wanted = NewTopic(topic, partitions=1, replication_factor=replicas, configs=configs)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    has_told = False
    while True:
        brokers = len((await admin.describe_cluster()).brokers)
        if brokers >= replicas:
            try:
                await admin.create_topics([wanted])
            except BrokerError as error:
                if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
                # A known broker may not be able to take replicas yet.
                if error.code != ErrorCode.INVALID_REPLICATION_FACTOR:
                    raise
            else:
                return
        if loop.time() >= deadline_s:
            raise UnusableTopic(
                f"Topic {topic} must have {replicas} replicas, but the cluster has {brokers} brokers after "
                f"{timeout_s:g} s. Start more brokers, or ask for fewer replicas ({_SETTING})"
            )
        if not has_told:
            _log.warning("Topic %s needs %d replicas: waiting for as many brokers", topic, replicas)
            has_told = True
        await asyncio.sleep(_LOOK_S)
        if topic in await admin.list_topics(internal=True):
            # Another registry was quicker.
            return


async def _usual_replicas(admin: Admin) -> int:
    """The number of replicas that operators have configured for internal topics."""
    brokers = (await admin.describe_cluster()).brokers
    if not brokers:
        return _DEFAULT_REPLICAS
    resource = ConfigResource(ConfigResourceType.BROKER, str(brokers[0].id))
    try:
        entries = (await admin.describe_configs([resource], [_LIKE]))[resource]
    except ClientError as error:
        _log.info("Cannot read %s of a broker, assuming %d: %s", _LIKE, _DEFAULT_REPLICAS, error)
        return _DEFAULT_REPLICAS
    value = next((entry.value for entry in entries if entry.name == _LIKE), None)
    return int(value) if value else _DEFAULT_REPLICAS
