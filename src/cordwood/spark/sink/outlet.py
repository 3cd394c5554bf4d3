"""A process's connections to a cluster: a client for queries, and a producer that switches from one transactional id to
the next. They are kept between the tasks of a Python worker, since connecting is most of the cost of a small task."""

from collections.abc import Callable
from typing import Any

from cordwood.client.client import Client
from cordwood.client.errors import ClientError, UnsupportedByBroker
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.spark.errors import SparkError
from cordwood.spark.sink.ledger import Ledger
from cordwood.spark.sink.options import SinkOptions
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest

# The first version with two-phase commit (KIP-939).
_TWO_PHASES_SINCE = 6
# Which is how brokers say that they do not allow it, where they know it.
_NOT_ALLOWED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
# A topic that brokers create is known to all of them soon.
_TOPIC_WITHIN_S = 5.0


class Outlet:
    """Belongs to the event loop in which it is first used."""

    def __init__(
        self, options: SinkOptions, *, network: Network, clock: Clock | None = None, random: Random | None = None
    ) -> None:
        self.options = options
        self._network = network
        self._clock = clock
        self._random = random if random is not None else SeededRandom()
        self._client: Client | None = None
        self._ledger: Ledger | None = None
        self._producer: Producer | None = None
        self._has_two_phases = options.wants_two_phases

    async def client(self) -> Client:
        """Raises `CannotReachCluster`."""
        if self._client is None:
            settings = self.options.writing(None)
            self._client = await Client.connect(
                settings.bootstrap_servers, settings, network=self._network, random=self._random
            )
        return self._client

    async def check(self) -> None:
        """Checks that the topic can be written before any task starts. Raises a `SparkError`, or a client error."""
        client = await self.client()
        topic = self.options.topic
        if topic is None:
            return
        try:
            # Brokers that create topics do it now.
            await client.topics([topic], create=True, timeout_s=_TOPIC_WITHIN_S)
        except ClientError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise SparkError(f"there is no topic {topic}, and the brokers do not create it") from None

    async def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(await self.client(), self.options.ledger_topic)
        return self._ledger

    async def plain_producer(self) -> Producer:
        """Idempotent, without transactions."""
        if self._producer is None:
            await self._start(self.options.writing(None))
        assert self._producer is not None
        return self._producer

    async def writing_as(self, transactional_id: str) -> Producer:
        """Makes the producer ready to begin; with two-phase commit if requested and allowed."""
        if self._has_two_phases is None:
            self._has_two_phases = await self._knows_two_phases()
        try:
            return await self._as(
                transactional_id,
                lambda: self.options.writing(transactional_id, two_phases=bool(self._has_two_phases)),
            )
        except ClientError as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise SparkError(
                    "the brokers reject this transaction timeout: set kafka.transaction.timeout.ms to their "
                    "transaction.max.timeout.ms, or less"
                ) from None
            if error.code != _NOT_ALLOWED or not self._has_two_phases or self.options.wants_two_phases:
                raise
        self._has_two_phases = False
        return await self.writing_as(transactional_id)

    async def deciding_as(self, transactional_id: str) -> Producer:
        return await self._as(transactional_id, lambda: self.options.deciding(transactional_id))

    async def drop_producer(self) -> None:
        """Aborts its open transaction, if possible; the next task gets a new producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout=1)

    async def close(self) -> None:
        await self.drop_producer()
        client, self._client, self._ledger = self._client, None, None
        if client is not None:
            await client.close()

    async def _as(self, transactional_id: str, settings: Callable[[], ProducerSettings]) -> Producer:
        if self._producer is not None:
            try:
                self._producer.take_transactional_id(transactional_id)
            except ClientError:
                # It is in no state to go on.
                await self.drop_producer()
        if self._producer is None:
            await self._start(settings())
        assert self._producer is not None
        try:
            await self._producer.init_transactions()
        except BaseException:
            await self.drop_producer()
            raise
        return self._producer

    async def _start(self, settings: ProducerSettings) -> None:
        more: dict[str, Any] = {} if self._clock is None else {"clock": self._clock}
        producer = Producer(settings, settings.bootstrap_servers, network=self._network, random=self._random, **more)
        await producer.start()
        self._producer = producer

    async def _knows_two_phases(self) -> bool:
        client = await self.client()

        async def attempt() -> bool:
            versions = (await client.any_broker()).versions
            try:
                versions.best(InitProducerIdRequest, at_least=_TWO_PHASES_SINCE)
            except UnsupportedByBroker:
                return False
            return True

        return await client.retrying(attempt)
