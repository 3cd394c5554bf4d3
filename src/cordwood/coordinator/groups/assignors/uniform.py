"""The uniform assignor: shares as equal as subscriptions allow, with few moves."""

from __future__ import annotations

from cordwood.coordinator.groups.assignors.spec import Assignment, GroupSpec, TopicDescriber
from cordwood.coordinator.groups.assignors.uniform_heterogeneous import assign_heterogeneous
from cordwood.coordinator.groups.assignors.uniform_homogeneous import assign_homogeneous


def assign_uniform(spec: GroupSpec, topics: TopicDescriber) -> Assignment:
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return assign_homogeneous(spec, topics)
    return assign_heterogeneous(spec, topics)
