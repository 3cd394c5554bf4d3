"""The assignors that a consumer is configured with, and their common rebalance protocol."""

from collections.abc import Callable, Mapping, Sequence

from cordwood.client.consumer.assignors.assignor import Assignor, RebalanceProtocol
from cordwood.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from cordwood.client.consumer.assignors.range import RangeAssignor
from cordwood.client.consumer.assignors.round_robin import RoundRobinAssignor
from cordwood.client.consumer.assignors.sticky import StickyAssignor
from cordwood.client.errors import BadSetting

BUILT_IN: Mapping[str, Callable[[], Assignor]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}
# The spelling in Kafka's configuration.
_JAVA_NAMES: Mapping[str, Callable[[], Assignor]] = {
    f"org.apache.kafka.clients.consumer.{kind.__name__}": kind
    for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


def choose_assignors(strategy: Sequence[str | Assignor]) -> list[Assignor]:
    """Returns assignors in order of preference: names, Java class names, or custom assignors. Raises `BadSetting`."""
    if not strategy:
        raise BadSetting("partition_assignment_strategy is empty: a consumer needs one to subscribe in a classic group")
    assignors = [_assignor(choice) for choice in strategy]
    names = [assignor.name for assignor in assignors]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadSetting(f"partition_assignment_strategy has {', '.join(twice)} more than once")
    return assignors


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Returns the most advanced common protocol: cooperative only if all assignors support it. Raises `BadSetting`."""
    common = set(RebalanceProtocol).intersection(*(assignor.supported_protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise BadSetting(f"partition_assignment_strategy: {names} have no rebalance protocol in common")
    return max(common)


def _assignor(choice: str | Assignor) -> Assignor:
    if not isinstance(choice, str):
        return choice
    made = BUILT_IN.get(choice, _JAVA_NAMES.get(choice))
    if made is None:
        raise BadSetting(f"partition_assignment_strategy: {choice!r} is none of {', '.join(BUILT_IN)}")
    return made()
