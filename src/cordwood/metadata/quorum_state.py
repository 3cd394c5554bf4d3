"""The `quorum-state` file: the leader epoch this node is in, who leads it, and whom it voted for.

Version 0 is of quorums whose voters are configured (kraft.version 0), 1 of those whose voters are in the log.
"""

import json
from dataclasses import dataclass

from cordwood.wire.primitives import Uuid, uuid_from_text, uuid_text

from .exceptions import InvalidMetadata

QUORUM_STATE = "quorum-state"
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: Uuid = bytes(16)

    def encode(self, kraft_version: int, voter_ids: list[int]) -> bytes:
        known: dict[str, object]
        if kraft_version == 0:
            known = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
                "data_version": 0,
            }
        else:
            known = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_text(self.voted_directory_id),
                "data_version": 1,
            }
        return json.dumps(known, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> "QuorumState":
        try:
            known = json.loads(data)
            if known["data_version"] not in (0, 1):
                raise InvalidMetadata(f"{path}: data_version is 0 or 1, not {known['data_version']}")
            voted_directory = known.get("votedDirectoryId")
            return cls(
                int(known["leaderId"]),
                int(known["leaderEpoch"]),
                int(known["votedId"]),
                bytes(16) if voted_directory is None else uuid_from_text(voted_directory),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidMetadata(f"{path}: expected Kafka's quorum state as JSON: {error!r}") from error
