"""The topics and partitions to read: by name, by pattern, or assigned individually."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import TopicNotFound
from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.options import Options

_CHOICES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """One of the three."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    async def partitions(self, client: Client, *, missing_is_error: bool = True) -> list[TopicPartition]:
        """The current partitions, sorted. Raises `CannotRead` for missing topics or partitions."""
        if self.pattern is not None:
            # Anywhere in the name, as in Spark's connector (and not in Kafka's consumer).
            matches = re.compile(self.pattern).search
            topics = await client.all_topics()
            return _partitions(
                {name: topic for name, topic in topics.items() if not topic.is_internal and matches(name)}
            )
        names = self.names or tuple(sorted({partition.topic for partition in self.assigned}))
        there = _partitions(await _named(client, names, missing_is_error))
        if not self.assigned:
            return there
        missing = sorted(set(self.assigned) - set(there))
        if missing and missing_is_error:
            raise CannotRead(
                f"partition {missing[0].partition} of topic {missing[0].topic} does not exist or cannot be read"
            )
        return sorted(set(self.assigned) & set(there))


async def _named(client: Client, names: Collection[str], missing_is_error: bool) -> dict[str, Topic]:
    try:
        return await client.topics(names)
    except TopicNotFound as error:
        if missing_is_error:
            raise CannotRead(f"{error.subject} does not exist or cannot be read; {error.what_to_do}") from error
    # The response had the others.
    return {name: client.cluster.topics[name] for name in names if name in client.cluster.topics}


def read_choice(options: Options) -> TopicChoice:
    given = [name for name in _CHOICES if name in options]
    if len(given) != 1:
        how_many = "none is set" if not given else f"{' and '.join(given)} are set"
        raise BadOption(f"{how_many}; expected one of subscribe, subscribePattern and assign")
    text = options.text(given[0]) or ""
    if given[0] == "assign":
        return TopicChoice(assigned=_assigned(text))
    if given[0] == "subscribePattern":
        return TopicChoice(pattern=_pattern(text))
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadOption(f"subscribe is {text!r}; expected comma-separated topic names")
    return TopicChoice(names=names)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern is {text!r}, which is not a valid regular expression: {error}") from None
    if not text:
        raise BadOption("subscribePattern is empty; expected a regular expression")
    return text


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    expected = BadOption(f'assign is {text!r}; expected JSON such as {{"orders":[0,1]}}')
    try:
        told = json.loads(text)
    except ValueError:
        raise expected from None
    if not isinstance(told, dict) or not told:
        raise expected
    partitions = []
    for topic, numbers in told.items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise expected
        partitions += [TopicPartition(topic, number) for number in numbers]
    return tuple(sorted(set(partitions)))


def _partitions(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [
        TopicPartition(name, partition.index)
        for name, topic in sorted(topics.items())
        for partition in topic.partitions
    ]
