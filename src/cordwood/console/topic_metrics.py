"""What goes in and out by topic, and how large topics are.

No more topics than `cordwood.metrics.topics.max` have figures of their own; the rest is summed up under `(other)`, a
name that no topic can have. A topic that has once been shown stays, so that its counters go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.broker.broker import Broker
from cordwood.config.own_keys import METRICS_TOPICS_ENABLE, METRICS_TOPICS_MAX
from cordwood.replica.traffic import TopicTraffic

from .exposition import Exposition, Labels

OTHER = "(other)"

_COUNTERS = (
    ("cordwood_topic_messages_in_total", "Messages appended to a topic."),
    ("cordwood_topic_bytes_in_total", "Bytes of record batches appended to a topic."),
    ("cordwood_topic_messages_out_total", "Messages sent to consumers of a topic."),
    ("cordwood_topic_bytes_out_total", "Bytes of record batches sent to consumers of a topic."),
)
# In the order of the counters.
_Figures = tuple[int, int, int, int]
_NONE: _Figures = (0, 0, 0, 0)


class TopicMetrics:
    """Counts from its start on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.replicas.count_traffic()
        self._shown: set[str] = set()
        self._other: _Figures = _NONE
        # As they were the last time: what has been added since to those not shown goes into `_other`, which so never
        # falls, also when a topic is deleted.
        self._last: dict[TopicTraffic, _Figures] = {}

    def write(self, page: Exposition, sizes: Mapping[str, int]) -> None:
        """`sizes`: of the logs here, in bytes."""
        config = self._broker.config
        if not config.flag(METRICS_TOPICS_ENABLE):
            return
        traffic = self._broker.replicas.traffic or {}
        self._choose(traffic.keys() | sizes.keys(), config.integer(METRICS_TOPICS_MAX))
        figures = {topic: _figures(counted) for topic, counted in traffic.items()}
        for topic, counted in traffic.items():
            if topic not in self._shown:
                self._other = _sum(self._other, _difference(figures[topic], self._last.get(counted, _NONE)))
        self._last = {counted: figures[topic] for topic, counted in traffic.items()}
        shown = sorted(self._shown)
        has_others = len(shown) < len(traffic.keys() | sizes.keys()) or self._other != _NONE
        for column, (name, about) in enumerate(_COUNTERS):
            page.counter(name, about)
            page.more(name, [(_labels(topic), figures.get(topic, _NONE)[column]) for topic in shown])
            if has_others:
                page.more(name, [(_labels(OTHER), self._other[column])])
        name = "cordwood_topic_log_size_bytes"
        page.gauge(name, "The size of a topic's logs here.")
        page.more(name, [(_labels(topic), sizes.get(topic, 0)) for topic in shown])
        if has_others:
            page.more(name, [(_labels(OTHER), sum(size for topic, size in sizes.items() if topic not in self._shown))])

    def _choose(self, topics: set[str], most: int) -> None:
        kept = sorted(self._shown & topics)[:most]
        new = sorted(topics.difference(kept))[: most - len(kept)]
        self._shown = {*kept, *new}


def _labels(topic: str) -> Labels:
    return (("topic", topic),)


def _figures(traffic: TopicTraffic) -> _Figures:
    return (traffic.messages_in, traffic.bytes_in, traffic.messages_out, traffic.bytes_out)


def _sum(one: _Figures, other: _Figures) -> _Figures:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3])


def _difference(one: _Figures, other: _Figures) -> _Figures:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2], one[3] - other[3])
