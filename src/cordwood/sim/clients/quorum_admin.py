"""The clients of a workload that create, configure and delete topics through any broker, and change the voters."""

from typing import Any

from cordwood.metadata.controller.features import UpgradeType
from cordwood.metadata.features import KRAFT_VERSION
from cordwood.net.peers.channel import Channel
from cordwood.raft.states import Leader
from cordwood.runtime.network import NetworkError
from cordwood.sim.cluster import CONTROLLER_LISTENER, CONTROLLER_PORT, host_of
from cordwood.sim.histories.quorum import Wish, WishOutcome
from cordwood.sim.machine import Machine
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from cordwood.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from cordwood.wire.primitives import uuid_text
from cordwood.wire.schema import Request, ResponseT

from .client import Client, Over, Run

SETTING = "max.message.bytes"
_TOPIC = 2
_SET = 0
_TIMEOUT_MS = 3_000
_MAX_PAUSE_S = 0.6
_DELETED = 0.1
_CREATED = 0.4
# The last voter can't be removed.
_MIN_VOTERS = 1
_KRAFT_UPGRADE = UpdateFeaturesRequest(
    timeout_ms=_TIMEOUT_MS,
    feature_updates=[FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=UpgradeType.UPGRADE)],
)
_REFUSED = frozenset(
    {
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class QuorumAdmin(Client):
    """Has its own topics, each of which it creates once; waits for the answer to each request."""

    def __init__(self, run: Run, name: str, machine: Machine | None = None) -> None:
        """It asks any broker, or the one on `machine`."""
        super().__init__(run, name, machine)
        self._topics: list[str] = []

    async def work(self) -> None:
        try:
            while True:
                await self.pause(_MAX_PAUSE_S)
                try:
                    if not self._topics or self.chance(_CREATED):
                        await self._create()
                    elif self.chance(_DELETED):
                        await self._delete()
                    else:
                        await self._configure()
                except NetworkError:
                    continue
        except Over:
            return

    async def _create(self) -> None:
        await self.create(f"{self.name}-{self.run.next_number()}")

    async def create(self, name: str) -> bool:
        """Returns whether the response said that the topic exists."""
        wish = self._wish(name, None, "")
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        response = await self.ask(
            CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), CreateTopicsRequest.stable_versions.high
        )
        answer = response.topics[0]
        self._answered(wish, answer.error_code)
        if answer.error_code == ErrorCode.NONE:
            wish.topic_id = uuid_text(answer.topic_id)
        if wish.outcome is WishOutcome.DONE:
            self._topics.append(name)
        return wish.outcome is WishOutcome.DONE

    async def _configure(self) -> None:
        name, value = self.source.choice(self._topics), str(self.run.next_number() + 1000)
        wish = self._wish(name, SETTING, value)
        resource = AlterConfigsResource(
            resource_type=_TOPIC,
            resource_name=name,
            configs=[AlterableConfig(name=SETTING, config_operation=_SET, value=value)],
        )
        response = await self.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        self._answered(wish, response.responses[0].error_code)

    async def _delete(self) -> None:
        name = self._topics.pop(self.source.randrange(len(self._topics)))
        wish = self._wish(name, None, None)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)
        response = await self.ask(request, DeleteTopicsRequest.stable_versions.high)
        self._answered(wish, response.responses[0].error_code)

    def _wish(self, topic: str, setting: str | None, value: str | None) -> Wish:
        wish = Wish(self.run.next_number(), self.name, topic, setting, value, self.run.now_s)
        self.run.history.quorum.wishes.append(wish)
        return wish

    def _answered(self, wish: Wish, error: int) -> None:
        wish.ended_s = self.run.now_s
        # A broker retries at the controller when it gets no answer, and may then get the error of a repetition.
        done_before = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wish.value is None else ErrorCode.TOPIC_ALREADY_EXISTS
        if error == ErrorCode.NONE or (wish.setting is None and error == done_before):
            wish.outcome = WishOutcome.DONE
        elif error in _REFUSED:
            wish.outcome = WishOutcome.REFUSED


class VoterAdmin(Client):
    """Adds controllers to the voters and removes them, by asking the quorum's leader. Static voters it first has
    entered into the metadata log."""

    async def work(self) -> None:
        while not self.run.is_over:
            await self.pause(6.0)
            try:
                await self._change()
            except NetworkError:
                continue

    async def _change(self) -> None:
        cluster = self.run.cluster
        assert cluster is not None
        for machine in cluster.controllers.values():
            if machine.member is not None and isinstance(machine.member.state, Leader):
                voters, kraft_version = machine.member.voters, machine.member.quorum.kraft_version
                break
        else:
            return
        if kraft_version == 0:
            await self._ask_leader(machine, 0, _KRAFT_UPGRADE)
            return
        chosen = self.source.choice(list(cluster.controllers))
        directory_id = cluster.directory_ids[chosen]
        if chosen not in voters.ids:
            listener = Listener(name=CONTROLLER_LISTENER, host=host_of(chosen), port=CONTROLLER_PORT)
            added = AddRaftVoterRequest(
                cluster_id=cluster.cluster_id,
                timeout_ms=_TIMEOUT_MS,
                voter_id=chosen,
                voter_directory_id=directory_id,
                listeners=[listener],
            )
            await self._ask_leader(machine, chosen, added)
        elif len(voters) > _MIN_VOTERS:
            removed = RemoveRaftVoterRequest(
                cluster_id=cluster.cluster_id, voter_id=chosen, voter_directory_id=directory_id
            )
            await self._ask_leader(machine, chosen, removed)

    async def _ask_leader(self, machine: Machine, chosen: int, request: Request[ResponseT]) -> None:
        version = type(request).stable_versions.high
        self.run.world.trace.note("voters", type(request).__name__, chosen)
        channel = await Channel.open(
            self.run.world.network.host(self.name), machine.name, CONTROLLER_PORT, client_id=self.name, timeout_s=2.0
        )
        try:
            response: Any = await channel.request(request, version, 4.0)
            self.run.world.trace.note("voters", type(request).__name__, chosen, ErrorCode(response.error_code).name)
        finally:
            channel.abort()
