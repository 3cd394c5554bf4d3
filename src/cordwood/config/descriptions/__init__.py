"""Descriptions of each setting in one or two sentences, for DescribeConfigs and `config describe --docs`.

Names, types, ranges and defaults are in `definitions/`; what has no effect here is in `effects.py`. A broker's key that
only is the default of a topic's key needs no entry: it is described by that topic's key.
"""
