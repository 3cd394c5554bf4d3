"""A transactional producer: what Kafka's clients do, with both generations of the protocol, one request at a time.

Version 1 says which partitions it will write to, and keeps its epoch from one transaction to the next. So an unanswered
request could arrive in a later transaction and do harm: the producer takes a new epoch. In version 2 (KIP-890) the
broker adds partitions and each transaction has its own epoch; anything can be sent again.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.batches import encode, new_send
from cordwood.sim.clients.client import Client, Run, by_topic
from cordwood.sim.clients.producers import answers_of, note_answer, produce_request
from cordwood.sim.groups.coordinator import TRANSACTION, UNAVAILABLE, find_coordinator
from cordwood.sim.groups.offsets import NOBODY, Identity, Position, new_commit
from cordwood.sim.histories.groups import Commit, CommitOutcome
from cordwood.sim.histories.history import Outcome, Send
from cordwood.sim.histories.transactions import Fate, Incarnation, Transaction
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from cordwood.wire.schema import Request, ResponseT

_BACKOFF_S = 0.2
_DEATH = 0.01
_STALL = 0.02
# Writes to partitions that it has not added, which the broker must reject.
_FORGETFUL = 0.02
# Between the versions of an API that the two generations use.
_ZSTD_SINCE = 7
_PRODUCE_V2, _END_V2, _OFFSETS_V2 = 12, 5, 5
_CLIENT_ADDS_UNTIL = 3
_MEMBERS_SINCE = 3
_RECOVERY_SINCE = 3
_RECOVERS = 0.3

_TRY_AGAIN = UNAVAILABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class Generation(Enum):
    V1 = 1
    V2 = 2


class Lost(Exception):
    """The producer cannot continue with its epoch: it is fenced, or the outcome of a request is unknown."""


class Died(Exception):
    """The process died in the middle of an action."""


class TransactionalProducer(Client):
    def __init__(self, run: Run, name: str, transactional_id: str, generation: Generation, timeout_ms: int) -> None:
        super().__init__(run, name)
        self.transactional_id = transactional_id
        self.generation = generation
        self.timeout_ms = timeout_ms
        # It neither dies nor stalls.
        self.is_calm = False
        self.producer_id = -1
        self.producer_epoch = -1
        self._sequences: dict[Partition, int] = {}
        self._added: set[Partition] = set()

    @property
    def tenure(self) -> int:
        """Grows with each that is given the transactional id."""
        return (self.producer_id << 16) + self.producer_epoch

    async def initialize(self) -> None:
        """Fences the previous owner of the transactional id, and ends its transaction."""
        versions = InitProducerIdRequest.stable_versions
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        low = versions.low
        if self.producer_id >= 0 and self.chance(_RECOVERS):
            # KIP-360: only if it has not been fenced.
            request.producer_id, request.producer_epoch = self.producer_id, self.producer_epoch
            low = _RECOVERY_SINCE
        await self.take_id(request, self.source.randint(low, versions.high))

    async def take_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        """Retries until it succeeds; raises `Lost` if it does not."""
        await find_coordinator(self, self.transactional_id, TRANSACTION)
        self.producer_id = -1
        while True:
            try:
                response = await self.ask(request, version)
            except NetworkError:
                await self.pause(_BACKOFF_S)
                continue
            error = ErrorCode(response.error_code)
            if error == ErrorCode.NONE:
                break
            if error not in _TRY_AGAIN:
                raise Lost(error.name)
            await self._try_again(error)
        self._become(response.producer_id, response.producer_epoch)
        self.run.history.transactions.incarnations.append(
            Incarnation(self.name, self.transactional_id, self.producer_id, self.producer_epoch, self.run.now_s)
        )
        return response

    def _become(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self._sequences.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def begin(self) -> Transaction:
        transaction = Transaction(
            self.run.next_number(),
            self.name,
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.run.now_s,
        )
        self.run.history.transactions.transactions.append(transaction)
        self._added.clear()
        return transaction

    # ---- within a transaction. Each raises `Lost`, `Died`

    async def send(self, transaction: Transaction, partitions: list[Partition]) -> list[Send]:
        """One batch to each; returns when all of them are acknowledged."""
        if self.generation is Generation.V1 and (self.is_calm or not self.chance(_FORGETFUL)):
            await self._add_partitions([partition for partition in partitions if partition not in self._added])
        sends: dict[Partition, Send] = {}
        for partition in partitions:
            send = sends[partition] = new_send(self, partition, acks=-1)
            send.producer_id, send.producer_epoch = self.producer_id, self.producer_epoch
            send.transaction = transaction.number
            send.sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = send.sequence + len(send.values)
        batches = {partition: encode(self, send) for partition, send in sends.items()}
        while batches:
            answered = await self._produce(sends, batches)
            for partition in answered:
                del batches[partition]
            for partition in batches:
                sends[partition].attempts += 1
        return list(sends.values())

    async def _produce(self, sends: dict[Partition, Send], batches: dict[Partition, bytearray]) -> list[Partition]:
        """Those that are acknowledged."""
        await self.live_on()
        together = self.routes.led_together(list(batches))
        request = produce_request(self.run, {partition: bytearray(batches[partition]) for partition in together}, -1)
        request.transactional_id = self.transactional_id
        try:
            response = await self.ask(request, self._version(request, _ZSTD_SINCE, _PRODUCE_V2))
        except NetworkError:
            await self.pause(_BACKOFF_S)
            return []
        answered = []
        errors = set()
        for partition, answer in answers_of(self.run, response):
            error = ErrorCode(answer.error_code)
            if error in _TRY_AGAIN:
                errors.add(error)
                continue
            note_answer(self, sends[partition], answer)
            if sends[partition].outcome is not Outcome.ACKNOWLEDGED:
                raise Lost(error.name)
            answered.append(partition)
        if errors:
            await self._try_again(*sorted(errors))
        return answered

    async def _add_partitions(self, partitions: list[Partition]) -> None:
        if not partitions:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in by_topic(partitions)
            ],
        )

        def error_of(response: object) -> set[ErrorCode]:
            topics = response.results_by_topic_v3_and_below  # type: ignore[attr-defined]
            return {ErrorCode(one.partition_error_code) for topic in topics for one in topic.results_by_partition}

        await self._ask_until_done(request, error_of, self.source.randint(0, _CLIENT_ADDS_UNTIL))
        self._added.update(partitions)

    async def commit_offsets(
        self,
        transaction: Transaction,
        group: str,
        positions: Mapping[Partition, Position],
        identity: Identity = NOBODY,
    ) -> None:
        """As a member of the group, or with partitions that it assigned itself."""
        if self.generation is Generation.V1:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=group,
            )
            await self._ask_until_done(added, lambda response: {ErrorCode(response.error_code)})
        commits: dict[Partition, Commit] = {}
        for partition, position in positions.items():
            commit = commits[partition] = new_commit(self, group, partition, position)
            commit.transaction = transaction.number
            # It is, when the transaction is.
            commit.begun_s = float("inf")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=identity.generation,
            member_id=identity.member_id,
            group_instance_id=identity.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=commits[topic, index].offset,
                            committed_metadata=str(commits[topic, index].number),
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(list(commits))
            ],
        )

        def errors_of(response: object) -> set[ErrorCode]:
            topics = response.topics  # type: ignore[attr-defined]
            return {ErrorCode(one.error_code) for topic in topics for one in topic.partitions}

        version = self._version(request, 0 if identity is NOBODY else _MEMBERS_SINCE, _OFFSETS_V2)
        await self._ask_until_done(request, errors_of, version, again=self.generation is Generation.V2)

    async def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Raises `Lost` also if the outcome is unknown. The transaction may be a predecessor's."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
        )
        await self.live_on()
        commits = [one for one in self.run.history.groups.commits if one.transaction == transaction.number]
        if commit:
            transaction.fate = Fate.UNKNOWN
            transaction.commit_begun_s = min(self.run.now_s, transaction.commit_begun_s)
            for one in commits:
                one.begun_s = self.run.now_s
        response = await self._ask_until_done(
            request,
            lambda response: {ErrorCode(response.error_code)},
            self._version(request, 0, _END_V2),
            again=self.generation is Generation.V2,
        )
        if commit:
            transaction.fate = Fate.COMMITTED
            transaction.commit_ended_s = self.run.now_s
            for one in commits:
                one.outcome, one.ended_s = CommitOutcome.ACKNOWLEDGED, self.run.now_s
        if self.generation is Generation.V2:
            self._become(response.producer_id, response.producer_epoch)

    # ---- asking

    async def _ask_until_done(
        self,
        request: Request[ResponseT],
        errors_of: Callable[[ResponseT], set[ErrorCode]],
        version: int | None = None,
        *,
        again: bool = True,
    ) -> ResponseT:
        """`again`: also if there was no answer."""
        while True:
            await self.live_on()
            try:
                response = await self.ask(request, version)
            except NetworkError as error:
                if not again:
                    raise Lost("no answer") from error
                await self.pause(_BACKOFF_S)
                continue
            errors = errors_of(response) - {ErrorCode.NONE}
            if not errors:
                return response
            if errors - _TRY_AGAIN:
                raise Lost(", ".join(sorted(error.name for error in errors)))
            await self._try_again(*sorted(errors))

    async def _try_again(self, *errors: ErrorCode) -> None:
        await self.pause(_BACKOFF_S)
        if UNAVAILABLE.intersection(errors):
            await find_coordinator(self, self.transactional_id, TRANSACTION)

    def _version(self, request: Request[ResponseT], low: int, version_2: int) -> int:
        versions = type(request).stable_versions
        if self.generation is Generation.V2:
            return self.source.randint(version_2, versions.high)
        return self.source.randint(max(low, versions.low), version_2 - 1)

    async def live_on(self) -> None:
        """Or not; or not for so long that its transaction may have been aborted, or itself replaced."""
        if self.is_calm:
            return
        if self.chance(_DEATH):
            self.disconnect()
            raise Died
        if self.chance(_STALL):
            await self.pause(self.timeout_ms * 2 / 1000)
