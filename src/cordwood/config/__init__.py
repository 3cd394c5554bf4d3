"""Configuration by Kafka's names, types, defaults and rules.

`broker.BrokerConfig` is what a node was told, in layers; `topic.TopicConfigs` and `group.group_values` are what follows
from it for topics and groups; `describe` answers DescribeConfigs, `alter` decides AlterConfigs and
IncrementalAlterConfigs; `effects` says which keys Cordwood goes by.
"""
