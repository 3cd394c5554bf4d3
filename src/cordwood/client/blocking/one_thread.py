"""Restricts a client to one thread at a time, like Kafka's consumer."""

from types import TracebackType

from cordwood.client.errors import IllegalState
from cordwood.runtime.threads import Lock, current_thread_id, current_thread_name


class OneThread:
    """Wrap each call in `with`. The thread inside may re-enter, from a callback."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = Lock()
        self._owner: int | None = None
        self._owner_name = ""
        self._depth = 0

    def __enter__(self) -> None:
        me = current_thread_id()
        with self._lock:
            if self._owner is not None and self._owner != me:
                raise IllegalState(
                    f"{self._what} is in use by thread {self._owner_name} and serves one thread at a time; "
                    f"give thread {current_thread_name()} its own"
                )
            if self._owner is None:
                self._owner, self._owner_name = me, current_thread_name()
            self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
