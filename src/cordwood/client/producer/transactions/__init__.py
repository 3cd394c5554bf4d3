"""A producer's transactions: the calls allowed in each state, their requests, and the meaning of responses.

    states.py      the states and their transitions: the table that the machine runs on
    machine.py     **Transactions**: the machine. No I/O, no clock; callers hold the producer's lock
    calls.py       the calls that are allowed now, and the one in progress
    contents.py    the partitions and offsets of the open transaction, and those still to be added
    flight.py      the one request in flight, and when the next may be sent
    requests.py    `Ask`: a request, its receiver and versions; builds each request
    answers.py     the meaning of error codes: retry, elsewhere, abort, or fatal
    operation.py   `Operation`: an application's call that waits for brokers
    prepared.py    `PreparedTxnState`: the name of a transaction that waits for its second phase (KIP-939)
    driver.py      **TransactionDriver**: sends the machine's requests, one at a time

How a producer uses it:

- `init_transactions`, `send_offsets_to_transaction`, `commit_transaction`, `abort_transaction` and
  `complete_transaction` call the machine, which raises `IllegalState` at once for invalid calls; then `driver.wake()`,
  wait for `operation.on_done` up to `max_block_ms`, and `operation.take()`. A call that ran out of time is called again
  and takes up the same operation. `commit` begins a flush: the machine asks for EndTxn when nothing is incomplete.
- `begin_transaction` is `machine.begin()`, `prepare_transaction` is a flush and `machine.prepare()`.
- `send` calls `machine.check_send()` before it appends and `machine.add_partition(partition)` after, in one hold of the
  lock; these raise outside of a transaction and after an error. Where the latter returns True the driver has something
  to do (version 1): `driver.wake()`.
- The sender asks `machine.may_send(partition)` in its drain and `machine.produce_at_most` for Produce, takes
  `machine.identity` for new batches (another identity than a partition's last begins its sequences at 0), and tells
  `machine.batch_failed(error)` for each batch that fails for good. `machine.drop_unsent` says that batches which were
  never sent are to fail, and with what; `machine.fatal_error` that all are.
- `close` waits for what is `machine.ending`, aborts where `machine.is_open`, then cancels `run` and calls
  `machine.close()`.
"""
