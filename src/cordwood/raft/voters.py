"""The voters: their ids, where they listen, and how the set may change one voter at a time (KIP-853)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cordwood.wire.messages.data.voters_record import Endpoint as RecordEndpoint
from cordwood.wire.messages.data.voters_record import KRaftVersionFeature, Voter, VotersRecord

from .identity import NO_DIRECTORY, Endpoint, Endpoints, Node, ReplicaKey, VersionRange

STATIC_VERSIONS = VersionRange(0, 0)


class VoterNode(NamedTuple):
    key: ReplicaKey
    endpoints: Endpoints
    kraft_versions: VersionRange = STATIC_VERSIONS


class VoterSet:
    """An immutable set of voters, one per node id."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[VoterNode] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in sorted(voters, key=lambda voter: voter.key.id)}

    @classmethod
    def static(cls, listener: str, addresses: Mapping[int, Endpoint]) -> "VoterSet":
        """The voters of `controller.quorum.voters`; their directories are not known."""
        return cls(VoterNode(ReplicaKey(node_id), {listener: address}) for node_id, address in addresses.items())

    @classmethod
    def of_record(cls, record: VotersRecord) -> "VoterSet":
        return cls(
            VoterNode(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                {endpoint.name: Endpoint(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
                VersionRange(
                    voter.k_raft_version_feature.min_supported_version,
                    voter.k_raft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                Voter(
                    voter_id=key.id,
                    voter_directory_id=key.directory_id,
                    endpoints=[RecordEndpoint(name=name, host=host, port=port) for name, (host, port) in where.items()],
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=versions.low, max_supported_version=versions.high
                    ),
                )
                for key, where, versions in self
            ],
        )

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(key) for key in self.keys)})"

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self]

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def get(self, node_id: int) -> VoterNode | None:
        return self._voters.get(node_id)

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def endpoints(self, node_id: int) -> Endpoints:
        voter = self._voters.get(node_id)
        return voter.endpoints if voter is not None else {}

    def node(self, node_id: int, listener: str) -> Node | None:
        address = self.endpoints(node_id).get(listener)
        return Node(node_id, *address) if address is not None else None

    def with_voter(self, voter: VoterNode) -> "VoterSet":
        assert voter.key.id not in self._voters, f"{voter.key} is in {self}"
        return VoterSet([*self, voter])

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """None if that replica isn't a voter."""
        if not self.is_voter(key):
            return None
        return VoterSet(voter for voter in self if voter.key.id != key.id)

    def updated(self, voter: VoterNode) -> "VoterSet | None":
        """The set with another endpoint or version range of a voter; None if that replica isn't a voter."""
        return self.updated_by_id(voter) if self.is_voter(voter.key) else None

    def updated_by_id(self, voter: VoterNode) -> "VoterSet | None":
        """Like `updated`, but sets the directory too: static voters have none until they tell the leader."""
        if voter.key.id not in self._voters:
            return None
        return VoterSet(voter if other.key.id == voter.key.id else other for other in self)

    def needs_update(self, voter: VoterNode) -> bool:
        return self.is_voter(voter.key) and self._voters[voter.key.id] != voter

    def supports(self, kraft_version: int) -> bool:
        return all(kraft_version in voter.kraft_versions for voter in self)

    def has_all_directories(self) -> bool:
        return all(voter.key.directory_id != NO_DIRECTORY for voter in self)

    def overlaps(self, other: "VoterSet") -> bool:
        """True if every majority of one has a member in common with every majority of the other: one change at most."""
        ours, theirs = set(self.keys), set(other.keys)
        return len(ours - theirs) <= 1 and len(theirs - ours) <= 1
