"""A broker's settings."""

from __future__ import annotations

BROKER_DESCRIPTIONS = {
    # Identity, listeners, directories
    "advertised.listeners": (
        "The addresses that clients connect to, by listener. Needed where clients cannot reach the "
        "addresses in listeners: behind 0.0.0.0, NAT, or a container's port mapping. Defaults to listeners."
    ),
    "broker.id": "The older name of node.id.",
    "broker.rack": "The broker's location, such as an availability zone. Replicas are spread over racks.",
    "controller.listener.names": "Which of the listeners controllers serve, separated by commas.",
    "cordoned.log.dirs": "Log directories that get no new partitions, or * for all of them.",
    "early.start.listeners": "Listeners that accept connections before the broker has finished starting.",
    "inter.broker.listener.name": "The listener that brokers use among themselves.",
    "listener.security.protocol.map": (
        "The security protocol of each listener, as NAME:PROTOCOL pairs, so that several listeners can have the same."
    ),
    "listeners": (
        "The addresses to listen on, as NAME://host:port separated by commas. An empty host is all interfaces, port 0 "
        "a free port."
    ),
    "log.dir": "The directory for data where log.dirs is not set.",
    "log.dir.failure.timeout.ms": "How long a broker waits to report a failed log directory before it shuts down.",
    "log.dirs": "The directories for data, separated by commas; partitions are spread over them.",
    "metadata.log.dir": "The directory for the metadata log; without it, the first of log.dirs.",
    "node.id": "The number of this node, which no other node of the cluster has.",
    "process.roles": "What this node is: broker, controller, or both.",
    "security.inter.broker.protocol": (
        "The security protocol among brokers where inter.broker.listener.name is not set."
    ),
    "server.max.startup.time.ms": "How long a start may take before the node gives up.",
    # Connections and requests
    "connection.failed.authentication.delay.ms": "How long the answer to a failed authentication is held back.",
    "connections.max.idle.ms": "How long a connection may be idle before the broker closes it.",
    "connections.max.reauth.ms": (
        "How long a SASL session lasts before the client has to authenticate again; 0 is no limit."
    ),
    "fetch.max.bytes": (
        "The most bytes that one fetch response holds; a first batch that is larger is returned all the same."
    ),
    "max.connection.creation.rate": "How many connections a second the broker accepts; more wait.",
    "max.connections": "How many connections the broker holds at a time; more wait until others close.",
    "max.connections.per.ip": "How many connections one address may hold at a time.",
    "max.connections.per.ip.overrides": (
        "Exceptions from max.connections.per.ip, as host:count pairs separated by commas."
    ),
    "max.incremental.fetch.session.cache.slots": (
        "How many fetch sessions (KIP-227) the broker remembers. Consumers without one send all their partitions with "
        "each fetch."
    ),
    "max.request.partition.size.limit": "How many partitions one request to describe topics may return.",
    "queued.max.request.bytes": "How many bytes of requests may wait before the broker stops reading; -1 is no limit.",
    "queued.max.requests": "How many requests may wait before the broker stops reading from its connections.",
    "request.timeout.ms": "How long the broker waits for answers to its own requests.",
    "socket.connection.setup.timeout.max.ms": "The longest that setting up a connection to another node may take.",
    "socket.connection.setup.timeout.ms": (
        "How long setting up a connection may take at first; doubled with each failure."
    ),
    "socket.listen.backlog.size": "How many connections may wait to be accepted.",
    "socket.receive.buffer.bytes": "SO_RCVBUF of the broker's sockets; -1 is the operating system's default.",
    "socket.request.max.bytes": "The largest request that is read; a connection that announces a larger one is closed.",
    "socket.send.buffer.bytes": "SO_SNDBUF of the broker's sockets; -1 is the operating system's default.",
    "telemetry.max.bytes": "The largest metrics push (KIP-714) that the broker takes from a client.",
    "unstable.api.versions.enable": "Serves versions of requests that Kafka has not declared stable yet. For tests.",
    "unstable.feature.versions.enable": "Allows features at levels that Kafka has not declared stable yet. For tests.",
    # Topics and logs
    "auto.create.topics.enable": (
        "Creates a topic when a client asks for one that does not exist, with num.partitions and "
        "default.replication.factor."
    ),
    "default.replication.factor": "How many replicas a new topic has when its creator does not say.",
    "delete.topic.enable": "Whether topics can be deleted at all.",
    "log.cleaner.backoff.ms": "How long the cleaner rests when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of a compaction, for all cleaner threads together.",
    "log.cleaner.enable": "Whether compacted topics are compacted. Without it, __consumer_offsets grows without end.",
    "log.cleaner.io.buffer.load.factor": (
        "How full the cleaner's table of keys may be; fuller is more keys and more collisions."
    ),
    "log.cleaner.io.buffer.size": "Memory for the cleaner's reads and writes, for all cleaner threads together.",
    "log.cleaner.io.max.bytes.per.second": "The most that the cleaner reads and writes a second.",
    "log.cleaner.threads": "How many logs are compacted at the same time.",
    "log.flush.interval.ms": (
        "The default of flush.ms for topics: how long records may stay unflushed. Without it, "
        "log.flush.scheduler.interval.ms."
    ),
    "log.flush.offset.checkpoint.interval.ms": (
        "How often the recovery points are written down, which a start begins from."
    ),
    "log.flush.scheduler.interval.ms": "How often the broker looks for logs that are due for a flush.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the log start offsets are written down.",
    "log.initial.task.delay.ms": "How long after its start the broker begins with retention, flushing and checkpoints.",
    "log.retention.check.interval.ms": "How often the broker looks for segments that retention deletes.",
    "log.retention.hours": (
        "The default of retention.ms for topics, in hours; log.retention.minutes and .ms win over it."
    ),
    "log.retention.minutes": "The default of retention.ms for topics, in minutes; log.retention.ms wins over it.",
    "log.roll.hours": "The default of segment.ms for topics, in hours; log.roll.ms wins over it.",
    "log.roll.jitter.hours": "The default of segment.jitter.ms for topics, in hours; log.roll.jitter.ms wins over it.",
    "num.partitions": "How many partitions a new topic has when its creator does not say.",
    "producer.id.expiration.check.interval.ms": "How often partitions look for producers to forget.",
    "producer.id.expiration.ms": (
        "How long a partition remembers a producer after its last write. A producer that retries later may write twice."
    ),
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down.",
    "unclean.leader.election.interval.ms": (
        "How often the controller looks for partitions that need an unclean election."
    ),
    # The metadata log and the controller
    "auto.leader.rebalance.enable": "Has the controller give leadership back to preferred replicas from time to time.",
    "broker.heartbeat.interval.ms": "How often a broker sends a heartbeat to the controller.",
    "broker.session.timeout.ms": "How long a broker may be silent before the controller fences it.",
    "controlled.shutdown.enable": "Has a broker hand over its leaderships before it stops.",
    "controller.performance.always.log.threshold.ms": "Events of the controller that take longer than this are logged.",
    "controller.performance.sample.period.ms": "How often the controller logs how long its events take.",
    "controller.quorum.append.linger.ms": (
        "How long the leader of the metadata log collects records before it flushes them."
    ),
    "controller.quorum.auto.join.enable": "Has a controller add itself to the voters when it starts.",
    "controller.quorum.bootstrap.servers": "Where to find the controllers, as host:port separated by commas.",
    "controller.quorum.election.backoff.max.ms": (
        "The longest random wait before a new election after one without a winner."
    ),
    "controller.quorum.election.timeout.ms": "How long a candidate waits for votes.",
    "controller.quorum.fetch.max.bytes": "The most bytes of the metadata log that one fetch asks for.",
    "controller.quorum.fetch.snapshot.max.bytes": "The most bytes of a snapshot that one fetch asks for.",
    "controller.quorum.fetch.timeout.ms": (
        "How long a follower goes without an answer from the leader before it starts an election."
    ),
    "controller.quorum.request.timeout.ms": "How long controllers wait for each other's answers.",
    "controller.quorum.retry.backoff.ms": "How long a controller waits before it repeats a failed request.",
    "controller.quorum.voters": "The voters of a static quorum, as id@host:port separated by commas.",
    "controller.socket.timeout.ms": "How long the controller waits for a broker's answer.",
    "initial.broker.registration.timeout.ms": (
        "How long a broker tries to register with the controller before it gives up."
    ),
    "internal.metadata.delete.delay.millis": "How long deleted files of the metadata log stay on disk.",
    "internal.metadata.log.segment.bytes": (
        "As metadata.log.segment.bytes, without its lower limit. For Kafka's own tests."
    ),
    "internal.metadata.max.batch.size.in.bytes": "The largest batch of the metadata log.",
    "leader.imbalance.check.interval.seconds": (
        "How often the controller looks for leaders that are not the preferred ones."
    ),
    "metadata.log.max.record.bytes.between.snapshots": (
        "How many bytes of metadata are written before the next snapshot."
    ),
    "metadata.log.max.snapshot.interval.ms": (
        "The longest time between two snapshots, if there is anything new; 0 is no limit."
    ),
    "metadata.log.segment.bytes": "The size at which the metadata log starts a new segment.",
    "metadata.log.segment.ms": "The age at which the metadata log starts a new segment.",
    "metadata.max.idle.interval.ms": (
        "How often the controller appends an empty record when there is nothing else; 0 is never."
    ),
    "metadata.max.retention.bytes": (
        "How large the metadata log and its snapshots may grow before the oldest are deleted."
    ),
    "metadata.max.retention.ms": "How long segments and snapshots of the metadata log are kept.",
    # Replication
    "follower.replication.throttled.rate": "How many bytes a second throttled replicas of this broker may fetch.",
    "leader.replication.throttled.rate": "How many bytes a second this broker may send to throttled replicas.",
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "How fast replicas move between the log directories of this broker."
    ),
    "num.replica.fetchers": "How many fetchers of this broker follow the partitions that one other broker leads.",
    "replica.fetch.backoff.ms": (
        "The longest that a follower waits after a fetch of a partition that failed; it begins with 20 ms, doubled."
    ),
    "replica.fetch.max.bytes": "The most bytes of one partition that a follower fetches at once.",
    "replica.fetch.min.bytes": "How many bytes a follower's fetch waits for.",
    "replica.fetch.response.max.bytes": "The most bytes of all partitions that a follower fetches at once.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits for replica.fetch.min.bytes.",
    "replica.lag.time.max.ms": "How long a follower may lag behind before it leaves the in-sync replicas.",
    "replica.selector.class": (
        "Which replica consumers read from: RackAwareReplicaSelector names one in the consumer's rack, where there is "
        "one in sync. Without it they read from leaders."
    ),
    "replica.socket.receive.buffer.bytes": "SO_RCVBUF of followers' sockets; -1 is the operating system's default.",
    "replica.socket.timeout.ms": "How long a follower waits for its leader's answer.",
    # Groups and offsets
    "group.consumer.assignment.interval.ms": (
        "The least time between two computations of a group's assignment (KIP-848)."
    ),
    "group.consumer.assignors": "The assignors that the broker offers to consumer groups, the default one first.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups send heartbeats (KIP-848).",
    "group.consumer.max.assignment.interval.ms": "The largest consumer.assignment.interval.ms that a group may have.",
    "group.consumer.max.heartbeat.interval.ms": "The largest consumer.heartbeat.interval.ms that a group may have.",
    "group.consumer.max.session.timeout.ms": "The largest consumer.session.timeout.ms that a group may have.",
    "group.consumer.max.size": "How many members a consumer group may have (KIP-848).",
    "group.consumer.migration.policy": (
        "Which groups may change between the classic protocol and KIP-848 while members are in them."
    ),
    "group.consumer.min.assignment.interval.ms": "The least consumer.assignment.interval.ms that a group may have.",
    "group.consumer.min.heartbeat.interval.ms": "The least consumer.heartbeat.interval.ms that a group may have.",
    "group.consumer.min.session.timeout.ms": "The least consumer.session.timeout.ms that a group may have.",
    "group.consumer.regex.refresh.interval.ms": "How often subscriptions by pattern are matched with the topics again.",
    "group.consumer.session.timeout.ms": (
        "How long a member of a consumer group may be silent before its partitions go to others (KIP-848)."
    ),
    "group.coordinator.rebalance.protocols": "The kinds of groups that the broker serves.",
    "group.initial.rebalance.delay.ms": (
        "How long a new classic group waits for more members before it assigns partitions."
    ),
    "group.max.session.timeout.ms": "The largest session.timeout.ms that a member of a classic group may ask for.",
    "group.max.size": "How many members a classic group may have.",
    "group.min.session.timeout.ms": "The least session.timeout.ms that a member of a classic group may ask for.",
    "offset.metadata.max.bytes": "How much text a consumer may store with a committed offset.",
    "offsets.commit.timeout.ms": "How long a commit waits until enough replicas of the offsets topic have it.",
    "offsets.load.buffer.size": "How many bytes at a time are read when groups are loaded from the offsets topic.",
    "offsets.retention.check.interval.ms": "How often the broker looks for committed offsets that have expired.",
    "offsets.retention.minutes": (
        "How long the offsets of a group are kept after it has lost its last member, or of a partition after the group "
        "has stopped reading its topic."
    ),
    "offsets.topic.compression.codec": "How the offsets topic is compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "How many partitions __consumer_offsets has. Not to be changed once it exists.",
    "offsets.topic.replication.factor": "How many replicas __consumer_offsets has when it is created.",
    "offsets.topic.segment.bytes": (
        "The segment size of __consumer_offsets; small ones are compacted and loaded faster."
    ),
    # Transactions
    "add.partitions.to.txn.retry.backoff.max.ms": (
        "How long a request for a new transaction waits for the one before it to end, before the client has to retry."
    ),
    "add.partitions.to.txn.retry.backoff.ms": (
        "How often a request for a new transaction, while it waits for the one before it to end, asks a coordinator on "
        "another broker."
    ),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often transactions that have timed out are aborted."
    ),
    "transaction.max.timeout.ms": "The largest transaction.timeout.ms that a producer may ask for.",
    "transaction.partition.verification.enable": (
        "Has partitions ask the coordinator whether a transaction is open before they take its records (KIP-890)."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often transactional ids that have expired are removed."
    ),
    "transaction.state.log.load.buffer.size": "How many bytes at a time are read when transactions are loaded.",
    "transaction.state.log.min.isr": "The min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": (
        "How many partitions __transaction_state has. Not to be changed once it exists."
    ),
    "transaction.state.log.replication.factor": "How many replicas __transaction_state has when it is created.",
    "transaction.state.log.segment.bytes": "The segment size of __transaction_state.",
    "transaction.two.phase.commit.enable": "Allows transactions without a timeout, for two-phase commit (KIP-939).",
    "transactional.id.expiration.ms": "How long a transactional id is remembered after its last transaction.",
    # TLS
    "ssl.allow.dn.changes": "Allows a new certificate of a running broker to have another distinguished name.",
    "ssl.allow.san.changes": "Allows a new certificate of a running broker to lack names that the old one had.",
    "ssl.cipher.suites": "The cipher suites that may be negotiated; without it, those of OpenSSL.",
    "ssl.client.auth": "Whether clients must (required), may (requested) or need not (none) show a certificate.",
    "ssl.enabled.protocols": "The TLS versions that clients may use.",
    "ssl.endpoint.identification.algorithm": (
        "How a node checks the host name in another node's certificate: https, or empty for not at all."
    ),
    "ssl.key.password": "The password of the private key.",
    "ssl.keystore.certificate.chain": "The broker's certificate chain, as PEM text.",
    "ssl.keystore.key": "The broker's private key, as PEM text.",
    "ssl.keystore.location": "The file with the broker's private key and certificate chain.",
    "ssl.keystore.password": "The password of the key store file.",
    "ssl.keystore.type": "The format of the key store.",
    "ssl.principal.mapping.rules": "Rules that turn the distinguished name of a client's certificate into a principal.",
    "ssl.protocol": "The TLS version that connections begin with.",
    "ssl.truststore.certificates": "The certificates to trust, as PEM text.",
    "ssl.truststore.location": "The file with the certificates to trust.",
    "ssl.truststore.password": "The password of the trust store file.",
    "ssl.truststore.type": "The format of the trust store.",
    # SASL, ACLs, delegation tokens
    "authorizer.class.name": "The class of the authorizer; empty allows everything to everyone.",
    "delegation.token.expiry.check.interval.ms": "How often expired delegation tokens are removed.",
    "delegation.token.expiry.time.ms": "How long a delegation token is valid before it has to be renewed.",
    "delegation.token.max.lifetime.ms": "How long a delegation token can be renewed.",
    "delegation.token.secret.key": "The secret that delegation tokens are signed with, the same on all nodes.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may use.",
    "sasl.jaas.config": "The SASL login of a listener, in the syntax of JAAS.",
    "sasl.mechanism.controller.protocol": "The SASL mechanism among controllers.",
    "sasl.mechanism.inter.broker.protocol": "The SASL mechanism among brokers.",
    "sasl.server.max.receive.size": "The largest SASL message that is read before a client is authenticated.",
    # Quotas
    "alter.log.dirs.replication.quota.window.num": (
        "The number of samples kept for the throttle of moves between directories."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": "How long each of those samples is.",
    "controller.quota.window.num": "The number of samples kept for the quota on controller mutations.",
    "controller.quota.window.size.seconds": "How long each of those samples is.",
    "quota.window.num": "The number of samples kept for client quotas.",
    "quota.window.size.seconds": "How long each of those samples is.",
    "replication.quota.window.num": "The number of samples kept for replication throttles.",
    "replication.quota.window.size.seconds": "How long each of those samples is.",
    # Cordwood's own
    "cordwood.broker.reconnect.grace.ms": (
        "How long the active controller waits for a broker whose heartbeat connection broke before it fences the "
        "broker. Fencing a broker that lives is safe: its partitions are led elsewhere, with higher leader epochs, "
        "until its next heartbeat. It costs availability only, so the grace has to be longer than a new connection "
        "takes. A broker whose listener refuses connections as well is dead, and is fenced at once. A broker that is "
        "silent on a connection that stands has broker.session.timeout.ms."
    ),
    "cordwood.registry.listeners": (
        "Where the node serves a schema registry: a list of http://host:port and https://host:port. Empty, it serves "
        "none."
    ),
    "cordwood.registry.advertised.url": (
        "Where other registries reach this node's, to pass writes on: as http://host:port. Empty, it is the first of "
        "cordwood.registry.listeners; where that is every address, with the host that the node advertises to brokers."
    ),
    "cordwood.registry.topic.replication.factor": (
        "How many replicas the topic of schemas gets when it is created, once there are brokers enough; -1 is "
        "offsets.topic.replication.factor."
    ),
    "cordwood.registry.init.timeout.ms": "How long a start waits for brokers enough to create the topic of schemas.",
    "cordwood.registry.timeout.ms": "How long a write to the schema registry may take; then the answer is 50002.",
    "cordwood.registry.users.file": (
        "A file with a line `user: password` for each user of the schema registry, which then asks for basic "
        "authentication. If it is empty, access is not restricted."
    ),
    "cordwood.registry.ssl.keystore.location": (
        "A PEM file with the certificate of the registry's https listeners and its key. It is also shown to other "
        "registries that writes are passed on to."
    ),
    "cordwood.registry.ssl.key.password": "The password of that key, if it has one.",
    "cordwood.registry.ssl.truststore.location": (
        "A PEM file with the certificates that those of clients, and of other registries, are verified with; empty, "
        "the system's are trusted for other registries."
    ),
    "cordwood.registry.ssl.client.auth": (
        "Whether clients of the registry's https listeners have to show a certificate: none, requested or required."
    ),
    "cordwood.metrics.consumer.lag.enable": "Whether the lag of consumer groups is reported, by partition.",
    "cordwood.metrics.consumer.lag.max": (
        "For how many partitions of groups the lag is reported individually. Those beyond it are "
        "summed up in one figure."
    ),
    "cordwood.metrics.topics.enable": "Whether bytes and records in and out are reported for each topic.",
    "cordwood.metrics.topics.max": (
        "For how many topics metrics are reported individually. Those beyond it are summed up in one figure."
    ),
}
