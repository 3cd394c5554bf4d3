"""Names of the sink's topics and transactional ids in a cluster. `cordwood topic list` and `txn list` hide them."""

from typing import Final

DEFAULT_LEDGER_TOPIC: Final = "__cordwood_spark_ledger"
TRANSACTIONAL_ID_PREFIX: Final = "cordwood-spark/"
