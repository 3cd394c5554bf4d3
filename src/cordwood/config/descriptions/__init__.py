"""Descriptions of each setting in one or two sentences, for DescribeConfigs and `config describe --docs`.

Names, types, ranges and defaults are in `definitions/`; keys without effect here are listed in `effects.py`. A broker's
key that is only the default of a topic's key needs no entry: the topic's key describes it.
"""
