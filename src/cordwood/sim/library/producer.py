"""A producer of the library: sends single records, which it batches and retries until they are answered."""

from cordwood.client.errors import BrokerError, ClientError, Closed, NetworkFailed, TimedOut
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.sim.clients.batches import MAX_AGE_MS, new_send
from cordwood.sim.clients.client import Run
from cordwood.sim.histories.history import Outcome, Promise, Send
from cordwood.wire.errors import ErrorCode

from .life import LibraryClient
from .tap import Tap

_IDEMPOTENT = 0.8
_MAX_BURST = 6
_MAX_PAUSE_S = 0.3
_FLUSH = 0.15
_CLOSE = 0.02
_CLOSE_TIMEOUT_S = 1.0
_CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")


class LibraryProducer(LibraryClient):
    """Writes the outcome of each record into the history. It sends from one task, so its order is known."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self._is_idempotent = self.chance(_IDEMPOTENT)
        self._is_replicated = run.cluster is not None
        self._tap = Tap(run, run.world.network.host(name))
        self._gives_up_s = 0.0

    async def live(self) -> None:
        settings = self._settings()
        # A record may join a batch that has waited for `linger_ms`.
        self._gives_up_s = (settings.delivery_timeout_ms - settings.linger_ms) / 1000
        producer = await self.started_producer(settings, self._tap)
        while not self.run.is_over:
            for _ in range(self.source.randint(1, _MAX_BURST)):
                await self._send(producer, settings.acks)
            if self.chance(_FLUSH):
                await self._flush(producer, settings.acks)
            if self.chance(_CLOSE):
                await producer.close(timeout=self.source.random() * _CLOSE_TIMEOUT_S)
                return
            await self.pause(_MAX_PAUSE_S)

    def _settings(self) -> ProducerSettings:
        source = self.source
        return ProducerSettings(
            **self.network_settings(),
            client_id=self.name,
            acks=-1 if self._is_idempotent or self._is_replicated else source.choice((0, 1, -1)),
            enable_idempotence=self._is_idempotent,
            # Without idempotence, retried records may be duplicated.
            retries=0x7FFF_FFFF if self._is_idempotent else 0,
            compression_type=source.choice(_CODECS),
            linger_ms=source.choice((0, 5, 200)),
            batch_size=source.choice((0, 300, 16_384)),
            max_in_flight_requests_per_connection=source.choice((1, 2, 5)),
            # Room for two of the largest.
            buffer_memory=source.choice((50_000, 33_554_432)),
            max_block_ms=source.choice((100, 1_500)),
            delivery_timeout_ms=source.choice((2_300, 6_000, 120_000)),
        )

    async def _send(self, producer: Producer, acks: int) -> None:
        (send,) = self._new_sends(acks)
        try:
            delivery = await producer.send(
                send.partition[0],
                send.values[0],
                send.keys[0],
                partition=send.partition[1],
                timestamp_ms=self.run.world.clock.now_ms() - self.source.randrange(MAX_AGE_MS),
            )
        except TimedOut:
            # It was not taken.
            send.outcome, send.ended_s = Outcome.REFUSED, self.run.now_s
            return
        delivery.add_done_callback(lambda delivery: self._delivered(send, delivery))

    def _new_sends(self, acks: int) -> list[Send]:
        partition = self.source.choice(self.run.partitions)
        send = new_send(self, partition, acks, count=1)
        send.attempts = 2 if self._is_idempotent else 1
        send.stream = f"{self.name}/{self.lives}" if self._is_idempotent else ""
        return [send]

    def _delivered(self, send: Send, delivery: Delivery) -> None:
        error = note_delivery(self, self._tap, send, delivery)
        is_overdue = send.ended_s - send.begun_s >= self._gives_up_s
        if isinstance(error, NetworkFailed) and is_overdue:
            # A connection that breaks when a batch is overdue may be the reported reason, as in Kafka.
            return
        if error is not None and not self._may_fail_with(error):
            self.complain(f"{type(error).__name__}: {error}; {send}")

    def _may_fail_with(self, error: ClientError) -> bool:
        """If nothing is lost, brokers must not reject an idempotent producer's batches."""
        if isinstance(error, TimedOut | Closed):
            return True
        if self._is_replicated and isinstance(error, BrokerError) and error.retriable:
            # Too few replicas are in sync, or there is no leader, for longer than the timeout.
            return True
        if self._is_idempotent and self.run.history.promise is not Promise.PREFIX:
            return False
        return not isinstance(error, BrokerError) or error.retriable or self._is_idempotent

    async def _flush(self, producer: Producer, acks: int) -> None:
        try:
            await producer.flush(timeout=self.source.random() * 2.0)
        except TimedOut:
            return
        except NetworkFailed:
            # This error may only occur without acknowledgements, where it reports losses.
            if acks != 0:
                raise


def note_delivery(client: LibraryClient, tap: Tap, send: Send, delivery: Delivery) -> ClientError | None:
    """Records the outcome of a record; returns the reason if it was not delivered."""
    if send.ended_s < float("inf"):
        client.complain(f"told twice: {send}")
    send.ended_s = client.run.now_s
    send.incarnation = tap.incarnation
    error = delivery.exception()
    if error is not None:
        send.error = error.code or ErrorCode.UNKNOWN_SERVER_ERROR
        return error
    metadata = delivery.result()
    if (metadata.topic, metadata.partition) != send.partition:
        client.complain(f"{metadata} for {send}")
    if send.acks:
        send.outcome = Outcome.ACKNOWLEDGED
        send.base_offset = metadata.offset
    return None
