"""Traffic and size by topic.

At most `cordwood.metrics.topics.max` topics have their own series; the rest is summed up as `(other)`, which is not
a valid topic name. A topic that has been shown once stays, so that its counters continue.
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
    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._other: _Figures = _NONE
        # Values at the last scrape: increments of topics that are not shown go into `_other`, which therefore never
        # decreases, even if a topic is deleted.
        self._last: dict[TopicTraffic, _Figures] = {}

    def write(self, page: Exposition, broker: Broker, sizes: Mapping[str, int]) -> None:
        """`sizes`: bytes of the logs on this broker."""
        config = broker.config
        if not config.flag(METRICS_TOPICS_ENABLE):
            return
        traffic = broker.replicas.traffic or {}
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
        page.gauge(name, "The size of a topic's logs on this broker.")
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
