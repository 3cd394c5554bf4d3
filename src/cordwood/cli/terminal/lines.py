"""Cuts input into pieces by a delimiter; sans-IO."""

# Far above the default limit of brokers: input without a delimiter must not fill the memory.
MAX_LINE_BYTES = 100 * 1024 * 1024


class LineTooLong(Exception):
    pass


class LineBlocks:
    """Takes chunks and returns texts that end with a line; a delimiter may span two chunks.

    The caller cuts the text into lines, and puts back what follows the last delimiter.
    """

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        # Pieces of the line that continues in the next chunk. Joined once, at its end, not for each chunk.
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """Returns an empty text if no line ends in this chunk. Raises `LineTooLong`."""
        seam = b"".join(self._pieces[-len(self._delimiter) :])[1 - len(self._delimiter) :] if self._pieces else b""
        has_end = self._delimiter in (seam + chunk if len(self._delimiter) > 1 else chunk)
        self.put_back(chunk)
        if has_end:
            return self.end()
        if self._size > MAX_LINE_BYTES:
            raise LineTooLong(f"longer than {MAX_LINE_BYTES} bytes")
        return b""

    def put_back(self, rest: bytes) -> None:
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)

    def end(self) -> bytes:
        """Returns the rest: a last line without a delimiter."""
        text = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return text
