"""The producer: records gather in batches per partition, batches go to their leaders, each record is completed once.

A record's way, from the application's call to its metadata:

    producer.py        **Producer**: the calls, and what may be called when
    engine.py          what a started producer consists of
    shortcut.py        a record that goes into an open batch: nearly each one. Compiled, as is `deliveries`
    intake.py          all others: interceptors, serializers, the partition, room in memory; without waiting
    bulk.py            the same for many records at once, and for Arrow columns
    interceptors.py, serialization.py, partitioners.py
    accumulator.py     what waits: a deque of batches for each partition, within `buffer_memory`
    batch.py           **ProducerBatch**: grows, is encoded, sent, completed or failed, once
    buffer_pool.py     callers that wait for memory get it in turn
    sending_loop.py    the one task that sends: connections, metadata, time
    lanes.py           whether a broker can take a request now
    sender.py          **Sender**: which batches go into a request, what its answer means for each. No I/O
    sequences.py       what makes a batch that is sent twice appended once; epochs. No I/O
    requests.py        Produce on the wire, by topic ids or names
    deliveries.py      what `send` returned is told

    transaction_calls.py, transactions/   which partitions and offsets belong together

Threads: the application's may call `Producer.try_send`; all else runs on the loop. The producer's lock guards the
accumulator, the partitioner and the transactions' machine. Nothing of the application's is called under it.
"""
