"""A shop for the other examples here: it writes orders, payments and customers, 20 orders a second, until Ctrl-C.

    cordwood up
    python examples/spark/place_orders.py
    cordwood pipeline run examples/spark/order_windows.py
    cordwood consume order-totals --follow

As in life, some orders are sent twice, and some records are invalid.
"""

import json
import os
import time
from datetime import UTC, datetime

from cordwood import Admin, NewTopic, Producer

BOOTSTRAP = os.environ.get("CORDWOOD_BOOTSTRAP", "127.0.0.1:9092")
ITEMS = ("candles", "matches", "logs", "axes")
CITIES = ("Oslo", "Graz", "Riga")
CUSTOMERS = 50


def main() -> None:
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        there = admin.list_topics()
        topics = [
            NewTopic("orders", partitions=3),
            NewTopic("payments", partitions=3),
            # The last record of each customer is kept: the topic is a table.
            NewTopic("customers", partitions=3, configs={"cleanup.policy": "compact"}),
        ]
        admin.create_topics([topic for topic in topics if topic.name not in there])
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(CUSTOMERS):
            producer.send("customers", customer(number), key=f"customer-{number}")
        for number in range(1_000_000_000):
            now = datetime.now(UTC)
            producer.send("orders", order(number, now), key=f"customer-{number % CUSTOMERS}")
            if number % 20 == 7:
                producer.send("orders", order(number, now), key=f"customer-{number % CUSTOMERS}")
            if number % 50 == 9:
                producer.send("orders", b"two candles, please", key=f"customer-{number % CUSTOMERS}")
            if number >= 100 and number % 10:
                producer.send("payments", payment(number - 100, now), key=str(number - 100))
            time.sleep(0.05)


def order(number: int, placed_at: datetime) -> bytes:
    return _json(
        order=number,
        customer=f"customer-{number % CUSTOMERS}",
        item=ITEMS[number % len(ITEMS)],
        amount=10 + number % 90,
        placed_at=placed_at.isoformat(),
    )


def payment(order: int, paid_at: datetime) -> bytes:
    return _json(order=order, paid=10 + order % 90, paid_at=paid_at.isoformat())


def customer(number: int) -> bytes:
    return _json(customer=f"customer-{number}", city=CITIES[number % len(CITIES)])


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("the shop is closed")
