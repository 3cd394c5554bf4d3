"""Configuration by Kafka's names, types, defaults and rules.

`broker.BrokerConfig` holds a node's configuration, in layers; `topic.TopicConfigs` and `group.group_values` derive
those of topics and groups; `describe` answers DescribeConfigs, `alter` decides AlterConfigs and
IncrementalAlterConfigs; `effects` lists the keys that Cordwood honours.
"""
