"""Input cut into pieces by a delimiter; sans-IO."""

from collections.abc import Iterator

# Far above what any broker takes by default: input without a delimiter must not fill the memory.
MAX_LINE_BYTES = 100 * 1024 * 1024


class LineTooLong(Exception):
    pass


class LineSplitter:
    """Takes chunks as they come; a delimiter may lie across two of them."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk ends. Raises `LineTooLong`."""
        *lines, self._rest = (self._rest + chunk).split(self._delimiter)
        if len(self._rest) > MAX_LINE_BYTES:
            raise LineTooLong(f"longer than {MAX_LINE_BYTES} bytes")
        yield from lines

    def end(self) -> Iterator[bytes]:
        """What stands behind the last delimiter, if anything does."""
        if self._rest:
            yield self._rest
        self._rest = b""
