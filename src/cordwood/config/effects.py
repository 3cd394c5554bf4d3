"""Which keys Cordwood goes by: the one place where that is kept, and what docs/configuration.md is made from.

Every key that Kafka knows is read and checked. Whoever makes a part go by a key moves it to WORKS here and runs
tools/generate_configs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from cordwood.config.definition import Definitions
from cordwood.config.definitions.broker import BROKER, BROKER_QUOTAS
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.quotas import IP_QUOTAS, USER_AND_CLIENT_QUOTAS
from cordwood.config.definitions.topic import TOPIC


class Effect(Enum):
    WORKS = "works"
    # The part that is to go by it is not built yet.
    LATER = "not yet"
    # There is nothing in Cordwood that it could be about.
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Rule:
    effect: Effect
    # What goes by the key, will do so, or why nothing will.
    note: str
    # Names, with `*` for any characters.
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The keys of one kind of resource, and what is true of them: of the rules that match a key, the first."""

    title: str
    definitions: Definitions
    rules: tuple[Rule, ...]

    def rule_of(self, name: str) -> Rule:
        return next(rule for rule in self.rules if any(fnmatchcase(name, key) for key in rule.keys))


_JVM = "Java's classes cannot be loaded into Cordwood"
_THREADS = "one thread owns a broker: there is no such pool"
_TIERED = "there is no tiered storage"
_KERBEROS = "there is no Kerberos"

BROKER_SECTION = Section(
    "Broker",
    BROKER,
    (
        Rule(Effect.WORKS, "metrics (docs/metrics.md)", ("cordwood.metrics.*",)),
        Rule(Effect.NEVER, _TIERED, ("remote.*", "log.local.retention.*", "follower.fetch.last.tiered.offset.enable")),
        Rule(
            Effect.WORKS,
            "compaction",
            (
                "log.cleaner.backoff.ms",
                "log.cleaner.dedupe.buffer.size",
                "log.cleaner.enable",
                "log.cleaner.io.*",
                "log.cleaner.threads",
            ),
        ),
        Rule(
            Effect.WORKS,
            "the default of a topic's key",
            (
                "compression.*",
                "log.cleaner.*",
                "log.cleanup.policy",
                "log.flush.interval.*",
                "log.flush.scheduler.interval.ms",
                "log.index.*",
                "log.message.timestamp.*",
                "log.retention.bytes",
                "log.retention.hours",
                "log.retention.minutes",
                "log.retention.ms",
                "log.roll.*",
                "log.segment.*",
                "message.max.bytes",
            ),
        ),
        Rule(
            Effect.NEVER,
            "files are not allocated ahead: they grow as they are written",
            ("log.preallocate",),
        ),
        Rule(
            Effect.WORKS,
            "the node's identity, listeners and directories",
            (
                "advertised.listeners",
                "broker.id",
                "broker.rack",
                "controller.listener.names",
                "cordoned.log.dirs",
                "inter.broker.listener.name",
                "listener.security.protocol.map",
                "listeners",
                "log.dir",
                "log.dirs",
                "metadata.log.dir",
                "node.id",
                "process.roles",
                "security.inter.broker.protocol",
            ),
        ),
        Rule(
            Effect.LATER,
            "the node's identity, listeners and directories",
            (
                "early.start.listeners",
                "log.dir.failure.timeout.ms",
                "server.max.startup.time.ms",
            ),
        ),
        Rule(
            Effect.LATER,
            "connections and requests",
            (
                "max.connection.creation.rate",
                "queued.max.request.bytes",
                "request.timeout.ms",
                "socket.connection.*",
            ),
        ),
        Rule(
            Effect.WORKS,
            "connections; at this default, up to 32 that send in bulk have 2 MiB",
            ("socket.receive.buffer.bytes",),
        ),
        Rule(
            Effect.WORKS,
            "connections and requests",
            (
                "connections.max.idle.ms",
                "fetch.max.bytes",
                "max.connections*",
                "max.incremental.fetch.session.cache.slots",
                "max.request.partition.size.limit",
                "queued.max.requests",
                "socket.*",
            ),
        ),
        Rule(
            Effect.WORKS,
            "topics and their logs on the node",
            (
                "auto.create.topics.enable",
                "default.replication.factor",
                "delete.topic.enable",
                "log.flush.offset.checkpoint.interval.ms",
                "log.flush.start.offset.checkpoint.interval.ms",
                "log.initial.task.delay.ms",
                "log.retention.check.interval.ms",
                "min.insync.replicas",
                "num.partitions",
                "producer.id.expiration.*",
                "replica.high.watermark.checkpoint.interval.ms",
                "unclean.leader.election.enable",
            ),
        ),
        Rule(Effect.LATER, "elections by time", ("unclean.leader.election.*",)),
        Rule(
            Effect.WORKS,
            "the metadata log",
            (
                "metadata.log.max.*",
                "metadata.log.segment.bytes",
                "metadata.log.segment.ms",
                "metadata.max.*",
            ),
        ),
        Rule(
            Effect.WORKS, "versions of requests that Kafka does not take for stable", ("unstable.api.versions.enable",)
        ),
        Rule(
            Effect.LATER,
            "the metadata log and the controller",
            (
                "broker.heartbeat.interval.ms",
                "broker.session.timeout.ms",
                "controlled.shutdown.enable",
                "controller.performance.*",
                "controller.quorum.*",
                "controller.socket.timeout.ms",
                "initial.broker.registration.timeout.ms",
                "internal.metadata.*",
                "auto.leader.rebalance.enable",
                "leader.imbalance.check.interval.seconds",
                "unstable.*",
            ),
        ),
        Rule(Effect.NEVER, _JVM, ("replica.selector.class",)),
        Rule(
            Effect.LATER,
            "replication",
            ("replica.*",),
        ),
        Rule(
            Effect.NEVER,
            _THREADS,
            (
                "background.threads",
                "group.coordinator.background.threads",
                "group.coordinator.threads",
                "num.*.threads",
                "num.recovery.threads.per.data.dir",
                "num.replica.fetchers",
                "share.coordinator.threads",
            ),
        ),
        Rule(
            Effect.NEVER,
            "operations that wait are woken by what they wait for; none are left behind to purge",
            ("*.purgatory.purge.interval.requests",),
        ),
        Rule(Effect.NEVER, _JVM, ("group.share.persister.class.name",)),
        Rule(Effect.LATER, "share groups", ("group.share.*", "share.coordinator.*")),
        Rule(Effect.LATER, "streams groups", ("group.streams.*",)),
        Rule(
            Effect.NEVER,
            "what a coordinator decides is written at once, and its buffers are not kept",
            ("group.coordinator.append.linger.ms", "group.coordinator.cached.buffer.max.bytes"),
        ),
        Rule(Effect.WORKS, "groups and their offsets", ("group.*", "offset.metadata.max.bytes", "offsets.*")),
        Rule(
            Effect.NEVER,
            "whoever waits for a transaction to end is woken by its end",
            ("add.partitions.to.txn.retry.backoff.ms",),
        ),
        Rule(
            Effect.WORKS,
            "transactions",
            ("add.partitions.to.txn.retry.backoff.max.ms", "transaction.*", "transactional.id.expiration.ms"),
        ),
        Rule(
            Effect.LATER,
            "quotas",
            (
                "alter.log.dirs.replication.quota.*",
                "controller.quota.*",
                "quota.window.*",
                "replication.quota.*",
            ),
        ),
        Rule(Effect.LATER, "clients' metrics (KIP-714)", ("telemetry.max.bytes",)),
        Rule(Effect.LATER, "ACLs", ("authorizer.class.name",)),
        Rule(
            Effect.NEVER,
            _JVM,
            (
                "*.callback.handler.class",
                "*.class.name",
                "client.quota.callback.class",
                "config.providers",
                "kafka.metrics.*",
                "metric.reporters",
                "principal.builder.class",
                "sasl.login.class",
                "sasl.oauthbearer.jwt.retriever.class",
                "sasl.oauthbearer.jwt.validator.class",
                "security.providers",
                "ssl.engine.factory.class",
                "ssl.keymanager.algorithm",
                "ssl.provider",
                "ssl.secure.random.implementation",
                "ssl.trustmanager.algorithm",
            ),
        ),
        Rule(Effect.NEVER, "Prometheus computes rates from counters", ("metrics.*",)),
        Rule(Effect.NEVER, _KERBEROS, ("sasl.kerberos.*",)),
        Rule(
            Effect.WORKS,
            "TLS",
            (
                "ssl.cipher.suites",
                "ssl.client.auth",
                "ssl.enabled.protocols",
                "ssl.key.password",
                "ssl.keystore.certificate.chain",
                "ssl.keystore.key",
                "ssl.keystore.location",
                "ssl.keystore.type",
                "ssl.truststore.certificates",
                "ssl.truststore.location",
                "ssl.truststore.type",
            ),
        ),
        Rule(Effect.LATER, "TLS", ("ssl.*",)),
        Rule(
            Effect.LATER, "SASL", ("sasl.*", "connections.max.reauth.ms", "connection.failed.authentication.delay.ms")
        ),
        Rule(Effect.LATER, "delegation tokens", ("delegation.token.*",)),
    ),
)

SECTIONS = (
    BROKER_SECTION,
    Section(
        "Broker, set while it runs",
        BROKER_QUOTAS,
        (
            Rule(
                Effect.WORKS,
                "replicas that move between log directories",
                ("replica.alter.log.dirs.io.max.bytes.per.second",),
            ),
            Rule(Effect.LATER, "replication", ("*",)),
        ),
    ),
    Section(
        "Topic",
        TOPIC,
        (
            Rule(Effect.NEVER, _TIERED, ("local.retention.*", "remote.*")),
            Rule(Effect.NEVER, "files are not allocated ahead: they grow as they are written", ("preallocate",)),
            Rule(
                Effect.LATER,
                "replication",
                ("*.replication.throttled.replicas",),
            ),
            Rule(
                Effect.WORKS,
                "which replicas may lead, and how many have to be in sync",
                ("min.insync.replicas", "unclean.leader.election.enable"),
            ),
            Rule(Effect.WORKS, "the topic's logs", ("*",)),
        ),
    ),
    Section(
        "Group",
        GROUP,
        (
            Rule(Effect.WORKS, "groups", ("consumer.*",)),
            Rule(Effect.LATER, "share groups", ("share.*",)),
            Rule(Effect.LATER, "streams groups", ("streams.*",)),
        ),
    ),
    Section("Client metrics", CLIENT_METRICS, (Rule(Effect.LATER, "clients' metrics (KIP-714)", ("*",)),)),
    Section("Quotas of users and clients", USER_AND_CLIENT_QUOTAS, (Rule(Effect.LATER, "quotas", ("*",)),)),
    Section("Quotas of addresses", IP_QUOTAS, (Rule(Effect.LATER, "quotas", ("*",)),)),
)


def effect_on_broker(name: str) -> Rule:
    """For a node that tells its owner which of the keys that were set do nothing."""
    return BROKER_SECTION.rule_of(name)
