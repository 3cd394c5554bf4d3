"""An application's call that waits for brokers."""

from collections.abc import Callable

from cordwood.client.errors import ClientError


class Operation:
    """Done once, with an error or without; its outcome is taken by the application, which may have given up waiting."""

    def __init__(self, name: str) -> None:
        self.name = name
        """As the application calls it: `commit_transaction`."""
        self.is_done = False
        self.is_taken = False
        self.is_abandoned = False
        """Whoever waited for it was cancelled, and will not ask for its outcome."""
        self._error: ClientError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def on_done(self, callback: Callable[[], None]) -> None:
        """Called once when it is done, at once if it is; where the machine is called, so it must not wait."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def take(self) -> None:
        """Raises what it failed with. Until its outcome is taken, only the same call can be made again."""
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
