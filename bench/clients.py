"""Client libraries compared: `python -m bench clients [--rounds N] [--records N]`.

Cordwood's client, confluent-kafka, kafka-python and aiokafka do the same work in turns, each in a separate process,
against one node. The best of several rounds counts. Then: a producer's memory while its broker is stalled.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench.client_libraries import contestants, stalled
from bench.client_libraries.contestants import Work
from bench.nodes.brokers import Cordwood

PRODUCING: dict[str, Work] = {
    "cordwood": contestants.cordwood_send,
    "cordwood.aio": contestants.cordwood_send_async,
    "confluent-kafka": contestants.confluent_produce,
    "kafka-python": contestants.kafka_python_send,
    "aiokafka": contestants.aiokafka_send,
}
CONSUMING: dict[str, Work] = {
    "cordwood": contestants.cordwood_iterate,
    "cordwood.aio": contestants.cordwood_iterate_async,
    "confluent-kafka": contestants.confluent_poll,
    "kafka-python": contestants.kafka_python_iterate,
    "aiokafka": contestants.aiokafka_iterate,
}
BULK_PRODUCING: dict[str, Work] = {
    "cordwood send_arrow": contestants.cordwood_send_arrow,
    "confluent-kafka": contestants.confluent_produce,
}
BULK_CONSUMING: dict[str, Work] = {
    "cordwood arrow": contestants.cordwood_arrow,
    "confluent-kafka consume": contestants.confluent_consume,
}
FILLED = "filled"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=200_000, help="of a round; bulk ones take five times as many")
    options = parser.parse_args(arguments or [])
    with tempfile.TemporaryDirectory(prefix="cordwood-bench-") as folder:
        broker = Cordwood(Path(folder))
        broker.start()
        try:
            compare_all(broker, options.rounds, options.records)
        finally:
            broker.stop()
        stalled.main(Path(folder))


def compare_all(broker: Cordwood, rounds: int, records: int) -> None:
    topics = [f"written-{number}" for number in range(rounds)]
    with broker.client() as client:
        for topic in (*topics, FILLED):
            client.create_topic(topic, 1)
    in_process_of_its_own(contestants.cordwood_send_arrow, broker.bootstrap, FILLED, 5 * records)

    rates = best_rates(PRODUCING, broker, topics, records)
    show("produce, one record a call, 100 B, acks=1", rates)
    for ours in ("cordwood", "cordwood.aio"):
        show_ratio(rates, ours, "kafka-python", 3)
        show_ratio(rates, ours, "aiokafka", 3)
    rates = best_rates(CONSUMING, broker, [FILLED] * rounds, records)
    show("consume, one record a turn, 100 B", rates)
    for ours in ("cordwood", "cordwood.aio"):
        show_ratio(rates, ours, "kafka-python", 3)
        show_ratio(rates, ours, "aiokafka", 3)
    rates = best_rates(BULK_PRODUCING, broker, topics, 5 * records)
    show("produce in bulk", rates)
    show_ratio(rates, "cordwood send_arrow", "confluent-kafka", 1.5)
    rates = best_rates(BULK_CONSUMING, broker, [FILLED] * rounds, 5 * records)
    show("consume in bulk", rates)
    show_ratio(rates, "cordwood arrow", "confluent-kafka consume", 3)


def best_rates(work: dict[str, Work], broker: Cordwood, topics: list[str], records: int) -> dict[str, float]:
    """Records a second, in turns."""
    best = dict.fromkeys(work, 0.0)
    for topic in topics:
        for name, run in work.items():
            seconds = in_process_of_its_own(run, broker.bootstrap, topic, records)
            best[name] = max(best[name], records / seconds)
    return best


def in_process_of_its_own(work: Work, bootstrap: str, topic: str, records: int) -> float:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, bootstrap, topic, records).result()


def show(title: str, rates: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, rate in rates.items():
        print(f"  {name:26} {rate:12,.0f}/s", flush=True)


def show_ratio(rates: dict[str, float], ours: str, theirs: str, wanted: float) -> None:
    print(f"  {ours} / {theirs}: {rates[ours] / rates[theirs]:.1f}x (≥ {wanted:g})", flush=True)
