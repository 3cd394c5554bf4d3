"""The description's `live` part: what the running broker answered, against what its logs add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cordwood.log.log import Log

from .metadata import BROKER, RESOURCE_TYPES, Metadata
from .records import Described, described_records
from .report import Report

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_TXN_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_THIS_NODE = (BROKER, "this node")
# Source of a configuration entry -> the resource it comes from; None: the resource that was asked about.
_DYNAMIC_SOURCES: dict[str, tuple[int, str] | None] = {
    "DYNAMIC_TOPIC_CONFIG": None,
    "DYNAMIC_GROUP_CONFIG": None,
    "DYNAMIC_CLIENT_METRICS_CONFIG": None,
    "DYNAMIC_BROKER_CONFIG": _THIS_NODE,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": (BROKER, ""),
}

Logs = Mapping[tuple[str, int], Log]


@dataclass(frozen=True, slots=True)
class Node:
    """The node that the directory belongs to."""

    cluster_id: str
    node_id: int
    # Its server.properties, if they were packed with it.
    properties: Mapping[str, str]


def check_live(live: dict[str, Any], metadata: Metadata, logs: Logs, node: Node, report: Report) -> None:
    derived: dict[str, Any] = {
        "topics": _topics(metadata),
        "groups": _groups(logs),
        "transactions": _transactions(logs),
        "finalizedFeatures": metadata.features,
        "supportedFeatures": metadata.supported_features,
        "clusterId": node.cluster_id,
    }
    for key, stated in live.items():
        if key == "describeConfigs":
            for resource in stated:
                _check_configs(resource, metadata, node, report)
        elif key not in derived:
            report.leave_out(f"live.{key}")
        elif isinstance(stated, dict):
            report.same(f"live.{key}: names", sorted(derived[key]), sorted(stated))
            for name, facts in stated.items():
                _check_facts(f"live.{key}", name, derived[key].get(name), facts, report)
        else:
            report.same(f"live.{key}", derived[key], stated)


def _check_facts(where: str, name: str, ours: Any, facts: Any, report: Report) -> None:
    if not isinstance(facts, dict) or not isinstance(ours, dict):
        report.same(f"{where}.{name}", ours, facts)
        return
    for fact, value in facts.items():
        if fact in ours:
            report.same(f"{where}.{name}: {fact}", ours[fact], value)
        else:
            report.leave_out(f"{where}.*.{fact}")


def _topics(metadata: Metadata) -> dict[str, Any]:
    return {
        name: {"id": topic_id, "partitions": len(metadata.partitions[topic_id]), "internal": name in INTERNAL_TOPICS}
        for topic_id, name in metadata.topics.items()
    }


def _check_configs(resource: dict[str, Any], metadata: Metadata, node: Node, report: Report) -> None:
    """Dynamic settings come from the metadata log, static ones from the node's file."""
    asked = (RESOURCE_TYPES[resource["type"]], resource["name"])
    where = f"live.describeConfigs {resource['type']} {resource['name'] or 'default'}"
    set_here = set()
    for entry in resource["entries"]:
        for synonym in entry.get("synonyms") or [entry]:
            name, source = synonym["name"], synonym["source"]
            if source in _DYNAMIC_SOURCES:
                origin = _DYNAMIC_SOURCES[source] or asked
                if origin == _THIS_NODE:
                    origin = (BROKER, str(node.node_id))
                if origin == asked:
                    set_here.add(name)
                ours = metadata.configs.get(origin, {}).get(name)
            elif source == "STATIC_BROKER_CONFIG" and name in node.properties:
                ours = node.properties[name]
            else:
                report.leave_out(f"live.describeConfigs by {source}")
                continue
            if not entry.get("sensitive"):
                report.same(f"{where}: {name} by {source}", ours, synonym["value"])
    report.same(f"{where}: what is set", sorted(metadata.configs.get(asked, {})), sorted(set_here))


# Groups


class _Group:
    def __init__(self) -> None:
        self.offsets: dict[str, tuple[int, dict[str, Any]]] = {}
        self.classic: dict[str, Any] | None = None
        # Groups of the new protocols: type, epochs, members.
        self.kind = ""
        self.epoch = self.assignment_epoch = 0
        self.members: dict[str, dict[str, Any]] = {}
        self.has_pending = False

    @property
    def exists(self) -> bool:
        return bool(self.offsets or self.classic or self.kind or self.has_pending)

    def described(self) -> dict[str, Any]:
        offsets = {partition: commit for partition, (_, commit) in sorted(self.offsets.items())}
        if self.kind:
            return {"type": self.kind, "protocol": self.kind.lower(), "state": self._state(), "offsets": offsets}
        classic = self.classic or {"protocolType": "", "members": []}
        state = "Stable" if classic["members"] else "Empty"
        return {"type": "Classic", "protocol": classic["protocolType"], "state": state, "offsets": offsets}

    def _state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        stable = all(
            member.get("memberEpoch") == self.assignment_epoch and not member.get("state")
            for member in self.members.values()
        )
        return "Stable" if stable else "Reconciling"


def _groups(logs: Logs) -> dict[str, Any]:
    groups: dict[str, _Group] = {}
    for (topic, _), log in sorted(logs.items()):
        if topic == "__consumer_offsets":
            _replay_groups(groups, described_records(log, topic))
    return {name: group.described() for name, group in groups.items() if group.exists}


def _replay_groups(groups: dict[str, _Group], records: Iterable[Described]) -> None:
    for record in records:
        decoded = record.get("decoded")
        if decoded is None or record.get("txn") == "aborted":
            continue
        key, value = decoded["key"], decoded["value"]
        group = groups.setdefault(key.get("group") or key.get("groupId", ""), _Group())
        if record.get("txn") == "open":
            group.has_pending = True
            continue
        match decoded["type"]:
            case "OFFSET_COMMIT" | "LEGACY_OFFSET_COMMIT":
                partition = f"{key['topic']}-{key['partition']}"
                group.offsets.pop(partition, None)
                if value is not None:
                    commit = {name: value[name] for name in ("offset", "leaderEpoch", "metadata") if name in value}
                    group.offsets[partition] = (record["offset"], {"leaderEpoch": -1} | commit)
            case "GROUP_METADATA":
                group.classic = value
            case "CONSUMER_GROUP_METADATA" | "SHARE_GROUP_METADATA" | "STREAMS_GROUP_METADATA" as kind:
                group.kind = "" if value is None else kind.partition("_")[0].capitalize()
                group.epoch = 0 if value is None else value["epoch"]
            case kind if kind.endswith("_TARGET_ASSIGNMENT_METADATA"):
                group.assignment_epoch = 0 if value is None else value["assignmentEpoch"]
            case kind if kind.endswith("_CURRENT_MEMBER_ASSIGNMENT"):
                group.members.pop(key["memberId"], None)
                if value is not None:
                    group.members[key["memberId"]] = value


# Transactions


def _transactions(logs: Logs) -> dict[str, Any]:
    latest: dict[str, dict[str, Any] | None] = {}
    for (topic, _), log in logs.items():
        if topic == "__transaction_state":
            for record in described_records(log, topic):
                if "decoded" in record:
                    latest[record["decoded"]["key"]["transactionalId"]] = record["decoded"]["value"]
    return {name: _transaction(value) for name, value in latest.items() if value is not None}


def _transaction(value: dict[str, Any]) -> dict[str, Any]:
    partitions = [
        f"{topic['topic']}-{partition}"
        for topic in value["transactionPartitions"] or []
        for partition in topic["partitionIds"]
    ]
    return {
        "state": _TXN_STATES[value["transactionStatus"]],
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "timeoutMs": value["transactionTimeoutMs"],
        "partitions": sorted(partitions),
    }
