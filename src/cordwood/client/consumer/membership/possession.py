"""The application's partitions, and the pending revocations and assignments, one step at a time."""

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.events import Assign, Effect, Lose, Revoke

Step = Revoke | Lose | Assign


class Possession:
    def __init__(self) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        # The first one is with the application now.
        self._steps: list[Step] = []

    @property
    def is_settled(self) -> bool:
        return not self._steps

    def tell(self, step: Step) -> list[Effect]:
        self._steps.append(step)
        return [step] if len(self._steps) == 1 else []

    def settle(self) -> list[Effect]:
        """The application has finished the first step."""
        match self._steps.pop(0):
            case Revoke(partitions) | Lose(partitions):
                self.assignment -= partitions
            case Assign(added):
                self.assignment |= added
        return self._next()

    def decline(self) -> list[Effect]:
        """Drops the first step, an assignment."""
        self._steps.pop(0)
        return self._next()

    def _next(self) -> list[Effect]:
        return [self._steps[0]] if self._steps else []
