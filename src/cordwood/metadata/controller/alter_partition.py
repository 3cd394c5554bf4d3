"""AlterPartition: a leader changes the ISR of its partitions, or says that one has recovered (KIP-497, KIP-704).

The leader names the state that it starts from, by leader epoch and partition epoch: a request that is late changes
nothing.
"""

from cordwood.metadata.image import LeaderRecovery, MetadataImage, PartitionRegistration, Topic
from cordwood.metadata.topics_delta import merge
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from cordwood.wire.schema import MetadataRecord

from .brokers import check_broker_epoch
from .decision import ControllerDefaults
from .partition_change import change_partition, online_election

_NO_EPOCH = -1


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, defaults: ControllerDefaults
) -> Decision[AlterPartitionResponse]:
    """Each partition succeeds or fails alone."""
    try:
        check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except Refusal as refusal:
        return Decision(AlterPartitionResponse(error_code=refusal.error))
    records: list[MetadataRecord] = []
    response = AlterPartitionResponse()
    for asked_topic in request.topics:
        answers = ResponseTopicData(topic_id=asked_topic.topic_id)
        response.topics.append(answers)
        topic = image.topics.by_id.get(asked_topic.topic_id)
        for asked in asked_topic.partitions:
            answer = ResponsePartitionData(partition_index=asked.partition_index)
            try:
                if topic is None:
                    raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
                changes, after = _alter(image, defaults, topic, asked, request.broker_id)
                records += changes
                if after.leader != request.broker_id:
                    # The change completes a reassignment that removes the leader: both are true, the change and this.
                    raise Refusal(ErrorCode.NEW_LEADER_ELECTED, f"the leader is {after.leader} from here on")
                answer.leader_id, answer.leader_epoch = after.leader, after.leader_epoch
                answer.isr = list(after.isr)
                answer.leader_recovery_state = after.leader_recovery.value
                answer.partition_epoch = after.partition_epoch
            except Refusal as refusal:
                answer.error_code = refusal.error
            answers.partitions.append(answer)
    return Decision(response, records)


def _alter(
    image: MetadataImage, defaults: ControllerDefaults, topic: Topic, asked: RequestPartitionData, broker_id: int
) -> tuple[list[MetadataRecord], PartitionRegistration]:
    before = topic.partitions.get(asked.partition_index)
    if before is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    # Version 2 has no broker epochs.
    states = asked.new_isr_with_epochs or [BrokerState(broker_id=replica) for replica in asked.new_isr]
    _check_epochs(before, asked, broker_id)
    _check_isr(image, before, states, asked.leader_recovery_state)
    record = change_partition(
        image,
        defaults,
        topic,
        asked.partition_index,
        isr=tuple(state.broker_id for state in states),
        election=online_election(image, defaults, topic),
        recovery=LeaderRecovery(asked.leader_recovery_state),
    )
    if record is None:
        return [], before
    return [record], merge(before, record)


def _check_epochs(before: PartitionRegistration, asked: RequestPartitionData, broker_id: int) -> None:
    if asked.leader_epoch > before.leader_epoch or asked.partition_epoch > before.partition_epoch:
        # The leader knows more than this controller: another one must be active by now.
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the leader is ahead of this controller")
    if asked.leader_epoch < before.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {before.leader_epoch}")
    if broker_id != before.leader:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"the leader is {before.leader}")
    if asked.partition_epoch < before.partition_epoch:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {before.partition_epoch}")


def _check_isr(image: MetadataImage, before: PartitionRegistration, states: list[BrokerState], recovery: int) -> None:
    isr = [state.broker_id for state in states]
    if len(set(isr)) < len(isr) or not set(isr) <= set(before.replicas) or before.leader not in isr:
        raise Refusal(ErrorCode.INVALID_REQUEST, "an ISR is the leader and other replicas, each once")
    if recovery not in tuple(LeaderRecovery):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"unknown leader recovery state {recovery}")
    if recovery == LeaderRecovery.RECOVERING:
        if len(isr) > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a leader that recovers is alone in its ISR")
        if before.leader_recovery is LeaderRecovery.RECOVERED:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a leader that has recovered does not begin again")
    for state in states:
        broker = image.brokers.get(state.broker_id)
        if broker is None or not broker.is_active or state.broker_epoch not in (_NO_EPOCH, broker.epoch):
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"broker {state.broker_id} cannot be in an ISR now")
        directory = before.directory_of(state.broker_id)
        if state.broker_id not in before.isr and not broker.has_online_directory(directory):
            # A fetch from before the directory failed may reach the leader after the replica has left for it. Kafka's
            # controller lets the replica in again, and writes wait until it has lagged for too long.
            raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"the log directory of broker {state.broker_id} is offline")
