"""WriteTxnMarkers: ends transactions in partitions that this broker leads.

Sent by coordinators, and by administrators to end hanging transactions, with the producer's epoch from
DescribeProducers. Version 2 has the `transaction.version` of the transaction (KIP-890).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.net.api import Call, Result, handles
from cordwood.wire.messages.write_txn_markers import WriteTxnMarkersRequest


@handles(WriteTxnMarkersRequest)
def write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> Result:
    return broker.coordinators.marker_writer.answer(request)
