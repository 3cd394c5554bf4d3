"""Names that the sink gives to what it keeps in a cluster. `cordwood topic list` and `txn list` hide them."""

from typing import Final

DEFAULT_LEDGER_TOPIC: Final = "__cordwood_spark_ledger"
TRANSACTIONAL_ID_PREFIX: Final = "cordwood-spark/"
