"""The application's calls: which are allowed now, and the one in progress."""

from copy import copy

from cordwood.client.errors import ClientError, IllegalState
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.states import WHAT_NOW, State


class Calls:
    """No other call is allowed before the outcome of one is known: a call that timed out is repeated, and resumes the
    same operation."""

    def __init__(self) -> None:
        self._operation: Operation | None = None

    def taken_up(self, call: str) -> Operation | None:
        """Returns the operation of the same call, if the application has not seen its outcome yet."""
        pending = self._operation
        return pending if pending is not None and not pending.is_taken and pending.name == call else None

    @property
    def waiting(self) -> Operation | None:
        """The operation in progress."""
        return None if self._operation is None or self._operation.is_done else self._operation

    @property
    def abandoned(self) -> Operation | None:
        """The operation whose caller was cancelled, done or not."""
        pending = self._operation
        return pending if pending is not None and pending.is_abandoned and not pending.is_taken else None

    def check(self, call: str, state: State, allowed: tuple[State, ...], error: ClientError | None) -> None:
        """Raises `error`, the state's error, or `IllegalState`."""
        if error is not None:
            raise copy(error) from error.__cause__
        pending = self._operation
        if pending is not None and not pending.is_taken and not pending.has_failed:
            raise misuse(call, state, f"the outcome of {pending.name}() is not known yet; call it again")
        if state not in allowed:
            raise misuse(call, state, WHAT_NOW[state])

    def start(self, call: str) -> Operation:
        self._operation = Operation(call)
        return self._operation

    def succeed(self) -> None:
        if self._operation is not None:
            self._operation.succeed()

    def fail(self, error: ClientError) -> None:
        if self._operation is not None:
            self._operation.fail(error)


def misuse(call: str, state: State, what_to_do: str) -> IllegalState:
    error = IllegalState(f"{call}() is not possible now ({state.value}): {what_to_do}")
    error.advise(what_to_do)
    return error
