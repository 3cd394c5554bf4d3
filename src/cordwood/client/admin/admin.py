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

    Changes go to the cluster's controller, directly or through a broker; queries go to the least busy broker, those
    about groups and transactions to their coordinators, those about partitions to their leaders. Retriable errors are
    retried, up to `default_api_timeout_ms`. If a call about several resources fails for some of them, it raises the
    first failure, a `BrokerError` whose `outcomes` has every result. `UnsupportedByBroker` is raised if the brokers are
    too old or lack a feature.
    """
