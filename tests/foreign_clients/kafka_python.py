"""kafka-python, imported without the warnings of its import: it reads its schemas in a way that is deprecated."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (  # type: ignore[import-untyped]
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
        errors,
    )
    from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "CooperativeStickyAssignor",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "RangePartitionAssignor",
    "RoundRobinPartitionAssignor",
    "TopicPartition",
    "errors",
]
