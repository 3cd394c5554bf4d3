"""The `quorum-state` file: the epoch this replica is in, its leader, and the replica it voted for.

Version 0 is of quorums with kraft.version 0, version 1 of those with 1; both are read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.wire.primitives import uuid_from_text, uuid_text

from .exceptions import InvalidQuorumState
from .identity import NO_DIRECTORY, NO_NODE, ReplicaKey

QUORUM_STATE_FILE = "quorum-state"


@dataclass(frozen=True, slots=True)
class ElectionState:
    epoch: int = 0
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None

    def voted_for(self, key: ReplicaKey) -> bool:
        return self.voted_key is not None and self.voted_key.matches(key)

    def encode(self, kraft_version: int, voter_ids: Sequence[int]) -> bytes:
        voted = self.voted_key or ReplicaKey(NO_NODE)
        leader_id = NO_NODE if self.leader_id is None else self.leader_id
        known: dict[str, object]
        if kraft_version == 0:
            known = {
                "clusterId": "",
                "leaderId": leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted.id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
                "data_version": 0,
            }
        else:
            known = {
                "leaderId": leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted.id,
                "votedDirectoryId": uuid_text(voted.directory_id),
                "data_version": 1,
            }
        return json.dumps(known, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> "ElectionState":
        try:
            known = json.loads(data)
            version = known["data_version"]
            if version not in (0, 1):
                raise InvalidQuorumState(f"{path}: data_version must be 0 or 1, not {version!r}")
            epoch, leader_id, voted_id = int(known["leaderEpoch"]), int(known["leaderId"]), int(known["votedId"])
            directory = uuid_from_text(known["votedDirectoryId"]) if version == 1 else NO_DIRECTORY
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidQuorumState(f"{path}: expected Kafka's quorum state as JSON: {error!r}") from error
        return cls(
            epoch,
            None if leader_id == NO_NODE else leader_id,
            None if voted_id == NO_NODE else ReplicaKey(voted_id, directory),
        )
