"""Keys of a broker that Kafka doesn't have. Their names begin with `cordwood.`, which none of Kafka's ever will.

They are internal in Kafka's sense: DescribeConfigs tells them only once they are set, and so answers as Kafka does.
"""

from __future__ import annotations

from cordwood.config.definition import Definition, Importance, UpdateMode
from cordwood.config.validity import Range
from cordwood.config.values import Type

METRICS_TOPICS_ENABLE = "cordwood.metrics.topics.enable"
METRICS_TOPICS_MAX = "cordwood.metrics.topics.max"
METRICS_LAG_ENABLE = "cordwood.metrics.consumer.lag.enable"
METRICS_LAG_MAX = "cordwood.metrics.consumer.lag.max"
RECONNECT_GRACE_MS = "cordwood.broker.reconnect.grace.ms"
REGISTRY_LISTENERS = "cordwood.registry.listeners"


def _definition(
    name: str,
    type_: Type,
    default: bool | int | tuple[str, ...],
    valid: Range | None = None,
    update: UpdateMode = UpdateMode.CLUSTER_WIDE,
) -> Definition:
    return Definition(name, type_, default, valid=valid, importance=Importance.LOW, update=update, internal=True)


OWN_KEYS = (
    _definition(RECONNECT_GRACE_MS, Type.INT, 300, Range(1), UpdateMode.READ_ONLY),
    _definition(METRICS_LAG_ENABLE, Type.BOOLEAN, True),
    _definition(METRICS_LAG_MAX, Type.INT, 10_000, Range(0)),
    _definition(METRICS_TOPICS_ENABLE, Type.BOOLEAN, True),
    _definition(METRICS_TOPICS_MAX, Type.INT, 1_000, Range(0)),
    _definition(REGISTRY_LISTENERS, Type.LIST, (), update=UpdateMode.READ_ONLY),
)
