"""The producer: records are collected in batches per partition, batches go to their leaders, each record is completed
once.

The path of a record, from the application's call to its metadata:

    producer.py        **Producer**: the calls, and the states in which they are allowed
    engine.py          the parts of a started producer
    shortcut.py        the fast path: a record that goes into an open batch. Compiled, as is `deliveries`
    intake.py          the general path: interceptors, serializers, partition, memory; never waits
    bulk.py            the same for many records at once, and for Arrow columns
    interceptors.py, serialization.py, partitioners.py
    accumulator.py     queued records: a deque of batches for each partition, within `buffer_memory`
    batch.py           **ProducerBatch**: grows, is encoded, sent, completed or failed, once
    buffer_pool.py     grants memory to waiting callers in order
    sending_loop.py    the one task that sends: connections, metadata, time
    lanes.py           whether a broker can take a request now
    sender.py          **Sender**: builds requests from batches, and interprets responses. No I/O
    sequences.py       idempotence: sequence numbers and epochs. No I/O
    requests.py        Produce on the wire, by topic ids or names
    deliveries.py      the promises that `send` returns

Threads: the application's threads may call `Producer.try_send`; everything else runs on the loop. The producer's lock
guards the accumulator, the partitioner and the transactions' machine. No application code is called under it.
"""
