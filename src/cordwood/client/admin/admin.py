"""The admin client.

async with Admin(AdminSettings(bootstrap_servers=parse_bootstrap("localhost:9092")), network=SocketNetwork()) as admin:
    await admin.create_topics([NewTopic("orders", partitions=3)])
    await admin.until_topics_led(["orders"])
"""

from cordwood.client.admin.calls.cluster import ClusterCalls
from cordwood.client.admin.calls.configs import ConfigCalls
from cordwood.client.admin.calls.groups import GroupCalls
from cordwood.client.admin.calls.security import SecurityCalls
from cordwood.client.admin.calls.topics import TopicCalls
from cordwood.client.admin.calls.transactions import TransactionCalls


class Admin(TopicCalls, ConfigCalls, ClusterCalls, GroupCalls, TransactionCalls, SecurityCalls):
    """Every administrative operation of a cluster.

    What changes the cluster goes to its controller, or through any broker to it; questions go to the broker with the
    least to do, those about groups and transactions to their coordinators, those about partitions to their leaders.
    What may pass is tried again, up to `default_api_timeout_ms`. A call about several things that fails for some of
    them raises the first failure, a `BrokerError` whose `outcomes` tell what became of each. What brokers are too old
    for, or do not have, raises `UnsupportedByBroker`.
    """
