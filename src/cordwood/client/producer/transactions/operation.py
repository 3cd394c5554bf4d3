"""An application's call in progress."""

from collections.abc import Callable

from cordwood.client.errors import ClientError


class Operation:
    """Done once, with an error or without; the application, which may have stopped waiting, then takes its outcome."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name of the call: `commit_transaction`."""
        self.is_done = False
        self.is_taken = False
        self.is_abandoned = False
        """The waiting caller was cancelled, and will not take the outcome."""
        self._error: ClientError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def on_done(self, callback: Callable[[], None]) -> None:
        """Registers a callback, called once when it is done, at once if it is; it runs inside the machine, so it must
        not wait."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def take(self) -> None:
        """Raises the operation's error. Until its outcome is taken, only the same call can be repeated."""
        self.is_taken = True
        if self._error is not None:
            raise self._error

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: ClientError) -> None:
        self._finish(error)

    def _finish(self, error: ClientError | None) -> None:
        if self.is_done:
            return
        self.is_done = True
        self._error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
