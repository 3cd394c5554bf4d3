"""Decides which batches go to which broker and when, and handles their responses; sans-IO.

    attempt = sender.drain(broker, cluster, now_s)      one request for one broker, or nothing to send
    sender.finish(attempt, response or error, now_s)    batches are completed, failed, split or put back
    sender.tick(now_s)                                  batches time out; epochs change

Every batch that is drained is completed or failed once. With idempotence, order within a partition is preserved despite
failures; without it only with one request in flight, as in Kafka.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.errors import BadAnswer, BrokerError, ClientError, NetworkFailed, TimedOut
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.metrics import ProducerMetrics
from cordwood.client.producer.sending.requests import Answer, Leadership, produce_request, read_answers, read_leadership
from cordwood.client.producer.sending.sequences import Sequences
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.net.peers.backoff import Backoff
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import ProduceRequest, ProduceResponse


@dataclass(slots=True, eq=False)
class Attempt:
    """A Produce request in flight."""

    broker: int
    cluster: Cluster
    """The metadata with which the broker was chosen."""
    batches: dict[TopicPartition, ProducerBatch]
    request: ProduceRequest
    at_most: int | None
    sent_s: float
    expired: set[TopicPartition] = field(default_factory=set)
    """Batches that timed out before the response: they have failed, and only their sequences still matter."""

    def sizes_bytes(self) -> Iterator[int]:
        """The sizes of the encoded batches."""
        for topic in self.request.topic_data:
            for data in topic.partition_data:
                assert data.records is not None
                yield len(data.records)


class Sender:
    """Takes the producer's lock for the accumulator. Everything else belongs to the loop."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator,
        *,
        sequences: Sequences | None,
        transactions: Transactions | None,
        lock: AbstractContextManager[Any],
        backoff: Backoff,
        metrics: ProducerMetrics,
    ) -> None:
        self.wants_metadata = False
        """A leader seems to have moved. Reset by the task that requests metadata."""
        self._settings = settings
        self._accumulator = accumulator
        self._sequences = sequences
        self._transactions = transactions
        self._lock = lock
        self._backoff = backoff
        self._metrics = metrics
        self._request_timeout_s = settings.request_timeout_ms / 1000
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        # Without idempotence retries preserve order only with one batch of a partition in flight.
        self._one_at_a_time = sequences is None and settings.max_in_flight_requests_per_connection == 1
        self._attempts: dict[Attempt, None] = {}
        self._on_wire: dict[TopicPartition, int] = {}

    @property
    def wants_identity(self) -> bool:
        """Nothing is sent before InitProducerId. A transactional producer gets its identity from its machine."""
        return self._sequences is not None and self._transactions is None and self._sequences.identity is None

    def identified(self, identity: ProducerIdentity) -> None:
        assert self._sequences is not None
        self._sequences.identified(identity)

    @property
    def in_flight(self) -> int:
        return len(self._attempts)

    # ---- requests

    def drain(self, broker: int, cluster: Cluster, now_s: float) -> Attempt | None:
        """Returns the next request for a broker that can take one now."""
        leader_of = leaders_of(cluster)
        with self._lock:
            batches = self._accumulator.drain(broker, leader_of, self.may_send, self._settings.max_request_size, now_s)
            if self._sequences is not None:
                for batch in batches:
                    self._sequences.sent(batch)
            transactions = self._transactions
            at_most = transactions.produce_at_most if transactions is not None else None
            transactional_id = transactions.transactional_id if transactions is not None else None
        if not batches:
            return None
        request, sayable = produce_request(batches, cluster, self._settings, transactional_id)
        if sayable is not None:
            at_most = sayable if at_most is None else min(at_most, sayable)
        attempt = Attempt(broker, cluster, {batch.partition: batch for batch in batches}, request, at_most, now_s)
        self._attempts[attempt] = None
        for partition in attempt.batches:
            self._on_wire[partition] = self._on_wire.get(partition, 0) + 1
        self._metrics.sent(batches, attempt.sizes_bytes(), now_s)
        return attempt

    def may_send(self, partition: TopicPartition) -> bool:
        """With the lock held."""
        if self._transactions is not None and not self._transactions.may_send(partition):
            return False
        if self._sequences is not None:
            return self._sequences.may_send(partition)
        return not self._one_at_a_time or partition not in self._on_wire

    # ---- responses

    def finish(
        self, attempt: Attempt, outcome: ProduceResponse | ClientError | None, now_s: float
    ) -> Leadership | None:
        """`response` is None for acks=0, once it is sent. Returns news about leaders."""
        del self._attempts[attempt]
        for partition in attempt.batches:
            left = self._on_wire.pop(partition) - 1
            if left:
                self._on_wire[partition] = left
        if isinstance(outcome, ProduceResponse):
            self._metrics.answered(now_s - attempt.sent_s, outcome.throttle_time_ms, now_s)
            answers = read_answers(attempt.request, outcome)
            news = read_leadership(attempt.request, outcome)
            moved = _moved(attempt.cluster, news)
            for partition, batch in attempt.batches.items():
                answer = answers.get(partition)
                if answer is None:
                    error = BadAnswer(f"{partition}: the broker's response is missing it")
                    self._unanswered(attempt, batch, error, now_s)
                else:
                    self._answered(attempt, batch, answer, now_s, has_moved=partition in moved)
            return news
        for batch in attempt.batches.values():
            if outcome is None:
                self._complete(batch, Answer(ErrorCode.NONE), has_expired=False)
            else:
                self._unanswered(attempt, batch, outcome, now_s)
        if isinstance(outcome, NetworkFailed):
            self.wants_metadata = True
        return None

    def _answered(
        self, attempt: Attempt, batch: ProducerBatch, answer: Answer, now_s: float, *, has_moved: bool
    ) -> None:
        has_expired = batch.partition in attempt.expired
        if answer.code == ErrorCode.NONE or self._is_duplicate(batch, answer.code):
            self._complete(batch, answer, has_expired)
            return
        error = _refusal(batch.partition, answer)
        self.wants_metadata = self.wants_metadata or error.is_stale_metadata
        if has_expired:
            self._forget(batch)
        elif answer.code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._split(batch, now_s)
        elif not self._is_passing(batch, answer):
            # An earlier attempt may have been written, even if this response is an error.
            surely_not_written = not error.retriable and batch.attempts == 0
            self._fail(
                batch, error, now_s, surely_not_written=surely_not_written, record_errors=_by_record(batch, answer)
            )
        elif self._has_tries_left(batch, now_s):
            self._put_back(batch, now_s, 0.0 if has_moved else self._backoff.pause_s(batch.attempts + 1))
        else:
            self._fail(batch, self._last_refusal(batch, error, now_s), now_s, surely_not_written=False)

    def _last_refusal(self, batch: ProducerBatch, error: BrokerError, now_s: float) -> ClientError:
        """The error of a batch that is not tried again for want of time or tries. A broker that has only missed an
        earlier batch of ours, which was given up, has nothing against this one."""
        if error.retriable or not self._is_late(batch, now_s):
            return error
        overdue = self._overdue(batch, now_s, on_wire=True)
        overdue.__cause__ = error
        return overdue

    def _is_duplicate(self, batch: ProducerBatch, code: ErrorCode) -> bool:
        """The broker has the batch, but has forgotten its offset. After a restart it remembers only each producer's
        last batch, and reports older ones as out of order."""
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return self._sequences is not None and self._sequences.is_surely_written(batch)
        return code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER

    def _unanswered(self, attempt: Attempt, batch: ProducerBatch, error: ClientError, now_s: float) -> None:
        """The batch may or may not have been written."""
        if batch.partition in attempt.expired:
            self._forget(batch)
        elif (error.retriable or isinstance(error, BadAnswer)) and self._has_tries_left(batch, now_s):
            self._put_back(batch, now_s, self._backoff.pause_s(batch.attempts + 1))
        else:
            self._fail(batch, error, now_s, surely_not_written=False)

    def _is_passing(self, batch: ProducerBatch, answer: Answer) -> bool:
        """Returns whether another try may succeed."""
        if self._sequences is not None:
            return self._sequences.may_retry(batch, answer.code, answer.log_start_offset)
        return answer.code.retriable

    def _has_tries_left(self, batch: ProducerBatch, now_s: float) -> bool:
        return batch.attempts < self._settings.retries and not self._is_late(batch, now_s)

    def _is_late(self, batch: ProducerBatch, now_s: float) -> bool:
        return now_s >= batch.created_s + self._delivery_timeout_s

    # ---- completing batches

    def _complete(self, batch: ProducerBatch, answer: Answer, has_expired: bool) -> None:
        if self._sequences is not None:
            self._sequences.completed(batch, answer.base_offset)
        self._release(batch)
        if not has_expired:
            base_offset = answer.base_offset if answer.code == ErrorCode.NONE else -1
            batch.complete(base_offset, answer.log_append_time_ms)

    def _fail(
        self,
        batch: ProducerBatch,
        error: ClientError,
        now_s: float,
        *,
        surely_not_written: bool,
        record_errors: dict[int, ClientError] | None = None,
    ) -> None:
        if self._sequences is not None:
            self._sequences.failed(batch, surely_not_written=surely_not_written)
        self._release(batch)
        self._tell_failure(batch, error, now_s, record_errors)

    def _tell_failure(
        self,
        batch: ProducerBatch,
        error: ClientError,
        now_s: float,
        record_errors: dict[int, ClientError] | None = None,
    ) -> None:
        if self._transactions is not None:
            with self._lock:
                self._transactions.batch_failed(error)
        self._metrics.count("record-error", batch.record_count, now_s)
        batch.fail(error, record_errors or {})

    def _forget(self, batch: ProducerBatch) -> None:
        if self._sequences is not None:
            self._sequences.returned(batch)
        self._release(batch)

    def _release(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._accumulator.release(batch)

    def _put_back(self, batch: ProducerBatch, now_s: float, backoff_s: float) -> None:
        if self._sequences is not None:
            self._sequences.returned(batch)
        self._metrics.count("record-retry", batch.record_count, now_s)
        with self._lock:
            self._accumulator.requeue([batch], now_s, backoff_s)

    def _split(self, batch: ProducerBatch, now_s: float) -> None:
        parts = batch.split()
        if self._sequences is not None:
            self._sequences.split(batch, parts)
        with self._lock:
            self._accumulator.requeue(parts, now_s, 0.0)
        self._metrics.count("batch-split", 1, now_s)

    # ---- timeouts

    def tick(self, now_s: float) -> None:
        """Fails batches older than `delivery_timeout_ms`, closes gaps in sequences, and adopts a new identity."""
        with self._lock:
            self._take_identity()
            expired = self._accumulator.expire(now_s)
        for batch in expired:
            error = self._overdue(batch, now_s, on_wire=False)
            self._fail(batch, error, now_s, surely_not_written=False)
        for attempt in self._attempts:
            for partition, batch in attempt.batches.items():
                if partition not in attempt.expired and now_s >= batch.created_s + self._delivery_timeout_s:
                    # Its memory is released when the request is done: until then its bytes are in use.
                    attempt.expired.add(partition)
                    if self._sequences is not None:
                        self._sequences.failed(batch, surely_not_written=False, still_on_wire=True)
                    self._tell_failure(batch, self._overdue(batch, now_s, on_wire=True), now_s)
        if self._sequences is not None:
            self._sequences.settle()
            with self._lock:
                for batch in self._sequences.to_be_tried():
                    self._accumulator.bring_forward(batch)
        if self._transactions is not None:
            self._drop_unsent(self._transactions, now_s)

    def _take_identity(self) -> None:
        if self._transactions is not None and self._sequences is not None:
            identity = self._transactions.identity
            if identity is not None and identity != self._sequences.identity:
                self._sequences.identified(identity)

    def next_tick_s(self) -> float:
        """The time when a batch in flight, or a response, is overdue; infinity if nothing is in flight."""
        next_s = float("inf")
        for attempt in self._attempts:
            next_s = min(next_s, attempt.sent_s + self._request_timeout_s)
            for partition, batch in attempt.batches.items():
                if partition not in attempt.expired:
                    next_s = min(next_s, batch.created_s + self._delivery_timeout_s)
        return next_s

    def overdue(self, now_s: float) -> list[Attempt]:
        """Requests unanswered after `request_timeout_ms`: their connections must be closed."""
        return [attempt for attempt in self._attempts if now_s >= attempt.sent_s + self._request_timeout_s]

    def _overdue(self, batch: ProducerBatch, now_s: float, *, on_wire: bool) -> TimedOut:
        waited_ms = (now_s - batch.created_s) * 1000
        how = "never sent" if batch.attempts == 0 and not on_wire else "sent and not acknowledged"
        return TimedOut(
            f"{batch.partition}: {batch.record_count} records waited {waited_ms:.0f} ms, {how}; "
            f"delivery_timeout_ms is {self._settings.delivery_timeout_ms}"
        )

    def _drop_unsent(self, transactions: Transactions, now_s: float) -> None:
        """For a transaction that is aborted, or a producer that cannot continue."""
        with self._lock:
            fatal_error = transactions.fatal_error
            error = fatal_error or transactions.drop_unsent
        if error is not None:
            self.fail_unsent(error, now_s, even_sent_before=fatal_error is not None)

    def fail_unsent(self, error: ClientError, now_s: float, *, even_sent_before: bool = False) -> None:
        """Fails batches that are not in flight. Those sent before are retried until answered: a broker may have them,
        and later sequences continue from there."""
        with self._lock:
            dropped = self._accumulator.abort(undrained_only=not even_sent_before)
        for batch in dropped:
            self._abandon(batch, error, now_s)

    def abandon_all(self, error: ClientError, now_s: float) -> None:
        """The producer is closed before everything is delivered."""
        self.fail_unsent(error, now_s, even_sent_before=True)
        for attempt in self._attempts:
            for partition, batch in attempt.batches.items():
                if partition not in attempt.expired:
                    attempt.expired.add(partition)
                    self._metrics.count("record-error", batch.record_count, now_s)
                    batch.fail(error)

    def _abandon(self, batch: ProducerBatch, error: ClientError, now_s: float) -> None:
        if self._sequences is not None:
            self._sequences.failed(batch, surely_not_written=False)
        self._release(batch)
        self._metrics.count("record-error", batch.record_count, now_s)
        batch.fail(error)


def leaders_of(cluster: Cluster) -> Callable[[TopicPartition], int | None]:
    """None for a partition without a known leader."""
    topics = cluster.topics
    brokers = cluster.brokers

    def leader_of(partition: TopicPartition) -> int | None:
        topic = topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition.partition].leader
        return leader if leader in brokers else None

    return leader_of


def _moved(cluster: Cluster, news: Leadership | None) -> Collection[TopicPartition]:
    """Returns the partitions with a newer leader than the one that was asked, to retry at once."""
    if news is None:
        return ()
    return [
        partition
        for partition, (_, epoch) in news.leaders.items()
        if partition.topic in cluster.topics and epoch > cluster.partition(partition).leader_epoch
    ]


def _refusal(partition: TopicPartition, answer: Answer) -> BrokerError:
    return BrokerError(answer.code, answer.message, str(partition))


def _by_record(batch: ProducerBatch, answer: Answer) -> dict[int, ClientError] | None:
    """If the broker names the refused records, the others failed only because they shared the batch."""
    if answer.record_errors is None:
        return None
    subject = str(batch.partition)
    # With several culprits, the batch's single code may not fit each of them; their messages do.
    code = answer.code if len(answer.record_errors) == 1 else ErrorCode.INVALID_RECORD
    innocent = BrokerError(code, "another record in its batch was rejected, which fails the whole batch", subject)
    errors: dict[int, ClientError] = dict.fromkeys(range(batch.record_count), innocent)
    for index, message in answer.record_errors.items():
        errors[index] = BrokerError(code, message or answer.message, subject)
    return errors
