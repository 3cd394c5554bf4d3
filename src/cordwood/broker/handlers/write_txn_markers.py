"""WriteTxnMarkers: ends transactions in partitions that this broker leads.

Coordinators ask for it; an administrator may, to end what hangs, with the producer's epoch as DescribeProducers tells.
Version 2 says which `transaction.version` the transaction is of (KIP-890).
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.net.api import Call, Result, handles
from cordwood.wire.messages.write_txn_markers import WriteTxnMarkersRequest


@handles(WriteTxnMarkersRequest)
def write_txn_markers(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> Result:
    return broker.coordinators.marker_writer.answer(request)
