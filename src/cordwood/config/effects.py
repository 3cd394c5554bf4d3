"""The keys that Cordwood honours: the single source, from which docs/configuration.md is generated.

Every key that Kafka knows is parsed and validated. When a component starts to honour a key, move the key to WORKS here
and run tools/generate_configs.py.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from cordwood.config.definition import Definitions
from cordwood.config.definitions.broker import BROKER, BROKER_QUOTAS
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.quotas import IP_QUOTAS, USER_AND_CLIENT_QUOTAS
from cordwood.config.definitions.topic import TOPIC


class Effect(Enum):
    WORKS = "works"
    # The component that will honour it is not built yet.
    LATER = "not yet"
    # Does not apply to Cordwood.
    NEVER = "never"
    # Promises protection that is missing: any value but Kafka's default is an error. See `protection`.
    REFUSED = "refused"


class Rule(NamedTuple):
    effect: Effect
    # The component that honours the key, or will, or the reason why none does; for a refused key, what is missing.
    note: str
    # Key names, with `*` as a wildcard.
    keys: tuple[str, ...]


class Section(NamedTuple):
    """The rules for the keys of one kind of resource; the first rule that matches a key applies."""

    title: str
    definitions: Definitions
    rules: tuple[Rule, ...]

    def rule_of(self, name: str) -> Rule:
        return next(rule for rule in self.rules if any(_matches(name, key) for key in rule.keys))


def _matches(name: str, key: str) -> bool:
    """`fnmatch` would compile a regular expression for each key: some milliseconds of a node's start."""
    start, wildcard, end = key.partition("*")
    if not wildcard:
        return name == key
    return name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end)


_JVM = "Java's classes cannot be loaded into Cordwood"
_THREADS = "one thread owns a broker: there is no such thread pool"
_TIERED = "tiered storage is not supported"
_KERBEROS = "Kerberos is not supported"
NO_SASL = "SASL is not supported yet: clients could connect without authenticating"
NO_AUTHORIZER = "authorizers and ACLs are not supported yet: every client may do everything"
_NO_POLICIES = "policies are Java classes, which cannot be loaded: every request would be allowed"
_NO_QUOTAS = "this quota is not supported yet: nothing would be limited"
_NO_TOKENS = "delegation tokens are not supported yet: none would be issued or checked"
_NO_JAVA_TLS = "Java classes cannot be loaded: connections would be checked by OpenSSL's rules only"

BROKER_SECTION = Section(
    "Broker",
    BROKER,
    (
        Rule(Effect.REFUSED, NO_AUTHORIZER, ("authorizer.class.name",)),
        Rule(Effect.REFUSED, _NO_POLICIES, ("alter.config.policy.class.name", "create.topic.policy.class.name")),
        Rule(Effect.REFUSED, _NO_QUOTAS, ("client.quota.callback.class", "max.connection.creation.rate")),
        Rule(Effect.REFUSED, _NO_TOKENS, ("delegation.token.secret.key",)),
        Rule(
            Effect.REFUSED,
            _NO_JAVA_TLS,
            (
                "principal.builder.class",
                "security.providers",
                "ssl.engine.factory.class",
                "ssl.provider",
                "ssl.trustmanager.algorithm",
            ),
        ),
        Rule(
            Effect.REFUSED,
            NO_SASL,
            (
                "connections.max.reauth.ms",
                "sasl.client.callback.handler.class",
                "sasl.enabled.mechanisms",
                "sasl.jaas.config",
                "sasl.kerberos.principal.to.local.rules",
                "sasl.kerberos.service.name",
                "sasl.login.callback.handler.class",
                "sasl.login.class",
                "sasl.mechanism.*",
                "sasl.oauthbearer.assertion.claim.aud",
                "sasl.oauthbearer.assertion.claim.iss",
                "sasl.oauthbearer.assertion.claim.sub",
                "sasl.oauthbearer.assertion.file",
                "sasl.oauthbearer.assertion.private.*",
                "sasl.oauthbearer.assertion.template.file",
                "sasl.oauthbearer.client.*",
                "sasl.oauthbearer.expected.*",
                "sasl.oauthbearer.jwks.endpoint.url",
                "sasl.oauthbearer.jwt.*",
                "sasl.oauthbearer.scope",
                "sasl.oauthbearer.token.endpoint.url",
                "sasl.server.callback.handler.class",
            ),
        ),
        Rule(Effect.WORKS, "metrics (docs/metrics.md)", ("cordwood.metrics.*",)),
        Rule(Effect.WORKS, "the schema registry (docs/registry.md)", ("cordwood.registry.*",)),
        Rule(
            Effect.WORKS,
            "the broker's session with the controller (docs/metadata.md)",
            (
                "broker.heartbeat.interval.ms",
                "broker.session.timeout.ms",
                "controlled.shutdown.enable",
                "cordwood.broker.reconnect.grace.ms",
                "initial.broker.registration.timeout.ms",
            ),
        ),
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
            "files are not preallocated",
            ("log.preallocate",),
        ),
        Rule(
            Effect.WORKS,
            "the node's listeners, which are fixed at the start; SASL protocols are refused",
            (
                "advertised.listeners",
                "listener.security.protocol.map",
                "listeners",
                "security.inter.broker.protocol",
            ),
        ),
        Rule(
            Effect.WORKS,
            "the node's identity, listeners and directories",
            (
                "broker.id",
                "broker.rack",
                "controller.listener.names",
                "cordoned.log.dirs",
                "inter.broker.listener.name",
                "log.dir",
                "log.dirs",
                "metadata.log.dir",
                "node.id",
                "process.roles",
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
            ("queued.max.request.bytes",),
        ),
        Rule(Effect.WORKS, "connections to other nodes", ("request.timeout.ms", "socket.connection.*")),
        Rule(
            Effect.WORKS,
            "connections; with this default, up to 32 bulk senders get 2 MiB",
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
        Rule(
            Effect.WORKS,
            "periodic elections",
            (
                "auto.leader.rebalance.enable",
                "leader.imbalance.check.interval.seconds",
                "unclean.leader.election.interval.ms",
            ),
        ),
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
        Rule(Effect.WORKS, "request versions that Kafka considers unstable", ("unstable.api.versions.enable",)),
        Rule(Effect.WORKS, "the metadata quorum", ("controller.quorum.*",)),
        Rule(
            Effect.LATER,
            "the metadata log and the controller",
            (
                "controller.performance.*",
                "controller.socket.timeout.ms",
                "internal.metadata.*",
                "unstable.*",
            ),
        ),
        Rule(
            Effect.WORKS,
            "replication",
            (
                "replica.fetch.*",
                "replica.lag.time.max.ms",
                "replica.selector.class",
                "replica.socket.timeout.ms",
                "num.replica.fetchers",
            ),
        ),
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
                "share.coordinator.threads",
            ),
        ),
        Rule(
            Effect.NEVER,
            "pending operations are completed by events; there is no purgatory to purge",
            ("*.purgatory.purge.interval.requests",),
        ),
        Rule(Effect.NEVER, _JVM, ("group.share.persister.class.name",)),
        Rule(Effect.LATER, "share groups", ("group.share.*", "share.coordinator.*")),
        Rule(Effect.LATER, "streams groups", ("group.streams.*",)),
        Rule(
            Effect.NEVER,
            "coordinators write their decisions at once, without cached buffers",
            ("group.coordinator.append.linger.ms", "group.coordinator.cached.buffer.max.bytes"),
        ),
        Rule(Effect.WORKS, "groups and their offsets", ("group.*", "offset.metadata.max.bytes", "offsets.*")),
        Rule(
            Effect.WORKS,
            "transactions",
            ("add.partitions.to.txn.retry.backoff.*", "transaction.*", "transactional.id.expiration.ms"),
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
        Rule(Effect.LATER, "client metrics (KIP-714)", ("telemetry.max.bytes",)),
        Rule(Effect.LATER, "ACLs", ("ssl.principal.mapping.rules",)),
        Rule(
            Effect.NEVER,
            _JVM,
            ("config.providers", "kafka.metrics.*", "metric.reporters"),
        ),
        Rule(
            Effect.NEVER,
            "TLS is implemented by OpenSSL, with its own key handling and random numbers",
            ("ssl.keymanager.algorithm", "ssl.secure.random.implementation"),
        ),
        Rule(Effect.NEVER, "use `ssl.enabled.protocols`", ("ssl.protocol",)),
        Rule(
            Effect.NEVER,
            "PEM files have no password; `ssl.key.password` is the key's",
            ("ssl.keystore.password", "ssl.truststore.password"),
        ),
        Rule(Effect.WORKS, "replacing certificates of a running node", ("ssl.allow.*",)),
        Rule(Effect.WORKS, "connections to other nodes", ("ssl.endpoint.identification.algorithm",)),
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
        Rule(Effect.LATER, "SASL", ("sasl.*", "connection.failed.authentication.delay.ms")),
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
                "moving replicas between log directories",
                ("replica.alter.log.dirs.io.max.bytes.per.second",),
            ),
            Rule(Effect.WORKS, "replication", ("*",)),
        ),
    ),
    Section(
        "Topic",
        TOPIC,
        (
            Rule(Effect.NEVER, _TIERED, ("local.retention.*", "remote.*")),
            Rule(Effect.NEVER, "files are not preallocated", ("preallocate",)),
            Rule(
                Effect.WORKS,
                "replication",
                ("*.replication.throttled.replicas",),
            ),
            Rule(
                Effect.WORKS,
                "eligible leaders and acknowledgements",
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
    Section("Client metrics", CLIENT_METRICS, (Rule(Effect.LATER, "client metrics (KIP-714)", ("*",)),)),
    Section("Quotas of users and clients", USER_AND_CLIENT_QUOTAS, (Rule(Effect.LATER, "quotas", ("*",)),)),
    Section("Quotas of addresses", IP_QUOTAS, (Rule(Effect.LATER, "quotas", ("*",)),)),
)


def effect_on_broker(name: str) -> Rule:
    """Returns the effect of a key, so that a node can report settings without effect."""
    return BROKER_SECTION.rule_of(name)


def has_effect_on_listener(name: str) -> bool:
    """True if an effective key can be set for one listener, with its prefix."""
    return name.startswith("ssl.") or name == "max.connections"
